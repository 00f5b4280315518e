"""Communities of a neighbour graph: groups with more weight inside than their degrees alone would give (Leiden).

Reference: Traag, Waltman, van Eck, "From Louvain to Leiden", Scientific Reports 2019. The quality is the modularity
of Reichardt and Bornholdt: weight inside the communities minus `resolution` times what a random graph with the same
degrees would have there. A higher resolution gives more communities; the number is an answer, not a setting. Where
a number is asked for, the resolution is bisected and the few communities too many are merged along the same graph. Of
very many images the bisection sees small communities only (`condensed`).

The search itself is compiled (graspologic-native), runs on one thread and is decided by its seed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import graspologic_native
import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from selfsort.errors import invalid
from selfsort.graph.absorb import LARGE_SHARE
from selfsort.graph.agglomerate import Agglomeration, agglomerate
from selfsort.graph.condensed import (
    PER_START,
    STARTS_EACH,
    Arranged,
    Condensed,
    condense,
    modularity,
    settled,
    small_communities,
)
from selfsort.graph.neighbours import Neighbours
from selfsort.types import I64

# A second and third pass over a found partition gain a little modularity and steadier numbers; a fourth gains none.
_N_PASSES = 3
# Bisection of the resolution, on a logarithmic scale, between what gives one community and what gives single images.
_LOWEST, _HIGHEST, _N_BISECTIONS = 1e-3, 1e4, 24
# Neighbours of an image by the size of a cluster: few enough that they are of its own.
_CLUSTER_PER_WIDTH, _NARROWEST, _WIDEST = 14, 4, 14

CONDENSED_ABOVE = 100_000
"""Up to so many images the whole graph is searched at every step of the bisection."""


@dataclass(frozen=True, eq=False)
class Communities:
    """A partition of the graph."""

    labels: I64
    """(N,) communities in the order of their first items."""
    modularity: float
    """Share of the weight inside communities beyond chance, at the resolution it was found with."""
    resolution: float

    @property
    def n_clusters(self) -> int:
        """How many communities there are, tiny ones too."""
        return int(self.labels.max(initial=-1)) + 1

    def n_large(self, size: float) -> int:
        """How many communities hold at least so many items."""
        return int((np.bincount(self.labels) >= size).sum())


def community_width(n_images: int, n_clusters: int) -> int:
    """Return how many neighbours an image has in the graph: a fourteenth of a cluster, from 4 to 14.

    >>> [community_width(n, k) for n, k in ((575, 20), (1440, 20), (1797, 10), (9298, 10))]
    [4, 5, 13, 14]
    """
    return min(max(round(n_images / (_CLUSTER_PER_WIDTH * n_clusters)), _NARROWEST), _WIDEST)


def symmetric_affinities(neighbours: Neighbours, n_neighbours: int | None = None) -> csr_array:
    """Return the (N, N) undirected graph of exp(-d^2 / mean d^2), the mean of both directions; no zeros are stored.

    Two images that are each among the other's nearest get the whole weight, other neighbours half of it.

    Args:
        neighbours: who is near whom; -1 marks a place that nobody fills.
        n_neighbours: use only so many of them; None for all.
    """
    idx, sq_dist = neighbours.idx[:, :n_neighbours], neighbours.sq_dist[:, :n_neighbours]
    is_there = idx >= 0
    kept = ... if is_there.all() else is_there  # a mask copies: of a million images, hundreds of megabytes
    weights, columns = sq_dist[kept].astype(np.float64).ravel(), idx[kept].astype(np.int32).ravel()
    # The mean is zero where all images are the same; any scale then gives the weight one.
    weights /= -((float(weights.mean()) if len(weights) else 0.0) or 1.0)
    np.exp(weights, out=weights)
    ends = np.concatenate([[0], np.cumsum(is_there.sum(axis=1))])
    graph = csr_array((weights, columns, ends), shape=(len(idx), len(idx)))
    graph.sort_indices()  # two sorted graphs are added in one pass, and the sum is sorted too
    both = csr_array(graph + graph.T)
    both.data /= 2
    both.eliminate_zeros()
    return both


def find_communities(graph: csr_array, *, resolution: float = 1.0, seed: int = 0) -> Communities:
    """Partition an undirected graph; the number of communities follows from the graph and the resolution.

    Args:
        graph: (N, N) symmetric weights, from `symmetric_affinities`.
        resolution: above zero; 1 is Newman's modularity.
        seed: decides the order in which items are visited.
    """
    if resolution <= 0:
        raise invalid("resolution", "be above 0", resolution, "Use 1, the usual value.")
    n_items = graph.shape[0]
    if graph.nnz == 0:  # no two items are joined
        return Communities(np.arange(n_items, dtype=np.int64), 0.0, resolution)
    modularity, found = graspologic_native.leiden_csr(
        graph.indptr.astype(np.int64),
        graph.indices.astype(np.int32, copy=False),
        graph.data.astype(np.float64, copy=False),
        n_items,
        resolution=resolution,
        iterations=_N_PASSES,
        seed=seed,
    )
    labels = np.full(n_items, -1, dtype=np.int64)
    labels[np.fromiter(found.keys(), np.int64, len(found))] = np.fromiter(found.values(), np.int64, len(found))
    is_alone = labels < 0
    labels[is_alone] = labels.max() + 1 + np.arange(is_alone.sum())
    return Communities(in_order(labels), float(modularity), resolution)


def in_order(labels: npt.NDArray[Any]) -> I64:
    """Number clusters 0, 1, ... by their first items.

    >>> in_order(np.array([7, 3, 7, 5])).tolist()
    [0, 1, 0, 2]
    """
    _, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    numbered: I64 = np.argsort(np.argsort(first))[inverse].astype(np.int64)
    return numbered


def find_n_communities(
    graph: csr_array,
    n_clusters: int,
    features: npt.NDArray[Any],
    *,
    absorb: bool = True,
    seed: int = 0,
    condensed_above: int = CONDENSED_ABOVE,
) -> tuple[Agglomeration, Communities]:
    """Find so many communities: bisect the resolution, then merge what is too many along the same graph.

    Args:
        graph: (N, N) symmetric weights, from `symmetric_affinities`.
        n_clusters: how many are wanted.
        features: (N, D) for the centroids by which tiny or unconnected communities find their place.
        absorb: tiny communities do not count among the wanted ones, as in `agglomerate`.
        seed: decides the order in which items are visited.
        condensed_above: with more items than this, the bisection sees small communities only.

    Returns:
        The merging, whose labels have exactly `n_clusters` clusters, and the communities it started from: the fewest
        that were found with at least as many large ones as wanted.
    """
    large_size = LARGE_SHARE * graph.shape[0] / n_clusters if absorb else 1.0
    arranged = Arranged.of(graph) if graph.shape[0] > condensed_above else None
    condensed = None if arranged is None else _condensed(arranged.graph, n_clusters)
    low, high, resolution = _LOWEST, _HIGHEST, 1.0
    best: Communities | None = None
    for _ in range(_N_BISECTIONS):
        if condensed is None:
            found = find_communities(graph, resolution=resolution, seed=seed)
        else:
            rough = find_communities(condensed.graph, resolution=resolution, seed=seed)
            found = Communities(in_order(condensed.hand_down(rough.labels)), rough.modularity, resolution)
        n_large = found.n_large(large_size)
        if n_large >= n_clusters and (best is None or found.n_clusters < best.n_clusters):
            best = found
        if n_large == n_clusters:
            break
        if n_large < n_clusters:
            low = resolution
        else:
            high = resolution
        resolution = float(np.sqrt(low * high))
    if best is None:  # more than can be told apart by their neighbours: begin with single images
        best = Communities(np.arange(graph.shape[0], dtype=np.int64), 0.0, high)
    elif arranged is not None:
        best = _settled(arranged.graph, best, n_clusters, large_size)
        best = replace(best, labels=in_order(arranged.hand_back(best.labels)))
    return agglomerate(graph, best.labels, n_clusters, absorb=absorb, features=features), best


def _condensed(graph: csr_array, n_clusters: int) -> Condensed:
    """Join the images of small communities: many for each cluster, and no more however many images there are."""
    resolution = min(graph.shape[0] / PER_START, STARTS_EACH * n_clusters)
    return condense(graph, small_communities(graph, max(resolution, 1.0)))


def _settled(graph: csr_array, found: Communities, n_clusters: int, large_size: float) -> Communities:
    """Let images move between communities, unless too few of these are left of a fair size."""
    labels = in_order(settled(graph, found.labels, found.resolution))
    moved = Communities(labels, modularity(graph, labels, found.resolution), found.resolution)
    return moved if moved.n_large(large_size) >= n_clusters else found
