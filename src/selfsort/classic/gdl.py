"""ac-gdl: agglomerative clustering by graph degree linkage (Zhang, Wang, Zhao, Tang, ECCV 2012), JULE's engine.

Every image is joined to its K_s nearest, clusters start as chains of nearest neighbours, and the two clusters with
the largest affinity are merged until K are left (`selfsort.graph.agglomerate` has the equations). With a
structure_weight above 0 it is the merge criterion that JULE uses while it learns.

The graph comes in two forms. "global" is JULE's: unit-norm pixels and one width for all. "local" is that of the
authors' later library: the mean image is subtracted before rows are scaled to unit length, and each image has its
own width. Features of another run are taken as they are in both forms: they were learned to be compared that way.

Where we differ from the paper: outlier clusters are absorbed (`absorb`); the published rows are without it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch

from selfsort.classic.kmeans import kmeans
from selfsort.classic.method import GraphConfig, Partition, classic_method
from selfsort.config import setting
from selfsort.graph.affinity import digraph
from selfsort.graph.agglomerate import Agglomeration, agglomerate, nearest_neighbour_components
from selfsort.graph.approximate import EXACT_LIMIT, find_neighbours
from selfsort.graph.neighbours import Neighbours
from selfsort.types import F32, I64, Arrays


@dataclass(frozen=True, kw_only=True)
class GDLConfig(GraphConfig):
    """Settings of ac-gdl."""

    graph: Literal["global", "local"] = setting(
        "global", "one affinity width for all images (JULE), or one for each (the authors' later library)", "paper"
    )
    K_s: int = setting(20, "neighbours of an image in the graph, and voters on a new image", "paper")
    a: float = setting(
        1.0, "width of the global graph: sigma^2 is a times the mean squared neighbour distance", "paper"
    )
    doubling: bool = setting(
        False, "double sigma^2 until each image's nearest neighbour has a weight of 1e-5 (global graph)", "code"
    )
    centre: Literal["auto"] | bool = setting(
        "auto",
        "subtract the mean image first; auto: for the local graph only. Features of a run stay as they are",
        "code; that of the authors' later library",
    )
    update: Literal["exact", "approx_size", "approx_alpha"] = setting(
        "exact", "how affinities to a merged cluster are found: JULE's Eq. 14, or one of two approximations", "paper"
    )
    alpha: float = setting(
        0.0, "constant of update=approx_alpha; useful from -0.2 to 0.1", "code; the paper tries seven"
    )
    init: Literal["knn", "kmeans"] = setting(
        "knn", "first clusters: nearest-neighbour chains, or k-means(N/4)", "paper"
    )
    structure_weight: float = setting(0.0, "lambda, weight of JULE's local structure term; 0 is plain GDL", "paper")
    K_c: int = setting(5, "neighbouring clusters in the local structure term", "paper")
    absorb: bool = setting(True, "give clusters of a few images to their nearest large one at the end", "ours")
    exact_search_limit: int = setting(
        EXACT_LIMIT, "above this many images, search neighbours approximately (extra approx); 0: never"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("K_s", "K_c"):
            self.require(name, getattr(self, name) >= 1, "be at least 1")
        self.require("a", self.a > 0, "be positive")
        self.require("alpha", self.alpha > -1, "be above -1", "Published values lie between -0.2 and 0.5.")
        self.require("structure_weight", self.structure_weight >= 0, "be 0 or more")
        self.require("exact_search_limit", self.exact_search_limit >= 0, "be 0 or more")


def first_clusters(features: F32, neighbours: Neighbours, start: str, seed: int) -> I64:
    """Over-cluster: chains of nearest neighbours, or k-means with a quarter as many clusters as images."""
    if start == "knn":
        return nearest_neighbour_components(neighbours)
    return kmeans(features, max(len(features) // 4, 1), seed=seed, n_restarts=1, max_iterations=50).labels


def merge_history(merged: Agglomeration, first: I64) -> Arrays:
    """Everything a dendrogram needs; clusters are numbered as in SciPy's linkage."""
    return {
        "start_labels": first,
        "merges": merged.cut.merges,
        "merge_affinity": merged.cut.affinity,
        "merge_sizes": merged.cut.sizes[merged.n_start :],
        "merge_reasons": merged.cut.reasons,
    }


def short_graph_note(neighbours: Neighbours) -> tuple[str, ...]:
    """Say so when there are fewer images than neighbours asked for."""
    if not neighbours.is_short:
        return ()
    return (
        f"There are only {neighbours.n_neighbours + 1} images, and {neighbours.n_asked} neighbours of each were to be "
        "compared (K_s): every image is compared with every other. More images give better groups.",
    )


def cluster(
    features: F32, config: GDLConfig, *, seed: int, device: torch.device, neighbours: Neighbours | None = None
) -> Partition:
    """Build the graph, of these neighbours or of those that are searched for; merge down to K."""
    if neighbours is None:
        limit = config.exact_search_limit or None
        neighbours = find_neighbours(features, config.K_s, device=device, exact_limit=limit, is_shared=True)
    first = first_clusters(features, neighbours, config.init, seed)
    merged = agglomerate(
        digraph(neighbours, config.graph, config.a, config.doubling),
        first,
        config.n_clusters,
        update=config.update,
        alpha=config.alpha,
        structure_weight=config.structure_weight,
        n_structure=config.K_c,
        absorb=config.absorb,
        features=features,
    )
    if merged.is_split_start:
        first = np.arange(len(features))
    return Partition(
        merged.labels,
        neighbours=neighbours,
        warnings=(*short_graph_note(neighbours), *merged.warnings),
        extras=merge_history(merged, first),
        event={
            "starting_clusters": merged.n_start,
            "absorbed": merged.n_absorbed,
            "isolated": merged.n_isolated,
            **neighbours.event,
        },
    )


METHOD = classic_method(
    "ac-gdl",
    "agglomerative clustering by graph degree linkage",
    "Zhang, Wang, Zhao and Tang, ECCV 2012",
    GDLConfig,
    cluster,
    is_shareable=True,
)
