"""Places in the plane: principal components, a map that keeps neighbours together, and the label circle.

Everything is plain NumPy with a fixed seed, and rounded where the last bits of a matrix product depend on the number
of threads: the same features give the same map, to the byte.

Shape letters: N points, D features, K clusters, M neighbours, Q components.
"""

from __future__ import annotations

import importlib.util
import math

import numpy as np

from selfsort.metrics.neighbourhood import nearest
from selfsort.progress import track
from selfsort.types import F32, F64, I64

N_NEIGHBOURS = 12
N_ROUNDS = 300
_CELLS_FOR_BASIS = 20_000_000


def principal_components(features: F32, n_components: int) -> F64:
    """Return the (N, Q) scores on the first principal components, largest variance first, scaled to unit spread.

    The basis is found by repeated multiplication of a few random directions, which is exact enough for a picture and
    does not need the D x D covariance. Each component points to where its largest loading is positive.
    """
    n_points, n_features = features.shape
    centred = features - features.mean(axis=0, dtype=np.float64)
    every = max(1, math.ceil(n_points * n_features / _CELLS_FOR_BASIS))
    sample = centred[::every]
    n_found = min(n_components, n_features, len(sample))
    n_probes = min(n_found + 10, n_features)
    basis = np.random.default_rng(0).standard_normal((n_features, n_probes))
    for _ in range(12):
        basis, _ = np.linalg.qr(sample.T @ (sample @ basis))
    _, _, turn = np.linalg.svd(sample @ basis, full_matrices=False)
    basis = basis @ turn.T[:, :n_found]
    basis *= np.where(basis[np.abs(basis).argmax(axis=0), np.arange(n_found)] < 0, -1.0, 1.0)
    scores = np.zeros((n_points, n_components))
    scores[:, :n_found] = centred @ basis
    spread = math.sqrt(float((scores**2).mean())) or 1.0
    rounded: F64 = np.round(scores / spread, 5) + 0.0  # adding zero turns -0.0 into 0.0
    return rounded


def neighbour_map(features: F32) -> F64:
    """Place N points in the plane so that nearest neighbours stay near and others keep apart.

    Every round pulls each point to its neighbours and pushes it from a few random points, both with the Cauchy
    weight of t-SNE; the steps shrink to nothing. It starts from the first two principal components. What has two
    features already, like JULE's embedding, is drawn as it is.
    """
    n_points = len(features)
    if features.shape[1] == 2:
        centred = features - features.mean(axis=0, dtype=np.float64)
        as_it_is: F64 = np.round(centred / (math.sqrt(float((centred**2).mean())) or 1.0), 5) + 0.0
        return as_it_is
    scores = principal_components(features, min(30, max(2, features.shape[1])))
    place = scores[:, :2] * (2.0 / (float(scores[:, :2].std()) or 1.0))
    if n_points < 5:
        return place
    idx_NM = nearest(scores, min(N_NEIGHBOURS, n_points - 1))
    from_, to = np.repeat(np.arange(n_points), idx_NM.shape[1]), idx_NM.ravel()
    rng = np.random.default_rng(0)
    speed = np.zeros_like(place)
    for turn in track(range(N_ROUNDS), "drawing the map", N_ROUNDS):
        apart = place[from_] - place[to]
        pull = apart * (2 / (1 + (apart**2).sum(axis=1)))[:, None]
        force = _sum_rows(to, pull, n_points) - _sum_rows(from_, pull, n_points)
        force /= 2 * idx_NM.shape[1]
        for _ in range(4):
            apart = place - place[rng.permutation(n_points)]
            square = (apart**2).sum(axis=1)
            push = apart * (2 / ((0.01 + square) * (1 + square)))[:, None]
            force += np.clip(push, -4, 4) / 2
        speed = speed / 2 + force * (1 - turn / N_ROUNDS)
        place = place + np.clip(speed, -4, 4)
    return place


_FEWEST_FOR_TSNE = 50
"""Fewer points have no neighbourhoods that a map could show, and loading t-SNE takes seconds."""


def tsne_map(features: F32) -> F64 | None:
    """Place N points in the plane by t-SNE (van der Maaten and Hinton 2008); None without the extra `tsne`."""
    if len(features) < _FEWEST_FOR_TSNE or importlib.util.find_spec("openTSNE") is None:
        return None
    from openTSNE import TSNE

    perplexity = min(30.0, (len(features) - 1) / 3)
    with np.errstate(all="ignore"):
        drawing = TSNE(
            perplexity=perplexity,
            initialization="pca",
            early_exaggeration_iter=100,  # a third of the usual steps: several maps are drawn for one page
            n_iter=250,
            random_state=0,
            n_jobs=1,
        )
        found = drawing.fit(features)
    place: F64 = np.asarray(found, dtype=np.float64)
    return place


def label_circle(soft_NK: F32) -> F64:
    """Place soft assignments on the circle of DAC's and GATCluster's figures: sure ones at their cluster's angle.

    >>> label_circle(np.eye(4, dtype=np.float32)).round(3).tolist()
    [[1.0, 0.0], [0.0, -1.0], [-1.0, -0.0], [-0.0, 1.0]]
    """
    weight = soft_NK / np.maximum(np.abs(soft_NK).sum(axis=1, keepdims=True), 1e-12)
    angle = 2 * np.pi * np.arange(1, soft_NK.shape[1] + 1) / soft_NK.shape[1]
    place: F64 = weight.astype(np.float64) @ np.column_stack([np.sin(angle), np.cos(angle)])
    return place


def seen_from_corner(scores_N3: F64) -> F64:
    """View three components from a fixed corner: one picture of a space, as in JULE's figure."""
    across, up = math.radians(35), math.radians(25)
    x = scores_N3[:, 0] * math.cos(across) - scores_N3[:, 1] * math.sin(across)
    depth = scores_N3[:, 0] * math.sin(across) + scores_N3[:, 1] * math.cos(across)
    y = scores_N3[:, 2] * math.cos(up) + depth * math.sin(up)
    return np.column_stack([x, y])


def _sum_rows(index: I64, rows: F64, n_groups: int) -> F64:
    return np.column_stack([np.bincount(index, rows[:, c], minlength=n_groups) for c in range(rows.shape[1])])
