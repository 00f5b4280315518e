"""umap-kmeans: UMAP (McInnes, Healy, Melville 2018) to a few dimensions, then k-means.

Not in the papers' tables; a strong, cheap baseline of today. Needs the extra `umap`.

Settings follow the advice of UMAP's authors for clustering: no minimal distance, more neighbours than for plots.
"""

from __future__ import annotations

import importlib.util
import warnings
from dataclasses import dataclass, replace

import numpy as np
import torch

from selfsort.classic.kmeans import kmeans
from selfsort.classic.method import Partition, PixelConfig, classic_method
from selfsort.config import setting
from selfsort.errors import missing_extra
from selfsort.graph.jit import forgiving_caches
from selfsort.learning.seeds import derive_seed
from selfsort.types import F32


@dataclass(frozen=True, kw_only=True)
class UMAPConfig(PixelConfig):
    """Settings of umap-kmeans."""

    n_neighbours: int = setting(20, "neighbours of an image in UMAP's graph")
    n_components: int = setting(10, "dimensions of the embedding")
    min_distance: float = setting(0.0, "how close images may lie in the embedding")
    n_restarts: int = setting(10, "k-means starts on the embedding")

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require("n_neighbours", self.n_neighbours >= 2, "be at least 2")
        self.require("n_components", self.n_components >= 1, "be at least 1")
        self.require("min_distance", 0 <= self.min_distance <= 1, "lie between 0 and 1")
        self.require("n_restarts", self.n_restarts >= 1, "be at least 1")


def check_package() -> None:
    """Raise if UMAP is not installed."""
    if importlib.util.find_spec("umap") is None:
        raise missing_extra("umap-learn", "umap-kmeans", "umap")


def embed(features: F32, config: UMAPConfig, seed: int) -> F32:
    """Run UMAP on one thread: the only way it gives the same answer twice."""
    try:
        with warnings.catch_warnings(), forgiving_caches():
            warnings.simplefilter("ignore", ImportWarning)  # it misses TensorFlow, which we do not
            import umap  # an optional extra, and slow to load
    except ImportError:
        raise missing_extra("umap-learn", "umap-kmeans", "umap") from None
    n_neighbours = min(config.n_neighbours, len(features) - 1)
    reducer = umap.UMAP(
        n_neighbors=n_neighbours,
        n_components=min(config.n_components, max(len(features) - 2, 1)),
        min_dist=config.min_distance,
        # The spectral start asks for more eigenvectors than a handful of images can have.
        init="spectral" if len(features) > 4 * config.n_components else "random",
        random_state=derive_seed(seed, "umap") % 2**32,
        n_jobs=1,
    )
    n_threads = torch.get_num_threads()
    with warnings.catch_warnings():
        # On graphs that fall apart it warns at length and then does the right thing.
        warnings.simplefilter("ignore")
        embedding: F32 = np.ascontiguousarray(reducer.fit_transform(features), dtype=np.float32)
    torch.set_num_threads(n_threads)  # its compiled loops set the number for the whole process
    return np.nan_to_num(embedding)


def cluster(features: F32, config: UMAPConfig, *, seed: int, device: torch.device) -> Partition:
    """Embed, then k-means."""
    if len(features) < 4:
        # Two or three images have no neighbourhood to speak of.
        return Partition(kmeans(features, config.n_clusters, seed=seed, n_restarts=config.n_restarts).labels)
    embedding = embed(features, config, seed)
    fit = kmeans(embedding, config.n_clusters, seed=seed, n_restarts=config.n_restarts)
    return Partition(fit.labels, extras={"embedding": embedding})


METHOD = replace(
    classic_method(
        "umap-kmeans",
        "k-means on a UMAP embedding",
        "McInnes, Healy and Melville 2018",
        UMAPConfig,
        cluster,
    ),
    check=check_package,
)
