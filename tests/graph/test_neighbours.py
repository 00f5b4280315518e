from __future__ import annotations

import numpy as np
import pytest

from selfsort.errors import InvalidInput
from selfsort.graph.neighbours import Neighbours


def test_counts_and_shortness() -> None:
    idx, sq_dist = np.array([[1, 2], [0, 2], [0, 1]]), np.ones((3, 2), dtype=np.float32)
    enough, short = Neighbours(idx, sq_dist, n_asked=2), Neighbours(idx, sq_dist, n_asked=20)
    assert (len(enough), enough.n_neighbours) == (3, 2)
    assert not enough.is_short
    assert short.is_short


def test_tables_of_different_shape_are_refused() -> None:
    with pytest.raises(InvalidInput, match=r"idx and sq_dist must be two tables of the same shape .*; got \(3, 2\)"):
        Neighbours(np.zeros((3, 2), dtype=np.int64), np.zeros((3, 1), dtype=np.float32))
