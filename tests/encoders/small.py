"""An encoder of a few numbers, for tests: no weights, no package."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from hashlib import sha256

import numpy as np
import torch
from torch import Tensor, nn

from selfsort.types import Images


class Patches(nn.Module):
    """Mean colours of the four quarters of an image, as features (B, 12) and as maps (B, 12, 2, 2)."""

    def maps(self, x_BCHW: Tensor) -> Tensor:
        quarters_BC22 = torch.nn.functional.adaptive_avg_pool2d(x_BCHW, 2)
        weight = torch.linspace(-1, 1, 12 * x_BCHW.shape[1]).reshape(12, x_BCHW.shape[1], 1, 1)
        return torch.nn.functional.conv2d(quarters_BC22, weight.to(x_BCHW))

    def forward(self, x_BCHW: Tensor) -> Tensor:
        return torch.nn.functional.adaptive_avg_pool2d(x_BCHW, 2).flatten(1)


@dataclass
class SmallEncoder:
    """Gives the mean colours of quarters, and counts the images it was asked about."""

    name: str = "small"
    engine: str = "torch"
    shape: tuple[int, int, int] = (8, 8, 3)
    dim: int = 12
    seen: int = 0
    fails_after: int = 1 << 60
    net: Patches = field(default_factory=Patches)

    @property
    def digest(self) -> str:
        return sha256(self.name.encode()).hexdigest()

    def features(self, x_BCHW: Tensor) -> Tensor:
        assert x_BCHW.shape[1:] == (3, 8, 8)
        self.seen += len(x_BCHW)
        if self.seen > self.fails_after:
            raise KeyboardInterrupt
        found: Tensor = self.net(x_BCHW)
        return found

    def network(self) -> nn.Module:
        return self.net


class TinyConvNet(nn.Module):
    """Two convolutions with normalisation: something that can be trained."""

    def __init__(self) -> None:
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(0)
            self.first, self.last = nn.Conv2d(3, 8, 3, 2, 1), nn.Conv2d(8, 12, 3, 2, 1)
        self.norm, self.last_norm = nn.BatchNorm2d(8), nn.BatchNorm2d(12)

    def maps(self, x_BCHW: Tensor) -> Tensor:
        found: Tensor = self.last_norm(self.last(self.norm(self.first(x_BCHW)).relu()))
        return found

    def last_weights(self) -> list[nn.Parameter]:
        return [*self.last.parameters(), *self.last_norm.parameters()]

    def forward(self, x_BCHW: Tensor) -> Tensor:
        return self.maps(x_BCHW).mean(dim=(2, 3))


@dataclass
class TinyConvEncoder:
    """An encoder that can learn along with a method."""

    name: str = "conv"
    engine: str = "torch"
    digest: str = "0" * 64
    shape: tuple[int, int, int] = (8, 8, 3)
    dim: int = 12
    net: TinyConvNet = field(default_factory=lambda: TinyConvNet().eval())

    def features(self, x_BCHW: Tensor) -> Tensor:
        with torch.no_grad():
            found: Tensor = self.net(x_BCHW)
        return found

    def network(self) -> nn.Module:
        return copy.deepcopy(self.net)


def blobs(n: int = 60, side: int = 8, classes: int = 3) -> Images:
    """Pictures of a few colours, in turn."""
    rng = np.random.default_rng(0)
    colours = np.array([[220, 40, 30], [30, 200, 60], [40, 60, 220]])[:classes]
    base = colours[np.arange(n) % classes][:, None, None]
    return Images(np.clip(base + rng.normal(0, 12, (n, side, side, 3)), 0, 255).astype(np.uint8))
