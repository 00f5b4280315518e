from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sklearn import manifold
from sklearn.neighbors import KNeighborsClassifier
from tests.oracles import neighbourhood as oracle

from selfsort import progress
from selfsort.errors import InvalidInput
from selfsort.metrics.neighbourhood import knn_purity, nearest, one_nn_error, trustworthiness

quick = settings(derandomize=True, deadline=None, max_examples=40)
Array = npt.NDArray[Any]


def random_points(n: int, d: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).normal(size=(n, d))


class TestKnnPurity:
    def test_by_hand(self) -> None:
        # 1 nearest: 0 and 1 see their own class, 2 does not. 2 nearest: halves for 0 and 1, nothing for 2.
        purity = knn_purity([[1, 2], [0, 2], [1, 0]], [0, 0, 1])
        np.testing.assert_allclose(purity, [2 / 3, 1 / 3])

    def test_chosen_ks_in_any_order(self) -> None:
        purity = knn_purity([[1, 2], [0, 2], [1, 0]], [0, 0, 1], ks=[2, 1, 2])
        np.testing.assert_allclose(purity, [1 / 3, 2 / 3, 1 / 3])

    @pytest.mark.parametrize("block", [1, 7, 1000])
    def test_equals_the_definition(self, block: int) -> None:
        points, truth = random_points(40, 3), np.arange(40) % 3
        neighbours = np.array([oracle.order_of_neighbours(points, i)[:15] for i in range(40)])
        expected = [oracle.knn_purity(neighbours, truth, k) for k in range(1, 16)]
        np.testing.assert_allclose(knn_purity(neighbours, truth, range(1, 16), block=block), expected)

    def test_one_class_is_pure(self) -> None:
        assert knn_purity([[1], [0]], [4, 4]).tolist() == [1.0]

    @pytest.mark.parametrize(
        ("neighbours", "truth", "ks", "message"),
        [
            (
                [[0, 1], [1, 0]],
                [0, 1],
                None,
                "neighbours_idx must leave each point itself out; .* Drop the first column",
            ),
            ([[1], [2]], [0, 1], None, r"neighbours_idx must lie between 0 and 1; got 1..2. Search among"),
            ([[1], [-1]], [0, 1], None, r"neighbours_idx must lie between 0 and 1; got -1..1"),
            ([[1.0], [0.0]], [0, 1], None, "whole numbers of an integer type; got float64. Give the rows"),
            ([[1], [0]], [0, 1, 1], None, r"one row of neighbours per true label \(3\); got shape \(2, 1\)"),
            ([1, 0], [0, 1], None, r"one row of neighbours per true label \(2\); got shape \(2,\)"),
            ([[], []], [0, 1], None, r"one row of neighbours per true label \(2\); got shape \(2, 0\)"),
            ([[1], [0]], [0, 1], [2], r"ks must be whole numbers between 1 and .* given \(1\); got \[2\]. Change ks"),
            ([[1], [0]], [0, 1], [0], r"ks must be whole numbers between 1 and .* given \(1\); got \[0\]"),
            ([[1], [0]], [0, 1], range(0), r"ks must be whole numbers between 1 and .* given \(1\); got \[\]"),
            ([[1], [0]], [0, 1], [0.5], r"ks must be whole numbers between 1 and .* given \(1\); got \[0.5\]"),
            ([[1], [0]], [0.0, 1.0], None, "truth must hold whole numbers"),
        ],
    )
    def test_bad_input(self, neighbours: Any, truth: Any, ks: Any, message: str) -> None:
        with pytest.raises(InvalidInput, match=message):
            knn_purity(neighbours, truth, ks)


class TestTrustworthiness:
    def test_by_hand(self) -> None:
        # Points 0 1 3 7 on a line; the embedding swaps the two in the middle. With one neighbour each:
        # embedded nearest of 0, 1, 2, 3 are 2, 3, 0, 1, whose input ranks are 2, 3, 2, 2,
        # so the penalty is 1 + 2 + 1 + 1 = 5 and T = 1 - 2 * 5 / (4 * 1 * (8 - 3 - 1)).
        before, after = [[0], [1], [3], [7]], [[0], [3], [1], [4]]
        assert trustworthiness(before, after, n_neighbors=1) == 1 - 10 / 16

    def test_the_same_points_are_fully_trusted(self) -> None:
        points = random_points(30, 4)
        assert trustworthiness(points, 3 * points + 5, n_neighbors=5) == 1.0

    @pytest.mark.parametrize(("n", "k"), [(25, 12), (120, 12), (300, 5)])
    @pytest.mark.parametrize("block", [1, 64, 1000])
    def test_equals_scikit_learn(self, n: int, k: int, block: int) -> None:
        before, after = random_points(n, 8), random_points(n, 2, seed=1)
        expected = manifold.trustworthiness(before, after, n_neighbors=k)
        assert trustworthiness(before, after, k, block=block) == pytest.approx(expected, abs=1e-12)

    def test_pictures_are_flattened_and_pixels_stay_exact(self) -> None:
        rng = np.random.default_rng(2)
        images = rng.integers(0, 256, size=(60, 5, 5, 1), dtype=np.uint8)
        images[30:] = images[:30]
        after = rng.integers(0, 4, size=(60, 2))
        flat = images.reshape(60, -1).astype(float)
        assert trustworthiness(images, after, 7) == pytest.approx(oracle.trustworthiness(flat, after, 7), abs=1e-12)

    @quick
    @given(
        hnp.arrays(np.int64, (13, 2), elements=st.integers(0, 3)), hnp.arrays(np.int64, 13, elements=st.integers(0, 3))
    )
    def test_ties_follow_the_definition(self, before: Array, after: Array) -> None:
        got = trustworthiness(before, after[:, None], 4, block=5)
        assert got == pytest.approx(oracle.trustworthiness(before, after[:, None], 4), abs=1e-12)
        assert 0 <= got <= 1

    def test_points_far_from_the_origin_keep_their_digits(self) -> None:
        before, after = random_points(80, 3), random_points(80, 2, seed=1)
        assert trustworthiness(before + 1e7, after - 1e7, 6) == pytest.approx(
            trustworthiness(before, after, 6), abs=1e-12
        )

    def test_memory_stays_far_below_n_by_n(self) -> None:
        points = random_points(3000, 2)
        tracemalloc.start()
        trustworthiness(points, points, block=32)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 3000 * 3000 * 8 / 10

    def test_progress_reaches_the_end(self) -> None:
        class Recorder:
            seen = 0

            def start(self, what: str, total: int) -> int:
                assert (what, total) == ("trustworthiness", 50)
                return 1

            def advance(self, task: int, amount: int) -> None:
                self.seen += amount

            def finish(self, task: int) -> None:
                assert self.seen == 50

            def stage(self, what: str, done: int, total: int) -> None:
                pass

        recorder = Recorder()
        with progress.listening(recorder):
            trustworthiness(random_points(50, 2), random_points(50, 2), block=16)
        assert recorder.seen == 50

    @pytest.mark.parametrize(
        ("before", "after", "k", "message"),
        [
            (
                random_points(10, 2),
                random_points(9, 2),
                2,
                "x_input and x_embedded must .* same number of rows; got 10 and 9",
            ),
            (
                random_points(10, 2),
                random_points(10, 2),
                5,
                r"n_neighbors must lie between 1 and half .* \(10\); got 5",
            ),
            (random_points(10, 2), random_points(10, 2), 0, r"n_neighbors must lie between 1 and half .*; got 0"),
            (np.full((10, 2), np.nan), random_points(10, 2), 2, "x_input must be finite; got NaN or infinity"),
            (
                random_points(10, 2),
                np.zeros(10),
                2,
                r"x_embedded must be an array of points by features.*shape \(10,\)",
            ),
            (
                random_points(10, 2),
                np.zeros((10, 0)),
                2,
                r"x_embedded must be an array of points by features.*\(10, 0\)",
            ),
            (np.full((10, 2), "a"), random_points(10, 2), 2, "x_input must hold numbers; got <U1"),
        ],
    )
    def test_bad_input(self, before: Array, after: Array, k: int, message: str) -> None:
        with pytest.raises(InvalidInput, match=message):
            trustworthiness(before, after, k)

    def test_a_block_of_no_rows_is_refused(self) -> None:
        with pytest.raises(InvalidInput, match="block must be at least 1; got 0"):
            trustworthiness(random_points(10, 2), random_points(10, 2), 2, block=0)


class TestOneNnError:
    def test_by_hand(self) -> None:
        assert one_nn_error([[0.0], [1.0]], [0, 1], [[0.2], [0.4], [0.8], [0.9]], [0, 1, 1, 1]) == 0.25

    def test_leave_one_out_by_hand(self) -> None:
        # 0 and 0.1 find each other, so do 5 and 5.1, which differ.
        assert one_nn_error([[0.0], [0.1], [5.0], [5.1]], [0, 0, 0, 1]) == 0.5

    @pytest.mark.parametrize("block", [1, 13, 1000])
    def test_equals_scikit_learn(self, block: int) -> None:
        train, test = random_points(90, 3), random_points(40, 3, seed=1)
        train_y, test_y = np.arange(90) % 4, np.arange(40) % 4
        expected = 1 - KNeighborsClassifier(1).fit(train, train_y).score(test, test_y)
        assert one_nn_error(train, train_y, test, test_y, block=block) == pytest.approx(expected)

    @pytest.mark.parametrize("block", [1, 13, 1000])
    def test_leave_one_out_equals_the_definition(self, block: int) -> None:
        points, truth = random_points(50, 2), np.arange(50) % 3
        wrong = [truth[oracle.order_of_neighbours(points, i)[0]] != truth[i] for i in range(50)]
        assert one_nn_error(points, truth, block=block) == pytest.approx(np.mean(wrong))

    def test_a_tie_goes_to_the_first_point(self) -> None:
        assert one_nn_error([[-1.0], [1.0]], [0, 1], [[0.0]], [0]) == 0.0
        assert one_nn_error([[1.0], [-1.0]], [1, 0], [[0.0]], [0]) == 1.0

    def test_both_sets_are_moved_together(self) -> None:
        train, test = np.array([[100.0], [200.0]]), np.array([[110.0], [120.0], [140.0]])
        assert one_nn_error(train, [0, 1], test, [0, 0, 0]) == 0.0

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (([[0.0], [1.0]], [0, 1], [[0.0]]), "test_emb and test_y must be given together; got one of them"),
            (([[0.0], [1.0]], [0, 1], None, [0]), "test_emb and test_y must be given together; got one of them"),
            (([[0.0], [1.0]], [0], [[0.0]], [0]), "train_emb and train_y must have the same length; got 2 and 1"),
            (([[0.0]], [0], [[0.0]], [0, 1]), "test_emb and test_y must have the same length; got 1 and 2"),
            (([[0.0]], [0], [[0.0, 1.0]], [0]), "train_emb and test_emb must have the same features; got 1 and 2"),
            (([[0.0]], [0]), "train_emb must hold at least 2 points to leave one out; got 1"),
            (([[0.0], [1.0]], [0.5, 1.0]), "train_y must hold whole numbers of an integer type; got float64"),
        ],
    )
    def test_bad_input(self, arguments: tuple[Any, ...], message: str) -> None:
        with pytest.raises(InvalidInput, match=message):
            one_nn_error(*arguments)


def test_nearest_is_sorted_ties_to_the_lowest_and_never_oneself() -> None:
    points = np.array([[0.0], [1.0], [1.0], [3.0], [1e3]])
    assert nearest(points, 3).tolist() == [[1, 2, 3], [2, 0, 3], [1, 0, 3], [1, 2, 0], [3, 1, 2]]
    assert nearest(points, 2, np.array([3, 0])).tolist() == [[1, 2], [1, 2]]


def test_nearest_does_not_depend_on_blocks_origin_or_scale() -> None:
    points = np.random.default_rng(0).integers(0, 3, (40, 4)).astype(float)
    expected = [oracle.order_of_neighbours(points, item)[:7] for item in range(40)]
    assert nearest(points, 7).tolist() == expected
    assert nearest(1e4 + 1e3 * points, 7, block=3).tolist() == expected


@pytest.mark.parametrize("n_neighbours", [0, 3])
def test_more_neighbours_than_points_are_refused(n_neighbours: int) -> None:
    with pytest.raises(InvalidInput, match="n_neighbours"):
        nearest(np.eye(3), n_neighbours)


def test_purity_of_some_points_is_that_of_their_rows() -> None:
    truth, rows = np.array([0, 0, 1, 1, 0]), np.array([3, 0])
    near = np.array([[2, 0], [4, 2]])
    assert knn_purity(near, truth, rows=rows).tolist() == [1.0, 0.5]
    with pytest.raises(InvalidInput, match="leave each point itself out"):
        knn_purity(near, truth, rows=np.array([2, 0]))
