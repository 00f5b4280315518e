"""Spectral steps from their definitions, one entry at a time."""

from __future__ import annotations

import numpy as np

from selfsort.types import F32, F64


def squared_distances(x: F32) -> F64:
    exact = x.astype(np.float64)
    return np.array([[((a - b) ** 2).sum() for b in exact] for a in exact])


def self_tuning(sq_dist: F64, neighbour: int) -> F64:
    n = len(sq_dist)
    scale = [np.sqrt(np.sort(row)[neighbour]) for row in sq_dist]  # place 0 is the image itself
    affinity = np.zeros((n, n))
    for i in range(n):
        for j in range(n):
            if i != j:
                affinity[i, j] = np.exp(-sq_dist[i, j] / (scale[i] * scale[j]))
    return affinity


def landmark_weights(x: F32, landmarks: F32, n_nearest: int) -> F64:
    sq_dist = np.array([[((a - p) ** 2).sum() for p in landmarks.astype(np.float64)] for a in x.astype(np.float64)])
    sigma = sq_dist.mean()
    weights = np.zeros_like(sq_dist)
    for i, row in enumerate(sq_dist):
        for p in np.argsort(row, kind="stable")[:n_nearest]:
            weights[i, p] = np.exp(-row[p] / (2 * sigma**2))
        weights[i] /= weights[i].sum()
    return weights
