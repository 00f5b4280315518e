"""ac-pic and ac-zell: agglomeration by path integrals and by zeta functions on a directed graph.

ac-pic   Zhang, Zhao, Wang, "Agglomerative clustering via maximum incremental path integral", Pattern Recognition 2013.
ac-zell  Zhao, Tang, "Cyclizing clusters via zeta function of a graph", NIPS 2008.

Both walk at random on the neighbour graph, one step costing a factor z, and ask how well a cluster holds a walker:
the path integral counts walks from anywhere to anywhere in it, the zeta function closed walks. The two clusters that
gain most from each other are merged.

    Q = I - z P,  P the row-normalised weights with a one on the diagonal,  U the union of clusters i and j
    path  h(C) = 1' Q[C,C]^-1 1 / |C|^2,           h(i|U) = 1_i' Q[U,U]^-1 1_i / |i|^2
    zeta  h(C) = mean log diag Q[C,C]^-1 over C,   h(i|U) = mean log diag Q[U,U]^-1 over i
    affinity(i, j) = h(i|U) + h(j|U) - h(i) - h(j)

How it is made fast without changing the answer: affinities are sums over walks that visit both clusters, of which
the shortest dominate because z is small. Every pair gets a cheap upper bound from the border between the two; only
pairs that could be the best are evaluated, and only as precisely as it takes to know that one is. Walks left out for
good weigh less than 1e-9 of the affinity.

Where we differ from the papers: pairs without a way over and back have no affinity and are merged by their
centroids once nothing else is left; outlier clusters are absorbed (`absorb`); the published rows are without it.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol

import numpy as np
import torch
from scipy.sparse import csr_array, diags_array, eye_array

from selfsort.classic import _path_kernels as kernels
from selfsort.classic._path_kernels import Arcs, Scratch, Steps
from selfsort.classic.gdl import merge_history, short_graph_note
from selfsort.classic.method import GraphConfig, Partition, classic_method
from selfsort.config import setting
from selfsort.graph.absorb import member_sums
from selfsort.graph.affinity import Scaling, digraph
from selfsort.graph.agglomerate import Agglomeration, nearest_neighbour_components, settle
from selfsort.graph.knn import nearest_neighbours
from selfsort.graph.neighbours import Neighbours
from selfsort.graph.tree import BY_AFFINITY, BY_ISOLATION, MergeTree
from selfsort.progress import track
from selfsort.types import F32, F64, I64

# Bounds are computed in floating point; this much is added so that rounding cannot turn one into an underestimate.
_ROUNDING = 1 + 1e-9
# Walks left out at the two precisions of a zeta affinity, as a fraction of it.
_COARSE, _FINE = 1e-5, 1e-9


@dataclass(frozen=True, kw_only=True)
class PathConfig(GraphConfig):
    """Settings of ac-pic and ac-zell."""

    K_s: int = setting(20, "neighbours of an image in the graph, and voters on a new image", "code")
    a: float = setting(1.0, "width of the graph: sigma^2 is a times the mean squared neighbour distance", "code")
    z: float = setting(0.01, "factor that each step of a walk costs", "code")
    graph: Literal["global", "local"] = setting("global", "one affinity width for all images, or one for each", "code")
    doubling: bool = setting(False, "double sigma^2 until each image's nearest neighbour has a weight of 1e-5", "code")
    centre: Literal["auto"] | bool = setting(
        "auto",
        "subtract the mean image first; auto: for the local graph only. Features of a run stay as they are",
        "code; that of the authors' later library",
    )
    absorb: bool = setting(True, "give clusters of a few images to their nearest large one at the end", "ours")

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require("K_s", self.K_s >= 1, "be at least 1")
        self.require("a", self.a > 0, "be positive")
        self.require("z", 0 < self.z < 1, "lie between 0 and 1", "Use 0.01, the published value.")


@dataclass(frozen=True, kw_only=True)
class ZetaConfig(PathConfig):
    """Settings of ac-zell."""

    a: float = setting(0.95, "width of the graph: sigma^2 is a times the mean squared neighbour distance", "code")


class Candidate(NamedTuple):
    """A pair of clusters that may be merged next; sorts by its upper bound, then by number."""

    minus_upper: float
    i: int
    j: int
    stamp_i: int
    """How often cluster i had grown when this was computed; an older candidate is void."""
    stamp_j: int
    level: int
    """How precisely the affinity is known."""
    value: float
    """The affinity is at least this."""
    spread: float
    """Scale of what is still uncertain."""


@dataclass(eq=False)
class Clusters:
    """The current clusters, by number; a merged cluster keeps the lower of the two."""

    label: I64
    members: list[I64]
    sizes: I64

    @classmethod
    def start(cls, labels: I64) -> Clusters:
        """Begin with labels 0..c-1."""
        sizes = np.bincount(labels).astype(np.int64)
        members = np.split(np.argsort(labels, kind="stable").astype(np.int64), np.cumsum(sizes)[:-1])
        return cls(labels.astype(np.int64).copy(), members, sizes)

    def merge(self, i: int, j: int) -> None:
        """Add cluster j to cluster i."""
        self.label[self.members[j]] = i
        self.members[i] = np.concatenate([self.members[i], self.members[j]])
        self.members[j] = np.empty(0, dtype=np.int64)
        self.sizes[i] += self.sizes[j]
        self.sizes[j] = 0


class Affinity(Protocol):
    """A way to measure pairs of clusters, ever more precisely."""

    n_levels: int

    def candidates(self, i: int) -> Iterator[tuple[int, float, float]]:
        """Each cluster that may have an affinity to i, an upper bound of it and its spread."""
        ...

    def refine(self, candidate: Candidate) -> tuple[float, float]:
        """Lower and upper bound of the affinity at the candidate's next level."""
        ...

    def merge(self, i: int, j: int) -> None:
        """Add cluster j to cluster i."""
        ...


class PathIntegral:
    """Affinity of ac-pic; evaluated to full precision in one go."""

    n_levels = 1

    def __init__(self, steps: Steps, clusters: Clusters, z: float) -> None:
        self.steps, self.clusters = steps, clusters
        self.scratch = make_scratch(len(clusters.label), len(clusters.sizes))
        self.tail = z / (1 - z)
        self.n_terms = 2 + math.ceil(math.log(1e-16) / math.log(z))
        self.sums = (np.ones(len(clusters.label)), np.ones(len(clusters.label)))
        for members in clusters.members:
            kernels.path_sums(steps, clusters.label, members, self.sums)

    def candidates(self, i: int) -> Iterator[tuple[int, float, float]]:
        """See `Affinity`."""
        state = self.clusters
        found, upper = kernels.path_bounds(
            self.steps, state.label, state.sizes, state.members[i], self.sums, self.tail, self.scratch
        )
        return zip(found.tolist(), upper.tolist(), [0.0] * len(found), strict=True)

    def refine(self, candidate: Candidate) -> tuple[float, float]:
        """See `Affinity`."""
        state = self.clusters
        pair = (state.members[candidate.i], state.members[candidate.j])
        value = kernels.path_affinity(self.steps, state.label, pair, self.sums, self.n_terms, self.scratch)
        return value, value

    def merge(self, i: int, j: int) -> None:
        """See `Affinity`."""
        self.clusters.merge(i, j)
        kernels.path_sums(self.steps, self.clusters.label, self.clusters.members[i], self.sums)


class Zeta:
    """Affinity of ac-zell; closed walks up to some length, longer ones where it matters."""

    n_levels = 2

    def __init__(self, steps: Steps, clusters: Clusters, z: float) -> None:
        self.steps, self.clusters = steps, clusters
        n_items = len(clusters.label)
        self.scratch = make_scratch(n_items, len(clusters.sizes))
        self.halves = [half_length(z, share) for share in (_COARSE, _FINE)]
        self.tails = [long_walks(z, 2), *(long_walks(z, 2 * half) for half in self.halves)]
        column_max = np.zeros(n_items)
        np.maximum.at(column_max, steps.out.idx, steps.out.weight)
        self.column_max: F64 = column_max
        sources = np.repeat(np.arange(n_items), np.diff(steps.out.ptr))
        is_loop = sources == steps.out.idx
        self_step = np.zeros(n_items)
        self_step[sources[is_loop]] = steps.out.weight[is_loop]
        self.diagonal: F64 = np.ones(n_items)
        kernels.zeta_diagonal(steps, clusters.label, self_step, self.halves[-1], self.diagonal, self.scratch)

    def candidates(self, i: int) -> Iterator[tuple[int, float, float]]:
        """See `Affinity`."""
        state = self.clusters
        found, upper, spread = kernels.zeta_bounds(
            self.steps, state.label, state.sizes, state.members[i], self.column_max, self.tails[0], self.scratch
        )
        return zip(found.tolist(), upper.tolist(), spread.tolist(), strict=True)

    def refine(self, candidate: Candidate) -> tuple[float, float]:
        """See `Affinity`."""
        value = self._measure(candidate.i, candidate.j, self.halves[candidate.level], is_final=False)
        return value, value + self.tails[candidate.level + 1] * candidate.spread

    def merge(self, i: int, j: int) -> None:
        """See `Affinity`."""
        # The coarse walks do: the diagonal is about one, and what they miss is far below its last digits that count.
        self._measure(i, j, self.halves[0], is_final=True)
        self.clusters.merge(i, j)

    def _measure(self, i: int, j: int, half: int, *, is_final: bool) -> float:
        state = self.clusters
        pair = (state.members[i], state.members[j])
        return kernels.zeta_affinity(self.steps, state.label, pair, half, self.diagonal, is_final, self.scratch)


def walk_steps(weights: csr_array, z: float) -> Steps:
    """A = z P: the graph with a one on the diagonal, rows scaled to sum to z."""
    whole = (weights + eye_array(weights.shape[0], format="csr")).tocsr()
    out = (diags_array(z / whole.sum(axis=1)) @ whole).tocsr()
    out.eliminate_zeros()
    out.sort_indices()
    into = out.T.tocsr()
    into.sort_indices()
    return Steps(_arcs(out), _arcs(into))


def _arcs(matrix: csr_array) -> Arcs:
    return Arcs(matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32), matrix.data)


def long_walks(z: float, length: int) -> float:
    """Sum over t > length of (t - 1) z^(t - 2): the weight of longer closed walks per unit of `spread`."""
    first = length - 1
    return (first + 1) * z**first / (1 - z) + z ** (first + 1) / (1 - z) ** 2


def half_length(z: float, share: float) -> int:
    """Half the length from which on closed walks weigh less than this share."""
    half = 1
    while long_walks(z, 2 * half) > share:
        half += 1
    return half


def make_scratch(n_items: int, n_clusters: int) -> Scratch:
    """Allocate the kernels' work arrays."""
    return Scratch(
        values=np.zeros((4, n_items)),
        lists=np.zeros((4, n_items), dtype=np.int32),
        hops=np.zeros((2, n_items), dtype=np.int32),
        cluster=np.zeros((6, n_clusters)),
        is_met=np.zeros(n_clusters, dtype=np.bool_),
        met=np.zeros(n_clusters, dtype=np.int32),
    )


def merge_down(affinity: Affinity, clusters: Clusters, n_clusters: int, features: F32) -> MergeTree:
    """Merge the best pair until `n_clusters` are left."""
    n_start = len(clusters.sizes)
    first_sizes, first_labels = clusters.sizes.copy(), clusters.label.astype(np.int64)
    stamps = [0] * n_start
    queue = _Queue(affinity, stamps)
    for i in range(n_start):
        queue.add(i, only_above=True)
    tree_id = list(range(n_start))
    centroids: _Centroids | None = None
    merges, values, reasons, sizes = [], [], [], []
    n_merges = n_start - n_clusters
    for m in track(range(n_merges), "merging clusters", n_merges):
        best = queue.pop_best()
        if best is None:
            centroids = centroids or _Centroids(features, clusters)
            i, j = centroids.closest_to_smallest(clusters)
        else:
            i, j = best.i, best.j
        values.append(0.0 if best is None else best.value)
        reasons.append(BY_ISOLATION if best is None else BY_AFFINITY)
        merges.append((tree_id[i], tree_id[j]))
        affinity.merge(i, j)
        if centroids is not None:
            centroids.merge(i, j)
        sizes.append(int(clusters.sizes[i]))
        tree_id[i] = n_start + m
        stamps[i] += 1
        stamps[j] = -1
        queue.add(i)
    return MergeTree(
        start=first_labels,
        merges=np.array(merges, dtype=np.int64).reshape(-1, 2),
        affinity=np.array(values, dtype=np.float64),
        reasons=np.array(reasons, dtype=np.int8),
        sizes=np.concatenate([first_sizes, np.array(sizes, dtype=np.int64)]),
    )


class _Queue:
    """Candidates by their upper bound; the best one is refined until nothing else can beat it."""

    def __init__(self, affinity: Affinity, stamps: list[int]) -> None:
        self.affinity, self.stamps = affinity, stamps
        self.heap: list[Candidate] = []
        self.n_after_cleaning = 0

    def add(self, i: int, *, only_above: bool = False) -> None:
        """Put in every pair of cluster i (with a higher number only, to fill the queue without duplicates)."""
        for j, upper, spread in self.affinity.candidates(i):
            if j > i or not only_above:
                low, high = min(i, j), max(i, j)
                stamps = self.stamps[low], self.stamps[high]
                heapq.heappush(self.heap, Candidate(-upper * _ROUNDING, low, high, *stamps, 0, 0.0, spread))
        if len(self.heap) > 2 * self.n_after_cleaning + 10_000:
            self.heap = [candidate for candidate in self.heap if self._is_valid(candidate)]
            heapq.heapify(self.heap)
            self.n_after_cleaning = len(self.heap)

    def pop_best(self) -> Candidate | None:
        """Take out the pair with the largest affinity; None if no pair has any."""
        while self._drop_void():
            best = heapq.heappop(self.heap)
            is_settled = best.level == self.affinity.n_levels
            if is_settled or (self._drop_void() and best.value > -self.heap[0].minus_upper):
                return best
            value, upper = self.affinity.refine(best)
            if upper > 0:
                heapq.heappush(
                    self.heap, best._replace(minus_upper=-upper * _ROUNDING, level=best.level + 1, value=value)
                )
        return None

    def _drop_void(self) -> bool:
        """Clear what has been overtaken by merges off the top; False if nothing is left."""
        while self.heap and not self._is_valid(self.heap[0]):
            heapq.heappop(self.heap)
        return bool(self.heap)

    def _is_valid(self, candidate: Candidate) -> bool:
        return self.stamps[candidate.i] == candidate.stamp_i and self.stamps[candidate.j] == candidate.stamp_j


class _Centroids:
    """Feature sums of the current clusters, for those that nothing connects."""

    def __init__(self, features: F32, clusters: Clusters) -> None:
        self.sums = member_sums(features, clusters.label, len(clusters.sizes))

    def merge(self, i: int, j: int) -> None:
        """Add cluster j to cluster i."""
        self.sums[i] += self.sums[j]

    def closest_to_smallest(self, clusters: Clusters) -> tuple[int, int]:
        """The smallest cluster and the one with the nearest centroid, lower number first; ties to the lowest."""
        live = np.flatnonzero(clusters.sizes)
        sizes = clusters.sizes[live]
        smallest = int(np.argmin(sizes))
        gaps = self.sums[live] / sizes[:, None] - self.sums[live[smallest]] / sizes[smallest]
        sq_dist = np.einsum("cd,cd->c", gaps, gaps)
        sq_dist[smallest] = np.inf
        pair = int(live[smallest]), int(live[np.argmin(sq_dist)])
        return min(pair), max(pair)


def agglomerate_by_walks(
    weights: csr_array,
    first: I64,
    n_clusters: int,
    kind: type[PathIntegral | Zeta],
    z: float,
    features: F32,
    absorb: bool,
) -> Agglomeration:
    """Merge start clusters 0..c-1 down to `n_clusters`; fewer start clusters than that are split into single images."""
    is_split_start = int(first.max()) + 1 < n_clusters
    start = np.arange(len(first)) if is_split_start else first
    clusters = Clusters.start(start)
    tree = merge_down(kind(walk_steps(weights, z), clusters, z), clusters, n_clusters, features)
    return settle(tree, n_clusters, features if absorb else None, is_split_start=is_split_start)


def _cluster(
    features: F32,
    config: PathConfig,
    device: torch.device,
    kind: type[PathIntegral | Zeta],
    neighbours: Neighbours | None,
) -> Partition:
    if neighbours is None:
        neighbours = nearest_neighbours(features, config.K_s, device=device)
    first = nearest_neighbour_components(neighbours)
    scaling: Scaling = config.graph
    weights = digraph(neighbours, scaling, config.a, config.doubling)
    merged = agglomerate_by_walks(weights, first, config.n_clusters, kind, config.z, features, config.absorb)
    if merged.is_split_start:
        first = np.arange(len(features))
    return Partition(
        merged.labels,
        neighbours=neighbours,
        warnings=(*short_graph_note(neighbours), *merged.warnings),
        extras=merge_history(merged, first),
        event={"starting_clusters": merged.n_start, "absorbed": merged.n_absorbed, "isolated": merged.n_isolated},
    )


def cluster_path(
    features: F32, config: PathConfig, *, seed: int, device: torch.device, neighbours: Neighbours | None = None
) -> Partition:
    """Maximum incremental path integral."""
    return _cluster(features, config, device, PathIntegral, neighbours)


def cluster_zeta(
    features: F32, config: ZetaConfig, *, seed: int, device: torch.device, neighbours: Neighbours | None = None
) -> Partition:
    """Zeta function of a graph."""
    return _cluster(features, config, device, Zeta, neighbours)


PATH = classic_method(
    "ac-pic",
    "agglomerative clustering by path integrals",
    "Zhang, Zhao and Wang, Pattern Recognition 2013",
    PathConfig,
    cluster_path,
)
ZETA = classic_method(
    "ac-zell",
    "agglomerative clustering by zeta functions of a graph",
    "Zhao and Tang, NIPS 2008",
    ZetaConfig,
    cluster_zeta,
)
