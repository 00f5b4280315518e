"""GATCluster's formulas as they are written, one pair and one pixel at a time."""

from __future__ import annotations

import math

import numpy as np

from selfsort.types import F64, I64


def target(l: F64, power: int) -> F64:  # noqa: E741 (the paper's letter)
    n, k = l.shape
    found = np.zeros((n, k))
    for i in range(n):
        for h in range(k):
            found[i, h] = l[i, h] ** power / (sum(l[j, h] for j in range(n)) + 1e-5)
        found[i] /= found[i].sum()
    return found


def similarity(l: F64, t: F64) -> float:  # noqa: E741
    return -sum(float(np.dot(a, b)) for a, b in zip(l, t, strict=True)) / len(l)


def relation(l: F64, c: I64) -> float:  # noqa: E741
    losses = []
    for i in range(len(l)):
        for j in range(i + 1):
            lengths = (math.sqrt((l[i] ** 2).sum()) + 1e-5) * (math.sqrt((l[j] ** 2).sum()) + 1e-5)
            cosine = min(max(float(l[i] @ l[j]) / lengths, 1e-5), 1 - 1e-5)
            losses.append(-math.log(cosine) if c[i] == c[j] else -math.log(1 - cosine))
    return sum(losses) / len(losses)


def attention(la: F64, ta: F64) -> float:
    losses = []
    for i in range(la.shape[0]):
        for h in range(la.shape[1]):
            p = min(max(float(la[i, h]), 1e-5), 1 - 1e-5)
            losses.append(-float(ta[i, h]) * math.log(p) - (1 - float(ta[i, h])) * math.log(1 - p))
    return sum(losses) / len(losses)


def entropy(l: F64) -> float:  # noqa: E741
    total = 0.0
    for h in range(l.shape[1]):
        p = max(float(l[:, h].mean()), 1e-5)
        total += p * math.log(p)
    return total


def gaussian(mu_x: float, mu_y: float, delta: float, height: int, width: int, a0: float) -> F64:
    found = np.zeros((height, width))
    for row in range(height):
        for column in range(width):
            y = row / (height - 1) if height > 1 else 0.0
            x = column / (width - 1) if width > 1 else 0.0
            found[row, column] = math.exp(-((x - mu_x) ** 2 + (y - mu_y) ** 2) / (a0 * delta + 1e-5))
    return found
