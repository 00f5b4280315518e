"""Non-negative matrix factorisations, then k-means on what they say about each image.

nmf-lp  locality preserving NMF (Cai, He, Wang, Bao, Han, IJCAI 2009): X ~ U V' under the Kullback-Leibler
        divergence, with a graph term that keeps the V of neighbours alike.
nmf-d   deep semi-NMF (Trigeorgis, Bousmalis, Zafeiriou, Schuller, ICML 2014): X ~ Z1 Z2 H2 with H2 >= 0.

Letters: X (D, N) images as columns; U (D, F) parts; V (N, F) how much of each part; Z (D, F) any sign;
H (F, N) >= 0; S (N, N) neighbour graph, L its Laplacian; alpha weight of the graph term.

Features of an encoder, or of a run, may be negative; nmf-lp then takes them raised by the smallest value of all.

Where we differ from the papers: nmf-lp's default is what the script behind JULE's table calls (alpha 0, ten
factors, 50 iterations, weighted samples), not the paper's alpha = 100. In nmf-d the images are first rotated onto
the subspace they span, which leaves every H exactly as it was and saves most of the work on large images.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from scipy.linalg import qr
from scipy.sparse import csr_matrix, diags, identity
from scipy.sparse.linalg import cg

from selfsort.classic.kmeans import kmeans
from selfsort.classic.method import Partition, PixelConfig, classic_method
from selfsort.config import Config, setting
from selfsort.graph.knn import nearest_neighbours
from selfsort.learning.seeds import derive_seed, numpy_generator
from selfsort.progress import track
from selfsort.types import F32

_TINY = np.float32(1e-10)


@dataclass(frozen=True, kw_only=True)
class LocalityNMFConfig(Config):
    """Settings of nmf-lp."""

    alpha: float = setting(0.0, "weight of the graph term; 0 is plain KL-NMF, the toolbox default is 100", "code")
    n_factors: int = setting(10, "parts an image is made of", "code")
    n_iterations: int = setting(50, "multiplicative updates", "code")
    n_neighbours: int = setting(5, "neighbours in the graph, for alpha > 0", "code")
    is_weighted: bool = setting(True, "weigh each image by 1 / (its product with the sum of all images)", "code")
    n_restarts: int = setting(10, "k-means starts on V", "code")

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require("alpha", self.alpha >= 0, "be 0 or more")
        for name in ("n_factors", "n_iterations", "n_neighbours", "n_restarts"):
            self.require(name, getattr(self, name) >= 1, "be at least 1")


@dataclass(frozen=True, kw_only=True)
class DeepSemiNMFConfig(PixelConfig):
    """Settings of nmf-d."""

    layers: tuple[int, ...] = setting((160, 160), "factors of each layer, from the images up", "code")
    n_iterations: int = setting(500, "most updates per layer before, and of all layers in, fine-tuning", "code")
    tolerance: float = setting(1e-5, "stop when the error falls by less than this fraction", "code")
    n_restarts: int = setting(10, "k-means starts on the top H", "code")

    def __post_init__(self) -> None:
        super().__post_init__()
        are_counts = len(self.layers) > 0 and all(size >= 1 for size in self.layers)
        self.require("layers", are_counts, "hold one number of factors or more, each at least 1")
        self.require("n_iterations", self.n_iterations >= 1, "be at least 1")
        self.require("tolerance", self.tolerance >= 0, "be 0 or more")
        self.require("n_restarts", self.n_restarts >= 1, "be at least 1")


@dataclass(frozen=True, eq=False)
class Factors:
    """X ~ U V'."""

    u: F32
    """(D, F), columns sum to one."""
    v: F32
    """(N, F)"""


def sample_weights(features: F32) -> F32:
    """1 / (x_i . sum_j x_j): the weighting of normalised cuts."""
    weights: F32 = 1 / np.maximum(features @ features.sum(axis=0, dtype=np.float64).astype(np.float32), _TINY)
    return weights


def neighbour_laplacian(features: F32, n_neighbours: int, device: torch.device) -> csr_matrix:
    """L = D - S of the symmetrised 0-1 neighbour graph."""
    neighbours = nearest_neighbours(features, n_neighbours, device=device)
    n_items = len(features)
    rows = np.repeat(np.arange(n_items), neighbours.n_neighbours)
    directed = csr_matrix((np.ones(len(rows)), (rows, neighbours.idx.ravel())), shape=(n_items, n_items))
    graph = directed.maximum(directed.T)
    return csr_matrix(diags(np.asarray(graph.sum(axis=1)).ravel()) - graph)


def kl_nmf(
    features: F32,
    n_factors: int,
    n_iterations: int,
    *,
    seed: int,
    alpha: float = 0.0,
    laplacian: csr_matrix | None = None,
) -> Factors:
    """Minimise KL(X || V U') + alpha/2 sum_ij S_ij [KL(v_i||v_j) + KL(v_j||v_i)] by multiplicative updates.

    The rows of `features` are the images: X here is the transpose of the letter above.
    With alpha > 0 each column of V solves (I + alpha L) v = b, where b is the plain update. This is the authors'
    step: it takes log(x/y) as 1 - y/x, which is exact to first order where neighbours agree.
    """
    generator = numpy_generator(seed, "nmf")
    v_NF: F32 = generator.uniform(0.1, 1.0, (len(features), n_factors)).astype(np.float32)
    u_DF: F32 = generator.uniform(0.1, 1.0, (features.shape[1], n_factors)).astype(np.float32)
    u_DF /= u_DF.sum(axis=0)
    for _ in track(range(n_iterations), "factorising", n_iterations):
        v_NF, u_DF = _kl_step(features, v_NF, u_DF, alpha, laplacian)
    return Factors(u_DF, v_NF)


def _kl_step(features: F32, v_NF: F32, u_DF: F32, alpha: float, laplacian: csr_matrix | None) -> tuple[F32, F32]:
    # The columns of U sum to one, by which the plain update of V would divide.
    new_v = np.concatenate([v_NF[b] * (_ratio(features[b], v_NF[b], u_DF) @ u_DF) for b in _blocks(len(features))])
    if alpha > 0 and laplacian is not None:
        new_v = smooth(new_v, alpha, laplacian, v_NF)
    gain_DF = np.zeros_like(u_DF)
    for b in _blocks(len(features)):
        gain_DF += _ratio(features[b], new_v[b], u_DF).T @ new_v[b]
    new_u = u_DF * gain_DF / np.maximum(new_v.sum(axis=0), _TINY)
    # The divergence does not mind in which factor the scale sits. The graph term does, so it always sits in V.
    scale_F = np.maximum(new_u.sum(axis=0), _TINY)
    return new_v * scale_F, new_u / scale_F


def smooth(v_NF: F32, alpha: float, laplacian: csr_matrix, start_NF: F32) -> F32:
    """Solve (I + alpha L) v = b for every column b."""
    system = identity(len(v_NF), format="csr") + alpha * laplacian
    columns = [
        cg(system, target, x0=start, rtol=1e-6, atol=0.0, maxiter=1000)[0]
        for target, start in zip(v_NF.T.astype(np.float64), start_NF.T.astype(np.float64), strict=True)
    ]
    # The exact solution is never negative, the inverse of I + alpha L having no negative entry; rounding may be.
    smoothed: F32 = np.maximum(np.stack(columns, axis=1), 0).astype(np.float32)
    return smoothed


def nonnegative_start(values_DN: F32, n_factors: int, seed: int) -> F32:
    """(F, N) the H of NNDSVD (Boutsidis and Gallopoulos 2008): of each singular pair the larger one-signed half."""
    from sklearn.utils.extmath import randomized_svd

    random_state = derive_seed(seed, "nndsvd") % 2**32
    left, strength, right = randomized_svd(np.abs(values_DN), n_factors, random_state=random_state)
    h_FN = np.zeros((n_factors, values_DN.shape[1]), dtype=np.float32)
    for f in range(n_factors):
        halves = []
        for sign in (1, -1):
            x, y = np.maximum(sign * left[:, f], 0), np.maximum(sign * right[f], 0)
            length = float(np.linalg.norm(y))
            halves.append((float(np.linalg.norm(x)) * length, y / max(length, 1e-30)))
        product, direction = halves[0] if halves[0][0] >= halves[1][0] else halves[1]
        h_FN[f] = np.sqrt(strength[f] * product) * direction
    return h_FN


def update_h(h_FN: F32, zx_FN: F32, zz_FF: F32) -> F32:
    """H <- H sqrt( ([Z'X]+ + [Z'Z]- H) / ([Z'X]- + [Z'Z]+ H) ), with [A]+ and [A]- the parts of A = [A]+ - [A]-."""
    up = np.maximum(zx_FN, 0) + np.maximum(-zz_FF, 0) @ h_FN
    down = np.maximum(-zx_FN, 0) + np.maximum(zz_FF, 0) @ h_FN
    updated: F32 = h_FN * np.sqrt(up / np.maximum(down, _TINY))
    return np.maximum(updated, _TINY)  # from zero an entry could never come back


def semi_nmf(values_DN: F32, n_factors: int, n_iterations: int, tolerance: float, seed: int) -> tuple[F32, F32]:
    """Z (D, F) and H (F, N) >= 0 with X ~ Z H."""
    h_FN = np.maximum(nonnegative_start(values_DN, n_factors, seed), _TINY)
    z_DF: F32 = values_DN @ pinv_wide(h_FN)
    stop = _Plateau(values_DN, tolerance)
    for _ in track(range(n_iterations), "factorising", n_iterations):
        zx_FN: F32 = z_DF.T @ values_DN
        h_FN = update_h(h_FN, zx_FN, z_DF.T @ z_DF)
        xh_DF: F32 = values_DN @ h_FN.T
        z_DF = xh_DF @ _inverse(h_FN @ h_FN.T)
        if stop.reached(xh_DF, z_DF, h_FN):
            break
    return z_DF, h_FN


def deep_semi_nmf(
    features: F32, layers: tuple[int, ...], n_iterations: int, tolerance: float, seed: int
) -> tuple[list[F32], F32]:
    """Z1, Z2, ... and the top H with X ~ Z1 Z2 ... H; rows of `features` are images.

    The layers are found one by one from the images up, then tuned together. The lower layers' own H is not kept up
    to date while tuning: the other updates see it only as the product of the factors above.
    """
    values_DN = span_coordinates(features.T)
    zs: list[F32] = []
    h_FN = values_DN
    for depth, size in enumerate(layers):
        z, h_FN = semi_nmf(h_FN, min(size, *h_FN.shape), n_iterations, tolerance, derive_seed(seed, f"layer {depth}"))
        zs.append(z)
    stop = _Plateau(values_DN, tolerance)
    for _ in track(range(n_iterations), "tuning all layers", n_iterations):
        h_FN = _tune(values_DN, zs, h_FN)
        product_DF = _chain(zs)
        if stop.reached(values_DN @ h_FN.T, product_DF, h_FN):
            break
    return zs, h_FN


def span_coordinates(values_DN: F32) -> F32:
    """Coordinates of the columns in an orthonormal basis of what they span, if that is shorter than the columns.

    Semi-NMF sees its data only through products X'X, which this keeps: Z turns with the basis, H stays.
    """
    n_rows, n_columns = values_DN.shape
    if n_rows <= n_columns:
        return np.ascontiguousarray(values_DN)
    (triangle,) = qr(values_DN, mode="r", check_finite=False)
    coordinates: F32 = np.ascontiguousarray(triangle[:n_columns])
    return coordinates


def pinv_wide(h_FN: F32) -> F32:
    """(N, F) pseudo-inverse of a matrix with more columns than rows."""
    return h_FN.T @ _inverse(h_FN @ h_FN.T)


def cluster_locality(features: F32, config: LocalityNMFConfig, *, seed: int, device: torch.device) -> Partition:
    """KL-NMF with or without the graph, then k-means on V."""
    lowest, notes = float(features.min()), tuple[str, ...]()
    if lowest < 0:
        # What its users do with features of any sign; distances, and so the graph, stay what they were.
        features = features - np.float32(lowest)
        notes = (f"The features were raised by {-lowest:.3g}, because nmf-lp takes no negative value.",)
    laplacian = neighbour_laplacian(features, config.n_neighbours, device) if config.alpha > 0 else None
    weighted = features * sample_weights(features)[:, None] if config.is_weighted else features
    factors = kl_nmf(
        weighted, config.n_factors, config.n_iterations, seed=seed, alpha=config.alpha, laplacian=laplacian
    )
    fit = kmeans(factors.v, config.n_clusters, seed=seed, n_restarts=config.n_restarts)
    return Partition(fit.labels, warnings=notes, extras={"parts": factors.u.T.copy(), "amounts": factors.v})


def cluster_deep(features: F32, config: DeepSemiNMFConfig, *, seed: int, device: torch.device) -> Partition:
    """Deep semi-NMF, then k-means on the top layer's H."""
    _, h_FN = deep_semi_nmf(features, config.layers, config.n_iterations, config.tolerance, seed)
    amounts = np.ascontiguousarray(h_FN.T)
    fit = kmeans(amounts, config.n_clusters, seed=seed, n_restarts=config.n_restarts)
    largest = min(features.shape)
    notes = [
        f"Layer {depth + 1} has {largest} factors in place of {size}: there cannot be more than images or values."
        for depth, size in enumerate(config.layers)
        if size > largest
    ]
    return Partition(fit.labels, warnings=tuple(notes), extras={"amounts": amounts})


def _tune(values_DN: F32, zs: list[F32], h_FN: F32) -> F32:
    """One round over all layers, in place in `zs`; returns the new top H."""
    for depth in range(len(zs)):
        above_FN = _chain([*zs[depth + 1 :], h_FN])
        z = values_DN @ pinv_wide(above_FN)
        if depth:
            below_DF = _chain(zs[:depth])
            z = _inverse(below_DF.T @ below_DF) @ (below_DF.T @ z)
        zs[depth] = z
    product_DF = _chain(zs)
    return update_h(h_FN, product_DF.T @ values_DN, product_DF.T @ product_DF)


class _Plateau:
    """Tells when ||X - Z H|| no longer falls by more than a fraction."""

    def __init__(self, values_DN: F32, tolerance: float) -> None:
        self.total = float(np.einsum("dn,dn->", values_DN, values_DN, dtype=np.float64))
        self.tolerance = tolerance
        self.last = np.inf

    def reached(self, xh_DF: F32, z_DF: F32, h_FN: F32) -> bool:
        """Take in the state after an iteration (with X H'); the residual itself is never formed."""
        hh_FF, zz_FF = h_FN @ h_FN.T, z_DF.T @ z_DF
        cross, square = np.vdot(z_DF, xh_DF), np.vdot(zz_FF, hh_FF)
        error = float(np.sqrt(max(self.total - 2 * float(cross) + float(square), 0.0)))
        is_flat = self.last - error <= self.tolerance * self.last
        self.last = error
        return is_flat


def _chain(matrices: list[F32]) -> F32:
    product: F32 = matrices[0] if len(matrices) == 1 else np.linalg.multi_dot(matrices)
    return product


def _inverse(gram_FF: F32) -> F32:
    """Pseudo-inverse of a small symmetric matrix; directions below float32's resolution are left out."""
    inverse: F32 = np.linalg.pinv(gram_FF.astype(np.float64), rcond=1e-7, hermitian=True).astype(np.float32)
    return inverse


def _ratio(x_BD: F32, v_BF: F32, u_DF: F32) -> F32:
    ratio = v_BF @ u_DF.T
    np.maximum(ratio, _TINY, out=ratio)
    result: F32 = np.divide(x_BD, ratio, out=ratio)
    return result


def _blocks(n_rows: int, height: int = 1024) -> list[slice]:
    return [slice(start, start + height) for start in range(0, n_rows, height)]


LOCALITY = classic_method(
    "nmf-lp",
    "non-negative parts under the KL divergence, neighbours kept alike",
    "Cai, He, Wang, Bao and Han, IJCAI 2009",
    LocalityNMFConfig,
    cluster_locality,
)
DEEP = classic_method(
    "nmf-d",
    "deep semi-NMF",
    "Trigeorgis, Bousmalis, Zafeiriou and Schuller, ICML 2014",
    DeepSemiNMFConfig,
    cluster_deep,
)
