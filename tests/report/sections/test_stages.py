from __future__ import annotations

from pathlib import Path

import numpy as np
from tests.report.stories import boosting_run, merging_run, pairing_run

from selfsort.report.drawings import Scatter
from selfsort.report.read import read_run
from selfsort.report.sections.stages import (
    label_circles,
    n_clusters_at,
    score_histograms,
    stage_components,
    stage_maps,
)
from selfsort.report.stages import Stage


def test_clusters_that_the_sample_missed_are_counted_by_the_event() -> None:
    rows, labels = np.arange(3), np.array([4, 4, 7])
    assert n_clusters_at(Stage(1, rows, labels=labels, event={"clusters": 1762})) == 1762
    assert n_clusters_at(Stage(1, rows, labels=labels)) == 2


def test_features_lie_in_space_and_where_scores_were_kept_on_maps(tmp_path: Path) -> None:
    merging, boosting = read_run(merging_run(tmp_path / "a")), read_run(boosting_run(tmp_path / "b"))
    components, maps = stage_components(merging), stage_maps(boosting)
    assert stage_maps(merging) is None
    assert stage_components(boosting) is None
    for found, n_axes in ((components, 3), (maps, 2)):
        assert found is not None
        assert [panel.place.shape[1] for panel in found.drawings if isinstance(panel, Scatter)] == [
            n_axes for _ in found.drawings
        ]


def test_circles_are_coloured_by_class_and_scored(tmp_path: Path) -> None:
    run = read_run(pairing_run(tmp_path / "run"))
    found = label_circles(run)
    assert found is not None
    first = found.drawings[0]
    assert isinstance(first, Scatter)
    assert run.truth is not None
    assert first.groups.tolist() == run.truth.tolist()
    assert (first.caption or "").startswith("ACC ")


def test_histograms_count_every_image(tmp_path: Path) -> None:
    found = score_histograms(read_run(pairing_run(tmp_path / "run")))
    assert found is not None
    assert [sum(chart.values) for chart in found.drawings] == [48] * 4  # type: ignore[union-attr]
