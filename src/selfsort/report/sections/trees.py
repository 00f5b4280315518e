"""Merge histories as trees: which clusters became one, in which order."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from selfsort.report.drawings import Branch, Panels, TreeChart
from selfsort.report.read import RunData
from selfsort.text import plural
from selfsort.types import F64, I64

MAX_LEAVES = 60


@dataclass(frozen=True, eq=False)
class Tree:
    """A history of merges, numbered as SciPy's linkage does: starts first, then one node per merge."""

    merges: I64
    """(T, 2) the two nodes of each merge."""
    heights: F64
    """(T,) how high each merge is drawn."""
    start_cluster: I64
    """(S,) final cluster of each starting node."""
    height_name: str

    @property
    def n_start(self) -> int:
        """Starting nodes."""
        return len(self.start_cluster)


def merging(run: RunData) -> Panels | None:
    """Draw the last merges."""
    tree = merge_tree(run)
    if tree is None:
        return None
    branches = top_of_tree(tree)
    note = f"The last {len(branches):,} of {plural(len(tree.merges), 'merge')}, from {plural(tree.n_start, 'start')}."
    if tree.height_name == "merge":
        note += " Higher means later. Colours are those of the final clusters."
    return Panels([TreeChart("The last merges", branches, tree.height_name)], note)


def merge_tree(run: RunData) -> Tree | None:
    """Find a merge history among the extras: `linkage` as SciPy writes it, or `merges` down to the clusters."""
    extras = run.extras
    linkage, merges = extras.get("linkage"), extras.get("merges")
    if linkage is not None and linkage.ndim == 2 and linkage.shape == (run.n_images - 1, 4):
        nodes = _checked_merges(linkage[:, :2].astype(np.int64), run.n_images)
        heights = np.nan_to_num(linkage[:, 2].astype(np.float64))
        return None if nodes is None else Tree(nodes, heights, run.method_labels, "distance")
    if merges is None or merges.ndim != 2 or merges.shape[1] != 2 or not len(merges) or merges.dtype.kind not in "iu":
        return None
    n_start = len(merges) + len(np.unique(run.method_labels))
    nodes = _checked_merges(merges.astype(np.int64), n_start)
    if nodes is None:
        return None
    return Tree(nodes, np.arange(1, len(nodes) + 1, dtype=np.float64), _roots(nodes, n_start), "merge")


def top_of_tree(tree: Tree, most_leaves: int = MAX_LEAVES) -> list[Branch]:
    """Lay out the last merges; what was merged before them is a leaf."""
    n_kept = min(len(tree.merges), most_leaves - 1)
    first = len(tree.merges) - n_kept
    cluster = _node_clusters(tree)
    base = float(tree.heights[first - 1]) if first else 0.0
    is_child = np.zeros(tree.n_start + len(tree.merges), dtype=bool)
    is_child[tree.merges.ravel()] = True
    place: dict[int, tuple[float, float]] = {}
    x = 0.0
    branches: list[Branch] = []
    roots = [tree.n_start + m for m in range(first, len(tree.merges)) if not is_child[tree.n_start + m]]
    for root in sorted(roots, key=lambda node: (int(cluster[node]), node)):
        # Children before parents; a path of merges may be longer than Python's recursion allows.
        pending, order = [root], []
        while pending:
            node = pending.pop()
            if node >= tree.n_start + first:
                order.append(node)
                pending += [int(child) for child in tree.merges[node - tree.n_start]]
            else:
                place[node] = (x, base)
                x += 1
        for node in reversed(order):
            left, right = sorted(place[int(child)] for child in tree.merges[node - tree.n_start])
            height = float(tree.heights[node - tree.n_start])
            branches.append(Branch(left, right, height, int(cluster[node])))
            place[node] = ((left[0] + right[0]) / 2, height)
    return branches


def _checked_merges(merges: I64, n_start: int) -> I64 | None:
    """Return the merges if every node exists by then and is merged once."""
    limit = n_start + np.arange(len(merges))
    is_sound = merges.min() >= 0 and (merges < limit[:, None]).all() and len(np.unique(merges)) == merges.size
    return merges if is_sound else None


def _roots(merges: I64, n_start: int) -> I64:
    """Number the final clusters by the lowest starting node in each, as the agglomeration does."""
    root = np.arange(n_start + len(merges))
    for m in range(len(merges) - 1, -1, -1):
        root[merges[m]] = root[n_start + m]
    _, first, inverse = np.unique(root[:n_start], return_index=True, return_inverse=True)
    numbers: I64 = np.argsort(np.argsort(first)).astype(np.int64)[inverse]
    return numbers


def _node_clusters(tree: Tree) -> I64:
    clusters = np.concatenate([tree.start_cluster, np.full(len(tree.merges), -1)])
    for m, (a, b) in enumerate(tree.merges.tolist()):
        if clusters[a] == clusters[b]:
            clusters[tree.n_start + m] = clusters[a]
    return clusters
