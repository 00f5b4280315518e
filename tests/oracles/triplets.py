"""JULE's triplets from their definition: plain loops over pairs."""

from __future__ import annotations

from collections.abc import Sequence


def pairs(labels: Sequence[int]) -> set[tuple[int, int]]:
    """Every i < j of one cluster."""
    found = set()
    for i in range(len(labels)):
        for j in range(i + 1, len(labels)):
            if labels[i] == labels[j]:
                found.add((i, j))
    return found


def outsiders(labels: Sequence[int], i: int) -> set[int]:
    """Everybody who is not in the cluster of i."""
    return {m for m in range(len(labels)) if labels[m] != labels[i]}


def loss(
    features: Sequence[Sequence[float]],
    triplets: Sequence[tuple[int, int, int]],
    gamma: float,
    margin: float,
) -> float:
    """Mean over triplets of max(0, gamma |f_i - f_j|^2 - |f_i - f_m|^2 + margin)."""
    total = 0.0
    for i, j, m in triplets:
        pull = sum((a - b) ** 2 for a, b in zip(features[i], features[j], strict=True))
        push = sum((a - b) ** 2 for a, b in zip(features[i], features[m], strict=True))
        total += max(0.0, gamma * pull - push + margin)
    return total / len(triplets)
