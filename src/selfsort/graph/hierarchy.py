"""The tree of a finished clustering: below its clusters, how each falls apart; above them, which of them are alike.

Every level is a union of parts of the next: cut at the clustering's own number of clusters it gives the clustering,
with fewer it joins whole clusters, with more it parts them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from selfsort.graph.tree import BY_AFFINITY, BY_DISTANCE, BY_ISOLATION, MergeTree
from selfsort.types import F64, I64

_WINDOW = 1.5
"""A coarser level may have this many times more or fewer groups than even steps would give it."""


@dataclass(frozen=True, eq=False)
class Hierarchy:
    """A merge tree down to one cluster, and where in it the clustering is."""

    tree: MergeTree
    """Its start clusters, the leaves, are ordered by the clusters it was grown from; within one, by their images."""
    rows: I64
    """(L,) the image that stands for each leaf."""
    clusters: I64
    """(K,) the clustering's own numbers of the clusters that have images, ascending."""

    @property
    def n_leaves(self) -> int:
        """The most clusters that can be cut from it."""
        return self.tree.n_start

    @property
    def n_clusters(self) -> int:
        """Clusters of the clustering that have images."""
        return len(self.clusters)

    def cut(self, n_clusters: int) -> I64:
        """Return labels (N,) 0, 1, ... with so many clusters, in the order of the clusters they hold or come from."""
        return self.tree.cut(n_clusters)

    def labels(self) -> I64:
        """Return the labels (N,) of the clustering itself."""
        own: I64 = self.clusters[self.cut(self.n_clusters)]
        return own

    def coarser(self, n_levels: int) -> list[int]:
        """Choose numbers of groups for so many levels above the clusters, fewest first; fewer if there are too few.

        The steps from level to level are about even, and end where the next merge would join what is further apart; if
        it can be, where no group holds more than half of the images.
        """
        found: list[int] = []
        for level in range(min(n_levels, self.n_clusters - 2), 0, -1):
            most = (found[0] if found else self.n_clusters) - 1
            ideal = self.n_clusters ** (level / (n_levels + 1))
            low = min(max(level + 1, round(ideal / _WINDOW)), most)  # at least two groups on every level above
            high = max(low, min(most, round(ideal * _WINDOW)))
            numbers = [n for n in range(low, high + 1) if 2 * self._largest(n) <= len(self.tree.start)]
            found.insert(0, min(numbers, key=self._step) if numbers else high)
        return found

    def _largest(self, n: int) -> int:
        """Return the images in the largest of n clusters."""
        top = self.tree.down_to(n)
        return int(top.sizes[top.roots()].max())

    def _step(self, n: int) -> float:
        """Return how much weaker the merge that leads from n clusters on is than the one that led there."""
        next_merge = self.n_leaves - n
        before, after = self.tree.affinity[next_merge - 1 : next_merge + 1]
        return float(after / before) if before > 0 else 1.0


@dataclass(frozen=True, eq=False)
class Part:
    """A tree over some of the leaves, to be joined with others."""

    leaves: I64
    """(P,) numbers of the leaves or of what was joined before."""
    merges: I64
    """(P - 1, 2) of this part alone: 0..P-1 are the leaves, P + m what merge m makes."""
    strength: F64
    """(P - 1,) how alike the two were; never rising."""


def join_parts(start: I64, phases: Sequence[Sequence[Part]]) -> MergeTree:
    """Put trees of parts together: each phase takes over where the one before it has ended.

    Within a phase the strongest merges of all its parts come first. A part of a later phase names what an earlier part
    has become by any of that part's leaves.

    Args:
        start: (N,) leaf of each item.
        phases: trees over leaves that together make one tree.
    """
    sizes = np.bincount(start).tolist()
    n_leaves = len(sizes)
    now = np.arange(n_leaves)  # what each leaf has become, as far as a later part may ask
    first = list(range(n_leaves))  # the first leaf of each node
    merges: list[tuple[int, int]] = []
    strengths: list[float] = []
    reasons: list[int] = []
    for number, parts in enumerate(phases):
        order = sorted(
            (-float(strength), p, m) for p, part in enumerate(parts) for m, strength in enumerate(part.strength)
        )
        nodes = [[int(now[leaf]) for leaf in part.leaves] for part in parts]
        for minus, p, m in order:
            pair = (nodes[p][int(node)] for node in parts[p].merges[m])
            a, b = sorted(pair, key=lambda node: first[node])
            nodes[p].append(len(sizes))
            merges.append((a, b))
            sizes.append(sizes[a] + sizes[b])
            first.append(first[a])
            strengths.append(-minus if number else 0.0)
            reasons.append(BY_DISTANCE if not number else BY_AFFINITY if minus < 0 else BY_ISOLATION)
        for part, made in zip(parts, nodes, strict=True):
            now[part.leaves] = made[-1]
    return MergeTree(
        start,
        np.array(merges, dtype=np.int64).reshape(-1, 2),
        np.array(strengths),
        np.array(reasons, dtype=np.int8),
        np.array(sizes, dtype=np.int64),
    )
