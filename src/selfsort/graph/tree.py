"""The tree that agglomeration grows: every merge in order, and from it the labels for any number of clusters.

Clusters are counted as SciPy's linkage does: 0..n_start-1 are the start clusters, and merge m makes cluster
n_start + m.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from selfsort.errors import invalid
from selfsort.types import F64, I64

I8 = npt.NDArray[np.int8]

BY_AFFINITY, BY_ISOLATION, BY_ABSORPTION, BY_DISTANCE = 0, 1, 2, 3
"""Why two clusters were merged."""


@dataclass(frozen=True, eq=False)
class MergeTree:
    """Merges in order, from the start clusters on."""

    start: I64
    """(N,) start cluster of each item, 0..n_start-1."""
    merges: I64
    """(M, 2) the two clusters of each merge; the first holds the lower start label (absorption: is the large one)."""
    affinity: F64
    """(M,) their affinity; 0 if they were merged for another reason."""
    reasons: I8
    """(M,) BY_AFFINITY, BY_ISOLATION, BY_ABSORPTION or BY_DISTANCE."""
    sizes: I64
    """(n_start + M,) items in each cluster that ever existed."""

    @property
    def n_start(self) -> int:
        """Clusters at the start."""
        return len(self.sizes) - len(self.merges)

    @property
    def n_clusters(self) -> int:
        """Clusters left after the last merge."""
        return self.n_start - len(self.merges)

    def first(self, n_merges: int) -> MergeTree:
        """Return the tree as it was after so many merges."""
        return replace(
            self,
            merges=self.merges[:n_merges],
            affinity=self.affinity[:n_merges],
            reasons=self.reasons[:n_merges],
            sizes=self.sizes[: self.n_start + n_merges],
        )

    def down_to(self, n_clusters: int) -> MergeTree:
        """Return the tree as it was when so many clusters were left."""
        if not self.n_clusters <= n_clusters <= self.n_start:
            raise invalid(
                "n_clusters",
                f"be between {self.n_clusters} and {self.n_start}, the clusters of this tree",
                n_clusters,
                "Grow the tree further, or from smaller start clusters.",
            )
        return self.first(self.n_start - n_clusters)

    def cut(self, n_clusters: int) -> I64:
        """Return the labels (N,) with so many clusters, in the order of their lowest start clusters.

        >>> pairs = np.array([[0, 1], [2, 3], [4, 5]])
        >>> tree = MergeTree(np.arange(4), pairs, np.ones(3), np.zeros(3, np.int8), np.array([1, 1, 1, 1, 2, 2, 4]))
        >>> tree.cut(3).tolist(), tree.cut(2).tolist()
        ([0, 0, 1, 2], [0, 0, 1, 1])
        """
        return self.down_to(n_clusters).labels()

    def roots(self) -> I64:
        """Return, for each start cluster, the number of the cluster it ended in."""
        root = np.arange(len(self.sizes))
        for m in range(len(self.merges) - 1, -1, -1):
            root[self.merges[m]] = root[self.n_start + m]
        return root[: self.n_start]

    def labels(self) -> I64:
        """Return the labels (N,) after the last merge."""
        _, first, inverse = np.unique(self.roots(), return_index=True, return_inverse=True)
        of_start: I64 = np.argsort(np.argsort(first))[inverse].astype(np.int64)
        labels: I64 = of_start[self.start]
        return labels
