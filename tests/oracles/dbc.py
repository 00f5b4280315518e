"""DBC's equations written out number by number, and pooling as one would do it on paper."""

from __future__ import annotations

import math

import numpy as np

from selfsort.types import F64


def scores(z: F64, mu: F64, v: float) -> F64:
    """s_ij, from the definition."""
    s = np.zeros((len(z), len(mu)))
    for i in range(len(z)):
        for j in range(len(mu)):
            u = 1 + sum((z[i, d] - mu[j, d]) ** 2 for d in range(z.shape[1])) / v
            s[i, j] = u ** (-(v + 1) / 2)
        s[i] /= s[i].sum()
    return s


def target(s: F64, alpha: float, sizes: str) -> F64:
    """r_ij, from the definition."""
    n, k = s.shape
    r = np.zeros((n, k))
    for j in range(k):
        size = {"boosted": sum(s[:, j] ** alpha), "soft": sum(s[:, j]), "constant": 1.0}[sizes]
        for i in range(n):
            r[i, j] = s[i, j] ** alpha / size
    for i in range(n):
        r[i] /= sum(r[i])
    return r


def kl(r: F64, s: F64) -> float:
    """Sum over images and clusters of r log(r / s), divided by the number of images."""
    total = 0.0
    for i in range(len(r)):
        for j in range(r.shape[1]):
            if r[i, j] > 0:
                total += r[i, j] * math.log(r[i, j] / s[i, j])
    return total / len(r)


def gradients(z: F64, mu: F64, r: F64, v: float) -> tuple[F64, F64]:
    """The published derivatives of the summed KL with respect to features and centres, for a constant target."""
    s = scores(z, mu, v)
    dz, dmu = np.zeros_like(z), np.zeros_like(mu)
    for i in range(len(z)):
        for j in range(len(mu)):
            gap = z[i] - mu[j]
            pull = (1 + v) / v * (r[i, j] - s[i, j]) / (1 + gap @ gap / v)
            dz[i] += pull * gap
            dmu[j] -= pull * gap
    return dz, dmu


def unpooled(full: F64, small: F64) -> F64:
    """Put each value of `small` where its 2x2 window of `full` has its first maximum; zeros elsewhere."""
    out = np.zeros_like(full)
    for y in range(small.shape[0]):
        for x in range(small.shape[1]):
            window = full[2 * y : 2 * y + 2, 2 * x : 2 * x + 2]
            dy, dx = np.unravel_index(window.argmax(), window.shape)
            out[2 * y + dy, 2 * x + dx] = small[y, x]
    return out
