"""SeCu's equations written out number by number."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from selfsort.types import F64, I64


def entropy_sum(counts: Sequence[int]) -> float:
    """Sum of (N_j/n) log(N_j/n)."""
    n = sum(counts)
    return sum(count / n * math.log(count / n) for count in counts if count) if n else 0.0


def entropy_change(counts: Sequence[int], old: int, new: int) -> float:
    """How that sum changes when one image goes from `old` (-1: from nowhere) to `new`."""
    after = list(counts)
    after[new] += 1
    if old >= 0:
        after[old] -= 1
    return entropy_sum(after) - entropy_sum(counts)


def softmax(row: F64) -> F64:
    """Exponentials over their sum."""
    found: F64 = np.array([math.exp(value - max(row)) for value in row])
    found /= found.sum()
    return found


def centre_loss(x: F64, w: F64, y: I64, lam: float) -> float:
    """Mean of -log of the softmax of x.w/lam at the label."""
    return float(np.mean([-math.log(softmax(x[i] @ w / lam)[y[i]]) for i in range(len(x))]))


def centre_gradient(x: F64, w: F64, y: I64, lam: float) -> F64:
    """The published gradient on each centre, -(1 - p_y) x / lam summed over its own images, over the batch size."""
    found = np.zeros_like(w)
    for i in range(len(x)):
        p = softmax(x[i] @ w / lam)[y[i]]
        found[:, y[i]] -= (1 - p) * x[i] / lam / len(x)
    return found


def representation_loss(x1: F64, x2: F64, w: F64, y: I64, lam: float, tau: float) -> float:
    """Half the cross-entropy of each view against the label mixed with the other view's prediction."""
    total = 0.0
    for i in range(len(x1)):
        p1, p2, label = softmax(x1[i] @ w / lam), softmax(x2[i] @ w / lam), np.eye(w.shape[1])[y[i]]
        q1, q2 = tau * label + (1 - tau) * p2, tau * label + (1 - tau) * p1
        total -= 0.5 * sum(q1[j] * math.log(p1[j]) + q2[j] * math.log(p2[j]) for j in range(w.shape[1]))
    return total / len(x1)


def closed_form(x: F64, w: F64, y: I64, lam: float) -> F64:
    """Centres at the fixed point of the centre loss: means of their images, hard ones weighing more."""
    found = w.copy()
    for j in range(w.shape[1]):
        if not (y == j).any():
            continue
        total = np.zeros(len(w))
        for i in np.flatnonzero(y == j):
            total += (1 - softmax(x[i] @ w / lam)[j]) * x[i]
        found[:, j] = total / np.linalg.norm(total)
    return found
