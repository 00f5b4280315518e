"""Batch normalisation by the batch at hand, outside of training."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn


@contextmanager
def batch_statistics(net: nn.Module) -> Iterator[None]:
    """Let batch normalisation use the statistics of the batch at hand, without learning them."""
    norms = [module for module in net.modules() if isinstance(module, nn.BatchNorm1d | nn.BatchNorm2d)]
    was_training = [norm.training for norm in norms]
    for norm in norms:
        norm.train()
        norm.track_running_stats = False
    try:
        yield
    finally:
        for norm, mode in zip(norms, was_training, strict=True):
            norm.train(mode)
            norm.track_running_stats = True
