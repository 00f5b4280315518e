"""Normalisation: of each image; and of batches outside of training, by the batch at hand or by fresh statistics."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn


class Standardise(nn.Module):
    """Give each image mean 0 and variance 1, so that its brightness and contrast do not matter; flat ones turn zero."""

    def forward(self, x_BCHW: Tensor) -> Tensor:
        """Standardise over all pixels and channels of an image."""
        centred, spread = _centred(x_BCHW)
        return centred / (spread + 1e-3)


def standardised(x_BCHW: Tensor) -> Tensor:
    """Bring images in [0, 1] to the same mean and deviation, still in [0, 1]; what is far from the mean is cut off."""
    centred, spread = _centred(x_BCHW)
    # The deviation of natural images is about a fifth; nearly flat ones are not blown up to noise.
    return (0.5 + centred * (0.19 / (spread + 0.03))).clamp(0, 1)


def _centred(x_BCHW: Tensor) -> tuple[Tensor, Tensor]:
    """Return images less their mean, and their deviations, over all pixels and channels of an image."""
    centred = x_BCHW - x_BCHW.mean(dim=(1, 2, 3), keepdim=True)
    return centred, centred.square().mean(dim=(1, 2, 3), keepdim=True).sqrt()


@contextmanager
def batch_statistics(net: nn.Module) -> Iterator[None]:
    """Let batch normalisation use the statistics of the batch at hand, without learning them."""
    norms = _norms(net)
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


def refresh_statistics(net: nn.Module, batches: Iterable[Tensor]) -> None:
    """Replace the learned statistics of batch normalisation by the mean over these batches.

    What is learned in training are the statistics of the training images. Where those were augmented, rotated and
    scaled, they are wrong for the images themselves.
    """
    norms = _norms(net)
    before = [(norm.training, norm.momentum) for norm in norms]
    for norm in norms:
        norm.reset_running_stats()
        norm.train()
        norm.momentum = None  # torch's word for a plain average over all batches
    with torch.inference_mode():
        for x in batches:
            net(x)
    for norm, (was_training, momentum) in zip(norms, before, strict=True):
        norm.train(was_training)
        norm.momentum = momentum


def _norms(net: nn.Module) -> list[nn.BatchNorm1d | nn.BatchNorm2d]:
    """Return what normalises batches, but not inside a network that keeps its statistics whatever is done to it."""
    kept = {
        inner for module in net.modules() if getattr(module, "keeps_statistics", False) for inner in module.modules()
    }
    found = (module for module in net.modules() if module not in kept)
    return [module for module in found if isinstance(module, nn.BatchNorm1d | nn.BatchNorm2d)]
