"""The losses of teach from their definitions, one number at a time."""

from __future__ import annotations

import math

from selfsort.types import F64


def smoothed_cross_entropy(logits: F64, labels: list[int], smoothing: float) -> float:
    """Mean over images of - sum_k target_k log p_k, with a share of each label spread over all clusters."""
    total = 0.0
    for row, label in zip(logits.tolist(), labels, strict=True):
        n = len(row)
        log_sum = math.log(sum(math.exp(value) for value in row))
        for k, value in enumerate(row):
            target = smoothing / n + (1 - smoothing if k == label else 0.0)
            total -= target * (value - log_sum)
    return total / len(labels)


def agreement(student: tuple[F64, F64], teacher: tuple[F64, F64], marginal: F64, beta: float) -> float:
    """Mean over pairs of -w (pmi(x, x') + pmi(x', x)) / 2; the arguments are probabilities (B, K) and (K,)."""
    (first_s, second_s), (first_t, second_t) = student, teacher
    total = 0.0
    for i in range(len(first_s)):
        weight = sum(first_t[i, k] * second_t[i, k] for k in range(len(marginal)))
        there = sum((first_s[i, k] * second_t[i, k]) ** beta / marginal[k] for k in range(len(marginal)))
        back = sum((second_s[i, k] * first_t[i, k]) ** beta / marginal[k] for k in range(len(marginal)))
        total -= weight * (math.log(there) + math.log(back)) / 2
    return float(total / len(first_s))
