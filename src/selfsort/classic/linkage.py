"""ac-link: average linkage on Euclidean distances, cut at K clusters (Sokal and Michener 1958; Jain et al. 1999).

SciPy's nearest-neighbour chain does the merging. It needs the distance of every pair in float64 and works on a
copy, so that N images take 8 N^2 bytes.

Where we differ from the scripts behind JULE's tables: nowhere known.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from scipy.cluster import hierarchy
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components

from selfsort.classic.method import MAX_DENSE, Partition, PixelConfig, classic_method, refuse_dense
from selfsort.config import setting
from selfsort.progress import track
from selfsort.types import F32, F64, I64


@dataclass(frozen=True, kw_only=True)
class LinkageConfig(PixelConfig):
    """Settings of average linkage."""

    max_images: int = setting(MAX_DENSE, "refuse more images than this: memory is 8 bytes times its square")

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require("max_images", 2 <= self.max_images <= MAX_DENSE, f"be between 2 and {MAX_DENSE}")


def condensed_distances(features: F32) -> F64:
    """Euclidean distances of all pairs i < j, row by row, as SciPy orders them.

    By matrix products: SciPy's own pdist takes ten times as long on images.
    """
    n_items = len(features)
    # Distances survive a shift, and from the mean the product loses fewer digits to cancellation.
    rows = torch.from_numpy(features.astype(np.float64) - features.mean(axis=0, dtype=np.float64))
    norms_N = (rows * rows).sum(dim=1)
    condensed: F64 = np.empty(n_items * (n_items - 1) // 2)
    filled = 0
    starts = range(0, n_items, 512)
    for start in track(starts, "distances", len(starts)):
        block = rows[start : start + 512]
        sq_dist = torch.addmm(norms_N[None, start:], block, rows[start:].T, alpha=-2)
        sq_dist += norms_N[start : start + len(block), None]
        for i, row in enumerate(sq_dist.clamp_(min=0).sqrt_().numpy()):
            after = row[i + 1 :]
            condensed[filled : filled + len(after)] = after
            filled += len(after)
    return condensed


def cut(merges: F64, n_items: int, n_clusters: int) -> I64:
    """Labels after the first N - K merges of a SciPy linkage table; exactly K of them even when heights tie."""
    n_merges = n_items - n_clusters
    parents = np.repeat(n_items + np.arange(n_merges), 2)
    children = merges[:n_merges, :2].astype(np.int64).ravel()
    n_nodes = n_items + n_merges
    links = coo_matrix((np.ones(len(children)), (children, parents)), shape=(n_nodes, n_nodes))
    _, component = connected_components(links, directed=False)
    _, labels = np.unique(component[:n_items], return_inverse=True)
    return labels.astype(np.int64)


def cluster(features: F32, config: LinkageConfig, *, seed: int, device: torch.device) -> Partition:
    """Merge by average distance until K clusters are left."""
    refuse_dense(len(features), config.max_images, "ac-link")
    merges: F64 = hierarchy.linkage(condensed_distances(features), method="average")
    return Partition(cut(merges, len(features), config.n_clusters), extras={"linkage": merges})


METHOD = classic_method(
    "ac-link",
    "agglomerative clustering by average linkage",
    "Jain, Murty and Flynn 1999",
    LinkageConfig,
    cluster,
)
