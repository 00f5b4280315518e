"""ac-link: average linkage on Euclidean distances, cut at K clusters (Sokal and Michener 1958; Jain et al. 1999).

SciPy's nearest-neighbour chain does the merging. It needs the distance of every pair in float64 and works on a
copy, so that N images take 8 N^2 bytes. Above `max_images` a chain of our own takes over, which keeps distances once
and in float32: 2 N^2 bytes, 9.8 GB for 70,000 images. Only then may rounding decide between merges that are as good.

Where we differ from the scripts behind JULE's tables: nowhere known.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from scipy.cluster import hierarchy
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components

from selfsort.classic._linkage_kernels import chain, label_merges
from selfsort.classic.method import MAX_DENSE, Partition, PixelConfig, classic_method, refuse_dense
from selfsort.config import setting
from selfsort.progress import track
from selfsort.types import F32, F64, I64


@dataclass(frozen=True, kw_only=True)
class LinkageConfig(PixelConfig):
    """Settings of average linkage."""

    max_images: int = setting(
        MAX_DENSE, "double precision up to here, 8 bytes times its square; above single precision, a quarter of that"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require("max_images", 2 <= self.max_images <= MAX_DENSE, f"be between 2 and {MAX_DENSE}")


def condensed_distances(features: F32, dtype: type[np.floating[Any]] = np.float64) -> npt.NDArray[Any]:
    """Euclidean distances of all pairs i < j, row by row, as SciPy orders them.

    By matrix products: SciPy's own pdist takes ten times as long on images.
    """
    n_items = len(features)
    # Distances survive a shift, and from the mean the product loses fewer digits to cancellation.
    rows = torch.from_numpy(features.astype(np.float64) - features.mean(axis=0, dtype=np.float64))
    norms_N = (rows * rows).sum(dim=1)
    condensed = np.empty(n_items * (n_items - 1) // 2, dtype)
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


def average_linkage(condensed: F32, n_items: int) -> F64:
    """Return SciPy's table of merges, made by a chain in float32 that overwrites its argument."""
    pairs, heights = chain(condensed, n_items)
    order = np.argsort(heights, kind="stable")
    return label_merges(pairs[order], heights[order], n_items)


def _most_images() -> int:
    """As many images as single distances fill nine tenths of the memory with."""
    try:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError, AttributeError):  # Windows
        return 100_000
    return math.isqrt(int(0.9 * memory / 2))


def cluster(features: F32, config: LinkageConfig, *, seed: int, device: torch.device) -> Partition:
    """Merge by average distance until K clusters are left."""
    if len(features) > config.max_images:
        refuse_dense(len(features), _most_images(), "ac-link on this machine")
        merges = average_linkage(condensed_distances(features, np.float32), len(features))
    else:
        merges = hierarchy.linkage(condensed_distances(features), method="average")
    return Partition(cut(merges, len(features), config.n_clusters), extras={"linkage": merges})


METHOD = classic_method(
    "ac-link",
    "agglomerative clustering by average linkage",
    "Jain, Murty and Flynn 1999",
    LinkageConfig,
    cluster,
)
