"""leiden: communities of the neighbour graph (Traag, Waltman, van Eck, Scientific Reports 2019).

Every image is joined to its nearest, and the graph is cut into groups with more weight inside than chance would put
there (`selfsort.graph.communities` has the equations). Not in the papers' tables; what single-cell biology clusters
with, and one of the few methods that can say how many clusters there are: `communities` leaves the number free.

Where we differ from the paper: with a number asked for, the resolution is bisected and the last few communities are
merged along the same graph by graph degree linkage.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from selfsort.classic.method import GraphConfig, Partition, PixelConfig, classic_method, rows_of
from selfsort.config import setting
from selfsort.graph.approximate import EXACT_LIMIT, find_neighbours
from selfsort.graph.augmented import augmented_neighbours
from selfsort.graph.communities import (
    Communities,
    community_width,
    find_communities,
    find_n_communities,
    symmetric_affinities,
)
from selfsort.graph.neighbours import Neighbours
from selfsort.learning.seeds import derive_seed
from selfsort.types import F32, I64, Images, Inputs


@dataclass(frozen=True, kw_only=True)
class LeidenConfig(GraphConfig, PixelConfig):
    """Settings of leiden."""

    K_s: int = setting(10, "neighbours of an image in the graph, and voters on a new image")
    absorb: bool = setting(True, "give communities of a few images to their nearest large one at the end")
    exact_search_limit: int = setting(
        EXACT_LIMIT, "above this many images, search neighbours approximately (extra approx); 0: never"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require("K_s", self.K_s >= 1, "be at least 1")
        self.require("exact_search_limit", self.exact_search_limit >= 0, "be 0 or more")


def communities(
    features: F32, *, seed: int, device: torch.device, n_neighbours: int = 10, resolution: float = 1.0
) -> Communities:
    """Find communities of feature rows, as many as there are."""
    graph = symmetric_affinities(find_neighbours(features, n_neighbours, device=device))
    return find_communities(graph, resolution=resolution, seed=derive_seed(seed, "leiden"))


def cluster(
    features: F32, config: LeidenConfig, *, seed: int, device: torch.device, neighbours: Neighbours | None = None
) -> Partition:
    """Build the graph, of these neighbours or of those that are searched for; find K communities."""
    if neighbours is None:
        limit = config.exact_search_limit or None
        neighbours = find_neighbours(features, config.K_s, device=device, exact_limit=limit, is_shared=True)
    merged, start = find_n_communities(
        symmetric_affinities(neighbours),
        config.n_clusters,
        features,
        absorb=config.absorb,
        seed=derive_seed(seed, "leiden"),
    )
    return Partition(
        merged.labels,
        neighbours=neighbours,
        warnings=merged.warnings,
        event={
            "resolution": start.resolution,
            "modularity": start.modularity,
            "communities": start.n_clusters,
            "absorbed": merged.n_absorbed,
            **neighbours.event,
        },
    )


def graph_clusters(images: Inputs, n_clusters: int, *, device: torch.device, seed: int) -> I64:
    """Return the communities of the images' neighbours: in several views by their pixels, else by their features."""
    features, width = rows_of(images), community_width(len(images), n_clusters)
    if isinstance(images, Images):
        neighbours = augmented_neighbours(images.pixels, features, width, device=device)
    else:
        neighbours = find_neighbours(features, width, device=device)
    graph = symmetric_affinities(neighbours)
    return find_n_communities(graph, n_clusters, features, seed=derive_seed(seed, "leiden"))[0].labels


METHOD = classic_method(
    "leiden",
    "communities of the neighbour graph",
    "Traag, Waltman and van Eck, Scientific Reports 2019",
    LeidenConfig,
    cluster,
    is_shareable=True,
)
