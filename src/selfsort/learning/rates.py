"""How learning rates fall."""

from __future__ import annotations

import math

import torch

# Of a cycle: the share of the training in which the rate rises, and the share of the rate that it rises from.
_RISE, _FIRST_SHARE = 0.3, 1 / 25


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


def one_cycle(progress: float) -> float:
    """Return the share of a learning rate that is used: from 0.04 up to 1 at three tenths, then down to nothing.

    >>> [round(one_cycle(progress), 3) for progress in (0.0, 0.15, 0.3, 0.65, 1.0)]
    [0.04, 0.52, 1.0, 0.5, 0.0]
    """
    if progress < _RISE:
        return 1 - (1 - _FIRST_SHARE) * half_cosine(progress / _RISE)
    return half_cosine((progress - _RISE) / (1 - _RISE))
