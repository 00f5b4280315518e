"""Objectives and single updates of the factorisations, entry by entry."""

from __future__ import annotations

import numpy as np

from selfsort.types import F64


def kl_divergence(x: F64, y: F64) -> float:
    total = 0.0
    for a, b in zip(x.ravel(), y.ravel(), strict=True):
        total += (a * np.log(a / b) if a > 0 else 0.0) - a + b
    return float(total)


def locality_objective(x: F64, v: F64, u: F64, graph: F64, alpha: float) -> float:
    """KL(X || V U') + alpha/2 sum_ij S_ij [KL(v_i||v_j) + KL(v_j||v_i)]."""
    n = len(x)
    pull: float = sum(
        graph[i, j] * (kl_divergence(v[i], v[j]) + kl_divergence(v[j], v[i]))
        for i in range(n)
        for j in range(n)
        if graph[i, j]
    )
    return kl_divergence(x, v @ u.T) + alpha * float(pull) / 2


def semi_nmf_update(x: F64, z: F64, h: F64) -> F64:
    zx, zz = z.T @ x, z.T @ z
    new = np.empty_like(h)
    for f in range(h.shape[0]):
        for n in range(h.shape[1]):
            up = max(zx[f, n], 0) + sum(max(-zz[f, g], 0) * h[g, n] for g in range(len(h)))
            down = max(-zx[f, n], 0) + sum(max(zz[f, g], 0) * h[g, n] for g in range(len(h)))
            new[f, n] = h[f, n] * np.sqrt(up / down)
    return new
