"""How learning rates fall."""

from __future__ import annotations

import math

import torch


def half_cosine(progress: float) -> float:
    """Return the share of a learning rate that is left: 1 at 0, 0 from 1 on, along half a cosine.

    >>> [round(half_cosine(progress), 3) for progress in (0.0, 0.5, 1.0, 2.0)]
    [1.0, 0.5, 0.0, 0.0]
    """
    return 0.5 * (1 + math.cos(math.pi * min(progress, 1.0)))


def set_rate(optimizer: torch.optim.Optimizer, lr: float, progress: float) -> None:
    """Lower the learning rate along half a cosine, from `lr` at 0 to nothing at 1."""
    for group in optimizer.param_groups:
        group["lr"] = lr * half_cosine(progress)
