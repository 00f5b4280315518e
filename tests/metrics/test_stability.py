from __future__ import annotations

import math

import numpy as np
import pytest

from selfsort.metrics.stability import count_pairs, stability


def test_pairs_are_counted_first_by_second() -> None:
    assert count_pairs(np.array([0, 0, 2]), np.array([1, 1, 0]), 3).tolist() == [[0, 2, 0], [0, 0, 0], [1, 0, 0]]


def test_equal_use_of_k_clusters_that_survive_is_the_most() -> None:
    labels = np.arange(40) % 4
    assert stability(labels, labels, 4) == pytest.approx(math.log(4))
    assert stability(labels, (labels + 1) % 4, 4) == pytest.approx(math.log(4))


def test_one_cluster_for_all_tells_nothing() -> None:
    assert stability(np.zeros(40, int), np.zeros(40, int), 4) == 0
