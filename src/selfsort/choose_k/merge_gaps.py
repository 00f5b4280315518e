"""Gaps in the affinities of ac-gdl's merges: the last clusters that belong together, and the first that do not.

Only merges of two large clusters count (5 % of an equal share, as where small clusters are absorbed). A reference.
"""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array

from selfsort.choose_k.evidence import Criterion
from selfsort.graph.absorb import LARGE_SHARE
from selfsort.graph.agglomerate import agglomerate
from selfsort.types import F32, I64

_FAINTEST = 1e-12


def merge_gaps(graph: csr_array, start: I64, features: F32, largest_k: int) -> Criterion:
    """Return by how much the logarithm of the affinity falls where the merging of large clusters goes below k.

    Args:
        graph: (N, N) weights.
        start: (N,) many small clusters to begin with.
        features: (N, D) for clusters without any affinity.
        largest_k: numbers to look at, and what is large.
    """
    tree = agglomerate(graph, start, 1, absorb=False, features=features).tree
    large = LARGE_SHARE * len(features) / largest_k
    is_large = (tree.sizes[tree.merges] >= large).all(axis=1)
    # The last merge of two large clusters leads from two to one, the one before it from three to two.
    logs = np.log(np.maximum(tree.affinity[is_large][::-1], _FAINTEST))[: largest_k + 1]
    ks = np.arange(2, len(logs) + 1)
    gaps = logs[1:] - logs[:-1]
    return Criterion("merge gaps", ks, gaps, int(ks[gaps.argmax()]) if len(ks) else 1)
