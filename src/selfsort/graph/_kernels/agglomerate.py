"""Compiled part of the agglomeration: a sparse table of cluster affinities that shrinks merge by merge.

Letters: P -> Q is affinity of source P to destination Q; its un-normalised value U[Q, P] = |Q|^2 A(P -> Q) is the
sum over v in P of r(v) c(v), r(v) being the weight arriving at v from Q and c(v) the weight leaving v to Q.

Merging M and N into S leaves U[P, S] = U[P, M] + U[P, N]. The other direction needs cross terms,

    U[S, P] = U[M, P] + U[N, P] + sum over v in P of ( r_N(v) c_M(v) + r_M(v) c_N(v) ),

and v has a cross term only if it lies on the frontier of both M and N. What lies inside a cluster leaves its
frontier, so large clusters have small frontiers for their size, and two clusters of c items are merged in far
fewer than c K steps. Where a wide frontier meets a narrow one time and again it is not walked: the few widest have
an index, and what the narrow one shares is looked up there.

The table has an edge for each pair of clusters with a non-zero affinity, made of two half-edges, twins, one in the
linked list of each cluster. An edge that dies leaves a list when the list is next walked. A cluster's half-edges lie
side by side at first, and lists are joined whole, so that walking them is mostly reading on.

A cluster has a handle (its place in the arrays; the larger cluster's survives a merge) and a name (the lowest
start label in it; ties go to the lowest name).
"""

from __future__ import annotations

from typing import Any

import numpy.typing as npt

from selfsort.graph._kernels.frontiers import _cross_terms
from selfsort.graph._kernels.tables import (
    APPROX_ALPHA,
    APPROX_SIZE,
    DEAD,
    DONE,
    EXACT,
    FULL,
    ISOLATED,
    N_FREE,
    N_LIVE,
    N_MERGED,
    MergeRule,
    MergeState,
)
from selfsort.graph.jit import kernel
from selfsort.types import F64, I64


@kernel
def _set_score(state: MergeState, name: int, score: float) -> None:
    """Set a score and replay the tournament upwards; equal scores: the lower name wins."""
    names, winner = state.names, state.winner
    names[name].score = score
    place, is_open = (len(names) + name) // 2, True
    while place >= 1 and is_open:
        left, right = winner[2 * place], winner[2 * place + 1]
        best = left if names[left].score >= names[right].score else right
        is_open = best == name or best != winner[place]  # else one that has not changed wins here as before
        winner[place] = best
        place //= 2


@kernel
def _unlink(state: MergeState, handle: int, before: int, half: int) -> None:
    """Take a dead half-edge out of its cluster's list; nobody knows of its place, which is free now."""
    after = state.halves[half].next
    if before == -1:
        state.clusters[handle].first_half = after
    else:
        state.halves[before].next = after
    if after == -1:
        state.clusters[handle].last_half = before
    state.free[state.counts[N_FREE]] = half
    state.counts[N_FREE] += 1


@kernel
def _measure(state: MergeState, handle: int, half: int) -> float:
    """Set the symmetric affinity A(P, Q) = A(P -> Q) + A(Q -> P) of an edge."""
    one = state.halves[half]
    two = state.halves[one.twin]
    size_one, size_two = float(state.clusters[handle].size), float(state.clusters[one.other].size)
    affinity: float = one.flow / (size_one * size_one) + two.flow / (size_two * size_two)
    one.affinity = affinity
    two.affinity = affinity
    return affinity


@kernel
def _rescore(state: MergeState, rule: MergeRule, handle: int) -> None:
    """Walk a cluster's edges: find its closest cluster and s(C) = A1 + lambda / (K_c - 1) sum_q (A1 - Aq)."""
    n_top = max(min(rule.n_structure, state.counts[N_LIVE] - 1), 1)
    top = state.top
    top[:] = 0.0
    best = best_name = -1
    before, half = -1, state.clusters[handle].first_half
    while half != -1:
        after = state.halves[half].next
        other = state.halves[half].other
        if other == DEAD:
            _unlink(state, handle, before, half)
            half = after
            continue
        value = state.halves[half].affinity
        if value >= top[0] and value > 0.0:
            name = state.clusters[other].name
            if value > top[0] or name < best_name:
                best, best_name = other, name
        if value > top[n_top - 1]:
            place = n_top - 1
            while place > 0 and top[place - 1] < value:
                top[place] = top[place - 1]
                place -= 1
            top[place] = value
        before, half = half, after
    gap = 0.0
    for q in range(1, n_top):
        gap += top[0] - top[q]
    cluster = state.clusters[handle]
    cluster.best = best
    cluster.best_affinity = top[0]
    cluster.kth_affinity = top[n_top - 1]
    _set_score(state, cluster.name, top[0] + rule.structure_weight * gap / max(n_top - 1, 1))


@kernel
def start(state: MergeState, rule: MergeRule) -> None:
    """Measure every edge and score every cluster."""
    for place in range(len(state.names) - 1, 0, -1):
        state.winner[place] = state.winner[2 * place]
    for handle in range(len(state.clusters)):
        half = state.clusters[handle].first_half
        while half != -1:
            if handle < state.halves[half].other:
                _measure(state, handle, half)
            half = state.halves[half].next
    for handle in range(len(state.clusters)):
        _rescore(state, rule, handle)


@kernel
def _kill(state: MergeState, half: int) -> None:
    """End an edge; each list lets go of its half when it is next walked."""
    state.halves[state.halves[half].twin].other = DEAD
    state.halves[half].other = DEAD


@kernel
def _join_edges(state: MergeState, large: int, small: int, by_large: float, by_small: float) -> None:
    """Turn the edges of two clusters into those of one, with flows into it scaled by the update's factors."""
    halves = state.halves
    before, half = -1, state.clusters[large].first_half
    while half != -1:
        after, other = halves[half].next, halves[half].other
        if other == small:
            _kill(state, half)
        if other in (DEAD, small):
            _unlink(state, large, before, half)
        else:
            halves[half].flow *= by_large
            state.half_to[other] = half
            before = half
        half = after
    before, half = -1, state.clusters[small].first_half
    while half != -1:
        after, other = halves[half].next, halves[half].other
        if other == DEAD:
            _unlink(state, small, before, half)
        elif state.half_to[other] == -1:
            halves[half].flow *= by_small
            halves[halves[half].twin].other = large
            state.half_to[other] = half
            before = half
        else:
            same = state.half_to[other]
            halves[same].flow += by_small * halves[half].flow
            halves[halves[same].twin].flow += halves[halves[half].twin].flow
            # The larger old affinity: the other cluster's score may have rested on either.
            halves[same].affinity = max(halves[same].affinity, halves[half].affinity)
            _kill(state, half)
            _unlink(state, small, before, half)
        half = after


@kernel
def _join_lists(state: MergeState, large: int, small: int) -> None:
    """Append the smaller cluster's half-edges, items and frontier to the larger one's."""
    kept, gone = state.clusters[large], state.clusters[small]
    if gone.first_half != -1:
        if kept.last_half == -1:
            kept.first_half = gone.first_half
        else:
            state.halves[kept.last_half].next = gone.first_half
        kept.last_half = gone.last_half
    v = gone.first_item
    while v != -1:
        state.items[v].label = large
        v = state.next_item[v]
    state.next_item[kept.last_item] = gone.first_item
    kept.last_item = gone.last_item
    if gone.first_chunk != -1:
        if kept.last_chunk == -1:
            kept.first_chunk = gone.first_chunk
        else:
            state.chunks[kept.last_chunk].next = gone.first_chunk
        kept.last_chunk = gone.last_chunk
    kept.size += gone.size
    kept.n_front += gone.n_front


@kernel
def _new_half(state: MergeState, handle: int, other: int, flow: float) -> int:
    """Put a half-edge at the front of a cluster's list; return its place."""
    state.counts[N_FREE] -= 1
    half: int = state.free[state.counts[N_FREE]]
    cluster, new = state.clusters[handle], state.halves[half]
    new.other = other
    new.twin = -1
    new.flow = flow
    new.affinity = 0.0
    new.next = cluster.first_half
    cluster.first_half = half
    if cluster.last_half == -1:
        cluster.last_half = half
    return half


@kernel
def _pair(state: MergeState, one: int, two: int) -> None:
    """Make an edge of two half-edges."""
    state.halves[one].twin = two
    state.halves[two].twin = one


@kernel
def _add_cross(state: MergeState, large: int, n_crossed: int) -> None:
    """Add the cross terms to the merged cluster's edges, making edges where there were none."""
    for t in range(n_crossed):
        other = state.crossed[t]
        half = state.half_to[other]
        if half == -1:
            _pair(state, _new_half(state, large, other, state.cross[other]), _new_half(state, other, large, 0.0))
        else:
            state.halves[half].flow += state.cross[other]
        state.cross[other] = 0.0


@kernel
def _write_history(state: MergeState, large: int, small: int, affinity: float) -> None:
    """Write the merge down and give the merged cluster the lower of the two names."""
    kept, gone = state.clusters[large], state.clusters[small]
    t = state.counts[N_MERGED]
    is_lower = kept.name < gone.name
    row = state.merges[t]
    row.first = kept.tree_id if is_lower else gone.tree_id
    row.second = gone.tree_id if is_lower else kept.tree_id
    row.affinity = affinity
    row.size = kept.size + gone.size
    kept.tree_id = len(state.clusters) + t
    name, old_name = min(kept.name, gone.name), max(kept.name, gone.name)
    row.name = name
    row.old_name = old_name
    kept.name = name
    state.names[name].handle = large
    state.names[old_name].handle = -1
    _set_score(state, old_name, -1.0)
    state.counts[N_MERGED] += 1
    state.counts[N_LIVE] -= 1


@kernel
def _remeasure(state: MergeState, rule: MergeRule, merged: int) -> None:
    """Measure the merged cluster's edges again and rescore every cluster this concerns."""
    half = state.clusters[merged].first_half
    while half != -1:
        handle = state.halves[half].other
        other = state.clusters[handle]
        state.half_to[handle] = -1
        old = state.halves[half].affinity
        new = _measure(state, merged, half)
        if rule.n_structure == 1 and new > other.best_affinity:
            other.best = merged
            other.best_affinity = new
            other.kth_affinity = new
            _set_score(state, other.name, new)
        elif max(old, new) >= other.kth_affinity:
            _rescore(state, rule, handle)
        half = state.halves[half].next
    _rescore(state, rule, merged)
    if state.counts[N_LIVE] - 1 < rule.n_structure:  # fewer neighbours than K_c: every score changes its form
        for name in range(len(state.names)):
            if state.names[name].handle != -1:
                _rescore(state, rule, state.names[name].handle)


@kernel
def _merge(state: MergeState, rule: MergeRule, i: int, j: int, affinity: float) -> None:
    """Merge clusters i and j (handles) and bring every affinity and score up to date."""
    one, two = state.clusters[i], state.clusters[j]
    is_swapped = one.size < two.size or (one.size == two.size and one.name > two.name)
    large, small = (j, i) if is_swapped else (i, j)
    by_large = by_small = 1.0
    if rule.update == APPROX_SIZE:
        size = one.size + two.size
        by_large, by_small = size / state.clusters[large].size, size / state.clusters[small].size
    elif rule.update == APPROX_ALPHA:
        by_large = by_small = 1.0 + rule.alpha
    n_crossed = _cross_terms(state, large, small) if rule.update == EXACT else 0
    _join_edges(state, large, small, by_large, by_small)
    _write_history(state, large, small, affinity)
    _join_lists(state, large, small)
    _add_cross(state, large, n_crossed)
    _remeasure(state, rule, large)


@kernel
def run(state: MergeState, rule: MergeRule, n_clusters: int, first: int, second: int) -> int:
    """Merge best pairs until `n_clusters` are left, no affinity is, or the edge pool needs to grow.

    If `first` and `second` are clusters (handles, not -1) that pair comes first, as a merge without affinity.
    """
    while state.counts[N_LIVE] > n_clusters:
        if state.counts[N_FREE] < 2 * state.counts[N_LIVE]:  # a merge makes fewer new edges than there are clusters
            return FULL
        affinity = 0.0
        if first == -1:
            name = state.winner[1]
            if not state.names[name].score > 0.0:
                return ISOLATED
            first = state.names[name].handle
            second = state.clusters[first].best
            affinity = state.clusters[first].best_affinity
        _merge(state, rule, first, second, affinity)
        first = second = -1
    return DONE


@kernel
def add_rows(rows: npt.NDArray[Any], labels: I64, sums: F64) -> None:
    """Add each row to the sum of its label, one pass over memory: features are the largest array there is."""
    for i in range(len(rows)):
        for d in range(rows.shape[1]):
            sums[labels[i], d] += rows[i, d]
