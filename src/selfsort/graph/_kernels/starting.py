"""The tables that merging starts from: the frontier of every start cluster, and the edges between them.

Letters and tables are those of `agglomerate`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from selfsort.graph._kernels.agglomerate import _new_half, _pair
from selfsort.graph._kernels.frontiers import _add_term
from selfsort.graph._kernels.tables import I32, N_FREE, N_LIVE, MergeState, Records
from selfsort.graph.jit import kernel
from selfsort.types import F64, I64


class Arcs(NamedTuple):
    """A sparse table by rows."""

    begin: I32  # (rows + 1,)
    item: I32
    weight: F64


@kernel
def _enter(front: Records, place: int, item: int, leaving: float) -> None:
    """Begin an entry of a frontier."""
    front[place].item = item
    front[place].arriving = 0.0
    front[place].leaving = leaving


@kernel
def fill_frontiers(out: Arcs, into: Arcs, members: Arcs, moved_to: I32, items: Records, front: Records) -> I64:
    """Write the frontiers of the start clusters, one after the other; return where each begins, and the end.

    Arcs and members know items by the numbers from before these were put in order. Entries and sums have the order in
    which arcs are met, with those items first that weight only leaves: floats depend on it.
    """
    n_start = len(members.begin) - 1
    begin = np.zeros(n_start + 1, dtype=np.int64)
    end = 0
    for c in range(n_start):
        for m in range(members.begin[c], members.begin[c + 1]):
            v = members.item[m]
            for arc in range(into.begin[v], into.begin[v + 1]):
                u = moved_to[into.item[arc]]
                if items[u].label == c:
                    continue
                if items[u].place == -1:
                    items[u].place = end
                    _enter(front, end, u, 0.0)
                    end += 1
                front[items[u].place].leaving += into.weight[arc]
        n_left = end
        for m in range(members.begin[c], members.begin[c + 1]):
            v = members.item[m]
            for arc in range(out.begin[v], out.begin[v + 1]):
                u = moved_to[out.item[arc]]
                if items[u].label == c:
                    continue
                place = items[u].place
                if place < n_left:  # not met, or only left so far
                    items[u].place = end
                    if place == -1:
                        _enter(front, end, u, 0.0)
                    else:
                        _enter(front, end, u, front[place].leaving)
                        front[place].item = -1
                    end += 1
                front[items[u].place].arriving += out.weight[arc]
        kept = begin[c]
        for t in range(begin[c], end):
            u = front[t].item
            if u == -1:
                continue
            items[u].place = -1
            if front[t].arriving > 0.0 or front[t].leaving > 0.0:
                front[kept] = front[t]
                kept += 1
        end = kept
        begin[c + 1] = end
    return begin


@kernel
def link(state: MergeState, first: int) -> int:
    """Write down the flows into start clusters from `first` on; return the first one that there may be no room for.

    The half-edges of a cluster are side by side. Those whose other end has no flow into it are left without a twin.
    """
    halves, front = state.halves, state.front
    for c in range(first, len(state.clusters)):
        if state.counts[N_FREE] < state.counts[N_LIVE]:
            return c
        n_crossed = 0
        for t in range(state.chunks[c].begin, state.chunks[c].end):
            flow = front[t].arriving * front[t].leaving
            if flow > 0.0:
                n_crossed = _add_term(state, state.items[front[t].item].label, flow, n_crossed)
        for t in range(n_crossed):
            other = state.crossed[t]
            half = _new_half(state, c, other, state.cross[other])
            state.cross[other] = 0.0
            if other < c:
                twin = state.clusters[other].first_half
                while twin != -1 and halves[twin].other != c:
                    twin = halves[twin].next
                if twin != -1:
                    _pair(state, half, twin)
    return len(state.clusters)


@kernel
def add_twins(state: MergeState, first: int) -> int:
    """Make twins for half-edges without one, from cluster `first` on; return as `link` does."""
    for c in range(first, len(state.clusters)):
        if state.counts[N_FREE] < state.counts[N_LIVE]:
            return c
        half = state.clusters[c].first_half
        while half != -1:
            if state.halves[half].twin == -1:
                _pair(state, half, _new_half(state, state.halves[half].other, c, 0.0))
            half = state.halves[half].next
    return len(state.clusters)
