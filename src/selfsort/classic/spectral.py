"""Spectral clustering in the four forms of JULE's tables.

sc-njw  Ng, Jordan, Weiss 2001: one global scale, the top eigenvectors, k-means on their rows.
sc-st   Zelnik-Manor and Perona 2004: every image brings its own scale.
sc-ls   Chen and Cai 2011: images described by a few hundred landmarks; the only one without an N x N array.
ncuts   Shi and Malik 2000, Yu and Shi 2003: normalised cuts, made discrete by rotation instead of k-means.

All scales are those of the scripts behind JULE's tables, which suit some data badly: with 0.05 of the mean or the
largest distance most images have hardly any neighbour. They are settings here.

Shape letters: N images, D features, P landmarks, R landmarks that describe one image, K clusters.

Up to `max_images` every image is compared with every other, as in the scripts. Above, sc-njw, sc-st and ncuts keep the
affinities to the nearest neighbours only (`n_sparse`); scales are still those of all pairs, and no N x N array is made.

Where we differ from the scripts: sc-st's rotation is left out (the script computes and discards it); images without
any neighbour get no NaN but the row zero.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.linalg
import scipy.sparse
import scipy.sparse.linalg
import torch

from selfsort.classic.kmeans import kmeans
from selfsort.classic.method import MAX_DENSE, Partition, PixelConfig, classic_method
from selfsort.config import setting
from selfsort.errors import invalid
from selfsort.graph.knn import nearest_neighbours
from selfsort.graph.neighbours import Neighbours
from selfsort.learning.seeds import derive_seed, numpy_generator
from selfsort.progress import track
from selfsort.types import F32, F64, I64

# Up to here a full dense eigensolver in float64 is quick, and it cannot miss a copy of a repeated eigenvalue.
_MAX_FULL_EIGEN = 2000
# Restarts after which the iterative solver is given up for the full one; a hundred is already unusual.
_MAX_RESTARTS = 1000
# A width of affinities above zero, for data of which all distances are zero.
_TINY = 1e-30


@dataclass(frozen=True, kw_only=True)
class DenseConfig(PixelConfig):
    """What the methods that compare every image with every other share."""

    max_images: int = setting(
        MAX_DENSE, "compare every image with every other up to here: memory is 4 bytes times its square"
    )
    n_sparse: int = setting(150, "above max_images: affinities to so many nearest neighbours alone")

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require("max_images", 2 <= self.max_images <= MAX_DENSE, f"be between 2 and {MAX_DENSE}")
        self.require("n_sparse", self.n_sparse >= 1, "be at least 1")


@dataclass(frozen=True, kw_only=True)
class NJWConfig(DenseConfig):
    """Settings of sc-njw."""

    scale: float = setting(0.05, "width of the affinity, as a fraction of the mean squared distance", "code")
    keep_diagonal: bool = setting(
        True, "count an image's affinity to itself; without it far fewer images end up alone, and scores rise", "code"
    )
    n_restarts: int = setting(10, "k-means starts on the eigenvectors")

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require("scale", self.scale > 0, "be positive")
        self.require("n_restarts", self.n_restarts >= 1, "be at least 1")


@dataclass(frozen=True, kw_only=True)
class SelfTuningConfig(DenseConfig):
    """Settings of sc-st."""

    scale_neighbour: int = setting(
        75, "an image's own scale is its distance to this neighbour; the literature often takes 7", "code"
    )
    n_restarts: int = setting(50, "k-means starts on the eigenvectors", "code")

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require("scale_neighbour", self.scale_neighbour >= 1, "be at least 1")
        self.require(
            "n_sparse", self.n_sparse >= self.scale_neighbour, f"reach scale_neighbour ({self.scale_neighbour})"
        )
        self.require("n_restarts", self.n_restarts >= 1, "be at least 1")


@dataclass(frozen=True, kw_only=True)
class LandmarkConfig(PixelConfig):
    """Settings of sc-ls."""

    n_landmarks: int = setting(500, "landmarks, found by a short k-means", "code")
    n_nearest: int = setting(5, "landmarks that describe one image", "code")
    landmark_iterations: int = setting(5, "k-means iterations for the landmarks", "code")
    n_restarts: int = setting(10, "k-means starts on the singular vectors", "code")

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require(
            "n_landmarks",
            self.n_landmarks > self.n_clusters,
            f"be larger than n_clusters ({self.n_clusters})",
            "Raise n_landmarks.",
        )
        for name in ("n_nearest", "landmark_iterations", "n_restarts"):
            self.require(name, getattr(self, name) >= 1, "be at least 1")


@dataclass(frozen=True, kw_only=True)
class NCutsConfig(DenseConfig):
    """Settings of ncuts."""

    scale: float = setting(0.05, "width of the affinity, as a fraction of the largest (squared) distance", "code")
    is_squared: bool = setting(
        True,
        "measure by squared distances, as the script behind the published row; no: by plain ones, the textbook's",
        "code",
    )
    threshold: float = setting(1e-6, "affinities below this are dropped", "code")
    regularisation: float = setting(
        0.5, "added to every image's affinity to itself and once more to its degree, against isolated images", "code"
    )
    max_rotations: int = setting(100, "steps of the alternation between rotation and labels")

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require("scale", self.scale > 0, "be positive")
        self.require("threshold", 0 <= self.threshold < 1, "be at least 0 and below 1")
        self.require("regularisation", self.regularisation >= 0, "be 0 or more")
        self.require("max_rotations", self.max_rotations >= 1, "be at least 1")


def squared_distances(features: F32) -> F32:
    """All squared Euclidean distances as one float32 array, exactly symmetric, zero on the diagonal."""
    # Distances survive a shift, and from the mean the product loses fewer digits to cancellation.
    rows = torch.from_numpy(np.ascontiguousarray(features - features.mean(axis=0)))
    norms_N = (rows * rows).sum(dim=1)
    sq_dist = torch.addmm(norms_N[None, :], rows, rows.T, alpha=-2)
    sq_dist += norms_N[:, None]
    sq_dist.clamp_(min=0).fill_diagonal_(0)
    result: F32 = sq_dist.numpy()
    for start in range(0, len(result), 1024):  # mirror the upper triangle without a second array
        stop = min(start + 1024, len(result))
        result[stop:, start:stop] = result[start:stop, stop:].T
        corner = result[start:stop, start:stop]
        corner[:] = np.triu(corner) + np.triu(corner, 1).T
    return result


def njw_affinity(sq_dist: F32, scale: float, keep_diagonal: bool = True) -> F32:
    """exp(-d^2 / (scale * mean d^2)); overwrites its argument."""
    affinity = _exp_of_negative(sq_dist, max(scale * float(sq_dist.mean(dtype=np.float64)), _TINY))
    if not keep_diagonal:
        np.fill_diagonal(affinity, 0)
    return affinity


def self_tuning_affinity(sq_dist: F32, scale_neighbour: int) -> F32:
    """exp(-d_ij^2 / (s_i s_j)) with s_i the distance to a given neighbour; zero diagonal; overwrites its argument."""
    rank = min(scale_neighbour, len(sq_dist) - 1)  # rank 0 is the image itself
    scale_N = np.sqrt(np.concatenate([np.partition(block, rank, axis=1)[:, rank] for block in _blocks(sq_dist)]))
    # Many exact copies of an image have scale 0: to one another they stay at affinity 1, to the rest at 0.
    scale_N = np.maximum(scale_N, 1e-12)
    sq_dist /= scale_N[:, None]
    sq_dist /= scale_N[None, :]
    affinity = _exp_of_negative(sq_dist, 1.0)
    np.fill_diagonal(affinity, 0)
    return affinity


def ncuts_affinity(sq_dist: F32, scale: float, threshold: float, is_squared: bool = True) -> F32:
    """exp(-(s / (scale * max s))^2) of s = d^2 (or s = d), small values dropped; overwrites its argument."""
    if is_squared:
        sq_dist *= sq_dist
    width = max(scale**2 * float(sq_dist.max()), _TINY)
    affinity = _exp_of_negative(sq_dist, width)
    affinity[affinity < threshold] = 0
    return affinity


def mean_squared_distance(features: F32) -> float:
    """The mean over all pairs, an image with itself among them, in one pass over the images."""
    rows = features.astype(np.float64) - features.mean(axis=0, dtype=np.float64)
    return 2 * float((rows * rows).sum(axis=1).mean())


def largest_squared_distance(features: F32) -> float:
    """The largest over all pairs, by blocks of them."""
    rows = torch.from_numpy(np.ascontiguousarray(features - features.mean(axis=0)))
    norms_N = (rows * rows).sum(dim=1)
    largest, starts = 0.0, range(0, len(rows), 1024)
    for start in track(starts, "largest distance", len(starts)):
        block = rows[start : start + 1024]
        sq_dist = torch.addmm(norms_N[None, start:], block, rows[start:].T, alpha=-2)
        largest = max(largest, float((sq_dist + norms_N[start : start + 1024, None]).max()))
    return largest


def symmetric(neighbours: Neighbours, weights: F64) -> scipy.sparse.csr_matrix:
    """Give each pair, one of which is among the other's nearest, its weight."""
    n_items = len(neighbours)
    rows = np.repeat(np.arange(n_items), neighbours.n_neighbours)
    directed = scipy.sparse.csr_matrix((weights.ravel(), (rows, neighbours.idx.ravel())), shape=(n_items, n_items))
    return directed.maximum(directed.T).tocsr()


def normalise_sparse(affinity: scipy.sparse.csr_matrix, regularisation: float = 0.0) -> tuple[Any, F64]:
    """Like `normalise`, for a sparse array; returns a new one and the factors."""
    affinity = affinity + regularisation * scipy.sparse.identity(affinity.shape[0], format="csr")
    degree_N = np.asarray(affinity.sum(axis=1)).ravel() + regularisation
    factor_N: F64 = np.where(degree_N > 1e-30, 1 / np.sqrt(np.maximum(degree_N, 1e-30)), 0.0)
    scaled = scipy.sparse.diags(factor_N) @ affinity @ scipy.sparse.diags(factor_N)
    return scaled.tocsr(), factor_N


def normalise(affinity: F32, regularisation: float = 0.0) -> F64:
    """Divide each entry by the roots of both degrees, in place; return the (N,) factors D^-1/2.

    `regularisation` is added to the diagonal and once more to every degree.
    """
    affinity[np.diag_indices_from(affinity)] += np.float32(regularisation)
    degree_N = affinity.sum(axis=1, dtype=np.float64) + regularisation
    # An image without neighbours has degree zero; its row stays zero, where a division would make it NaN.
    factor_N: F64 = np.where(degree_N > 1e-30, 1 / np.sqrt(np.maximum(degree_N, 1e-30)), 0.0)
    small_N = factor_N.astype(np.float32)
    for start in range(0, len(affinity), 1024):
        block = slice(start, start + 1024)
        # The product of the two factors first: it commutes exactly, so the array stays symmetric to the bit.
        affinity[block] *= small_N[block, None] * small_N[None, :]
    return factor_N


def top_eigenvectors(matrix: Any, n_vectors: int, seed: int) -> F64:
    """(N, n_vectors) eigenvectors of a symmetric array by falling eigenvalue, each with its largest entry positive.

    The array is one of NumPy, or a sparse one of SciPy.
    """
    found, is_sparse = None, scipy.sparse.issparse(matrix)
    if matrix.shape[0] > max(_MAX_FULL_EIGEN, 4 * n_vectors):
        found = _lanczos(matrix, n_vectors, seed)
    if found is None and is_sparse:
        if matrix.shape[0] > MAX_DENSE:
            raise invalid(
                "the graph",
                "let the eigensolver settle",
                "more unconnected parts than clusters",
                "Raise n_sparse or the scale, or use sc-ls.",
            )
        matrix = matrix.toarray()
    if found is None:
        last = len(matrix) - 1
        precise = matrix.astype(np.float64) if len(matrix) <= _MAX_FULL_EIGEN else matrix
        found = scipy.linalg.eigh(precise, subset_by_index=(last - n_vectors + 1, last))
    values, vectors = found
    vectors = vectors[:, np.argsort(-values, kind="stable")].astype(np.float64)
    sign = np.sign(vectors[np.abs(vectors).argmax(axis=0), np.arange(n_vectors)])
    signed: F64 = vectors * sign
    return signed


def landmark_weights(features: F32, landmarks: F32, n_nearest: int) -> scipy.sparse.csr_matrix:
    """(N, P) each image as a convex mix of its nearest landmarks."""
    n_images, n_nearest = len(features), min(n_nearest, len(landmarks))
    norms_P = np.einsum("pd,pd->p", landmarks, landmarks)
    sq_dist_NP = np.concatenate(
        [
            np.einsum("bd,bd->b", block, block)[:, None] + norms_P - 2 * block @ landmarks.T
            for block in _blocks(features)
        ]
    )
    np.maximum(sq_dist_NP, 0, out=sq_dist_NP)
    # The script takes the mean of the squared distances as sigma, not as sigma squared. Kept: it made the table.
    sigma = max(float(sq_dist_NP.mean(dtype=np.float64)), 1e-12)
    nearest_NR = np.argsort(sq_dist_NP, axis=1, kind="stable")[:, :n_nearest]
    sq_dist_NR = np.take_along_axis(sq_dist_NP, nearest_NR, axis=1).astype(np.float64)
    # Relative to the nearest landmark, which leaves the row-normalised weights as they are and cannot underflow.
    weight_NR = np.exp(-(sq_dist_NR - sq_dist_NR[:, :1]) / (2 * sigma**2))
    weight_NR /= weight_NR.sum(axis=1, keepdims=True)
    rows = np.repeat(np.arange(n_images), n_nearest)
    return scipy.sparse.csr_matrix((weight_NR.ravel(), (rows, nearest_NR.ravel())), shape=(n_images, len(landmarks)))


def landmark_vectors(weights: scipy.sparse.csr_matrix, n_vectors: int) -> F64:
    """Left singular vectors 2 .. n_vectors + 1 of the column-scaled weights."""
    column_sum_P = np.asarray(weights.sum(axis=0)).ravel()
    used = np.flatnonzero(column_sum_P > 0)  # a landmark that nobody is near to says nothing
    scaled = weights[:, used] @ scipy.sparse.diags(1 / np.sqrt(column_sum_P[used]))
    # The P x P Gram matrix gives the same vectors as the N x P singular value decomposition, at a fraction of its cost.
    gram_PP = (scaled.T @ scaled).toarray()
    # The first vector is the constant one, with singular value 1. If the images fall into unconnected groups there are
    # several of that value and a solver mixes them as it likes, so it is taken out by name, not by place.
    constant_P = np.sqrt(column_sum_P[used] / column_sum_P.sum())
    values, right = scipy.linalg.eigh(gram_PP - np.outer(constant_P, constant_P))
    order = np.argsort(-values, kind="stable")[: min(n_vectors, len(used) - 1)]
    left = scaled @ right[:, order] / np.sqrt(np.maximum(values[order], 1e-12))
    sign = np.sign(left[np.abs(left).argmax(axis=0), np.arange(left.shape[1])])
    signed: F64 = left * sign
    return signed


def discretise(vectors: F64, seed: int, max_rotations: int = 100) -> I64:
    """Yu and Shi's labels: alternate between the nearest indicator matrix and the rotation that fits it best."""
    unit_NK = unit_rows64(vectors)
    n_clusters = unit_NK.shape[1]
    rotation_KK = _spread_rows(unit_NK, n_clusters, numpy_generator(seed, "discretise"))
    labels: I64 = np.zeros(len(unit_NK), dtype=np.int64)
    last_fit = -np.inf
    for _ in range(max_rotations):
        labels = (unit_NK @ rotation_KK).argmax(axis=1)
        indicator_KK = np.stack(
            [np.bincount(labels, weights=column, minlength=n_clusters) for column in unit_NK.T], axis=1
        )
        left, fit, right = np.linalg.svd(indicator_KK)
        if abs(fit.sum() - last_fit) < 1e-12 * len(unit_NK):
            break
        last_fit = fit.sum()
        rotation_KK = right.T @ left.T
    return labels


def unit_rows64(rows: F64) -> F64:
    """Scale rows to unit length in float64; a zero row stays."""
    # Entries of an eigenvector may be so small that their squares underflow; the largest is made 1 first.
    largest = np.abs(rows).max(axis=1, keepdims=True)
    rows = np.divide(rows, largest, out=np.zeros_like(rows), where=largest > 1e-200)
    scaled: F64 = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-8)
    return scaled


def cluster_njw(features: F32, config: NJWConfig, *, seed: int, device: torch.device) -> Partition:
    """Ng, Jordan and Weiss with the script's scale."""
    if len(features) > config.max_images:
        near, n_items = nearest_neighbours(features, config.n_sparse, device=device), len(features)
        width = max(config.scale * mean_squared_distance(features), _TINY)
        graph = symmetric(near, np.exp(-near.sq_dist.astype(np.float64) / width))
        graph = graph + scipy.sparse.identity(n_items, format="csr") if config.keep_diagonal else graph
        return _kmeans_on_vectors(normalise_sparse(graph)[0], config.n_clusters, config.n_restarts, seed)
    affinity = njw_affinity(squared_distances(features), config.scale, config.keep_diagonal)
    normalise(affinity)
    return _kmeans_on_vectors(affinity, config.n_clusters, config.n_restarts, seed)


def cluster_self_tuning(features: F32, config: SelfTuningConfig, *, seed: int, device: torch.device) -> Partition:
    """Zelnik-Manor and Perona with k-means in place of the rotation."""
    if len(features) > config.max_images:
        near = nearest_neighbours(features, config.n_sparse, device=device)
        rank = min(config.scale_neighbour, near.n_neighbours) - 1  # here the image itself is not counted
        scale_N = np.maximum(np.sqrt(near.sq_dist[:, rank].astype(np.float64)), 1e-12)
        weights = np.exp(-near.sq_dist / (scale_N[:, None] * scale_N[near.idx]))
        return _kmeans_on_vectors(
            normalise_sparse(symmetric(near, weights))[0], config.n_clusters, config.n_restarts, seed
        )
    affinity = self_tuning_affinity(squared_distances(features), config.scale_neighbour)
    normalise(affinity)
    return _kmeans_on_vectors(affinity, config.n_clusters, config.n_restarts, seed)


def cluster_landmark(features: F32, config: LandmarkConfig, *, seed: int, device: torch.device) -> Partition:
    """Chen and Cai's landmark-based representation."""
    landmarks = _find_landmarks(features, min(config.n_landmarks, len(features)), config.landmark_iterations, seed)
    vectors = landmark_vectors(landmark_weights(features, landmarks, config.n_nearest), config.n_clusters)
    if vectors.shape[1] == 0:  # all images alike
        return Partition(np.zeros(len(features), dtype=np.int64))
    rows = unit_rows64(vectors).astype(np.float32)
    return Partition(kmeans(rows, config.n_clusters, seed=seed, n_restarts=config.n_restarts).labels)


def cluster_ncuts(features: F32, config: NCutsConfig, *, seed: int, device: torch.device) -> Partition:
    """Shi and Malik's cut, made discrete as by Yu and Shi."""
    affinity: Any
    if len(features) > config.max_images:
        near = nearest_neighbours(features, config.n_sparse, device=device)
        power = 2 if config.is_squared else 1
        width = max(config.scale**2 * largest_squared_distance(features) ** power, _TINY)
        weights = np.exp(-(near.sq_dist.astype(np.float64) ** power) / width)
        weights[weights < config.threshold] = 0
        affinity, factor_N = normalise_sparse(symmetric(near, weights), config.regularisation)
    else:
        affinity = ncuts_affinity(squared_distances(features), config.scale, config.threshold, config.is_squared)
        factor_N = normalise(affinity, config.regularisation)
    vectors = top_eigenvectors(affinity, config.n_clusters, seed) * factor_N[:, None]
    vectors /= np.maximum(np.linalg.norm(vectors, axis=0), 1e-300)
    return Partition(discretise(vectors, seed, config.max_rotations))


def _kmeans_on_vectors(
    normalised: F32 | scipy.sparse.csr_matrix, n_clusters: int, n_restarts: int, seed: int
) -> Partition:
    rows = unit_rows64(top_eigenvectors(normalised, n_clusters, seed)).astype(np.float32)
    return Partition(kmeans(rows, n_clusters, seed=seed, n_restarts=n_restarts).labels)


def _lanczos(
    matrix: npt.NDArray[np.floating] | scipy.sparse.csr_matrix, n_vectors: int, seed: int
) -> tuple[F64, F64] | None:
    """Top eigenpairs by ARPACK, or None if it gives up; products in the array's own precision, the rest in float64."""
    n_items = matrix.shape[0]
    start = numpy_generator(seed, "eigenvectors").standard_normal(n_items)
    is_sparse = scipy.sparse.issparse(matrix) or np.count_nonzero(matrix) < 0.1 * matrix.size
    operand = scipy.sparse.csr_matrix(matrix) if is_sparse else torch.from_numpy(matrix)

    def product(x: F64) -> F64:
        if is_sparse:
            return np.asarray(operand @ x.ravel(), dtype=np.float64)
        narrow = torch.from_numpy(x.ravel().astype(matrix.dtype))
        return np.asarray(torch.mv(operand, narrow).numpy(), dtype=np.float64)

    operator = scipy.sparse.linalg.LinearOperator(matrix.shape, matvec=product, dtype=np.float64)
    n_basis = min(n_items, max(2 * n_vectors + 20, 40))
    try:
        values, vectors = scipy.sparse.linalg.eigsh(
            operator, n_vectors, which="LA", v0=start, ncv=n_basis, tol=1e-5, maxiter=_MAX_RESTARTS
        )
    except scipy.sparse.linalg.ArpackNoConvergence:
        return None
    return values, vectors


def _find_landmarks(features: F32, n_landmarks: int, n_iterations: int, seed: int) -> F32:
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning

    random_state = derive_seed(seed, "landmarks") % 2**32
    solver = KMeans(n_landmarks, init="random", n_init=1, max_iter=n_iterations, random_state=random_state)
    with warnings.catch_warnings():
        # Fewer distinct images than landmarks: some landmarks coincide, which the weights bear.
        warnings.simplefilter("ignore", ConvergenceWarning)
        landmarks: F32 = solver.fit(features).cluster_centers_.astype(np.float32)
    return landmarks


def _spread_rows(unit_NK: F64, n_rows: int, generator: np.random.Generator) -> F64:
    """Start from rows as orthogonal to one another as can be found greedily, the first one at random."""
    chosen = [unit_NK[generator.integers(len(unit_NK))]]
    overlap_N = np.zeros(len(unit_NK))
    for _ in range(n_rows - 1):
        overlap_N += np.abs(unit_NK @ chosen[-1])
        chosen.append(unit_NK[overlap_N.argmin()])
    return np.stack(chosen, axis=1)


def _exp_of_negative(values: F32, width: float) -> F32:
    for block in _blocks(values):
        block /= np.float32(-width)
        np.exp(block, out=block)
    return values


def _blocks(array: F32, height: int = 1024) -> list[F32]:
    return [array[start : start + height] for start in range(0, len(array), height)]


NJW = classic_method(
    "sc-njw",
    "spectral clustering with one global scale",
    "Ng, Jordan and Weiss, NIPS 2001",
    NJWConfig,
    cluster_njw,
)
SELF_TUNING = classic_method(
    "sc-st",
    "spectral clustering, each image with its own scale",
    "Zelnik-Manor and Perona, NIPS 2004",
    SelfTuningConfig,
    cluster_self_tuning,
)
LANDMARK = classic_method(
    "sc-ls",
    "spectral clustering through landmarks, for any number of images",
    "Chen and Cai, AAAI 2011",
    LandmarkConfig,
    cluster_landmark,
)
NCUTS = classic_method(
    "ncuts",
    "normalised cuts",
    "Shi and Malik, PAMI 2000; Yu and Shi, ICCV 2003",
    NCutsConfig,
    cluster_ncuts,
)
