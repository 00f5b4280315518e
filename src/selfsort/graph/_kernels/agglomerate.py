"""Compiled part of the agglomeration: a sparse table of cluster affinities that shrinks merge by merge.

Letters: P -> Q is affinity of source P to destination Q; its un-normalised value U[Q, P] = |Q|^2 A(P -> Q) is the
sum over v in P of r(v) c(v), r(v) being the weight arriving at v from Q and c(v) the weight leaving v to Q.

Merging M and N into S leaves U[P, S] = U[P, M] + U[P, N]. The other direction needs cross terms,

    U[S, P] = U[M, P] + U[N, P] + sum over v in P of ( r_N(v) c_M(v) + r_M(v) c_N(v) ),

and v has a cross term only if it lies on the frontier of both M and N. What lies inside a cluster leaves its
frontier, so large clusters have small frontiers for their size, and two clusters of c items are merged in far
fewer than c K steps.

The table has an edge for each pair of clusters with a non-zero affinity, made of two half-edges h and h ^ 1, one in
the linked list of each cluster. An edge that dies leaves a list when the list is next walked.

A cluster has a handle (its place in the arrays; the larger cluster's survives a merge) and a name (the lowest
start label in it; ties go to the lowest name).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from selfsort.graph.jit import kernel
from selfsort.types import F64, I64

I32 = npt.NDArray[np.int32]
I8 = npt.NDArray[np.int8]
Records = npt.NDArray[Any]

# The frontier of a cluster Q: items v outside it with r(v), arriving from Q, and c(v), leaving to Q; each item once.
# It lies in chunks, one per start cluster. Item -1 is an entry out of use.
FRONT = np.dtype([("item", "i4"), ("arriving", "f8"), ("leaving", "f8")], align=True)
# The handle of the item's cluster; scratch: where the item is in the smaller cluster's frontier, -1 between merges.
ITEM = np.dtype([("label", "i4"), ("place", "i4")])
CHUNK = np.dtype([("next", "i4"), ("begin", "i8"), ("end", "i8")], align=True)
CLUSTER = np.dtype(
    [
        ("name", "i4"),
        ("first_item", "i4"),
        ("last_item", "i4"),
        ("first_chunk", "i4"),
        ("last_chunk", "i4"),
        ("first_half", "i4"),
        ("last_half", "i4"),
        ("best", "i4"),  # handle of the closest cluster, -1 for none
        ("half_to", "i4"),  # scratch: half-edge from the cluster being merged to this one, else -1
        ("tree_id", "i8"),  # number in the merge history
        ("size", "i8"),
        ("best_affinity", "f8"),
        ("kth_affinity", "f8"),  # smallest affinity that the score depends on
        ("cross", "f8"),  # scratch: cross terms of the exact update
    ],
    align=True,
)
HALF = np.dtype(
    [
        ("owner", "i4"),  # handle, or DEAD, or UNLINKED
        ("next", "i4"),  # linked list of a cluster's half-edges
        ("flow", "f8"),  # U arriving at the owner from the other end
        ("affinity", "f8"),  # A(owner, other end), the same on both halves
    ],
    align=True,
)
NAME = np.dtype([("handle", "i4"), ("score", "f8")], align=True)  # handle -1 and score -1 for names out of use
MERGE = np.dtype(
    [
        ("first", "i8"),  # number in the history of the cluster with the lower name
        ("second", "i8"),
        ("name", "i8"),
        ("old_name", "i8"),
        ("affinity", "f8"),
        ("size", "i8"),
    ]
)

DEAD, UNLINKED = -1, -2
# Places in MergeState.counts.
N_LIVE, N_MERGED, N_FREE = 0, 1, 2
# What `run` says when it stops.
DONE, ISOLATED, FULL = 0, 1, 2
# How the weight arriving at a merged cluster is found.
EXACT, APPROX_SIZE, APPROX_ALPHA = 0, 1, 2


# Compiled code on disk refers to the two classes below by name: a new name needs the old one to stay importable.


class MergeRule(NamedTuple):
    """What to merge and how to update."""

    update: int
    alpha: float
    structure_weight: float
    n_structure: int


class MergeState(NamedTuple):
    """All that changes while merging: n items, c start clusters, e edge places, p a power of two >= c."""

    items: Records  # (n,) ITEM
    next_item: I32  # (n,) linked list of a cluster's items
    front: Records  # FRONT
    chunks: Records  # (c,) CHUNK
    clusters: Records  # (c,) CLUSTER by handle
    names: Records  # (p,) NAME
    winner: I32  # (2p,) tournament over names
    halves: Records  # (2e,) HALF
    free: I32  # (e,) stack of unused edges
    counts: I64  # (3,)
    merges: Records  # (c,) MERGE
    # Scratch:
    found: I32  # (n,)
    crossed: I32  # (c,)
    top: F64  # (n_structure,)


@kernel
def _play(state: MergeState, place: int) -> None:
    """Replay the tournament from a place upwards; equal scores: the lower name wins."""
    while place >= 1:
        left, right = state.winner[2 * place], state.winner[2 * place + 1]
        state.winner[place] = left if state.names[left].score >= state.names[right].score else right
        place //= 2


@kernel
def _set_score(state: MergeState, name: int, score: float) -> None:
    state.names[name].score = score
    _play(state, (len(state.names) + name) // 2)


@kernel
def _unlink(state: MergeState, handle: int, before: int, half: int) -> None:
    """Take a dead half-edge out of its cluster's list; the edge's place is free once both lists have let go."""
    after = state.halves[half].next
    if before == -1:
        state.clusters[handle].first_half = after
    else:
        state.halves[before].next = after
    if after == -1:
        state.clusters[handle].last_half = before
    state.halves[half].owner = UNLINKED
    if state.halves[half ^ 1].owner == UNLINKED:
        state.free[state.counts[N_FREE]] = half // 2
        state.counts[N_FREE] += 1


@kernel
def _measure(state: MergeState, half: int) -> float:
    """Set the symmetric affinity A(P, Q) = A(P -> Q) + A(Q -> P) of an edge."""
    one, two = state.halves[half], state.halves[half ^ 1]
    size_one, size_two = float(state.clusters[one.owner].size), float(state.clusters[two.owner].size)
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
        if state.halves[half].owner == DEAD:
            _unlink(state, handle, before, half)
            half = after
            continue
        value = state.halves[half].affinity
        if value >= top[0] and value > 0.0:
            other = state.halves[half ^ 1].owner
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
    for half in range(0, len(state.halves), 2):
        if state.halves[half].owner >= 0:
            _measure(state, half)
    for handle in range(len(state.clusters)):
        _rescore(state, rule, handle)


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
                front[kept] = front[t]
                state.items[u].place = kept
                state.found[n_found] = u
                n_found += 1
                kept += 1
        before = _end_chunk(state, small, before, c, kept)
        c = state.chunks[c].next
    state.clusters[small].last_chunk = before
    return n_found


@kernel
def _fold(state: MergeState, large: int, small: int) -> int:
    """Walk the larger cluster's frontier and fold in the other's where both have an item: those have cross terms.

    Sums the terms by cluster and returns how many clusters have one. The entry folded in is marked by item -1.
    """
    front = state.front
    n_crossed = 0
    before, c = -1, state.clusters[large].first_chunk
    while c != -1:
        kept = state.chunks[c].begin
        for t in range(state.chunks[c].begin, state.chunks[c].end):
            u = front[t].item
            if u == -1 or state.items[u].label == large or state.items[u].label == small:
                continue
            front[kept] = front[t]
            if state.items[u].place != -1:
                one, two = front[kept], front[state.items[u].place]
                term = one.arriving * two.leaving + two.arriving * one.leaving
                one.arriving += two.arriving
                one.leaving += two.leaving
                two.item = -1
                if term > 0.0:
                    other = state.items[u].label
                    if state.clusters[other].cross == 0.0:
                        state.crossed[n_crossed] = other
                        n_crossed += 1
                    state.clusters[other].cross += term
            kept += 1
        before = _end_chunk(state, large, before, c, kept)
        c = state.chunks[c].next
    state.clusters[large].last_chunk = before
    return n_crossed


@kernel
def _cross_terms(state: MergeState, large: int, small: int) -> int:
    """Make the two frontiers one; sum the cross terms of the exact update and return how many clusters have one."""
    n_found = _spread(state, large, small)
    n_crossed = _fold(state, large, small)
    for t in range(n_found):
        state.items[state.found[t]].place = -1
    return n_crossed


@kernel
def _join_edges(state: MergeState, large: int, small: int, by_large: float, by_small: float) -> None:
    """Turn the edges of two clusters into those of one, with flows into it scaled by the update's factors."""
    halves = state.halves
    before, half = -1, state.clusters[large].first_half
    while half != -1:
        after = halves[half].next
        if halves[half ^ 1].owner == small:
            halves[half].owner = DEAD
            halves[half ^ 1].owner = DEAD
        if halves[half].owner == DEAD:
            _unlink(state, large, before, half)
        else:
            halves[half].flow *= by_large
            state.clusters[halves[half ^ 1].owner].half_to = half
            before = half
        half = after
    before, half = -1, state.clusters[small].first_half
    while half != -1:
        after = halves[half].next
        if halves[half].owner == DEAD:
            _unlink(state, small, before, half)
            half = after
            continue
        other = halves[half ^ 1].owner
        twin = state.clusters[other].half_to
        if twin == -1:
            halves[half].owner = large
            halves[half].flow *= by_small
            state.clusters[other].half_to = half
            before = half
        else:
            halves[twin].flow += by_small * halves[half].flow
            halves[twin ^ 1].flow += halves[half ^ 1].flow
            # The larger old affinity: the other cluster's score may have rested on either.
            halves[twin].affinity = max(halves[twin].affinity, halves[half].affinity)
            halves[half].owner = DEAD
            halves[half ^ 1].owner = DEAD
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


@kernel
def _new_half(state: MergeState, half: int, owner: int) -> None:
    """Put a half-edge without any flow at the front of a cluster's list."""
    cluster, new = state.clusters[owner], state.halves[half]
    new.owner = owner
    new.flow = 0.0
    new.affinity = 0.0
    new.next = cluster.first_half
    cluster.first_half = half
    if cluster.last_half == -1:
        cluster.last_half = half


@kernel
def _add_cross(state: MergeState, large: int, n_crossed: int) -> None:
    """Add the cross terms to the merged cluster's edges, making edges where there were none."""
    for t in range(n_crossed):
        other = state.crossed[t]
        half = state.clusters[other].half_to
        if half == -1:
            state.counts[N_FREE] -= 1
            half = 2 * state.free[state.counts[N_FREE]]
            _new_half(state, half, large)
            _new_half(state, half + 1, other)
        state.halves[half].flow += state.clusters[other].cross
        state.clusters[other].cross = 0.0


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
        handle = state.halves[half ^ 1].owner
        other = state.clusters[handle]
        other.half_to = -1
        old = state.halves[half].affinity
        new = _measure(state, half)
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
        if state.counts[N_FREE] < state.counts[N_LIVE]:  # one merge makes fewer new edges than there are clusters
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
