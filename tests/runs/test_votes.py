from __future__ import annotations

import numpy as np
import pytest

from selfsort.errors import InvalidInput
from selfsort.runs.votes import Voters


def test_most_of_the_nearest_decide() -> None:
    angles = np.deg2rad([0, 1, 2, 60, 61, 62, 63, 170])
    rows = np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)
    voters = Voters(rows, np.array([0, 0, 0, 4, 4, 4, 4, 9]))
    clusters, shares = voters.vote(rows[[0, 5]] * 3)
    assert clusters.tolist() == [0, 4]
    np.testing.assert_allclose(shares, [0.6, 0.8])


def test_of_equals_the_nearest_decides() -> None:
    voters = Voters(np.eye(3, dtype=np.float32), np.array([5, 6, 7]))
    assert voters.vote(np.array([[0, 0.2, 1], [1, 0, 0]], np.float32))[0].tolist() == [7, 5]


def test_nothing_to_vote_on() -> None:
    assert Voters(np.eye(3, dtype=np.float32), np.arange(3)).vote(np.empty((0, 3), np.float32))[0].tolist() == []


def test_features_of_another_width_are_refused() -> None:
    with pytest.raises(InvalidInput, match="has 3 columns, and its model gives 2"):
        Voters(np.eye(3, dtype=np.float32), np.arange(3)).vote(np.ones((1, 2), np.float32))
