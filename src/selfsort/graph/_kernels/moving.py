"""The compiled part of settling images among communities."""

from __future__ import annotations

import numpy as np

from selfsort.graph.jit import kernel
from selfsort.types import F64, I64


@kernel
def move_items(
    indptr: I64, indices: I64, weights: F64, degrees: F64, resolution: float, labels: I64, totals: F64
) -> int:
    """Move every item, one after the other, to the community that gains most modularity; return how many moved.

    `totals` holds the degrees of the communities; it and `labels` are kept up to date. Equal gains: an item stays, and
    goes to the lowest number otherwise. An item that is alone stays too.
    """
    whole = totals.sum()
    towards, is_met = np.zeros(len(totals)), np.zeros(len(totals), dtype=np.bool_)
    met = np.empty(len(totals), dtype=np.int64)
    n_moved = 0
    for i in range(len(labels)):
        own, n_met = labels[i], 0
        for place in range(indptr[i], indptr[i + 1]):
            if indices[place] == i:
                continue
            c = labels[indices[place]]
            if not is_met[c]:
                is_met[c] = True
                met[n_met] = c
                n_met += 1
            towards[c] += weights[place]
        best, best_gain = own, towards[own] - resolution * degrees[i] * (totals[own] - degrees[i]) / whole
        for place in range(n_met):
            c = met[place]
            gain = towards[c] - resolution * degrees[i] * totals[c] / whole
            if c != own and (gain > best_gain or (gain == best_gain and best != own and c < best)):
                best, best_gain = c, gain
        for place in range(n_met):
            towards[met[place]] = 0.0
            is_met[met[place]] = False
        if best != own and n_met:
            totals[own] -= degrees[i]
            totals[best] += degrees[i]
            labels[i] = best
            n_moved += 1
    return n_moved
