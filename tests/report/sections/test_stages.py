from __future__ import annotations

from pathlib import Path

import numpy as np
from tests.report.folders import make_run
from tests.report.pages import Page, parse_text
from tests.report.stories import boosting_run, merging_run, pairing_run

from selfsort.report.read import RunData, read_run
from selfsort.report.sections.pictures import Pictures
from selfsort.report.sections.stages import method_parts, n_clusters_at
from selfsort.report.stages import Stage


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
    assert "maps of neighbours" in found["stages"].text_of_all


def test_attention_without_pictures_is_left_out(tmp_path: Path) -> None:
    path = pairing_run(tmp_path / "run")
    (path / "thumbnails.npz").unlink()
    assert "attention" not in parts(read_run(path))


def test_clusters_that_the_sample_missed_are_counted_by_the_event() -> None:
    rows, labels = np.arange(3), np.array([4, 4, 7])
    assert n_clusters_at(Stage(1, rows, labels=labels, event={"clusters": 1762})) == 1762
    assert n_clusters_at(Stage(1, rows, labels=labels)) == 2
