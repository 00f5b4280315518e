"""From distances to weights: the sparse directed graph that clusters are merged on, and the vote for new images.

The weights are those of JULE ("global", one scale for all images) and of locally scaled graphs ("local", each
image has its own scale). A stored weight may be zero where the exponential underflows.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from selfsort.errors import invalid
from selfsort.graph.neighbours import Neighbours
from selfsort.types import F32, F64, I64

Scaling = Literal["global", "local"]

# With `doubling`, every image's nearest neighbour gets at least this weight.
_FAINTEST = 1e-5
# A local scale may not fall below this fraction of the mean one: K/2 exact duplicates would make it zero.
_SMALLEST_SCALE = 1e-6


def unit_rows(values: npt.NDArray[Any]) -> F32:
    """Scale every row (image) to length one; rows of zeros stay zeros.

    >>> unit_rows(np.array([[3, 4], [0, 0]], dtype=np.uint8))
    array([[0.6, 0.8], [0. , 0. ]], dtype=float32)
    """
    flat = np.asarray(values, dtype=np.float32).reshape(len(values), -1)
    norms_N1 = np.sqrt(np.einsum("nd,nd->n", flat, flat, dtype=np.float64))[:, None]
    unit: F32 = (flat / np.maximum(norms_N1, 1e-8)).astype(np.float32)
    return unit


def mean_row(values: npt.NDArray[Any]) -> F32:
    """Return the mean image, flat."""
    mean: F32 = np.asarray(values).reshape(len(values), -1).mean(axis=0, dtype=np.float64).astype(np.float32)
    return mean


def centre(values: npt.NDArray[Any], mean: F32 | None = None) -> F32:
    """Subtract the mean image (or a given one: new images are centred by the mean of the training images)."""
    flat = np.asarray(values, dtype=np.float32).reshape(len(values), -1)
    centred: F32 = flat - (mean_row(values) if mean is None else mean)
    return centred


def global_scale(neighbours: Neighbours, a: float = 1.0, doubling: bool = False) -> float:
    """Return sigma^2, `a` times the mean squared distance to a neighbour.

    With `doubling` it is doubled until every image's nearest neighbour has a weight of at least 1e-5.
    """
    if a <= 0:
        raise invalid("a", "be positive", a, "Use 1.0, the published value.")
    sq_dist = neighbours.sq_dist
    sigma_sq = a * float(sq_dist.mean(dtype=np.float64)) if sq_dist.size else 0.0
    if sigma_sq <= 0:
        return 1.0  # nothing but duplicates: every distance is zero, and any scale gives the weight one
    if doubling:
        farthest = float(sq_dist[:, 0].max())
        while np.exp(-farthest / sigma_sq) < _FAINTEST:
            sigma_sq *= 2
    return sigma_sq


def local_scale(neighbours: Neighbours) -> F64:
    """Return sigma_i^2, each image's squared distance to its (K/2)-th neighbour."""
    if neighbours.n_neighbours == 0:
        return np.ones(len(neighbours))
    half = max(neighbours.n_neighbours // 2, 1)
    sigma_sq = neighbours.sq_dist[:, half - 1].astype(np.float64)
    floor = _SMALLEST_SCALE * float(sigma_sq.mean())
    scale: F64 = np.maximum(sigma_sq, floor) if floor > 0 else np.ones(len(neighbours))
    return scale


def digraph(neighbours: Neighbours, scaling: Scaling = "global", a: float = 1.0, doubling: bool = False) -> csr_array:
    """Return the (N, N) weights of the directed neighbour graph, K stored per row, float64.

    "global": exp(-d_ij^2 / sigma^2). "local": exp(-d_ij^2 / (2 sigma_i^2)) / sigma_i; `a` and `doubling` concern
    "global" only (a local scale always leaves the nearest neighbour a fair weight).
    """
    weights = neighbours.sq_dist.astype(np.float64)
    n_items, n_kept = weights.shape
    # In place: of a million images each table more is 160 MB, and fresh memory takes longer than the arithmetic.
    if scaling == "global":
        weights /= -global_scale(neighbours, a, doubling)
        np.exp(weights, out=weights)
    elif scaling == "local":
        sigma_sq = local_scale(neighbours)[:, None]
        weights /= -2 * sigma_sq
        np.exp(weights, out=weights)
        weights /= np.sqrt(sigma_sq)
    else:
        raise invalid("scaling", "be global or local", repr(scaling), "Choose one of the two.")
    index = np.int32 if weights.size < 2**31 else np.int64  # half the memory wherever it can be had
    indptr = np.arange(n_items + 1, dtype=index) * index(n_kept)
    graph = csr_array((weights.ravel(), neighbours.idx.ravel().astype(index), indptr), shape=(n_items, n_items))
    graph.sort_indices()
    return graph


def vote(neighbours: Neighbours, labels: I64, n_clusters: int, sigma_sq: float | F64) -> F32:
    """Assign new images softly: their nearest training images vote with weight exp(-d^2 / sigma^2).

    Args:
        neighbours: the new images' neighbours among the training images (`queries=` of the search).
        labels: (training images,) clusters 0..n_clusters-1.
        n_clusters: columns of the answer.
        sigma_sq: one scale, or one per new image (twice `local_scale` of the queries for the local graph).

    Returns:
        (N, n_clusters), rows sum to one. Only ratios of weights count, so an image far from everything, whose
        weights would all be zero, goes to its nearest neighbour's cluster.
    """
    if neighbours.n_neighbours == 0:
        raise invalid("neighbours", "hold at least one neighbour per image", 0, "Search among at least one image.")
    sq_dist = neighbours.sq_dist.astype(np.float64)
    nearer = sq_dist - sq_dist[:, :1]  # zero for the nearest: its weight is one whatever the scale
    scale = np.maximum(np.asarray(sigma_sq, dtype=np.float64).reshape(-1, 1), np.finfo(np.float64).tiny)
    with np.errstate(over="ignore"):
        weights = np.exp(-nearer / scale)
    weights /= weights.sum(axis=1, keepdims=True)
    n_items = len(neighbours)
    cells = np.arange(n_items)[:, None] * n_clusters + np.asarray(labels)[neighbours.idx]
    soft = np.bincount(cells.ravel(), weights.ravel(), minlength=n_items * n_clusters)
    return soft.reshape(n_items, n_clusters).astype(np.float32)
