"""Residual encoders: the published ResNets for 32, 96 and 224 pixels, and a small one that a CPU can train.

An encoder turns images into one feature vector each: a stem, stages of residual blocks (each stage but the first
halves the map), and the mean over what is left of the map. `PLANS` holds the published networks; `small_plan` is ours.

Shape letters: B batch, C channels, H x W pixels, D features.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from selfsort.types import U8

# The stem of the small network brings the longer side to at most this; most of its cost is quadratic in it.
_SMALL_SIDE = 16
# Images whose levels are counted at a time; images all alike have no deviation to divide by.
_BLOCK, _LEAST_SPREAD = 4096, 1e-3


@dataclass(frozen=True)
class Window:
    """A sliding window: its side, step and padding."""

    kernel: int
    stride: int = 1
    padding: int = 0

    def out_side(self, side: int) -> int:
        """Length of a side after it."""
        return (side + 2 * self.padding - self.kernel) // self.stride + 1


@dataclass(frozen=True)
class Plan:
    """A residual network without its head."""

    widths: tuple[int, ...]
    depths: tuple[int, ...]
    """Blocks in each stage."""
    stem: Window = Window(3, 1, 1)
    pool: Window | None = None
    """Max pooling behind the stem."""
    is_bottleneck: bool = False

    @property
    def n_features(self) -> int:
        """Width of the feature vector."""
        return self.widths[-1] * (Bottleneck.expansion if self.is_bottleneck else 1)

    def sides(self, side: int) -> list[int]:
        """Lengths of a side in front of each stage and behind the last; the first stage keeps it."""
        found = [self.stem.out_side(side)]
        if self.pool is not None:
            found[0] = self.pool.out_side(found[0])
        for _ in self.widths[1:]:
            found.append(-(-found[-1] // 2))
        return found


PLANS: dict[str, Plan] = {
    "resnet18": Plan((64, 128, 256, 512), (2, 2, 2, 2)),
    "resnet18-stl": Plan((64, 128, 256, 512), (2, 2, 2, 2), pool=Window(2, 2, 1)),
    "resnet50": Plan((64, 128, 256, 512), (3, 4, 6, 3), Window(7, 2, 3), Window(3, 2, 1), is_bottleneck=True),
}
"""The published networks: CIFAR, STL-10 and ImageNet."""


def small_plan(height: int, width: int, base: int = 32) -> Plan:
    """Three stages of one block; the stem's step brings the longer side to 16 pixels or less.

    >>> small_plan(28, 28).sides(28), small_plan(16, 16).sides(16), small_plan(48, 48).sides(48)
    ([14, 7, 4], [16, 8, 4], [16, 8, 4])
    """
    step = math.ceil(max(height, width) / _SMALL_SIDE)
    stem = Window(3, 1, 1) if step == 1 else Window(2 * step + 1, step, step)
    return Plan((base, 2 * base, 4 * base), (1, 1, 1), stem)


def plan_for(arch: str, shape: tuple[int, int, int], base: int = 32) -> Plan:
    """Look a network up; `auto` takes the published one whose image size is nearest."""
    height, width, _ = shape
    if arch == "small":
        return small_plan(height, width, base)
    if arch == "auto":
        side = max(height, width)
        arch = "resnet18" if side < 64 else "resnet18-stl" if side < 160 else "resnet50"
    return PLANS[arch]


class BasicBlock(nn.Module):
    """Two 3x3 convolutions around a shortcut."""

    def __init__(self, n_in: int, n_out: int, stride: int) -> None:
        super().__init__()
        self.conv1, self.norm1 = _conv(n_in, n_out, 3, stride), nn.BatchNorm2d(n_out)
        self.conv2, self.norm2 = _conv(n_out, n_out, 3), nn.BatchNorm2d(n_out)
        self.shortcut = _shortcut(n_in, n_out, stride)

    def forward(self, x_BCHW: Tensor) -> Tensor:
        """Return the sum of both ways."""
        inner = F.relu(self.norm1(self.conv1(x_BCHW)), inplace=True)
        return F.relu(self.norm2(self.conv2(inner)) + self.shortcut(x_BCHW), inplace=True)


class Bottleneck(nn.Module):
    """A 3x3 convolution between two 1x1 ones, four times as wide outside as inside."""

    expansion = 4

    def __init__(self, n_in: int, n_inner: int, stride: int) -> None:
        super().__init__()
        n_out = n_inner * self.expansion
        self.conv1, self.norm1 = _conv(n_in, n_inner, 1), nn.BatchNorm2d(n_inner)
        self.conv2, self.norm2 = _conv(n_inner, n_inner, 3, stride), nn.BatchNorm2d(n_inner)
        self.conv3, self.norm3 = _conv(n_inner, n_out, 1), nn.BatchNorm2d(n_out)
        self.shortcut = _shortcut(n_in, n_out, stride)

    def forward(self, x_BCHW: Tensor) -> Tensor:
        """Return the sum of both ways."""
        inner = F.relu(self.norm1(self.conv1(x_BCHW)), inplace=True)
        inner = F.relu(self.norm2(self.conv2(inner)), inplace=True)
        return F.relu(self.norm3(self.conv3(inner)) + self.shortcut(x_BCHW), inplace=True)


class ResNet(nn.Module):
    """A residual encoder: (B, C, H, W) to (B, D)."""

    def __init__(self, in_channels: int, plan: Plan) -> None:
        """Build a plan; weights come from torch's global generator."""
        super().__init__()
        stem = plan.stem
        self.stem = nn.Conv2d(in_channels, plan.widths[0], stem.kernel, stem.stride, stem.padding, bias=False)
        self.stem_norm = nn.BatchNorm2d(plan.widths[0])
        pool = plan.pool
        self.pool = nn.Identity() if pool is None else nn.MaxPool2d(pool.kernel, pool.stride, pool.padding)
        blocks: list[nn.Module] = []
        n_in = plan.widths[0]
        for stage, (n_out, depth) in enumerate(zip(plan.widths, plan.depths, strict=True)):
            for i in range(depth):
                stride = 2 if stage and not i else 1
                if plan.is_bottleneck:
                    blocks.append(Bottleneck(n_in, n_out, stride))
                    n_in = n_out * Bottleneck.expansion
                else:
                    blocks.append(BasicBlock(n_in, n_out, stride))
                    n_in = n_out
        self.blocks = nn.Sequential(*blocks)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
        self.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    def maps(self, x_BCHW: Tensor) -> Tensor:
        """Return the last map, before the mean over it."""
        found: Tensor = self.blocks(self.pool(F.relu(self.stem_norm(self.stem(x_BCHW)), inplace=True)))
        return found

    def forward(self, x_BCHW: Tensor) -> Tensor:
        """Return the features (B, D)."""
        return self.maps(x_BCHW).mean(dim=(2, 3))


class Normalise(nn.Module):
    """Images in [0, 1] to mean 0 and deviation 1 in every channel, taken over a whole data set."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(channels, 1, 1))
        self.register_buffer("deviation", torch.ones(channels, 1, 1))

    def fit(self, pixels_NHWC: U8) -> None:
        """Take both from these images; levels are counted block by block, so that nothing large is made."""
        levels = np.arange(256) / 255
        for c in range(pixels_NHWC.shape[3]):
            counts = np.zeros(256, dtype=np.int64)
            for start in range(0, len(pixels_NHWC), _BLOCK):
                counts += np.bincount(pixels_NHWC[start : start + _BLOCK, ..., c].ravel(), minlength=256)
            mean = float(np.average(levels, weights=counts))
            self.get_buffer("mean")[c] = mean
            spread = math.sqrt(float(np.average((levels - mean) ** 2, weights=counts)))
            self.get_buffer("deviation")[c] = max(spread, _LEAST_SPREAD)

    def forward(self, x_BCHW: Tensor) -> Tensor:
        """Return the normalised images."""
        return (x_BCHW - self.get_buffer("mean")) / self.get_buffer("deviation")


def _conv(n_in: int, n_out: int, kernel: int, stride: int = 1) -> nn.Conv2d:
    return nn.Conv2d(n_in, n_out, kernel, stride, kernel // 2, bias=False)


def _shortcut(n_in: int, n_out: int, stride: int) -> nn.Module:
    """Nothing where the shapes agree, else a 1x1 convolution."""
    if n_in == n_out and stride == 1:
        return nn.Identity()
    return nn.Sequential(_conv(n_in, n_out, 1, stride), nn.BatchNorm2d(n_out))
