"""Compiled part of the zeta and path-integral agglomerations.

Both measure a cluster by walks inside it. A = z P holds the weights of single steps, so that a walk weighs the
product of its steps and (I - A)^-1 = I + A + A^2 + ... sums all walks. Rows of A sum to z, which is small: walks of
length t weigh at most z^t in all, and sums over walks end after a few steps. No linear system is ever solved.

What a merge adds is always a sum over walks that visit both clusters. Computing it as such, and not as the
difference of two large sums, keeps digits and touches the neighbourhood of the border only.

Letters: n items, c clusters; U the union of clusters i and j; own, other: the two clusters from one side.
Work arrays are zero between calls.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from selfsort.graph.jit import kernel
from selfsort.types import F64, I64

I32 = npt.NDArray[np.int32]


class Arcs(NamedTuple):
    """A sparse matrix by rows, no stored zeros."""

    ptr: I64
    idx: I32
    weight: F64


class Steps(NamedTuple):
    """A by the item a step leaves, and by the item it arrives at."""

    out: Arcs
    into: Arcs


class Scratch(NamedTuple):
    """Work arrays."""

    values: F64  # (4, n)
    lists: I32  # (4, n)
    hops: I32  # (2, n)
    cluster: F64  # (6, c)
    is_met: npt.NDArray[np.bool_]  # (c,)
    met: I32  # (c,)


@kernel
def _meet(scratch: Scratch, other: int, n_met: int) -> int:
    """Remember a cluster that has come up."""
    if not scratch.is_met[other]:
        scratch.is_met[other] = True
        scratch.met[n_met] = other
        n_met += 1
    return n_met


@kernel
def path_sums(steps: Steps, label: I64, members: I64, sums: tuple[F64, F64]) -> None:
    """Set x = (I - A)^-1 1 and y = 1' (I - A)^-1 inside the members' cluster, by repeated substitution."""
    own = label[members[0]]
    for arcs, total in ((steps.out, sums[0]), (steps.into, sums[1])):
        change = 1.0
        while change > 1e-15:
            change = 0.0
            for v in members:
                value = 1.0
                for t in range(arcs.ptr[v], arcs.ptr[v + 1]):
                    if label[arcs.idx[t]] == own:
                        value += arcs.weight[t] * total[arcs.idx[t]]
                change = max(change, abs(value - total[v]) / value)
                total[v] = value


@kernel
def path_bounds(
    steps: Steps, label: I64, sizes: I64, members: I64, sums: tuple[F64, F64], tail: float, scratch: Scratch
) -> tuple[I32, F64]:
    """Return the clusters with an affinity to the members' cluster, and an upper bound of each affinity.

    What cluster i gains from j is e' (I - A_UU)^-1 r, with r the steps from j into i times x, and e (exits) those
    from i into j times y. Its first term e' r is taken as it is; the others add at most z / (1 - z) sum(e) max(r).
    """
    own = label[members[0]]
    from_x, into_y = sums
    product, leaving, arriving = scratch.cluster[0], scratch.cluster[1], scratch.cluster[2]
    product_own, leaving_own, arriving_own = scratch.cluster[3], scratch.cluster[4], scratch.cluster[5]
    r, exits, here_r, here_exits = scratch.values[0], scratch.values[1], scratch.values[2], scratch.values[3]
    touched, around = scratch.lists[0], scratch.lists[1]
    n_met, n_touched = 0, 0
    for v in members:
        n_here = 0  # clusters around v; an index below c fits the item arrays
        for t in range(steps.out.ptr[v], steps.out.ptr[v + 1]):
            w = steps.out.idx[t]
            q = label[w]
            if q != own:
                if r[w] == 0.0 and exits[w] == 0.0:
                    touched[n_touched] = w
                    n_touched += 1
                exits[w] += into_y[v] * steps.out.weight[t]
                if here_r[q] == 0.0 and here_exits[q] == 0.0:
                    around[n_here] = q
                    n_here += 1
                here_r[q] += steps.out.weight[t] * from_x[w]
        for t in range(steps.into.ptr[v], steps.into.ptr[v + 1]):
            w = steps.into.idx[t]
            q = label[w]
            if q != own:
                if r[w] == 0.0 and exits[w] == 0.0:
                    touched[n_touched] = w
                    n_touched += 1
                r[w] += steps.into.weight[t] * from_x[v]
                if here_r[q] == 0.0 and here_exits[q] == 0.0:
                    around[n_here] = q
                    n_here += 1
                here_exits[q] += into_y[w] * steps.into.weight[t]
        for t in range(n_here):
            q = around[t]
            n_met = _meet(scratch, q, n_met)
            product_own[q] += here_exits[q] * here_r[q]
            leaving_own[q] += here_exits[q]
            arriving_own[q] = max(arriving_own[q], here_r[q])
            here_r[q] = here_exits[q] = 0.0
    for t in range(n_touched):
        w = touched[t]
        q = label[w]
        product[q] += exits[w] * r[w]
        leaving[q] += exits[w]
        arriving[q] = max(arriving[q], r[w])
        r[w] = exits[w] = 0.0
    clusters, upper = np.empty(n_met, dtype=np.int32), np.empty(n_met)
    n_kept = 0
    for t in range(n_met):
        q = scratch.met[t]
        gain_own = (product[q] + tail * leaving[q] * arriving[q]) / (float(sizes[own]) * float(sizes[own]))
        gain_other = (product_own[q] + tail * leaving_own[q] * arriving_own[q]) / (float(sizes[q]) * float(sizes[q]))
        if gain_own + gain_other > 0.0:
            clusters[n_kept], upper[n_kept] = q, gain_own + gain_other
            n_kept += 1
        scratch.cluster[:, q] = 0.0
        scratch.is_met[q] = False
    return clusters[:n_kept], upper[:n_kept]


@kernel
def _path_gain(
    steps: Steps, label: I64, own: int, other: int, union: I64, sums: tuple[F64, F64], n_terms: int, scratch: Scratch
) -> float:
    """Return e' (I - A_UU)^-1 r: the walks from `own` to `own` inside U that visit `other`."""
    from_x, into_y = sums
    exits, walk, after = scratch.values[0], scratch.values[1], scratch.values[2]
    leaving = 0.0
    for w in union:
        if label[w] == other:
            for t in range(steps.out.ptr[w], steps.out.ptr[w + 1]):
                if label[steps.out.idx[t]] == own:
                    walk[w] += steps.out.weight[t] * from_x[steps.out.idx[t]]
            for t in range(steps.into.ptr[w], steps.into.ptr[w + 1]):
                if label[steps.into.idx[t]] == own:
                    exits[w] += into_y[steps.into.idx[t]] * steps.into.weight[t]
            leaving += exits[w]
    total = 0.0
    for _ in range(n_terms):
        largest = 0.0
        for w in union:
            total += exits[w] * walk[w]
            largest = max(largest, walk[w])
        if largest * leaving <= 1e-13 * total:  # also when there is no way over and back: 0 <= 0
            break
        for v in union:
            value = 0.0
            for t in range(steps.out.ptr[v], steps.out.ptr[v + 1]):
                q = label[steps.out.idx[t]]
                if q in (own, other):
                    value += steps.out.weight[t] * walk[steps.out.idx[t]]
            after[v] = value
        for v in union:
            walk[v] = after[v]
    for w in union:
        exits[w] = walk[w] = after[w] = 0.0
    return total


@kernel
def path_affinity(
    steps: Steps, label: I64, pair: tuple[I64, I64], sums: tuple[F64, F64], n_terms: int, scratch: Scratch
) -> float:
    """Return what the path integrals per squared size of two clusters (their members) gain from each other."""
    members_i, members_j = pair
    i, j = label[members_i[0]], label[members_j[0]]
    union = np.concatenate((members_i, members_j))
    size_i, size_j = float(len(members_i)), float(len(members_j))
    gain_i = _path_gain(steps, label, i, j, union, sums, n_terms, scratch)
    gain_j = _path_gain(steps, label, j, i, union, sums, n_terms, scratch)
    return gain_i / (size_i * size_i) + gain_j / (size_j * size_j)


@kernel
def _spread(arcs: Arcs, label: I64, i: int, j: int, walk: F64, items: I32, n_items: int, to: F64, found: I32) -> int:
    """Move a sparse vector one step on inside clusters i and j; it is zero afterwards. Return the items reached."""
    n_found = 0
    for s in range(n_items):
        v = items[s]
        value = walk[v]
        walk[v] = 0.0
        for t in range(arcs.ptr[v], arcs.ptr[v + 1]):
            u = arcs.idx[t]
            added = value * arcs.weight[t]
            if (label[u] == i or label[u] == j) and added > 0.0:
                if to[u] == 0.0:
                    found[n_found] = u
                    n_found += 1
                to[u] += added
    return n_found


@kernel
def closed_walks(steps: Steps, label: I64, v: int, i: int, j: int, half: int, scratch: Scratch) -> float:
    """Return the weight of the walks of 2 .. 2 half steps from v back to v inside clusters i and j.

    Walks from v and walks to v are followed half the length each; where they meet, they close.
    """
    ahead, next_ahead, back, next_back = scratch.values[0], scratch.values[1], scratch.values[2], scratch.values[3]
    reached, next_reached, origins, next_origins = (
        scratch.lists[0],
        scratch.lists[1],
        scratch.lists[2],
        scratch.lists[3],
    )
    ahead[v] = back[v] = 1.0
    reached[0] = origins[0] = v
    n_reached = n_origins = 1
    total = 0.0
    for length in range(1, half + 1):
        n_reached = _spread(steps.out, label, i, j, ahead, reached, n_reached, next_ahead, next_reached)
        ahead, next_ahead, reached, next_reached = next_ahead, ahead, next_reached, reached
        if length > 1:
            for s in range(n_origins):
                total += back[origins[s]] * ahead[origins[s]]
        n_origins = _spread(steps.into, label, i, j, back, origins, n_origins, next_back, next_origins)
        back, next_back, origins, next_origins = next_back, back, next_origins, origins
        for s in range(n_origins):
            total += back[origins[s]] * ahead[origins[s]]
    for s in range(n_reached):
        ahead[reached[s]] = 0.0
    for s in range(n_origins):
        back[origins[s]] = 0.0
    return total


@kernel
def zeta_diagonal(steps: Steps, label: I64, self_step: F64, half: int, diagonal: F64, scratch: Scratch) -> None:
    """Fill the diagonal of (I - A_CC)^-1 for every item and its own cluster C."""
    for v in range(len(label)):
        own = label[v]
        diagonal[v] = 1.0 + self_step[v] + closed_walks(steps, label, v, own, own, half, scratch)


@kernel
def zeta_bounds(
    steps: Steps, label: I64, sizes: I64, members: I64, column_max: F64, tail: float, scratch: Scratch
) -> tuple[I32, F64, F64]:
    """Return the clusters with an affinity to the members' cluster, an upper bound of each, and its uncertain part.

    An affinity is at most (1/|i| + 1/|j|) times the closed walks that visit both clusters. Those of two steps are
    counted. A longer one takes some step a -> b from i to j and returns; arriving at a, it weighs at most
    the largest weight of a single step into a. The same holds for steps from j to i: the smaller sum counts.
    """
    own = label[members[0]]
    mutual, out_sum, into_sum = scratch.cluster[0], scratch.cluster[1], scratch.cluster[2]
    returning = scratch.values[0]
    n_met = 0
    for v in members:
        for t in range(steps.into.ptr[v], steps.into.ptr[v + 1]):
            w = steps.into.idx[t]
            if label[w] != own:
                n_met = _meet(scratch, label[w], n_met)
                returning[w] = steps.into.weight[t]
                into_sum[label[w]] += steps.into.weight[t] * column_max[w]
        for t in range(steps.out.ptr[v], steps.out.ptr[v + 1]):
            w = steps.out.idx[t]
            if label[w] != own:
                n_met = _meet(scratch, label[w], n_met)
                mutual[label[w]] += steps.out.weight[t] * returning[w]
                out_sum[label[w]] += steps.out.weight[t] * column_max[v]
        for t in range(steps.into.ptr[v], steps.into.ptr[v + 1]):
            returning[steps.into.idx[t]] = 0.0
    clusters, upper, spread = np.empty(n_met, dtype=np.int32), np.empty(n_met), np.empty(n_met)
    n_kept = 0
    for t in range(n_met):
        q = scratch.met[t]
        per_item = 1.0 / float(sizes[own]) + 1.0 / float(sizes[q])
        around = min(out_sum[q], into_sum[q])
        if around > 0.0:
            clusters[n_kept] = q
            spread[n_kept] = per_item * around
            upper[n_kept] = per_item * mutual[q] + tail * spread[n_kept]
            n_kept += 1
        scratch.cluster[:, q] = 0.0
        scratch.is_met[q] = False
    return clusters[:n_kept], upper[:n_kept], spread[:n_kept]


@kernel
def _count_hops(arcs: Arcs, label: I64, members: I64, own: int, limit: int, hops: I32, queue: I32) -> int:
    """Number the items of `own` by their distance from the members of the other cluster; return how many are near."""
    n_found, n_done = 0, 0
    for w in members:
        for t in range(arcs.ptr[w], arcs.ptr[w + 1]):
            v = arcs.idx[t]
            if label[v] == own and hops[v] == 0:
                hops[v] = 1
                queue[n_found] = v
                n_found += 1
    while n_done < n_found:
        v = queue[n_done]
        n_done += 1
        if hops[v] < limit:
            for t in range(arcs.ptr[v], arcs.ptr[v + 1]):
                u = arcs.idx[t]
                if label[u] == own and hops[u] == 0:
                    hops[u] = hops[v] + 1
                    queue[n_found] = u
                    n_found += 1
    return n_found


@kernel
def _near_border(steps: Steps, label: I64, own: int, others: I64, length: int, scratch: Scratch) -> I32:
    """Return the items of `own` from which a walk of at most `length` steps visits the other cluster and returns."""
    there, back = scratch.hops[0], scratch.hops[1]
    queue, back_queue = scratch.lists[0], scratch.lists[1]
    n_there = _count_hops(steps.into, label, others, own, length - 1, there, queue)
    n_back = _count_hops(steps.out, label, others, own, length - 1, back, back_queue)
    near = np.empty(n_there, dtype=np.int32)
    n_near = 0
    for s in range(n_there):
        v = queue[s]
        if back[v] > 0 and there[v] + back[v] <= length:
            near[n_near] = v
            n_near += 1
    for s in range(n_there):
        there[queue[s]] = 0
    for s in range(n_back):
        back[back_queue[s]] = 0
    return near[:n_near]


@kernel
def _zeta_gain(
    steps: Steps, label: I64, own: int, others: I64, half: int, diagonal: F64, is_final: bool, scratch: Scratch
) -> float:
    """Return the sum over `own` of log(diagonal in U / diagonal in own); `is_final` moves the diagonal to U."""
    other = label[others[0]]
    near = _near_border(steps, label, own, others, 2 * half, scratch)
    total = 0.0
    for v in near:
        # The two sums run in the same order: without a visit to the other cluster the difference is exactly zero.
        both = closed_walks(steps, label, v, own, other, half, scratch)
        alone = closed_walks(steps, label, v, own, own, half, scratch)
        total += np.log1p((both - alone) / diagonal[v])
        if is_final:
            diagonal[v] += both - alone
    return total


@kernel
def zeta_affinity(
    steps: Steps, label: I64, pair: tuple[I64, I64], half: int, diagonal: F64, is_final: bool, scratch: Scratch
) -> float:
    """Return what the zeta entropies of two clusters (their members) gain; `is_final` prepares their merge."""
    members_i, members_j = pair
    i, j = label[members_i[0]], label[members_j[0]]
    gain_i = _zeta_gain(steps, label, i, members_j, half, diagonal, is_final, scratch)
    gain_j = _zeta_gain(steps, label, j, members_i, half, diagonal, is_final, scratch)
    return gain_i / float(len(members_i)) + gain_j / float(len(members_j))
