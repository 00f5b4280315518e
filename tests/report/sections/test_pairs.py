from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from tests.report.folders import make_run

from selfsort.report.read import RunData, read_run
from selfsort.report.sections.pairs import threshold_trace
from selfsort.types import Arrays, Json

F = np.float32


def with_events(
    tmp_path: Path, events: list[dict[str, float]], history: dict[int, Arrays] | None = None, **own: bool
) -> RunData:
    config: Json = {"method": "dac", "settings": {"n_clusters": 3, **own}}
    path = make_run(tmp_path / "run", n=12, n_events=0, history=history, config=config)
    (path / "events.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))
    return read_run(path)


def test_thresholds_are_judged_against_labels_the_method_never_saw(tmp_path: Path) -> None:
    # Truth is 0, 1, 2, 0, 1, 2, ...: images 0 and 3 share a class, 0 and 1 do not.
    soft = np.array([[1, 0, 0], [1, 0, 0], [1, 0, 0]], F)
    history: dict[int, Arrays] = {1: {"rows": np.array([0, 3, 1]), "soft": soft}}
    run = with_events(
        tmp_path, [{"step": 1, "upper": 0.9, "lower": 0.1}, {"step": 2, "upper": 0.8, "lower": 0.2}], history
    )
    first, second = threshold_trace(run)
    assert (first.upper, first.lower) == (0.9, 0.1)
    assert first.selected == 1
    assert first.positive_precision == pytest.approx(1 / 3)
    assert first.negative_precision is None
    assert (second.selected, second.positive_precision) == (None, None)


def test_without_a_judge_the_methods_own_count_is_taken(tmp_path: Path) -> None:
    run = with_events(
        tmp_path, [{"step": 1, "upper": 0.9, "lower": 0.1, "selected_fraction": 0.4}, {"step": 2, "loss": 1}]
    )
    (only,) = threshold_trace(run)
    assert only.selected == 0.4


@pytest.mark.parametrize(("restraint", "selected"), [(True, 1 / 3), (False, 2 / 3)])
def test_pairs_are_those_the_method_selects(tmp_path: Path, restraint: bool, selected: float) -> None:
    # Products: 0.5 between the first two, 0.25 and 0.375 with the third; cosines: 0.71, 0.41, 0.87.
    soft = np.array([[1, 0, 0], [0.5, 0.5, 0], [0.25, 0.5, 0.25]], F)
    history: dict[int, Arrays] = {1: {"rows": np.array([0, 1, 2]), "soft": soft}}
    run = with_events(tmp_path, [{"step": 1, "upper": 0.9, "lower": 0.44}], history, restraint=restraint)
    assert threshold_trace(run)[0].selected == pytest.approx(selected)


def test_a_pair_at_the_lower_threshold_is_not_selected(tmp_path: Path) -> None:
    soft = np.eye(2, 3, dtype=F)
    history: dict[int, Arrays] = {1: {"rows": np.array([0, 1]), "soft": soft}}
    run = with_events(tmp_path, [{"step": 1, "upper": 0.9, "lower": 0.0}], history)
    assert threshold_trace(run)[0].selected == 0
