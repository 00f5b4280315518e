from __future__ import annotations

import numpy as np
import pytest

from selfsort.errors import InvalidInput
from selfsort.graph.hierarchy import Hierarchy, Part, join_parts
from selfsort.graph.tree import BY_AFFINITY, BY_DISTANCE, BY_ISOLATION


def part(leaves: list[int], merges: list[tuple[int, int]], strength: list[float]) -> Part:
    return Part(np.array(leaves), np.array(merges, dtype=np.int64).reshape(-1, 2), np.array(strength))


def example() -> Hierarchy:
    """Clusters 2, 5 and 9 of leaves (0, 1, 2), (3, 4) and (5,): 5 and 9 are alike, 2 is on its own.

    Inside, 3 and 4 are nearest; then 0 and 1; then these and 2.
    """
    fine = [
        part([0, 1, 2], [(0, 1), (3, 2)], [-2.0, -5.0]),
        part([3, 4], [(0, 1)], [-1.0]),
        part([5], [], []),
    ]
    tree = join_parts(np.array([0, 0, 1, 2, 3, 4, 5, 5]), [fine, [], [part([0, 3, 5], [(1, 2), (0, 3)], [1.5, 0.0])]])
    return Hierarchy(tree, np.array([0, 2, 3, 4, 5, 6]), np.array([2, 5, 9]))


class TestJoined:
    def test_the_strongest_merges_of_a_phase_come_first_and_phases_in_order(self) -> None:
        tree = example().tree
        assert tree.merges.tolist() == [[3, 4], [0, 1], [7, 2], [6, 5], [8, 9]]
        assert tree.sizes.tolist() == [2, 1, 1, 1, 1, 2, 2, 3, 4, 4, 8]
        assert tree.affinity.tolist() == [0, 0, 0, 1.5, 0]
        assert tree.reasons.tolist() == [BY_DISTANCE] * 3 + [BY_AFFINITY, BY_ISOLATION]

    def test_a_phase_between_goes_on_with_what_leaves_have_become(self) -> None:
        fine = [part([0, 1], [(0, 1)], [-1.0]), part([2], [], []), part([3], [], [])]
        middle = [part([0, 2], [(0, 1)], [0.2])]
        tree = join_parts(np.arange(4), [fine, middle, [part([0, 3], [(0, 1)], [0.1])]])
        assert tree.merges.tolist() == [[0, 1], [4, 2], [5, 3]]


class TestCut:
    def test_every_number_by_hand(self) -> None:
        found = {n: example().cut(n).tolist() for n in range(1, 7)}
        assert found == {
            1: [0] * 8,
            2: [0, 0, 0, 0, 1, 1, 1, 1],
            3: [0, 0, 0, 0, 1, 1, 2, 2],
            4: [0, 0, 0, 1, 2, 2, 3, 3],
            5: [0, 0, 1, 2, 3, 3, 4, 4],
            6: [0, 0, 1, 2, 3, 4, 5, 5],
        }

    def test_at_its_own_number_it_is_the_clustering(self) -> None:
        assert example().labels().tolist() == [2, 2, 2, 2, 5, 5, 9, 9]

    def test_more_than_there_are_leaves(self) -> None:
        with pytest.raises(InvalidInput, match="be between 1 and 6"):
            example().cut(7)


def ladder(strengths: list[float]) -> Hierarchy:
    """One image per cluster; the first two join, then each next one with all before it."""
    n = len(strengths) + 1
    merges = [(0 if m == 0 else n + m - 1, m + 1) for m in range(n - 1)]
    tree = join_parts(np.arange(n), [[], [part(list(range(n)), merges, strengths)]])
    return Hierarchy(tree, np.arange(n), np.arange(n))


class TestCoarser:
    def test_it_stops_before_the_widest_gap(self) -> None:
        # Ten clusters: 4 to 3 joins what is ten times less alike than 5 to 4. Two to five groups are allowed.
        found = ladder([1, 0.9, 0.8, 0.7, 0.6, 0.5, 0.05, 0.04, 0.03])
        assert found._step(4) == pytest.approx(0.1)
        # No group but that of the ladder's top is large: it holds seven of ten at 4, six at 5.
        assert found.coarser(1) == [5]

    def test_of_halves_the_gap_decides(self) -> None:
        pairs = part(list(range(8)), [(0, 1), (2, 3), (4, 5), (6, 7), (8, 9), (10, 11), (12, 13)], [1] * 4 + [0.1] * 3)
        tree = Hierarchy(join_parts(np.arange(8), [[], [pairs]]), np.arange(8), np.arange(8))
        assert tree.coarser(1) == [4]
        assert tree.coarser(2) == [2, 4]

    @pytest.mark.parametrize(("n_levels", "expected"), [(1, 1), (2, 2), (3, 3), (9, 3)])
    def test_there_are_as_many_levels_as_numbers_between_two_and_the_clusters(
        self, n_levels: int, expected: int
    ) -> None:
        found = ladder([1.0, 0.9, 0.8, 0.7]).coarser(n_levels)
        assert len(found) == expected
        assert found == sorted(set(found))
        assert all(2 <= n < 5 for n in found)
