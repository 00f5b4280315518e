"""An encoder that learns along with the head of a method."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from selfsort.types import Inputs, Tunable

TUNED = "tuned"
"""Under this name a method's network holds the encoder, so whatever saves or restores it does so with both."""


def train_along(net: nn.Module, optimizer: torch.optim.Optimizer, images: Inputs) -> None:
    """Let the encoder of images, where it is to be trained, be a part of a network and of what an optimiser moves."""
    if not isinstance(images, Tunable):
        return
    net.add_module(TUNED, images.network)
    weights = [weight for weight in images.network.parameters() if weight.requires_grad]
    optimizer.param_groups[0]["params"].extend(weights)  # at the rate that the method sets for its head
    _take_part(optimizer, weights, images.rate)


def _take_part(optimizer: torch.optim.Optimizer, weights: list[nn.Parameter], rate: float) -> None:
    """Let these weights go only a part of each step.

    A smaller learning rate would be the same for plain gradient descent, but methods set theirs as they go, and each
    has an optimiser of its own.
    """
    before: list[Tensor] = []

    def remember(*_: Any) -> None:
        before[:] = [weight.detach().clone() for weight in weights]

    def go_back(*_: Any) -> None:
        with torch.no_grad():
            for weight, old in zip(weights, before, strict=True):
                weight.copy_(torch.lerp(old, weight, rate))
        before.clear()

    optimizer.register_step_pre_hook(remember)
    optimizer.register_step_post_hook(go_back)
