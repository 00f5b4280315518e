from __future__ import annotations

from pathlib import Path

import pytest
from tests.report.folders import make_run
from tests.report.pages import Page, parse_text
from tests.report.stories import boosting_run, merging_run, pairing_run

from selfsort.report.contents import FIGURES, method_parts, run_parts
from selfsort.report.drawings import Panels
from selfsort.report.read import RunData, read_run
from selfsort.report.sections.pictures import Pictures
from selfsort.types import Arrays

GENERAL = ["curves", "sizes", "map", "samples", "confusion", "mistakes", "reliability"]


def parts(run: RunData) -> dict[str, Page]:
    return {part.name: parse_text(part.body) for part in method_parts(run, Pictures(run))}


def test_a_method_that_kept_nothing_has_no_section(tmp_path: Path) -> None:
    assert parts(read_run(make_run(tmp_path / "run"))) == {}


def test_stages_and_merges_of_jule(tmp_path: Path) -> None:
    found = parts(read_run(merging_run(tmp_path / "run")))
    assert list(found) == ["stages", "merging"]
    panels = found["stages"].all("figure", "panel")
    assert [panel.text.split("Step ")[1] for panel in panels] == ["124 clusters", "212 clusters", "46 clusters"]
    assert "principal components" in found["stages"].text_of_all
    assert len(found["merging"].all("path", "branch")) == 4
    assert "The last 4 of 4 merges, from 8 starts." in found["merging"].text_of_all


def test_scores_pairs_bounds_and_attention(tmp_path: Path) -> None:
    found = parts(read_run(pairing_run(tmp_path / "run")))
    assert list(found) == ["circle", "histograms", "thresholds", "bounds", "attention", "centres", "filters"]
    assert len(found["circle"].all("circle")) == 4
    assert all("ACC 0." in e.text or "ACC 1." in e.text for e in found["circle"].all("figure"))
    assert [e.text for e in found["thresholds"].all("figcaption")] == [
        "Thresholdsupperlower",
        "Pairsselected pairsprecision, same clusterprecision, different clusters",
    ]
    assert len(found["bounds"].all("path", "bound")) == 2
    assert len(found["attention"].all("img")) == 6
    assert len(found["centres"].all("path", "grid")) == 4
    assert all("mean width 0." in e.text for e in found["centres"].all("figure"))
    assert all(e.attributes["alt"] for e in found["attention"].all("img") + found["filters"].all("img"))
    assert [e.text for e in found["filters"].all("figcaption")] == ["Filters: conv1", "Activations: conv1"]


def test_maps_of_dbc_by_epoch(tmp_path: Path) -> None:
    found = parts(read_run(boosting_run(tmp_path / "run")))
    assert list(found) == ["stages", "circle", "histograms"]
    assert "maps of neighbours" in found["stages"].text_of_all  # few images


def test_attention_without_pictures_is_left_out(tmp_path: Path) -> None:
    path = pairing_run(tmp_path / "run")
    (path / "thumbnails.npz").unlink()
    assert "attention" not in parts(read_run(path))


def drawings(path: Path) -> dict[str, int]:
    """Name every figure that only some methods have, with its number of panels."""
    run = read_run(path)
    found = {name: section(run) for name, section in FIGURES.items() if name not in GENERAL}
    return {
        name: len(shown.drawings if isinstance(shown, Panels) else shown.cells)
        for name, shown in found.items()
        if shown is not None
    }


def test_figures_of_jule(tmp_path: Path) -> None:
    assert drawings(merging_run(tmp_path / "run")) == {"stages": 3, "merge-tree": 1}


def test_figures_of_dac_gatcluster_and_secu(tmp_path: Path) -> None:
    assert drawings(pairing_run(tmp_path / "run")) == {
        "circle": 4,
        "score-histograms": 4,
        "thresholds": 2,
        "size-bounds": 1,
        "attention": 9,
        "attention-centres": 4,
        "filters": 2,
    }


def test_figures_of_dbc(tmp_path: Path) -> None:
    assert drawings(boosting_run(tmp_path / "run")) == {"stage-maps": 2, "circle": 2, "score-histograms": 2}


def test_a_method_that_kept_nothing_has_no_figure(tmp_path: Path) -> None:
    assert drawings(make_run(tmp_path / "run")) == {}


def test_names_of_figures_are_names_of_files() -> None:
    assert all(name.replace("-", "").isalpha() for name in FIGURES)


def test_the_history_is_read_once_for_everything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run, reads = read_run(pairing_run(tmp_path / "run")), 0
    history = run.folder.history

    def counted() -> dict[int, Arrays]:
        nonlocal reads
        reads += 1
        return history()

    monkeypatch.setattr(run.folder, "history", counted)
    run_parts(run)
    for section in FIGURES.values():
        section(run)
    assert reads == 1
