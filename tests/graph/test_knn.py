from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.oracles import graph_knn as oracle
from tests.paging import mapped
from tests.precision import double_precision

from selfsort import pages, progress
from selfsort.errors import InvalidInput
from selfsort.graph import knn
from selfsort.graph.knn import nearest_neighbours
from selfsort.types import F32


def points(seed: int, n_items: int, n_features: int) -> F32:
    return np.random.default_rng(seed).standard_normal((n_items, n_features)).astype(np.float32)


def check_against_oracle(
    features: npt.NDArray[Any], n_neighbours: int, queries: npt.NDArray[Any] | None = None, block_bytes: int = 2**20
) -> None:
    found = nearest_neighbours(features, n_neighbours, queries=queries, block_bytes=block_bytes)
    idx, sq_dist = oracle.nearest(features, n_neighbours, queries)
    np.testing.assert_array_equal(found.idx, idx)
    # The oracle adds in another order; one unit in the last place may differ.
    np.testing.assert_allclose(found.sq_dist, sq_dist, rtol=2e-7)


def test_four_points_on_a_line() -> None:
    found = nearest_neighbours(np.array([[0.0], [1.0], [3.0], [7.0]]), 2)
    assert found.idx.tolist() == [[1, 2], [0, 2], [1, 0], [2, 1]]
    assert found.sq_dist.tolist() == [[1, 9], [1, 4], [4, 9], [16, 36]]
    assert found.idx.dtype == np.int64
    assert found.sq_dist.dtype == np.float32
    assert not found.is_short


@settings(derandomize=True, max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    n_items=st.integers(2, 60),
    n_features=st.integers(1, 9),
    n_neighbours=st.integers(1, 12),
    n_block_rows=st.integers(1, 70),
)
def test_equals_the_oracle(seed: int, n_items: int, n_features: int, n_neighbours: int, n_block_rows: int) -> None:
    features = points(seed, n_items, n_features)
    check_against_oracle(features, n_neighbours, block_bytes=4 * n_items * n_block_rows)
    check_against_oracle(features, n_neighbours, queries=points(seed + 1, 5, n_features))


@settings(derandomize=True, max_examples=15, deadline=None)
@given(seed=st.integers(0, 10**6), n_neighbours=st.integers(1, 6))
def test_equal_distances_go_to_the_lowest_index(seed: int, n_neighbours: int) -> None:
    # Few distinct points on a grid: most distances tie, far beyond the spare candidates.
    features = np.random.default_rng(seed).integers(0, 3, (80, 2)).astype(np.float32)
    check_against_oracle(features, n_neighbours, block_bytes=4 * 80 * 7)


def test_duplicates_are_neighbours_at_distance_zero_and_self_is_not() -> None:
    features = np.concatenate([np.full((30, 5), 0.1), np.full((30, 5), 0.7)]).astype(np.float32)
    found = nearest_neighbours(features, 20)
    assert (found.sq_dist == 0).all()
    assert found.idx[0].tolist() == list(range(1, 21))
    assert found.idx[5].tolist() == [0, 1, 2, 3, 4, *range(6, 21)]
    assert found.idx[59].tolist() == list(range(30, 50))


def test_close_points_far_from_the_origin_lose_nothing_to_cancellation() -> None:
    # |q|^2 + |x|^2 - 2 q.x has no correct digit here: the squares are 10^8 times the distances.
    offsets = np.random.default_rng(0).random((200, 3)).astype(np.float32)
    check_against_oracle(offsets + np.float32(3e3), 5)


def test_self_is_excluded_when_it_is_not_the_nearest_by_rounding() -> None:
    features = np.repeat(points(3, 40, 50), 2, axis=0) * 100
    found = nearest_neighbours(features, 3)
    assert not (found.idx == np.arange(80)[:, None]).any()
    assert found.idx[:, 0].tolist() == [i ^ 1 for i in range(80)]


def test_wide_rows_are_not_all_searched_again(monkeypatch: pytest.MonkeyPatch) -> None:
    # Pixels of 96 x 96 in colour, of unit length: neighbours differ by more than the product rounds.
    features = np.abs(points(3, 120, 8) @ points(4, 8, 27_648) + 50)
    features /= np.linalg.norm(features, axis=1, keepdims=True)
    again = []
    search_again = knn._search_again

    def spy(search: Any, open_rows: Any, *rest: Any) -> None:
        again.extend(open_rows)
        search_again(search, open_rows, *rest)

    monkeypatch.setattr(knn, "_search_again", spy)
    check_against_oracle(features, 5)
    assert len(again) < 10


@pytest.mark.parametrize("n_features", [100, 1000, 30_000])
def test_the_product_rounds_less_than_is_allowed_for(n_features: int) -> None:
    # Rows of equal entries, whose rounding errors all have the same sign, are the worst known.
    features = np.ones((50, n_features), np.float32) * np.linspace(0.5, 1, 50, dtype=np.float32)[:, None]
    search = knn._check(features, None, torch.device("cpu"), 2**20)
    exact = features.astype(np.float64) @ features.astype(np.float64).T
    error = 2 * np.abs((torch.from_numpy(features) @ torch.from_numpy(features).T).double().numpy() - exact)
    assert (error < knn._rounding_slack(search)[:, None] / 4).all()


def test_queries_may_find_themselves() -> None:
    features = points(0, 10, 3)
    assert nearest_neighbours(features, 1, queries=features[4:6]).idx.tolist() == [[4], [5]]


def test_fewer_items_than_neighbours_is_told() -> None:
    found = nearest_neighbours(points(0, 4, 2), 20)
    assert found.idx.shape == (4, 3)
    assert found.n_asked == 20
    assert found.is_short
    assert nearest_neighbours(points(0, 1, 2), 20).idx.shape == (1, 0)
    assert nearest_neighbours(points(0, 4, 2), 20, queries=points(1, 2, 2)).idx.shape == (2, 4)


def test_thread_count_and_blocks_do_not_matter() -> None:
    features = points(5, 700, 33)
    n_threads = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        one = nearest_neighbours(features, 10, block_bytes=4 * 700 * 64)
        torch.set_num_threads(2)
        two = nearest_neighbours(features, 10)
    finally:
        torch.set_num_threads(n_threads)
    np.testing.assert_array_equal(one.idx, two.idx)
    np.testing.assert_array_equal(one.sq_dist, two.sq_dist)


def test_integers_are_accepted_and_not_changed() -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (50, 16), dtype=np.uint8)
    before = pixels.copy()
    check_against_oracle(pixels, 4)
    np.testing.assert_array_equal(pixels, before)


def test_progress_is_reported_block_by_block() -> None:
    calls: list[int] = []

    class Listener:
        def start(self, what: str, total: int) -> int:
            assert what == "nearest neighbours"
            calls.append(total)
            return 0

        def advance(self, task: int, amount: int) -> None:
            calls.append(amount)

        def finish(self, task: int) -> None:
            calls.append(-1)

        def stage(self, what: str, done: int, total: int) -> None:
            pass

    with progress.listening(Listener()):
        nearest_neighbours(points(0, 30, 2), 25, block_bytes=4 * 30 * 10)
    assert calls == [600, 300, 200, 100, -1]


@pytest.mark.parametrize(
    ("features", "n_neighbours", "queries", "message"),
    [
        (np.zeros((3, 2)), 0, None, "n_neighbours must be at least 1; got 0"),
        (np.zeros(3), 1, None, "features must be a table"),
        (np.zeros((0, 2)), 1, None, "features must be a table"),
        (np.array([[0.0, np.nan]]), 1, None, "features must be finite"),
        (np.zeros((3, 2)), 1, np.zeros((3, 4)), r"queries must have as many columns as features \(2\); got 4"),
    ],
)
def test_bad_input(
    features: npt.NDArray[Any], n_neighbours: int, queries: npt.NDArray[Any] | None, message: str
) -> None:
    with pytest.raises(InvalidInput, match=message):
        nearest_neighbours(features, n_neighbours, queries=queries)


@pytest.mark.gpu
def test_cuda_agrees_with_cpu() -> None:
    features = points(0, 3000, 64)
    cpu, gpu = nearest_neighbours(features, 20), nearest_neighbours(features, 20, device="cuda")
    np.testing.assert_array_equal(cpu.idx, gpu.idx)
    np.testing.assert_array_equal(cpu.sq_dist, gpu.sq_dist)


def test_both_rough_searches_find_the_same_candidates() -> None:
    # On a CPU whole rows are searched only for queries; accelerators take that path for everything.
    features = points(8, 150, 6)
    search = knn._check(features, None, torch.device("cpu"), 4 * 150 * 40)
    by_pairs, worst_by_pairs = knn._candidates_by_pairs(search, 9)
    by_rows, worst_by_rows = knn._candidates_by_rows(search, 9)
    np.testing.assert_array_equal(np.sort(by_pairs, axis=1), np.sort(by_rows, axis=1))
    np.testing.assert_allclose(worst_by_pairs, worst_by_rows, rtol=1e-4)


def test_the_default_precision_of_torch_does_not_matter() -> None:
    features, queries = points(0, 40, 5), points(1, 6, 5)
    wanted = nearest_neighbours(features, 3), nearest_neighbours(features, 3, queries=queries)
    with double_precision():
        found = nearest_neighbours(features, 3), nearest_neighbours(features, 3, queries=queries)
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(a.idx, b.idx)
        np.testing.assert_array_equal(a.sq_dist, b.sq_dist)


@pytest.mark.parametrize("n_processes", [1, 2, 3])
def test_processes_have_about_as_many_pairs(n_processes: int) -> None:
    n_items = 12_000
    n_block = n_items // (knn._N_TURNS * n_processes)
    shapes = [(start, n_block, n_items - start) for start in range(0, n_items, n_block)]
    shares = [knn._turns_of(shapes, rank, n_processes) for rank in range(n_processes)]
    assert sorted(shape for share in shares for shape in share) == shapes
    pairs = [sum(n_rows * n_cols for _, n_rows, n_cols in share) for share in shares]
    assert max(pairs) < 1.01 * min(pairs)


@pytest.mark.parametrize("n_copies", [1, 4])
def test_rows_in_a_file_have_the_same_neighbours(monkeypatch: pytest.MonkeyPatch, n_copies: int) -> None:
    features, queries = np.tile(points(3, 150, 6), (n_copies, 1)), points(4, 70, 6)
    wanted = nearest_neighbours(features, 9), nearest_neighbours(features, 9, queries=queries)
    monkeypatch.setattr(pages, "_PASS_BYTES", 24 * 40)  # 40 rows
    monkeypatch.setattr(pages, "_MAPPED_FOR_ONE", 24)
    kept, asked = mapped(features), mapped(queries)
    found = [nearest_neighbours(kept, 9, block_bytes=n) for n in (4 * 40 * 7, 2**20)]
    found += [nearest_neighbours(kept, 9, queries=rows, block_bytes=2**12) for rows in (asked, queries)]
    found += [nearest_neighbours(features, 9, queries=asked)]
    for one, other in zip(found, [wanted[0]] * 2 + [wanted[1]] * 3, strict=True):
        np.testing.assert_array_equal(one.idx, other.idx)
        np.testing.assert_array_equal(one.sq_dist, other.sq_dist)


def test_of_rows_in_a_file_few_are_in_memory_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []

    def watch(name: str, place: int) -> None:
        real = getattr(torch, name)

        def counting(*given: torch.Tensor, **rest: Any) -> torch.Tensor:
            sizes.append(given[place].shape[1])
            found: torch.Tensor = real(*given, **rest)
            return found

        monkeypatch.setattr(torch, name, counting)

    watch("mm", 1)
    watch("addmm", 2)
    monkeypatch.setattr(pages, "_PASS_BYTES", 24 * 40)
    kept = mapped(np.zeros((100, 6), np.float32))  # nothing but duplicates: all are searched for again
    nearest_neighbours(kept, 3)
    nearest_neighbours(kept, 3, queries=points(0, 5, 6))
    assert max(sizes) == 40
