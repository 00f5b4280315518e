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

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from selfsort.graph.jit import kernel
from selfsort.types import F64, I64

I32 = npt.NDArray[np.int32]
I8 = npt.NDArray[np.int8]
Records = npt.NDArray[Any]

# The frontier of a cluster Q: items v outside it with r(v), arriving from Q, and c(v), leaving to Q; each item once.
# It lies in chunks, one per start cluster. Item -1 is an entry out of use. The rank counts the entries of a frontier
# that has an index.
FRONT = np.dtype([("item", "i4"), ("rank", "i4"), ("arriving", "f8"), ("leaving", "f8")], align=True)
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
        ("index", "i4"),  # row of the index of its frontier, -1 for none
        ("n_front", "i4"),  # entries of the frontier, some of them perhaps out of use
        ("n_ranks", "i4"),  # entries that its index has ever had
        ("tree_id", "i8"),  # number in the merge history
        ("size", "i8"),
        ("best_affinity", "f8"),
        ("kth_affinity", "f8"),  # smallest affinity that the score depends on
    ],
    align=True,
)
HALF = np.dtype(
    [
        ("other", "i4"),  # handle of the cluster at the other end, or DEAD
        ("twin", "i4"),  # the half-edge of that cluster, -1 while there is none
        ("next", "i4"),  # linked list of a cluster's half-edges
        ("flow", "f8"),  # U arriving at this end from the other
        ("affinity", "f8"),  # A of the two ends, the same on both halves
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

DEAD = -1
# A frontier is wide if it has more than so many times the entries of the one that it meets ...
WIDE = 8
# ... and so many have an index. The last few clusters are the wide ones: more would be used little.
N_WIDE = 8
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
    """All that changes while merging: n items, c start clusters, h places of half-edges, p a power of two >= c."""

    items: Records  # (n,) ITEM
    next_item: I32  # (n,) linked list of a cluster's items
    front: Records  # FRONT
    chunks: Records  # (c,) CHUNK
    clusters: Records  # (c,) CLUSTER by handle
    names: Records  # (p,) NAME
    winner: I32  # (2p,) tournament over names
    halves: Records  # (h,) HALF
    free: I32  # (h,) stack of unused places of half-edges
    counts: I64  # (3,)
    wide: I32  # (w,) handles of the clusters whose frontiers have an index, -1 for a free row
    places: I32  # (w, n) where in the frontier each item is, -1 for nowhere
    merges: Records  # (c,) MERGE
    # Scratch:
    found: I32  # (n,)
    shared: I64  # (n,)
    half_to: I32  # (c,) half-edge from the cluster being merged to each other one, else -1
    cross: F64  # (c,) cross terms of the exact update
    crossed: I32  # (c,) clusters that have such terms
    top: F64  # (n_structure,)


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
def add_term(state: MergeState, other: int, term: float, n_crossed: int) -> int:
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
    return add_term(state, state.items[item].label, term, n_crossed) if term > 0.0 else n_crossed


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
    if state.clusters[large].index == -1 and state.clusters[large].n_front > WIDE * n_found:
        _claim_index(state, large)
    if state.clusters[large].index == -1:
        n_crossed = _fold_walking(state, large, small)
    else:
        n_crossed = _fold_by_index(state, large, small, n_found)
    for t in range(n_found):
        state.items[state.found[t]].place = -1
    return n_crossed


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
def new_half(state: MergeState, handle: int, other: int, flow: float) -> int:
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
def pair(state: MergeState, one: int, two: int) -> None:
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
            pair(state, new_half(state, large, other, state.cross[other]), new_half(state, other, large, 0.0))
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
