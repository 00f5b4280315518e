"""Agglomerative clustering on a directed graph (GDL), as in JULE: from many small clusters down to k.

Reference: Zhang, Wang, Zhao, Tang, "Graph degree linkage", ECCV 2012; Yang, Parikh, Batra, "Joint unsupervised
learning of deep representations and image clusters", CVPR 2016.

The affinity of two clusters is A(P, Q) = A(P -> Q) + A(Q -> P), with A(P -> Q) the sum over v in P of the weight
arriving at v from Q times the weight leaving v to Q, divided by |Q|^2. Each step takes the cluster C with the
largest s(C) = A1 + lambda / (K_c - 1) * sum_{q=2..K_c} (A1 - Aq), where A1 >= A2 >= ... are its affinities to the
other clusters (zeros count), and merges it with its closest one.

Ties: a cluster is known by the lowest start label in it, and the lowest wins, first as C, then as its partner. All
sums are float64.

Where we differ from the paper: clusters without any affinity are merged by their centroids once nothing else is left
(the smallest first, with the nearest of those it has any arc to or from); and `absorb` keeps outliers from being
counted among the k clusters.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from selfsort.errors import invalid
from selfsort.graph._kernels.merging import merge_down
from selfsort.graph._kernels.tables import APPROX_ALPHA, APPROX_SIZE, EXACT, MergeRule
from selfsort.graph.absorb import absorb_small, find_cut
from selfsort.graph.neighbours import Neighbours
from selfsort.graph.tree import BY_ABSORPTION, BY_ISOLATION, MergeTree
from selfsort.types import I64

Update = Literal["exact", "approx_size", "approx_alpha"]

_UPDATES = {"exact": EXACT, "approx_size": APPROX_SIZE, "approx_alpha": APPROX_ALPHA}


@dataclass(frozen=True, eq=False)
class Agglomeration:
    """Clusters and how they came about."""

    tree: MergeTree
    """All merges that were made, as far down as asked for."""
    cut: MergeTree
    """The merges behind the clusters, with those by which small clusters were absorbed."""
    large_size: float = 0.0
    """Images a cluster needed not to be absorbed; 0 without `absorb`."""
    is_relaxed: bool = False
    """True if there were never k clusters of the usual large size, so that a smaller one had to do."""
    is_split_start: bool = False
    """True if there were fewer start clusters than k, so that merging began from single images."""

    @cached_property
    def labels(self) -> I64:
        """(N,) 0..k-1, clusters in the order of their lowest start label."""
        return self.cut.labels()

    @property
    def n_start(self) -> int:
        """Clusters at the start."""
        return self.cut.n_start

    @property
    def n_clusters(self) -> int:
        """Clusters found."""
        return self.cut.n_clusters

    @property
    def n_isolated(self) -> int:
        """Merges made by centroid because no two clusters had any affinity."""
        return int((self.cut.reasons == BY_ISOLATION).sum())

    @property
    def n_absorbed(self) -> int:
        """Small clusters given to their nearest large one."""
        return int((self.cut.reasons == BY_ABSORPTION).sum())

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a user should know about this clustering, in plain sentences."""
        notes = []
        if self.is_split_start:
            notes.append(
                "There were fewer starting clusters than clusters asked for, so merging began from single images."
            )
        if self.n_isolated:
            notes.append(
                f"{self.n_isolated} merges joined clusters that no neighbour relation connects, by their centroids: "
                "the neighbour graph has more connected components than clusters asked for."
            )
        if self.is_relaxed:
            notes.append(
                f"Fewer than {self.n_clusters} clusters of a fair size were found; clusters from "
                f"{max(int(np.ceil(self.large_size)), 1)} images on were kept. Fewer clusters may suit the data better."
            )
        return tuple(notes)


def nearest_neighbour_components(neighbours: Neighbours) -> I64:
    """Join every item to its nearest neighbour and return the connected components, numbered by first appearance."""
    n_items = len(neighbours)
    if neighbours.n_neighbours == 0:
        return np.arange(n_items, dtype=np.int64)
    links = csr_array(
        (np.ones(n_items), np.ascontiguousarray(neighbours.idx[:, 0]), np.arange(n_items + 1)), shape=(n_items, n_items)
    )
    _, pieces = connected_components(links, connection="weak")
    _, first, inverse = np.unique(pieces, return_index=True, return_inverse=True)
    labels: I64 = np.argsort(np.argsort(first))[inverse].astype(np.int64)
    return labels


def agglomerate(
    weights: csr_array,
    start_labels: npt.NDArray[Any],
    n_clusters: int,
    *,
    update: Update = "exact",
    alpha: float = 0.0,
    structure_weight: float = 0.0,
    n_structure: int = 5,
    absorb: bool = True,
    features: npt.NDArray[Any] | None = None,
    until: int | None = None,
) -> Agglomeration:
    """Merge clusters until `n_clusters` are left.

    Args:
        weights: (N, N) directed graph, from `affinity.digraph`; non-negative, the diagonal is ignored.
        start_labels: (N,) clusters to begin with. If there are fewer than `n_clusters`, single images are used.
        n_clusters: clusters to stop at; any number, so JULE's periods are calls with decreasing numbers.
        update: how the affinity towards a merged cluster is found: "exact", or by one of JULE's approximations.
        alpha: constant of "approx_alpha"; useful between -0.2 and 0.1.
        structure_weight: lambda, weight of the local structure.
        n_structure: K_c, neighbours in the local structure; fewer near the end, when fewer are left.
        absorb: stop while exactly `n_clusters` clusters are large (at least 5 % of N / n_clusters images) and give
            every smaller cluster to the large one with the nearest centroid. False is the paper's behaviour: the
            small clusters count among the k.
        features: (N, D) for centroids; needed to absorb, and to merge clusters without any affinity.
        until: grow the tree on to so few clusters, so that other numbers can be cut from it too.
    """
    _check(weights, start_labels, n_clusters, absorb, features)
    rule = _rule(update, alpha, structure_weight, n_structure)
    _, labels = np.unique(start_labels, return_inverse=True)
    is_split_start = int(labels.max()) + 1 < n_clusters
    if is_split_start:
        labels = np.arange(len(labels))
    tree = merge_down(weights, labels, until or n_clusters, rule, features)
    return settle(tree, n_clusters, features if absorb else None, is_split_start=is_split_start)


def settle(
    tree: MergeTree, n_clusters: int, features: npt.NDArray[Any] | None = None, *, is_split_start: bool = False
) -> Agglomeration:
    """Cut a tree at `n_clusters`; with features, clusters too small to count among them are absorbed."""
    cut, large_size, is_relaxed = tree.down_to(n_clusters), 0.0, False
    if features is not None:
        large_size, n_merges, is_relaxed = find_cut(cut, n_clusters)
        cut = absorb_small(cut.first(n_merges), large_size, features)
    return Agglomeration(tree, cut, large_size, is_relaxed, is_split_start)


def _rule(update: Update, alpha: float, structure_weight: float, n_structure: int) -> MergeRule:
    if update not in _UPDATES:
        raise invalid("update", f"be one of {', '.join(_UPDATES)}", repr(update), "Use exact, the default.")
    if alpha <= -1:
        raise invalid("alpha", "be above -1", alpha, "Published values lie between -0.2 and 0.5.")
    if structure_weight < 0:
        raise invalid("structure_weight", "be at least 0", structure_weight, "Published value: 1.0; 0 turns it off.")
    if n_structure < 1:
        raise invalid("n_structure", "be at least 1", n_structure, "Published value: 5.")
    # Without the structure term a score depends on the closest cluster alone, which is cheaper to keep up to date.
    n_watched = n_structure if structure_weight > 0 else 1
    return MergeRule(_UPDATES[update], float(alpha), float(structure_weight), n_watched)


def _check(
    weights: csr_array,
    start_labels: npt.NDArray[Any],
    n_clusters: int,
    absorb: bool,
    features: npt.NDArray[Any] | None,
) -> None:
    n_items = len(start_labels)
    if weights.shape != (n_items, n_items):
        raise invalid("weights", f"be a square graph of the {n_items} labelled items", weights.shape, "Match the two.")
    if not (np.isfinite(weights.data).all() and (weights.data >= 0).all()):
        raise invalid("weights", "be finite and not negative", "other values", "Build them with affinity.digraph.")
    if not 1 <= n_clusters <= n_items:
        remedy = "Lower n_clusters or add images."
        raise invalid("n_clusters", f"be between 1 and the number of images ({n_items})", n_clusters, remedy)
    if features is None:
        if absorb:
            raise invalid("features", "be given to absorb small clusters", None, "Pass features, or absorb=False.")
    elif features.ndim != 2 or len(features) != n_items:
        raise invalid("features", f"be a table of {n_items} rows", f"shape {features.shape}", "One row per image.")
