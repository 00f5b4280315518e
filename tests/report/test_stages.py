from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.report.folders import make_run

from selfsort.report.read import read_run
from selfsort.report.stages import Stage, spread_out
from selfsort.types import Arrays

F = np.float32


def stages_of(tmp_path: Path, history: dict[int, Arrays]) -> list[Stage]:
    return read_run(make_run(tmp_path / "run", n=12, history=history)).stages


def test_stages_come_in_the_order_of_their_steps_with_their_events(tmp_path: Path) -> None:
    stages = stages_of(tmp_path, {4: {"sizes": np.array([1, 2])}, 2: {}, 9: {}})
    assert [stage.step for stage in stages] == [2, 4, 9]
    assert stages[1].event["loss"] == 1 / 4
    assert stages[2].event == {}


def test_rows_say_which_images_a_stage_speaks_of(tmp_path: Path) -> None:
    (stage,) = stages_of(
        tmp_path, {1: {"rows": np.array([3, 5]), "features": np.ones((2, 4), F), "labels": np.array([8, 9])}}
    )
    assert stage.rows.tolist() == [3, 5]
    assert stage.labels is not None
    assert stage.labels.tolist() == [8, 9]


def test_without_rows_a_stage_speaks_of_all_images(tmp_path: Path) -> None:
    (stage,) = stages_of(tmp_path, {1: {"soft": np.ones((12, 3), F)}})
    assert stage.rows.tolist() == list(range(12))
    assert stage.soft is not None


def test_attention_of_another_form_is_passed_over(tmp_path: Path) -> None:
    good, wide = np.full((12, 3), 2.0, F), np.ones((12, 4), F)
    first, second = stages_of(tmp_path, {1: {"attention_parameters": good}, 2: {"attention_parameters": wide}})
    assert first.bumps is not None
    assert first.bumps.max() == 1
    assert first.thinned(5).bumps is not None
    assert second.bumps is None


@pytest.mark.parametrize(
    "arrays",
    [
        {"features": np.ones((3, 2), F)},
        {"labels": np.ones(12, F)},
        {"labels": np.array([-1] * 12)},
        {"soft": np.ones(12, F)},
        {"sizes": np.ones((2, 2), np.int64)},
        {"neighbours": np.full((12, 2), 12)},
        {"neighbours": np.zeros((11, 2), np.int64)},
        {"neighbours": np.arange(12)[:, None]},  # each its own neighbour
        {"rows": np.array([12]), "features": np.ones((1, 2), F)},
    ],
)
def test_arrays_of_another_form_are_passed_over(tmp_path: Path, arrays: Arrays) -> None:
    (stage,) = stages_of(tmp_path, {1: arrays})
    kept = (stage.features, stage.labels, stage.soft, stage.sizes, stage.neighbours)
    assert all(part is None for part in kept)


def test_thinning_keeps_what_belongs_together() -> None:
    rows = np.arange(100)
    full = Stage(
        1, rows, features=rows[:, None].astype(F), labels=rows, soft=rows[:, None].astype(F), neighbours=rows[:, None]
    )
    thin = full.thinned(7)
    assert len(thin.rows) == 7
    assert thin.rows[0] == 0
    assert thin.rows[-1] == 99
    assert thin.features is not None
    assert thin.labels is not None
    assert thin.soft is not None
    assert thin.neighbours is not None
    for part in (thin.features[:, 0], thin.labels, thin.soft[:, 0], thin.neighbours[:, 0]):
        assert part.tolist() == thin.rows.tolist()
    assert full.thinned(100) is full


def test_stages_are_spread_out_from_the_first_to_the_last() -> None:
    stages = [Stage(step, np.arange(1)) for step in range(20)]
    assert [stage.step for stage in spread_out(stages, 5)] == [0, 4, 9, 14, 19]
    assert spread_out(stages[:2], 5) == stages[:2]
    assert spread_out([], 5) == []
