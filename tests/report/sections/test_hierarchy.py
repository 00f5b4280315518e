from __future__ import annotations

from pathlib import Path

import pytest
from tests.report.folders import make_run
from tests.report.pages import Page, parse_text

from selfsort.report.read import RunData, read_run
from selfsort.report.sections import hierarchy as room
from selfsort.report.sections.hierarchy import hierarchy
from selfsort.report.sections.pictures import Pictures
from selfsort.runs.edits import Rename
from selfsort.runs.journal import Journal
from selfsort.runs.tree import tree_of


def shown(run: RunData, budget: int = 10**7) -> Page:
    found = hierarchy(run, Pictures(run), budget=budget)
    assert found is not None
    return parse_text(found)


def test_every_cluster_is_there_with_pictures_and_leads_to_its_card(tmp_path: Path) -> None:
    page = shown(read_run(make_run(tmp_path / "run", n=80, k=5)))
    links = {link.text: link.attributes["href"] for link in page.all("a")}
    assert links == {f"Cluster {c}": f"#cluster-{c}" for c in range(5)}
    assert all(image.attributes["alt"] for image in page.all("img"))
    assert len(page.all("img")) > 5 * 3


def test_groups_are_open_and_clusters_closed(tmp_path: Path) -> None:
    page = shown(read_run(make_run(tmp_path / "run", n=80, k=8)))
    branches = page.all("details")
    for branch in branches:
        is_group = "Cluster" in branch.text and branch.text.count("Cluster") > 1
        assert ("open" in branch.attributes) == is_group
    assert any("open" in branch.attributes for branch in branches)


def test_a_group_is_called_by_its_largest_clusters(tmp_path: Path) -> None:
    run = read_run(make_run(tmp_path / "run", n=200, k=20))
    names = [bold.text for bold in shown(run).all("b") if "," in bold.text]
    assert any(" more" in name for name in names)
    assert all(name.count("Cluster") <= 4 for name in names)


def test_names_are_text_and_corrections_are_mentioned(tmp_path: Path) -> None:
    path = make_run(tmp_path / "run")
    journal = Journal.open(path)
    journal.add(Rename(1, "<b>cats</b>"))
    journal.close()
    page = shown(read_run(path))
    assert "<b>cats</b>" in page.text_of_all
    assert "corrections by hand are not in it" in page.text_of_all


def test_an_older_run_gets_its_tree_for_it(tmp_path: Path) -> None:
    run = read_run(make_run(tmp_path / "run"))
    assert not (run.folder.path / "tree.safetensors").exists()
    first = shown(run).source
    assert tree_of(run.folder).n_clusters == 3
    assert shown(run).source == first


def test_pictures_within_the_budget(tmp_path: Path) -> None:
    run = read_run(make_run(tmp_path / "run"))
    assert shown(run, budget=0).all("img") == []
    assert "Cluster 0" in shown(run, budget=0).text_of_all
    assert "Cluster 0" in shown(read_run(make_run(tmp_path / "blind", n_thumbnails=0))).text_of_all


def test_one_cluster_and_too_many_have_no_tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "MOST_CLUSTERS", 4)
    for k in (1, 5):
        run = read_run(make_run(tmp_path / str(k), k=k, has_truth=False))
        assert hierarchy(run, Pictures(run), budget=10**6) is None
