"""The dimension that neighbourhoods show."""

from __future__ import annotations

import numpy as np
import pytest

from selfsort.graph.dimension import intrinsic_dimension
from selfsort.graph.knn import nearest_neighbours


@pytest.mark.parametrize("d", [1, 2, 5])
def test_points_of_a_cube_show_its_dimension_wherever_it_lies(d: int) -> None:
    rng = np.random.default_rng(0)
    points = rng.random((3000, d)) @ np.linalg.qr(rng.normal(size=(20, d)))[0].T
    found = intrinsic_dimension(nearest_neighbours(points.astype(np.float32), 10))
    assert abs(found - d) < 0.2 * d


def test_copies_do_not_count() -> None:
    points = np.random.default_rng(0).random((500, 3)).astype(np.float32)
    alone = intrinsic_dimension(nearest_neighbours(points, 8))
    twice = intrinsic_dimension(nearest_neighbours(np.concatenate([points, points[:50]]), 8))
    assert abs(alone - twice) < 0.3


def test_images_all_alike_have_none() -> None:
    assert intrinsic_dimension(nearest_neighbours(np.ones((20, 3), np.float32), 5)) == 0.0
