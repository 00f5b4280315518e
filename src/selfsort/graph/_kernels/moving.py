"""The compiled parts of settling images among communities: an order in which neighbours are near, and the moves."""

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


@kernel
def order_by_reach(indptr: I64, indices: I64, n_together: int) -> I64:
    """Return all items, those that can be reached from each other in few steps together, so many at a time."""
    n_items = len(indptr) - 1
    order, is_placed = np.empty(n_items, dtype=np.int64), np.zeros(n_items, dtype=np.bool_)
    end = 0
    for first in range(n_items):
        if is_placed[first]:
            continue
        is_placed[first] = True
        order[end] = first
        place, end = end, end + 1
        last = place + n_together
        while place < end and end < last:
            i = order[place]
            place += 1
            for arc in range(indptr[i], indptr[i + 1]):
                j = indices[arc]
                if not is_placed[j]:
                    is_placed[j] = True
                    order[end] = j
                    end += 1
    return order


@kernel
def rearrange(indptr: I64, indices: I64, weights: F64, order: I64, new_indices: I64, new_weights: F64) -> I64:
    """Write the arcs of a graph whose items are put in another order; return where those of each item begin."""
    n_items = len(order)
    position, new_indptr = np.empty(n_items, dtype=np.int32), np.zeros(n_items + 1, dtype=np.int64)
    for place in range(n_items):
        position[order[place]] = place
    end = 0
    for place in range(n_items):
        for arc in range(indptr[order[place]], indptr[order[place] + 1]):
            new_indices[end] = position[indices[arc]]
            new_weights[end] = weights[arc]
            end += 1
        new_indptr[place + 1] = end
    return new_indptr
