from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.cluster import hierarchy
from tests.report.folders import make_run

from selfsort.report.read import read_run
from selfsort.report.sections.trees import Tree, merge_tree, top_of_tree
from selfsort.types import I64

# Six starts, four merges, two clusters: {0, 2, 4} and {1, 3, 5}.
MERGES = np.array([[0, 2], [1, 3], [6, 4], [7, 5]])


def make_tree(tmp_path: Path, merges: np.ndarray) -> Tree | None:
    return merge_tree(read_run(make_run(tmp_path / "run", n=12, k=2, extras={"merges": merges})))


def test_starts_know_the_final_cluster_they_end_in(tmp_path: Path) -> None:
    tree = make_tree(tmp_path, MERGES)
    assert tree is not None
    assert tree.start_cluster.tolist() == [0, 1, 0, 1, 0, 1]
    assert tree.heights.tolist() == [1, 2, 3, 4]


def test_clusters_are_numbered_by_their_lowest_start(tmp_path: Path) -> None:
    tree = make_tree(tmp_path, np.array([[4, 5], [2, 3], [6, 7], [1, 8]]))
    assert tree is not None
    assert tree.start_cluster.tolist() == [0, 1, 1, 1, 1, 1]


def test_branches_join_the_middles_of_what_they_merge(tmp_path: Path) -> None:
    tree = make_tree(tmp_path, MERGES)
    assert tree is not None
    branches = top_of_tree(tree)
    assert [(b.cluster, b.height) for b in branches] == [(0, 1), (0, 3), (1, 2), (1, 4)]
    for inner, outer in ((branches[0], branches[1]), (branches[2], branches[3])):
        middle = ((inner.left[0] + inner.right[0]) / 2, inner.height)
        assert middle in (outer.left, outer.right)
    leaves = {leg for b in branches for leg in (b.left, b.right) if leg[1] == 0}
    assert {x for x, _ in leaves} == set(range(6))


def test_only_the_last_merges_are_drawn(tmp_path: Path) -> None:
    tree = make_tree(tmp_path, MERGES)
    assert tree is not None
    branches = top_of_tree(tree, most_leaves=3)
    assert [b.height for b in branches] == [3, 4]
    assert all(leg[1] == 2 for b in branches for leg in (b.left, b.right))


@pytest.mark.parametrize(
    "merges",
    [
        np.array([[0, 6]]),  # merged before it was made
        np.array([[0, 1], [0, 2]]),  # merged twice
        np.array([[-1, 1]]),
        np.array([[0, 1, 2]]),
        np.zeros((0, 2), dtype=np.int64),
        np.array([[0.0, 1.0]]),
        np.array([0, 1]),
    ],
)
def test_merges_that_cannot_have_happened_are_passed_over(tmp_path: Path, merges: np.ndarray) -> None:
    assert make_tree(tmp_path, merges) is None


def test_a_linkage_of_scipy_is_read_with_its_heights(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    points = rng.random((12, 2))
    linkage = hierarchy.linkage(points, "average")
    labels: I64 = hierarchy.fcluster(linkage, 3, "maxclust").astype(np.int64) - 1
    path = make_run(tmp_path / "run", n=12, k=3, extras={"linkage": linkage})
    run = read_run(path)
    run.table.labels[:] = labels
    tree = merge_tree(run)
    assert tree is not None
    branches = top_of_tree(tree)
    assert len(branches) == 11
    assert max(b.height for b in branches) == linkage[-1, 2]
    # Above the cut a branch holds several clusters and has no colour.
    assert sum(b.cluster == -1 for b in branches) == 2


def test_a_chain_of_merges_deeper_than_the_recursion_limit_is_laid_out() -> None:
    n = 5000
    nodes = np.column_stack([np.concatenate([[0], np.arange(n, 2 * n - 2)]), np.arange(1, n)])
    tree = Tree(nodes, np.arange(n - 1, dtype=np.float64), np.zeros(n, dtype=np.int64), "merge")
    assert len(top_of_tree(tree, most_leaves=n)) == n - 1
