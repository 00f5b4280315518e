"""A very large graph by its small communities: what is asked often is asked of these, and images settle at the end.

At a high resolution images move, one by one, to the neighbour that gains most modularity, then what has come together
moves as one, and again (the first steps of Louvain: Blondel, Guillaume, Lambiotte, Lefebvre, JSTAT 2008): small
communities of about a hundred images, in a few passes over the graph. Each becomes one item whose arcs are the sums of
its images' arcs, so that the graph has a hundredth of the items and every partition of it has the modularity that the
same partition of the images has. What Leiden finds there is handed down to the images, and each of them moves to the
community that it has most arcs to, beyond chance, until (nearly) none wants to.

All of this goes over the arcs again and again. So items are first put in an order in which neighbours are near each
other: what is looked up for one is still close to the processor for the next.

The compiled search knows no arc from an item to itself. So every item has a twin, joined to it alone, by half of the
weight inside the item at either end: weight and degrees are then as they should be.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse import coo_array, csr_array

from selfsort.graph._kernels.moving import move_items, order_by_reach, rearrange
from selfsort.types import F64, I64

PER_START = 1000
"""The resolution of the small communities is one for so many images; they have about a tenth of them ..."""
STARTS_EACH = 10
"""... and at most so much for each cluster that is wanted, which then begins as about 150 of them."""

_N_TOGETHER = 10_000
"""Items that are put near each other: what is known of them fits the memory closest to the processor."""
_HARDLY = 0.95
"""Items have come together as far as they will when more than this share of them is left."""
_N_ROUNDS = 10
"""Most rounds in which images move."""
_FEW = 1e-4
"""Rounds end when fewer than this share of the images moves."""


@dataclass(frozen=True, eq=False)
class Condensed:
    """The graph of some communities."""

    graph: csr_array
    """(2 P, 2 P) between P communities, each with its twin."""
    start: I64
    """(N,) which community each image is in."""

    def hand_down(self, labels: I64) -> I64:
        """Return what labels (2 P,) of the communities and their twins say of the images."""
        of_images: I64 = labels[: self.graph.shape[0] // 2][self.start]
        return of_images


def near_order(graph: csr_array) -> I64:
    """Return all items in an order in which those that can be reached from each other in few steps are together."""
    return order_by_reach(graph.indptr, graph.indices, _N_TOGETHER)


@dataclass(frozen=True, eq=False)
class Arranged:
    """A graph whose neighbours are near each other."""

    graph: csr_array
    order: I64
    """(N,) which item of the graph it was made from is at each place."""

    @classmethod
    def of(cls, graph: csr_array) -> Arranged:
        """Put items that can be reached from each other in few steps together."""
        order = near_order(graph)
        indices, weights = np.empty(graph.nnz, np.int32), np.empty(graph.nnz)
        indptr = rearrange(graph.indptr, graph.indices, graph.data, order, indices, weights)
        return cls(csr_array((weights, indices, indptr), shape=graph.shape), order)

    def hand_back(self, labels: I64) -> I64:
        """Return labels of the places as those of the items."""
        of_items = np.empty_like(labels)
        of_items[self.order] = labels
        return of_items


def small_communities(graph: csr_array, resolution: float) -> I64:
    """Return communities 0..P-1 that gain nothing by joining, at a resolution high enough to keep them small."""
    labels: I64 = np.arange(graph.shape[0])
    while True:
        n_before = graph.shape[0]
        _, found = np.unique(settled(graph, np.arange(n_before), resolution), return_inverse=True)
        labels = found[labels]
        if found.max() + 1 > _HARDLY * n_before:
            return labels
        graph = _joined(graph, found)


def _joined(graph: csr_array, labels: I64) -> csr_array:
    """Add up the arcs of each community; those inside it become an arc to itself."""
    n_items, n_parts = len(labels), int(labels.max()) + 1
    member = csr_array((np.ones(n_items), labels.astype(np.int32), np.arange(n_items + 1)), shape=(n_items, n_parts))
    return csr_array(member.T @ (graph @ member))


def condense(graph: csr_array, labels: I64) -> Condensed:
    """Join the items of each community; labels are 0..P-1."""
    joined, n_parts = coo_array(_joined(graph, labels)), int(labels.max()) + 1
    is_inside = joined.row == joined.col
    inside = np.bincount(joined.row[is_inside], joined.data[is_inside], minlength=n_parts)
    own = np.arange(n_parts)
    rows = np.concatenate([joined.row[~is_inside], own, own + n_parts])
    columns = np.concatenate([joined.col[~is_inside], own + n_parts, own])
    weights = np.concatenate([joined.data[~is_inside], inside / 2, inside / 2])
    twinned = csr_array((weights, (rows, columns)), shape=(2 * n_parts, 2 * n_parts))
    twinned.eliminate_zeros()
    twinned.sort_indices()
    return Condensed(twinned, labels)


def settled(graph: csr_array, labels: I64, resolution: float) -> I64:
    """Let single items move between communities (0..P-1) as long as modularity gains; none is founded, some may end."""
    degrees: F64 = np.asarray(graph.sum(axis=1)).ravel()
    found, totals = labels.copy(), np.bincount(labels, degrees).astype(np.float64)
    if totals.sum() == 0:
        return found
    for _ in range(_N_ROUNDS):
        n_moved = move_items(graph.indptr, graph.indices, graph.data, degrees, resolution, found, totals)
        if n_moved <= _FEW * len(labels):
            break
    return found


def modularity(graph: csr_array, labels: I64, resolution: float = 1.0) -> float:
    """Return the share of the weight inside communities beyond `resolution` times what chance would put there."""
    degrees: F64 = np.asarray(graph.sum(axis=1)).ravel()
    whole = float(degrees.sum())
    if whole == 0:
        return 0.0
    ends = np.repeat(labels, np.diff(graph.indptr))
    inside = float(graph.data[ends == labels[graph.indices]].sum())
    return inside / whole - resolution * float(((np.bincount(labels, degrees) / whole) ** 2).sum())
