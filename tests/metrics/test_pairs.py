from __future__ import annotations

import json
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from selfsort.errors import InvalidInput
from selfsort.metrics.pairs import PairQuality, pair_selection_quality

quick = settings(derandomize=True, deadline=None, max_examples=60)
Bools = npt.NDArray[np.bool_]


def matrix(*rows: str) -> Bools:
    return np.array([[mark == "x" for mark in row] for row in rows])


def test_by_hand() -> None:
    # Classes a a b b. Called the same: (0,1) rightly, (1,2) wrongly. Different: (0,2), (0,3) rightly, (2,3) wrongly.
    # (1,3) is not selected: 5 of 6 pairs are, 2 of them as the same.
    same = matrix("xx--", "xxx-", "-xx-", "---x")
    selected = matrix("xxxx", "xxx-", "xxxx", "x-xx")
    quality = pair_selection_quality(same, selected, [0, 0, 1, 1])
    assert quality == PairQuality(
        positive_precision=1 / 2, negative_precision=2 / 3, positive_fraction=2 / 6, selected_fraction=5 / 6
    )


def test_nothing_selected_has_no_precision() -> None:
    nothing = np.zeros((3, 3), dtype=bool)
    quality = pair_selection_quality(~nothing, nothing, [0, 1, 2])
    assert quality == PairQuality(None, None, 0.0, 0.0)
    assert json.loads(json.dumps(quality.to_json()))["positive_precision"] is None


def test_images_paired_with_themselves_do_not_count() -> None:
    quality = pair_selection_quality(np.eye(3, dtype=bool), np.eye(3, dtype=bool), [0, 1, 2])
    assert quality == PairQuality(None, None, 0.0, 0.0)


def test_the_truth_itself_is_perfect() -> None:
    truth = np.array([0, 0, 1, 2, 2])
    quality = pair_selection_quality(truth[:, None] == truth, np.ones((5, 5), dtype=bool), truth)
    assert quality == PairQuality(1.0, 1.0, positive_fraction=4 / 20, selected_fraction=1.0)


@quick
@given(
    hnp.arrays(np.bool_, (6, 6)),
    hnp.arrays(np.bool_, (6, 6)),
    hnp.arrays(np.int64, 6, elements=st.integers(0, 2)),
)
def test_equals_a_loop_over_pairs(same: Bools, selected: Bools, truth: npt.NDArray[np.int64]) -> None:
    right: dict[bool, list[bool]] = {True: [], False: []}
    for i in range(6):
        for j in range(6):
            if i != j and selected[i, j]:
                right[bool(same[i, j])].append(bool(same[i, j]) == bool(truth[i] == truth[j]))
    quality = pair_selection_quality(same, selected, truth)
    assert quality.positive_precision == (np.mean(right[True]) if right[True] else None)
    assert quality.negative_precision == (np.mean(right[False]) if right[False] else None)
    assert quality.positive_fraction == len(right[True]) / 30
    assert quality.selected_fraction == (len(right[True]) + len(right[False])) / 30


@pytest.mark.parametrize(
    ("same", "selected", "truth", "message"),
    [
        (
            np.ones((2, 2), bool),
            np.ones((2, 2), bool),
            [0, 1, 1],
            r"same_BB must have a row .*\(3 x 3\); got shape \(2, 2\)",
        ),
        (np.ones((2, 2), bool), np.ones((2, 3), bool), [0, 1], r"selected_BB must have a row .*\(2 x 2\); got shape"),
        (np.ones((2, 2)), np.ones((2, 2), bool), [0, 1], "same_BB must hold True and False; got float64. Compare"),
        (np.ones((1, 1), bool), np.ones((1, 1), bool), [0], "truth must hold at least 2 labels; got 1. A pair needs"),
        (np.ones((2, 2), bool), np.ones((2, 2), bool), [0.0, 1.0], "truth must hold whole numbers"),
    ],
)
def test_bad_input(same: Any, selected: Any, truth: Any, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        pair_selection_quality(same, selected, truth)
