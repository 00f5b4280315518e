"""Around the merge kernel: build its tables, let them grow, help it over clusters without affinity, keep history."""

from __future__ import annotations

import heapq
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from selfsort.errors import invalid
from selfsort.graph._kernels import agglomerate as kernels
from selfsort.graph._kernels.agglomerate import I32, MergeRule, MergeState, Records
from selfsort.graph.absorb import member_sums
from selfsort.graph.tree import BY_ISOLATION, MergeTree
from selfsort.progress import track
from selfsort.types import F64, I64


def merge_down(
    weights: csr_array, labels: I64, n_clusters: int, rule: MergeRule, features: npt.NDArray[Any] | None
) -> MergeTree:
    """Merge the start clusters 0..c-1 until `n_clusters` are left."""
    n_start = int(labels.max()) + 1
    state = _first_state(weights, labels, rule)
    kernels.start(state, rule)
    reasons = np.zeros(max(n_start - n_clusters, 0), dtype=np.int8)
    loners: _Loners | None = None
    # A hundred stops on the way: progress is shown and an interrupt is heard.
    stops = np.unique(np.linspace(n_clusters, n_start, 101).astype(np.int64))[-2::-1]
    for stop in track(stops, "merging clusters", len(stops)):
        first = second = -1
        while (outcome := kernels.run(state, rule, int(stop), first, second)) != kernels.DONE:
            if outcome == kernels.FULL:
                state, first, second = _grown(state), -1, -1  # a pair passed in is merged before room runs out
                continue
            loners = loners or _Loners(features, state)
            first, second = loners.pick(state)
            reasons[state.counts[kernels.N_MERGED]] = BY_ISOLATION
    merges = state.merges[: state.counts[kernels.N_MERGED]]
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

    def __init__(self, features: npt.NDArray[Any] | None, state: MergeState) -> None:
        if features is None:
            raise invalid(
                "features",
                "be given when the graph has more connected components than n_clusters",
                None,
                "Pass features, or raise the number of neighbours.",
            )
        self.features = features
        self.names: I64 = np.flatnonzero(state.names["handle"] != -1)
        self.sums: F64 | None = None  # of the features of each cluster in `names`, once they are needed
        self.n_seen = int(state.counts[kernels.N_MERGED])
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
            owners = np.searchsorted(self.names, state.clusters["name"][state.items["label"]])
            self.sums = member_sums(self.features, owners, len(self.names))
        sizes, names = state.clusters["size"], state.clusters["name"][rivals]
        own = self.sums[np.searchsorted(self.names, name)] / sizes[handle]
        gaps = self.sums[np.searchsorted(self.names, names)] / sizes[rivals][:, None] - own
        nearest = np.lexsort((names, np.einsum("cd,cd->c", gaps, gaps)))[0]
        return handle, int(rivals[nearest])

    def _catch_up(self, state: MergeState) -> None:
        """Take in what has been merged since the last pick."""
        n_start, n_merged = len(state.clusters), int(state.counts[kernels.N_MERGED])
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


def _indicator(labels: I64, n_labels: int) -> csr_array:
    """Return the (n_labels, N) table with a one where an item belongs to a cluster."""
    n_items = len(labels)
    return csr_array((np.ones(n_items), (labels, np.arange(n_items))), shape=(n_labels, n_items))


def _first_state(weights: csr_array, labels: I64, rule: MergeRule) -> MergeState:
    """Fill the tables for the start clusters."""
    n_items, n_start = len(labels), int(labels.max()) + 1
    front_ptr, front = _first_frontiers(weights, labels, n_start)
    ends, flows = _first_edges(front_ptr, front, labels)
    n_edges = len(ends)
    n_places = n_edges + 2 * n_start
    items = np.zeros(n_items, dtype=kernels.ITEM)
    items["label"], items["place"] = labels, -1
    clusters = np.zeros(n_start, dtype=kernels.CLUSTER)
    chunks = np.zeros(n_start, dtype=kernels.CHUNK)
    halves = np.zeros(2 * n_places, dtype=kernels.HALF)
    chunks["begin"], chunks["end"] = front_ptr[:-1], front_ptr[1:]
    chunks["next"] = -1
    next_item, clusters["first_item"], clusters["last_item"] = _chains(labels, n_items, n_start)
    halves["next"], clusters["first_half"], clusters["last_half"] = _chains(ends.ravel(), 2 * n_places, n_start)
    halves["owner"] = kernels.UNLINKED
    halves["owner"][: 2 * n_edges], halves["flow"][: 2 * n_edges] = ends.ravel(), flows.ravel()
    clusters["name"] = clusters["tree_id"] = clusters["first_chunk"] = clusters["last_chunk"] = np.arange(n_start)
    clusters["half_to"] = -1
    clusters["size"] = np.bincount(labels)
    n_names = 1 << max(n_start - 1, 1).bit_length()
    names = np.zeros(n_names, dtype=kernels.NAME)
    names["handle"], names["score"] = -1, -1.0
    names["handle"][:n_start] = np.arange(n_start)
    return MergeState(
        items=items,
        next_item=next_item.astype(np.int32),
        front=front,
        chunks=chunks,
        clusters=clusters,
        names=names,
        winner=np.tile(np.arange(n_names, dtype=np.int32), 2),
        halves=halves,
        free=np.roll(np.arange(n_places, dtype=np.int32), -n_edges),
        counts=np.array([n_start, 0, n_places - n_edges], dtype=np.int64),
        merges=np.zeros(n_start, dtype=kernels.MERGE),
        found=np.zeros(n_items, dtype=np.int32),
        crossed=np.zeros(n_start, dtype=np.int32),
        top=np.zeros(rule.n_structure),
    )


def _first_frontiers(weights: csr_array, labels: I64, n_start: int) -> tuple[I64, Records]:
    """Return the frontiers of the start clusters, one after the other, and where each begins."""
    members_CN = _indicator(labels, n_start)
    # Two tables in one, with an entry where either has one: weight arriving is the real part, leaving the other.
    both_CN = (members_CN @ weights + 1j * (members_CN @ weights.T)).tocsr()
    owner = np.repeat(np.arange(n_start), np.diff(both_CN.indptr))
    is_outside = labels[both_CN.indices] != owner
    front = np.empty(np.count_nonzero(is_outside), dtype=kernels.FRONT)
    front["item"] = both_CN.indices[is_outside]
    front["arriving"], front["leaving"] = both_CN.data.real[is_outside], both_CN.data.imag[is_outside]
    return np.concatenate([[0], np.cumsum(np.bincount(owner[is_outside], minlength=n_start))]), front


def _first_edges(front_ptr: I64, front: Records, labels: I64) -> tuple[I64, F64]:
    """Return the pairs of start clusters with an affinity, and the flows U into each of the two."""
    n_start = len(front_ptr) - 1
    flow = front["arriving"] * front["leaving"]
    is_used = flow > 0
    into = np.repeat(np.arange(n_start), np.diff(front_ptr))[is_used]
    source = labels[front["item"][is_used]]
    keys, pair = np.unique(np.minimum(into, source) * n_start + np.maximum(into, source), return_inverse=True)
    flows: F64 = np.bincount(2 * pair + (into > source), flow[is_used], minlength=2 * len(keys)).astype(np.float64)
    return np.stack([keys // n_start, keys % n_start], axis=1), flows.reshape(-1, 2)


def _chains(owners: I64, n_places: int, n_owners: int) -> tuple[I64, I64, I64]:
    """Return next, first and last of one linked list per owner, in ascending order; -1 is the end."""
    order = np.argsort(owners, kind="stable")
    sorted_owners = owners[order]
    following = np.full(n_places, -1, dtype=np.int64)
    is_inside = sorted_owners[1:] == sorted_owners[:-1]
    following[order[:-1][is_inside]] = order[1:][is_inside]
    first, last = np.full(n_owners, -1, dtype=np.int64), np.full(n_owners, -1, dtype=np.int64)
    first[sorted_owners[::-1]] = order[::-1]  # of several assignments to an owner the last one stays
    last[sorted_owners] = order
    return following, first, last


def _grown(state: MergeState) -> MergeState:
    """Return the state with half as many edge places again, and at least one more per start cluster."""
    n_old = len(state.free)
    n_new = n_old + n_old // 2 + len(state.clusters)
    halves = np.zeros(2 * n_new, dtype=kernels.HALF)
    halves["owner"] = kernels.UNLINKED
    halves[: 2 * n_old] = state.halves
    n_free = int(state.counts[kernels.N_FREE])
    free = np.zeros(n_new, dtype=np.int32)
    free[:n_free] = state.free[:n_free]
    free[n_free : n_free + n_new - n_old] = np.arange(n_old, n_new)
    state.counts[kernels.N_FREE] += n_new - n_old
    return state._replace(halves=halves, free=free)
