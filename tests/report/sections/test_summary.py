from __future__ import annotations

import json
from pathlib import Path

from tests.report.folders import make_run
from tests.report.pages import parse_text

from selfsort.report.read import read_run
from selfsort.report.sections.summary import MAX_SKIPPED, sentences, settings, summary


def test_it_says_what_was_asked_and_what_was_found(tmp_path: Path) -> None:
    said = " ".join(sentences(read_run(make_run(tmp_path / "run", n=60, k=3, seed=4))))
    assert "You asked for 3 clusters of 60 images from shapes." in said
    assert "kmeans (seed 4) found 3" in said
    assert "It took 2.5 s and up to 100 MB of memory." in said
    assert "% of the images lie in the cluster that stands for their class" in said


def test_without_labels_it_says_nothing_of_classes(tmp_path: Path) -> None:
    run = read_run(make_run(tmp_path / "run", has_truth=False))
    page = parse_text(summary(run))
    assert "class" not in page.text_of_all
    assert "ACC" not in page.text_of_all


def test_fewer_clusters_than_asked_for_are_shown_as_such(tmp_path: Path) -> None:
    run = read_run(make_run(tmp_path / "run", k=3, config={"settings": {"n_clusters": 5}}))
    page = parse_text(summary(run))
    assert "3 of 5" in [e.text for e in page.all("dd")]


def test_an_approximate_search_says_what_it_found(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "run")
    assert read_run(folder).neighbour_recall is None
    lines = (folder / "events.jsonl").read_text().splitlines()
    first = json.loads(lines[0])
    assert "step" in first
    for said, shown in ((0.9934, 0.9934), (7.0, 1.0), ("many", None)):
        lines[0] = json.dumps({**first, "neighbour_recall": said})
        (folder / "events.jsonl").write_text("\n".join(lines) + "\n")
        run = read_run(folder)
        assert run.neighbour_recall == shown
        assert ("neighbours found" in parse_text(summary(run)).text_of_all) == (shown is not None)


def test_warnings_and_skipped_files_are_named(tmp_path: Path) -> None:
    skipped = [{"name": f"<b>{i}</b>.png", "reason": "cut short"} for i in range(MAX_SKIPPED + 5)]
    run = read_run(make_run(tmp_path / "run", warnings=["It <i>collapsed</i>."], skipped=skipped))
    page = parse_text(summary(run))
    assert page.all("div", "warning")[0].text == "WarningsIt <i>collapsed</i>."
    files = page.all("bdi", "file")
    assert len(files) == MAX_SKIPPED
    assert files[0].text == "<b>0</b>.png"
    assert "205 files could not be read" in page.text_of_all
    assert "5 more are listed in ingest.json" in page.text_of_all


def test_without_trouble_there_is_no_box(tmp_path: Path) -> None:
    page = parse_text(summary(read_run(make_run(tmp_path / "run"))))
    assert not page.all("div", "warning")
    assert not page.all("details")


def test_every_setting_is_listed(tmp_path: Path) -> None:
    config = {"settings": {"n_clusters": 3, "sizes": [1, 2]}, "recipe": {"name": "tiny", "reason": "asked for"}}
    page = parse_text(settings(read_run(make_run(tmp_path / "run", config=config))))
    rows = dict(zip([e.text for e in page.all("th")], [e.text for e in page.all("td")], strict=True))
    assert rows["sizes"] == "1, 2"
    assert rows["recipe"] == "tiny (asked for)"
    assert rows["seed"] == "0"
