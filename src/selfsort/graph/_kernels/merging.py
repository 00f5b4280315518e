"""Around the merge kernel: build its tables, let them grow, help it over clusters without affinity, keep history."""

from __future__ import annotations

import heapq
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from selfsort.errors import invalid
from selfsort.graph._kernels import tables
from selfsort.graph._kernels.agglomerate import run, start
from selfsort.graph._kernels.starting import Arcs, add_twins, fill_frontiers, link
from selfsort.graph._kernels.tables import I32, MergeRule, MergeState, Records
from selfsort.graph.absorb import member_sums
from selfsort.graph.condensed import near_order
from selfsort.graph.tree import BY_ISOLATION, MergeTree
from selfsort.progress import track
from selfsort.types import F64, I64

_HALVES_EACH = 24
"""Half-edges that there is room for at first, for each start cluster: in a neighbour graph it has about twenty."""


def merge_down(
    weights: csr_array, labels: I64, n_clusters: int, rule: MergeRule, features: npt.NDArray[Any] | None
) -> MergeTree:
    """Merge the start clusters 0..c-1 until `n_clusters` are left."""
    n_start = int(labels.max()) + 1
    state, place = _first_state(weights, labels, rule)
    start(state, rule)
    reasons = np.zeros(max(n_start - n_clusters, 0), dtype=np.int8)
    loners: _Loners | None = None
    # A hundred stops on the way: progress is shown and an interrupt is heard.
    stops = np.unique(np.linspace(n_clusters, n_start, 101).astype(np.int64))[-2::-1]
    for stop in track(stops, "merging clusters", len(stops)):
        first = second = -1
        while (outcome := run(state, rule, int(stop), first, second)) != tables.DONE:
            if outcome == tables.FULL:
                state, first, second = _grown(state), -1, -1  # a pair passed in is merged before room runs out
                continue
            loners = loners or _Loners(features, state, place)
            first, second = loners.pick(state)
            reasons[state.counts[tables.N_MERGED]] = BY_ISOLATION
    merges = state.merges[: state.counts[tables.N_MERGED]]
    return MergeTree(
        start=labels,
        merges=np.stack([merges["first"], merges["second"]], axis=1),
        affinity=merges["affinity"].copy(),
        reasons=reasons,
        sizes=np.concatenate([np.bincount(labels), merges["size"]]),
    )


class _Loners:
    """Picks pairs to merge when no two clusters have any affinity: the smallest cluster and a near one.

    Near is the nearest centroid among the clusters that the graph has any arc to or from, or among all of them if it
    has none. Ties go to the lower name.
    """

    def __init__(self, features: npt.NDArray[Any] | None, state: MergeState, place: I32) -> None:
        if features is None:
            raise invalid(
                "features",
                "be given when the graph has more connected components than n_clusters",
                None,
                "Pass features, or raise the number of neighbours.",
            )
        self.features, self.place = features, place
        self.names: I64 = np.flatnonzero(state.names["handle"] != -1)
        self.sums: F64 | None = None  # of the features of each cluster in `names`, once they are needed
        self.n_seen = int(state.counts[tables.N_MERGED])
        live = state.clusters[state.names["handle"][self.names]]
        self.by_size = list(zip(live["size"].tolist(), live["name"].tolist(), live["tree_id"].tolist(), strict=True))
        heapq.heapify(self.by_size)

    def pick(self, state: MergeState) -> tuple[int, int]:
        """Return the handles of the two clusters to merge."""
        self._catch_up(state)
        while True:
            _, name, number = heapq.heappop(self.by_size)
            handle = int(state.names["handle"][name])
            if handle != -1 and state.clusters["tree_id"][handle] == number:
                break  # else the cluster has been merged since
        rivals = self._rivals(state, handle)
        if len(rivals) == 1:
            return handle, int(rivals[0])
        if self.sums is None:
            owners = np.searchsorted(self.names, state.clusters["name"][state.items["label"][self.place]])
            self.sums = member_sums(self.features, owners, len(self.names))
        sizes, names = state.clusters["size"], state.clusters["name"][rivals]
        own = self.sums[np.searchsorted(self.names, name)] / sizes[handle]
        gaps = self.sums[np.searchsorted(self.names, names)] / sizes[rivals][:, None] - own
        nearest = np.lexsort((names, np.einsum("cd,cd->c", gaps, gaps)))[0]
        return handle, int(rivals[nearest])

    def _catch_up(self, state: MergeState) -> None:
        """Take in what has been merged since the last pick."""
        n_start, n_merged = len(state.clusters), int(state.counts[tables.N_MERGED])
        for m in range(self.n_seen, n_merged):
            kept, gone, size = (int(state.merges[field][m]) for field in ("name", "old_name", "size"))
            if self.sums is not None:
                row, old_row = np.searchsorted(self.names, [kept, gone])
                self.sums[row] += self.sums[old_row]
            heapq.heappush(self.by_size, (size, kept, n_start + m))
        self.n_seen = n_merged

    def _rivals(self, state: MergeState, handle: int) -> I32:
        items: list[I32] = []
        chunk = int(state.clusters["first_chunk"][handle])
        while chunk != -1:
            items.append(state.front["item"][state.chunks["begin"][chunk] : state.chunks["end"][chunk]])
            chunk = int(state.chunks["next"][chunk])
        found = np.concatenate([np.zeros(0, dtype=np.int32), *items])
        near: I32 = np.unique(state.items["label"][found[found != -1]])
        everyone: I32 = state.names["handle"]
        near, everyone = near[near != handle], everyone[(everyone != -1) & (everyone != handle)]
        return near if len(near) else everyone


def _first_state(weights: csr_array, labels: I64, rule: MergeRule) -> tuple[MergeState, I32]:
    """Fill the tables for the start clusters; return them and the place of each item in them.

    Clusters, and with them their items, are put in an order in which neighbours are near: a merge looks up little
    else. Names and numbers in the history are those of the labels, so that no answer depends on the order.
    """
    n_items, n_start = len(labels), int(labels.max()) + 1
    order = near_order(weights)
    first = np.empty(n_start, dtype=np.int64)
    first[labels[order[::-1]]] = np.arange(n_items)[::-1]  # of several assignments to a label the last one stays
    name = np.argsort(first)
    handle = np.empty(n_start, dtype=np.int32)
    handle[name] = np.arange(n_start)
    members = csr_array((np.ones(n_items), (handle[labels], np.arange(n_items))), shape=(n_start, n_items))
    place = np.empty(n_items, dtype=np.int32)
    place[members.indices] = np.arange(n_items)
    items = np.zeros(n_items, dtype=tables.ITEM)
    items["label"], items["place"] = np.repeat(np.arange(n_start), np.diff(members.indptr)), -1
    front_ptr, front = _first_frontiers(weights, members, place, items)
    clusters = np.zeros(n_start, dtype=tables.CLUSTER)
    chunks = np.zeros(n_start, dtype=tables.CHUNK)
    chunks["begin"], chunks["end"], chunks["next"] = front_ptr[:-1], front_ptr[1:], -1
    clusters["first_item"], clusters["last_item"] = members.indptr[:-1], members.indptr[1:] - 1
    next_item = np.arange(1, n_items + 1, dtype=np.int32)
    next_item[clusters["last_item"]] = -1
    clusters["name"] = clusters["tree_id"] = name
    clusters["first_chunk"] = clusters["last_chunk"] = np.arange(n_start)
    clusters["first_half"] = clusters["last_half"] = clusters["index"] = -1
    clusters["size"], clusters["n_front"] = np.diff(members.indptr), np.diff(front_ptr)
    n_names = 1 << max(n_start - 1, 1).bit_length()
    names = np.zeros(n_names, dtype=tables.NAME)
    names["handle"], names["score"] = -1, -1.0
    names["handle"][:n_start] = handle
    n_places = _HALVES_EACH * n_start
    state = MergeState(
        items=items,
        next_item=next_item,
        front=front,
        chunks=chunks,
        clusters=clusters,
        names=names,
        winner=np.tile(np.arange(n_names, dtype=np.int32), 2),
        halves=np.empty(n_places, dtype=tables.HALF),
        free=np.arange(n_places, dtype=np.int32)[::-1].copy(),
        counts=np.array([n_start, 0, n_places], dtype=np.int64),
        wide=np.full(tables.N_WIDE, -1, dtype=np.int32),
        places=np.full((tables.N_WIDE, n_items), -1, dtype=np.int32),
        merges=np.zeros(n_start, dtype=tables.MERGE),
        found=np.zeros(n_items, dtype=np.int32),
        shared=np.zeros(n_items, dtype=np.int64),
        half_to=np.full(n_start, -1, dtype=np.int32),
        cross=np.zeros(n_start),
        crossed=np.zeros(n_start, dtype=np.int32),
        top=np.zeros(rule.n_structure),
    )
    for make in (link, add_twins):
        n_done = 0
        while (n_done := make(state, n_done)) < n_start:
            state = _grown(state)
    return state, place


def _first_frontiers(weights: csr_array, members: csr_array, place: I32, items: Records) -> tuple[I64, Records]:
    """Return the frontiers of the start clusters, one after the other, and where each begins."""
    out, into, inside = (Arcs(t.indptr, t.indices, t.data) for t in (weights, csr_array(weights.T), members))
    # The most there can be; what is not written to takes no memory, and goes back at the end.
    front = np.empty(2 * weights.nnz, dtype=tables.FRONT)
    begin: I64 = fill_frontiers(out, into, inside, place, items, front)
    front.resize(begin[-1], refcheck=False)
    return begin, front


def _grown(state: MergeState) -> MergeState:
    """Return the state with half as many places for half-edges again, and at least two more per start cluster."""
    n_old, n_free = len(state.free), int(state.counts[tables.N_FREE])
    n_new = n_old + n_old // 2 + 2 * len(state.clusters)
    halves = np.empty(n_new, dtype=tables.HALF)
    halves[:n_old] = state.halves
    free = np.zeros(n_new, dtype=np.int32)
    free[:n_free] = state.free[:n_free]
    free[n_free : n_free + n_new - n_old] = np.arange(n_old, n_new)[::-1]
    state.counts[tables.N_FREE] += n_new - n_old
    return state._replace(halves=halves, free=free)
