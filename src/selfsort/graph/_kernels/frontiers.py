"""Making the frontiers of two clusters one: what they share has cross terms.

The smaller frontier is walked. The larger one is walked too, or, where it is far wider, looked up: the few widest
frontiers have an index. Letters and tables are those of `agglomerate`.
"""

from __future__ import annotations

import numpy as np

from selfsort.graph._kernels.tables import MergeState
from selfsort.graph.jit import kernel

# A frontier is wide if it has more than so many times the entries of the one that it meets.
_WIDE = 8


@kernel
def _end_chunk(state: MergeState, handle: int, before: int, c: int, kept: int) -> int:
    """Shorten a chunk of a cluster's frontier, unlink it if nothing is left; return the last chunk that stays."""
    chunk = state.chunks[c]
    chunk.end = kept
    if kept > chunk.begin:
        return c
    if before == -1:
        state.clusters[handle].first_chunk = chunk.next
    else:
        state.chunks[before].next = chunk.next
    return before


@kernel
def _spread(state: MergeState, large: int, small: int) -> int:
    """Say in the items' places where each item of the smaller cluster's frontier is; return how many there are.

    Items inside either cluster can never matter again and are dropped, here and in `_fold`.
    """
    front = state.front
    n_found = 0
    before, c = -1, state.clusters[small].first_chunk
    while c != -1:
        kept = state.chunks[c].begin
        for t in range(state.chunks[c].begin, state.chunks[c].end):
            u = front[t].item
            if u != -1 and state.items[u].label != large and state.items[u].label != small:
                if kept != t:  # most stay where they are, and need not be written
                    front[kept] = front[t]
                state.items[u].place = kept
                state.found[n_found] = u
                n_found += 1
                kept += 1
        before = _end_chunk(state, small, before, c, kept)
        c = state.chunks[c].next
    state.clusters[small].last_chunk = before
    state.clusters[small].n_front = n_found
    return n_found


@kernel
def _add_term(state: MergeState, other: int, term: float, n_crossed: int) -> int:
    """Add to the cross terms of a cluster; return how many clusters have some."""
    if state.cross[other] == 0.0:
        state.crossed[n_crossed] = other
        n_crossed += 1
    state.cross[other] += term
    return n_crossed


@kernel
def _fold(state: MergeState, small: int, item: int, place: int, n_crossed: int) -> int:
    """Fold the smaller cluster's entry of an item into the other's, whose place this is: there is a cross term.

    The entry folded in is marked by item -1. Returns how many clusters have cross terms.
    """
    one, two = state.front[place], state.front[state.items[item].place]
    term = one.arriving * two.leaving + two.arriving * one.leaving
    one.arriving += two.arriving
    one.leaving += two.leaving
    two.item = -1
    state.clusters[small].n_front -= 1
    return _add_term(state, state.items[item].label, term, n_crossed) if term > 0.0 else n_crossed


@kernel
def _fold_walking(state: MergeState, large: int, small: int) -> int:
    """Walk the larger cluster's frontier and fold in what the other shares; return how many clusters this concerns."""
    front = state.front
    n_crossed = n_front = 0
    before, c = -1, state.clusters[large].first_chunk
    while c != -1:
        kept = state.chunks[c].begin
        for t in range(state.chunks[c].begin, state.chunks[c].end):
            u = front[t].item
            if u == -1 or state.items[u].label == large or state.items[u].label == small:
                continue
            if kept != t:
                front[kept] = front[t]
            if state.items[u].place != -1:
                n_crossed = _fold(state, small, u, kept, n_crossed)
            kept += 1
        n_front += kept - state.chunks[c].begin
        before = _end_chunk(state, large, before, c, kept)
        c = state.chunks[c].next
    state.clusters[large].last_chunk = before
    state.clusters[large].n_front = n_front
    return n_crossed


@kernel
def _enter(state: MergeState, handle: int, item: int, place: int) -> None:
    """Put an entry of a cluster's frontier into its index, as the last one."""
    cluster = state.clusters[handle]
    state.places[cluster.index, item] = place
    state.front[place].rank = cluster.n_ranks
    cluster.n_ranks += 1


@kernel
def _fold_by_index(state: MergeState, large: int, small: int, n_found: int) -> int:
    """Do what `_fold_walking` does, by looking up what the smaller cluster's frontier has in the other's index.

    In the order of the larger frontier, as if it were walked: sums of floats depend on it.
    """
    place_of = state.places[state.clusters[large].index]
    n_shared = 0
    for t in range(n_found):
        u = state.found[t]
        if place_of[u] == -1:
            _enter(state, large, u, state.items[u].place)
        else:
            state.shared[n_shared] = (np.int64(state.front[place_of[u]].rank) << 32) | u
            n_shared += 1
    state.shared[:n_shared].sort()
    n_crossed = 0
    for t in range(n_shared):
        u = state.shared[t] & 0xFFFFFFFF
        n_crossed = _fold(state, small, u, place_of[u], n_crossed)
    return n_crossed


@kernel
def _claim_index(state: MergeState, handle: int) -> None:
    """Give a cluster's frontier an index if one is free, or serves a narrower frontier."""
    narrowest, n_least = -1, state.clusters[handle].n_front
    for w in range(len(state.wide)):
        n_front = 0 if state.wide[w] == -1 else state.clusters[state.wide[w]].n_front
        if n_front < n_least:
            narrowest, n_least = w, n_front
    if narrowest == -1:
        return
    if state.wide[narrowest] != -1:
        _free_index(state, state.wide[narrowest])
    state.wide[narrowest] = handle
    cluster = state.clusters[handle]
    cluster.index, cluster.n_ranks = narrowest, 0
    c = cluster.first_chunk
    while c != -1:
        for t in range(state.chunks[c].begin, state.chunks[c].end):
            if state.front[t].item != -1:
                _enter(state, handle, state.front[t].item, t)
        c = state.chunks[c].next


@kernel
def _free_index(state: MergeState, handle: int) -> None:
    w = state.clusters[handle].index
    state.places[w] = -1
    state.wide[w] = state.clusters[handle].index = -1


@kernel
def _cross_terms(state: MergeState, large: int, small: int) -> int:
    """Make the two frontiers one; sum the cross terms of the exact update and return how many clusters have one."""
    if state.clusters[small].index != -1:
        _free_index(state, small)
    n_found = _spread(state, large, small)
    if state.clusters[large].index == -1 and state.clusters[large].n_front > _WIDE * n_found:
        _claim_index(state, large)
    if state.clusters[large].index == -1:
        n_crossed = _fold_walking(state, large, small)
    else:
        n_crossed = _fold_by_index(state, large, small, n_found)
    for t in range(n_found):
        state.items[state.found[t]].place = -1
    return n_crossed
