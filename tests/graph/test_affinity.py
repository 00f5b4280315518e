from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from selfsort.errors import InvalidInput
from selfsort.graph.affinity import centre, digraph, global_scale, local_scale, mean_row, unit_rows, vote
from selfsort.graph.neighbours import Neighbours


def neighbours_of(idx: list[list[int]], sq_dist: list[list[float]]) -> Neighbours:
    return Neighbours(np.array(idx, dtype=np.int64), np.array(sq_dist, dtype=np.float32))


SQUARE = neighbours_of([[1, 2], [0, 2], [3, 0], [2, 1]], [[1, 2], [1, 4], [2, 4], [2, 8]])


def test_global_weights_by_hand() -> None:
    # Mean squared neighbour distance: (1 + 2 + 1 + 4 + 2 + 4 + 2 + 8) / 8 = 3.
    weights = digraph(SQUARE, "global").toarray()
    expected = np.zeros((4, 4))
    for i in range(4):
        for j, sq_dist in zip(SQUARE.idx[i], SQUARE.sq_dist[i], strict=True):
            expected[i, j] = np.exp(-float(sq_dist) / 3)
    np.testing.assert_allclose(weights, expected, rtol=1e-12)
    assert weights[0, 1] == pytest.approx(np.exp(-1 / 3))


def test_a_scales_sigma() -> None:
    assert global_scale(SQUARE, a=2.0) == pytest.approx(6)
    assert digraph(SQUARE, "global", a=2.0)[3, 1] == pytest.approx(np.exp(-8 / 6))
    with pytest.raises(InvalidInput, match="a must be positive; got 0"):
        global_scale(SQUARE, a=0)


def test_local_weights_by_hand() -> None:
    # K = 2, so sigma_i is the distance to the first neighbour.
    weights = digraph(SQUARE, "local").toarray()
    assert weights[0, 1] == pytest.approx(np.exp(-1 / 2))
    assert weights[1, 2] == pytest.approx(np.exp(-4 / 2))
    assert weights[3, 1] == pytest.approx(np.exp(-8 / 4) / np.sqrt(2))


def test_local_scale_is_that_of_the_half_way_neighbour() -> None:
    sq_dist = np.arange(1, 21, dtype=np.float32)[None, :]
    found = Neighbours(np.arange(20)[None, :], sq_dist)
    assert local_scale(found).tolist() == [10.0]


def test_every_row_stores_k_weights() -> None:
    graph = digraph(SQUARE, "local")
    assert np.diff(graph.indptr).tolist() == [2, 2, 2, 2]
    assert (graph.data > 0).all()
    assert (graph.diagonal() == 0).all()
    assert graph.has_sorted_indices


def test_doubling_stops_when_every_nearest_neighbour_has_weight() -> None:
    far = neighbours_of([[1], [0], [1]], [[1], [1], [1000]])
    plain, doubled = global_scale(far), global_scale(far, doubling=True)
    assert np.exp(-1000 / plain) > 1e-5  # three items: the far one has pulled the mean up already
    assert plain == doubled
    many = neighbours_of([[1]] * 100, [[1.0]] * 99 + [[1000.0]])
    plain, doubled = global_scale(many), global_scale(many, doubling=True)
    assert np.exp(-1000 / plain) < 1e-5
    assert np.exp(-1000 / doubled) >= 1e-5 > np.exp(-1000 / (doubled / 2))
    assert np.log2(doubled / plain) % 1 == 0
    assert digraph(many, "global", doubling=True).data.min() >= 1e-5


@pytest.mark.parametrize("scaling", ["global", "local"])
def test_zero_distances_are_safe(scaling: str) -> None:
    all_equal = neighbours_of([[1, 2], [0, 2], [0, 1]], [[0, 0], [0, 0], [0, 0]])
    some_equal = neighbours_of([[1, 2], [0, 2], [0, 1]], [[0, 1], [0, 1], [1, 1]])
    for found in (all_equal, some_equal):
        weights = digraph(found, scaling)  # type: ignore[arg-type]
        assert np.isfinite(weights.data).all()
        assert weights[0, 1] > 0
    assert digraph(all_equal, scaling).data.tolist() == [1.0] * 6  # type: ignore[arg-type]


def test_no_neighbours_at_all_is_an_empty_graph() -> None:
    nothing = Neighbours(np.zeros((1, 0), dtype=np.int64), np.zeros((1, 0), dtype=np.float32))
    assert digraph(nothing, "global").nnz == 0
    assert digraph(nothing, "local").nnz == 0


def test_unknown_scaling_is_refused() -> None:
    with pytest.raises(InvalidInput, match="scaling must be global or local; got 'loacl'"):
        digraph(SQUARE, "loacl")  # type: ignore[arg-type]


def test_unit_rows() -> None:
    images = np.array([[[3, 0], [0, 4]], [[0, 0], [0, 0]], [[255, 255], [255, 255]]], dtype=np.uint8)
    rows = unit_rows(images)
    np.testing.assert_allclose(rows, [[0.6, 0.0, 0.0, 0.8], [0.0] * 4, [0.5] * 4], rtol=1e-6)
    assert rows.dtype == np.float32


def test_centring_uses_the_mean_given() -> None:
    values = np.array([[0.0, 2.0], [4.0, 4.0]])
    assert mean_row(values).tolist() == [2, 3]
    assert centre(values).tolist() == [[-2, -1], [2, 1]]
    assert centre(values[:1], mean_row(values)).tolist() == [[-2, -1]]


def test_vote_by_hand() -> None:
    found = neighbours_of([[0, 1, 2]], [[0, 1, 1]])
    soft = vote(found, np.array([0, 1, 1]), 3, sigma_sq=1.0)
    share = 1 / (1 + 2 * np.exp(-1))
    np.testing.assert_allclose(soft, [[share, 1 - share, 0]], rtol=1e-6)
    assert soft.dtype == np.float32


def test_vote_takes_one_scale_per_image() -> None:
    found = neighbours_of([[0, 1], [0, 1]], [[0, 1], [0, 1]])
    soft = vote(found, np.array([0, 1]), 2, sigma_sq=np.array([1.0, 2.0]))
    np.testing.assert_allclose(soft[:, 1] / soft[:, 0], np.exp([-1, -0.5]), rtol=1e-6)


def test_far_outliers_go_to_their_nearest_neighbour() -> None:
    found = neighbours_of([[2, 0]], [[1e9, 1e9 + 1e6]])
    assert vote(found, np.array([0, 0, 1]), 2, sigma_sq=1e-6).tolist() == [[0, 1]]
    assert vote(found, np.array([0, 0, 1]), 2, sigma_sq=0.0).tolist() == [[0, 1]]


@settings(derandomize=True, max_examples=20, deadline=None)
@given(seed=st.integers(0, 10**6), log_scale=st.integers(-300, 300))
def test_votes_sum_to_one(seed: int, log_scale: int) -> None:
    draw = np.random.default_rng(seed)
    sq_dist = np.sort(draw.random((5, 4)).astype(np.float32), axis=1) * 100
    found = Neighbours(draw.integers(0, 9, (5, 4)), sq_dist)
    soft = vote(found, draw.integers(0, 3, 9), 3, sigma_sq=10.0**log_scale)
    np.testing.assert_allclose(soft.sum(axis=1), 1, rtol=1e-6)


def test_vote_without_neighbours_is_refused() -> None:
    nothing = Neighbours(np.zeros((1, 0), dtype=np.int64), np.zeros((1, 0), dtype=np.float32))
    with pytest.raises(InvalidInput, match="neighbours must hold at least one"):
        vote(nothing, np.zeros(3, dtype=np.int64), 2, 1.0)


def test_tables_of_different_shapes_are_refused() -> None:
    with pytest.raises(InvalidInput, match="idx and sq_dist must be two tables of the same shape"):
        Neighbours(np.zeros((2, 3), dtype=np.int64), np.zeros((2, 2), dtype=np.float32))
