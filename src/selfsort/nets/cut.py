"""A ReLU just before the clusters, which can be made to let some of the gradient through."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch.nn.functional as F
from torch import Tensor, nn


class Cut(nn.ReLU):
    """A ReLU for the number of a cluster; while `leaking`, some of the gradient passes what it cuts off.

    A cluster whose number is cut off for every image is dead: nothing that is learned can bring it back.
    """

    leak = 0.0

    def forward(self, input: Tensor) -> Tensor:
        """Return the input where it is positive, else 0."""
        cut = F.relu(input)
        if not self.leak:
            return cut
        below = input.clamp(max=0)
        return cut + self.leak * (below - below.detach())  # nothing is added but the gradient


@contextmanager
def leaking(net: nn.Module, leak: float = 0.1) -> Iterator[None]:
    """Let this share of the gradient pass all that a network cuts off; what it computes stays the same."""
    cuts = [module for module in net.modules() if isinstance(module, Cut)]
    for cut in cuts:
        cut.leak = leak
    try:
        yield
    finally:
        for cut in cuts:
            cut.leak = 0.0
