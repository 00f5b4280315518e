from __future__ import annotations

import numpy as np
from tests.graph.test_hierarchy import example, ladder

from selfsort.runs.branches import branches_of, coarser_levels
from selfsort.types import F32

PRIORITY: F32 = np.array([1, 2, 3, -np.inf, 5, 6, 7, 8], dtype=np.float32)


def test_parts_then_what_each_merge_makes() -> None:
    found = branches_of(example(), 4, PRIORITY, 2)
    assert [(node.size, node.cluster, node.children) for node in found.nodes] == [
        (3, 2, ()),
        (1, 2, ()),
        (2, 5, ()),
        (2, 9, ()),
        (4, 2, (0, 1)),
        (4, None, (2, 3)),
        (8, None, (4, 5)),
    ]


def test_the_clusters_at_every_number_are_those_of_the_cut() -> None:
    tree = example()
    found = branches_of(tree, 5, PRIORITY, 0)
    for number in range(1, 6):
        sizes = [found.nodes[node].size for node in found.at(number)]
        assert sizes == np.bincount(tree.cut(number)).tolist()


def test_a_branch_is_itself_as_long_as_it_is_whole() -> None:
    found = branches_of(example(), 4, PRIORITY, 0)
    assert [found.below(5, number) for number in (2, 3, 4)] == [[5], [2, 3], [2, 3]]
    assert found.below(4, 3) == [4]


def test_pictures_by_priority_and_from_both_sides() -> None:
    found = branches_of(example(), 3, PRIORITY, 3)
    assert [node.pictures for node in found.nodes] == [(2, 1, 0), (5, 4), (7, 6), (5, 4, 7), (2, 1, 5)]


def test_a_tree_as_deep_as_it_has_parts() -> None:
    tree = ladder([1.0] * 3000)
    found = branches_of(tree, 3001, np.ones(3001, np.float32), 1)
    assert len(found.at(3001)) == 3001


def test_levels_for_few_and_for_many_clusters() -> None:
    assert coarser_levels(ladder([1.0, 0.5])) == []
    assert len(coarser_levels(ladder([1.0] * 9))) == 1
    assert len(coarser_levels(ladder([1.0] * 99))) == 3
