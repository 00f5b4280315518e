from __future__ import annotations

import importlib.util

import numpy as np
import pytest
from tests.oracles import graph_knn as oracle
from tests.paging import mapped

from selfsort import pages
from selfsort.errors import InvalidInput, MissingData
from selfsort.graph import approximate
from selfsort.graph.approximate import approximate_neighbours, find_neighbours
from selfsort.graph.knn import nearest_neighbours
from selfsort.graph.neighbours import Neighbours
from selfsort.types import F32


def points(seed: int, n_items: int, n_features: int) -> F32:
    return np.random.default_rng(seed).standard_normal((n_items, n_features)).astype(np.float32)


def groups(n_items: int = 3000) -> F32:
    draw = np.random.default_rng(0)
    centres = draw.standard_normal((20, 16))[draw.integers(0, 20, n_items)]
    return (centres + draw.normal(0, 0.3, (n_items, 16))).astype(np.float32)


def share_found(found: Neighbours, exact: Neighbours) -> float:
    shared = [len(set(a) & set(b)) for a, b in zip(exact.idx, found.idx, strict=True)]
    return float(np.mean(shared)) / exact.n_neighbours


class TestApproximate:
    @pytest.fixture(autouse=True)
    def _has_faiss(self) -> None:
        pytest.importorskip("faiss")

    def test_finds_most_and_measures_exactly(self) -> None:
        features = groups()
        features[1500] = features[0]
        exact, found = nearest_neighbours(features, 10), approximate_neighbours(features, 10)
        assert share_found(found, exact) > 0.98
        assert found.idx[0, 0] == 1500
        assert found.idx[1500, 0] == 0
        assert not (found.idx == np.arange(3000)[:, None]).any()
        is_same = (exact.idx == found.idx).all(axis=1)
        np.testing.assert_array_equal(exact.sq_dist[is_same], found.sq_dist[is_same])

    def test_rows_in_a_file_have_the_same_neighbours(self, monkeypatch: pytest.MonkeyPatch) -> None:
        features = groups()
        wanted = approximate_neighbours(features, 10)
        monkeypatch.setattr(pages, "_PASS_BYTES", 700 * features[:1].nbytes)
        found = approximate_neighbours(mapped(features), 10)
        np.testing.assert_array_equal(found.idx, wanted.idx)
        np.testing.assert_array_equal(found.sq_dist, wanted.sq_dist)

    def test_says_how_much_it_has_found(self) -> None:
        features = points(0, 3000, 12)  # no groups: the neighbours of a row lie in many cells
        exact = nearest_neighbours(features, 10)
        for n_probe in (1, 4, 16):
            found = approximate_neighbours(features, 10, n_probe=n_probe)
            assert found.recall == pytest.approx(share_found(found, exact), abs=0.03)
            assert found.event == {"neighbour_recall": round(found.recall or 0, 4)}

    def test_visits_more_cells_until_enough_is_found(self) -> None:
        features = points(0, 3000, 12)
        assert (approximate_neighbours(features, 10, n_probe=approximate._FIRST_PROBES).recall or 1) < 0.9
        found = approximate_neighbours(features, 10)
        assert (found.recall or 0) >= approximate.RECALL
        assert share_found(found, nearest_neighbours(features, 10)) > 0.98

    def test_all_cells_are_all_rows(self) -> None:
        features = groups(400)
        found = approximate_neighbours(features, 7, n_probe=1000)
        idx, sq_dist = oracle.nearest(features, 7, None)
        np.testing.assert_array_equal(found.idx, idx)
        np.testing.assert_allclose(found.sq_dist, sq_dist, rtol=2e-7)
        assert found.recall == 1.0

    def test_the_same_twice(self) -> None:
        first, second = (approximate_neighbours(groups(), 10) for _ in range(2))
        np.testing.assert_array_equal(first.idx, second.idx)
        np.testing.assert_array_equal(first.sq_dist, second.sq_dist)

    def test_fewer_rows_than_neighbours(self) -> None:
        features = points(0, 30, 4)
        found = approximate_neighbours(features, 50)
        np.testing.assert_array_equal(found.idx, nearest_neighbours(features, 50).idx)
        assert found.is_short

    def test_cells_with_too_few_rows_are_searched_in_full(self) -> None:
        # Two tight far groups in two cells or more, one visited: a row of the small group needs the other one too.
        features = np.concatenate([points(0, 300, 2), points(1, 5, 2) + 1000]).astype(np.float32)
        found, exact = approximate_neighbours(features, 20, n_probe=1), nearest_neighbours(features, 20)
        np.testing.assert_array_equal(found.idx[300:], exact.idx[300:])

    def test_more_copies_than_places(self) -> None:
        features = np.repeat(points(0, 20, 3), 50, axis=0)
        found = approximate_neighbours(features, 5)
        assert (found.sq_dist == 0).all()
        assert not (found.idx == np.arange(1000)[:, None]).any()
        assert found.recall == 1.0

    def test_the_limit_decides_which_search_runs(self, monkeypatch: pytest.MonkeyPatch) -> None:
        features = points(0, 50, 3)
        exact = nearest_neighbours(features, 5)
        for limit, is_exact in ((None, True), (50, True), (49, False), (approximate.EXACT_LIMIT, True)):
            found = find_neighbours(features, 5, exact_limit=limit)
            np.testing.assert_array_equal(found.idx, exact.idx)
            assert (found.recall is None) == is_exact
        monkeypatch.setattr(approximate, "EXACT_LIMIT", 40)
        assert find_neighbours(features, 5, exact_limit=40).recall == 1.0

    def test_numbers_that_are_none_are_refused(self) -> None:
        with pytest.raises(InvalidInput, match="finite"):
            approximate_neighbours(np.full((50, 2), np.nan), 5)


def test_without_faiss_only_a_limit_of_ones_own_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "faiss", None)
    real = importlib.util.find_spec
    monkeypatch.setattr(approximate, "find_spec", lambda name: None if name == "faiss" else real(name))
    with pytest.raises(MissingData, match=r"faiss-cpu.*selfsort\[approx\]"):
        find_neighbours(points(0, 50, 3), 5, exact_limit=10)
    monkeypatch.setattr(approximate, "EXACT_LIMIT", 10)
    assert find_neighbours(points(0, 50, 3), 5, exact_limit=10).recall is None
