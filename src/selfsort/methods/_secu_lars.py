"""LARS: stochastic gradient descent whose step is a share of each layer's own weights, for very large batches.

You, Gitman, Ginsburg, "Large Batch Training of Convolutional Networks", 2017.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor

from selfsort.errors import invalid


class LARS(torch.optim.Optimizer):
    """Momentum SGD; the gradient of every matrix is scaled by trust * |weights| / |gradient|.

    Vectors (biases, batch normalisation) take plain momentum steps and are not decayed.
    """

    def __init__(
        self,
        params: Iterable[Tensor] | Iterable[dict[str, Any]],
        lr: float,
        momentum: float = 0.9,
        weight_decay: float = 0.0,
        trust: float = 0.001,
    ) -> None:
        if lr < 0 or trust <= 0:
            raise invalid("lr and trust", "be at least 0 and positive", (lr, trust), "Change the learning rate.")
        defaults = {"lr": lr, "momentum": momentum, "weight_decay": weight_decay, "trust": trust}
        super().__init__(params, defaults)

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """Move every parameter once."""
        if closure is not None:
            raise invalid("closure", "be left out", closure, "Compute the loss before the step.")
        for group in self.param_groups:
            for weight in group["params"]:
                if weight.grad is not None:
                    self._move(weight, weight.grad, group)

    def _move(self, weight: Tensor, gradient: Tensor, group: dict[str, Any]) -> None:
        is_matrix = weight.ndim > 1
        if is_matrix and group["weight_decay"]:
            gradient = gradient.add(weight, alpha=group["weight_decay"])
        if is_matrix:
            size, slope = weight.norm(), gradient.norm()
            ratio = torch.where((size > 0) & (slope > 0), group["trust"] * size / slope, torch.ones_like(size))
            gradient = gradient * ratio
        slots = self.state[weight]
        if "momentum_buffer" not in slots:
            slots["momentum_buffer"] = torch.zeros_like(weight)
        slots["momentum_buffer"].mul_(group["momentum"]).add_(gradient)
        weight.sub_(slots["momentum_buffer"], alpha=group["lr"])
