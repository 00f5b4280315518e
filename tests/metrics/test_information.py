from __future__ import annotations

import math

import numpy as np
import pytest
from sklearn.metrics import mutual_info_score

from selfsort.metrics.information import information_of_cells, mutual_information


def test_by_hand() -> None:
    # Half of the items keep their label, half change it: the second label tells nothing of the first.
    assert mutual_information(np.ones((2, 2))) == pytest.approx(0)
    # (0,0) 2/4, (1,0) 1/4, (1,1) 1/4.
    expected = 0.5 * math.log(0.5 / (0.5 * 0.75)) + 0.25 * math.log(0.25 / (0.5 * 0.75))
    expected += 0.25 * math.log(0.25 / (0.5 * 0.25))
    assert mutual_information(np.array([[2, 0], [1, 1]])) == pytest.approx(expected)


@pytest.mark.parametrize("seed", range(3))
def test_as_scikit_learn_has_it(seed: int) -> None:
    rng = np.random.default_rng(seed)
    first, second = rng.integers(0, 5, 200), rng.integers(0, 7, 200)
    table = np.zeros((5, 7))
    np.add.at(table, (first, second), 1)
    rows, columns = np.nonzero(table)
    assert mutual_information(table) == pytest.approx(mutual_info_score(first, second))
    assert information_of_cells(rows, columns, table[rows, columns]) == mutual_information(table)


def test_scale_does_not_matter() -> None:
    table = np.random.default_rng(0).random((4, 4))
    assert mutual_information(7 * table) == pytest.approx(mutual_information(table))
