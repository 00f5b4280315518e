"""The network of DAC: convolutions straight to one number per cluster, then the restraint layer.

Two families. `code` and its kin are the networks of the released scripts, which made the published logs: blocks of
convolutions with max pooling after each, and a head of two small linear layers that start as the identity. The script
for MNIST (`code`) normalises once more after each pooling and after the average; those for photographs do not. `paper`
is the network of the supplement: strided convolutions in place of pooling, no such head. Every convolution is followed
by batch normalisation and ReLU; weights start after He.

Shape letters: B batch, C channels, H x W pixels, D pooled features, K clusters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from selfsort.errors import invalid
from selfsort.nets.cut import Cut

Arch = Literal["code", "code-cifar", "code-cifar2", "code-stl", "code-dog", "paper"]

LAYERS = ("top", "top-1")

# From this side on the networks published for 96 pixels are taken; below the other, those for 28 and 32 get padding.
_LARGE_SIDE, _PLAIN_SIDE = 64, 24
# Two poolings must leave something.
_SMALLEST_SIDE = 4


@dataclass(frozen=True)
class Block:
    """Some convolutions of one width; then the map shrinks by `shrink`, by pooling or by the last one's stride."""

    channels: int
    n_convs: int = 3
    kernel: int = 3
    padding: int = 0
    shrink: int = 2
    is_strided: bool = False
    is_renormed: bool = False
    """Whether batch normalisation follows the pooling as well."""

    def out_side(self, side: int) -> int:
        """Length of a side after the block; below 1 if it does not fit."""
        for i in range(self.n_convs):
            side += 2 * self.padding - self.kernel + 1
            if self.is_strided and i == self.n_convs - 1:
                return (side - 1) // self.shrink + 1
        return side // self.shrink


@dataclass(frozen=True)
class Plan:
    """A network: its blocks, and what follows the 1x1 convolution that makes one map per cluster."""

    blocks: tuple[Block, ...]
    has_head: bool = True
    is_cut_off: bool = True
    """A last ReLU after the head; the scripts for CIFAR have none."""
    is_average_normed: bool = True
    """Batch normalisation after the average; the scripts for photographs have none."""

    def fits(self, side: int) -> bool:
        """Tell whether a map is left at the end."""
        for block in self.blocks:
            side = block.out_side(side)
            if side < 1:
                return False
        return True


def plan_network(height: int, width: int, arch: Arch = "code", channels: int = 64) -> Plan:
    """Choose the blocks for images of this size; `channels` is the width of the first block, 64 as published.

    Published networks come out for 28, 32 and 96 pixels. Smaller images get padded convolutions.

    >>> [block.channels for block in plan_network(96, 96).blocks]
    [64, 128, 256]
    """
    side = min(height, width)
    if side < _SMALLEST_SIDE:
        raise invalid(
            "the image size", f"be at least {_SMALLEST_SIDE} pixels", f"{height}x{width}", "Use larger images."
        )
    is_large = side >= _LARGE_SIDE
    narrow = Block(channels)
    if arch == "paper":
        kernel, shrink = (5, 4) if is_large else (3, 2)
        narrow = Block(channels, kernel=kernel, shrink=shrink, is_strided=True)
        plan = Plan((narrow, replace(narrow, channels=2 * channels)), has_head=False)
    elif arch == "code":
        narrow = replace(narrow, is_renormed=True)
        plan = Plan(_doubled(narrow, 3 if is_large else 2))
    elif arch == "code-dog":
        plan = Plan((Block(channels, 2, 5, shrink=4), Block(2 * channels, 2, 3, shrink=4)), is_average_normed=False)
    elif arch == "code-stl":
        plan = Plan(_doubled(narrow, 3), is_average_normed=False)
    else:
        narrow = replace(narrow, n_convs=2 if arch == "code-cifar" else 3)
        plan = Plan(_doubled(narrow, 2), is_cut_off=False, is_average_normed=False)
    if side < _PLAIN_SIDE or not plan.fits(side):
        plan = replace(plan, blocks=tuple(replace(block, padding=block.kernel // 2) for block in plan.blocks))
    if not plan.fits(side):
        raise invalid("the image size", f"be large enough for arch={arch}", f"{height}x{width}", "Use --set arch=code.")
    return plan


def _doubled(block: Block, n: int) -> tuple[Block, ...]:
    return tuple(replace(block, channels=block.channels * 2**i) for i in range(n))


def restrain(a_BK: Tensor) -> Tensor:
    """The restraint layer: exp, then unit length. Equal to softmax followed by L2 normalisation."""
    return F.normalize(torch.exp(a_BK - a_BK.amax(dim=1, keepdim=True)), dim=1)


class LabelNet(nn.Module):
    """Images in [0, 1] to activations (B, K), the input of softmax and restraint layer."""

    def __init__(self, in_channels: int, n_clusters: int, plan: Plan, mean: Sequence[float] | None = None) -> None:
        """Build; weights come from torch's global generator. `mean` is taken off the channels of every image."""
        super().__init__()
        self.register_buffer("mean", torch.tensor(mean or [0.0] * in_channels).view(1, -1, 1, 1))
        layers: list[nn.Module] = []
        channels = in_channels
        for block in plan.blocks:
            layers += _block(channels, block)
            channels = block.channels
        self.body = nn.Sequential(*layers)
        self.to_maps = nn.Sequential(*_conv(channels, n_clusters, 1), Cut())
        self.norm = nn.BatchNorm1d(n_clusters) if plan.is_average_normed else nn.Identity()
        self.head = nn.Sequential(*(_head(n_clusters, is_cut_off=plan.is_cut_off) if plan.has_head else ()))
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, nonlinearity="relu")
        self.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    def forward(self, x_BCHW: Tensor) -> Tensor:
        """Return the activations (B, K)."""
        maps_BKHW = self.to_maps(self.maps(x_BCHW))
        activations_BK: Tensor = self.head(self.norm(maps_BKHW.mean(dim=(2, 3))))
        return activations_BK

    def pooled(self, x_BCHW: Tensor) -> Tensor:
        """Return the features (B, D) below the maps of the clusters, averaged over the picture."""
        return self.maps(x_BCHW).mean(dim=(2, 3))

    def maps(self, x_BCHW: Tensor) -> Tensor:
        """Return what the last block makes of the images (B, D, h, w)."""
        maps_BDhw: Tensor = self.body(x_BCHW - self.get_buffer("mean"))
        return maps_BDhw


def _conv(n_in: int, n_out: int, kernel: int, padding: int = 0, stride: int = 1) -> list[nn.Module]:
    # Batch normalisation takes away any constant, so there is no bias.
    return [nn.Conv2d(n_in, n_out, kernel, stride, padding, bias=False), nn.BatchNorm2d(n_out)]


def _block(n_in: int, block: Block) -> list[nn.Module]:
    layers: list[nn.Module] = []
    for i in range(block.n_convs):
        is_last = i == block.n_convs - 1
        stride = block.shrink if is_last and block.is_strided else 1
        layers += _conv(n_in if i == 0 else block.channels, block.channels, block.kernel, block.padding, stride)
        if is_last and not block.is_strided:
            layers.append(nn.MaxPool2d(block.shrink))  # before the ReLU: the same result, fewer values
        layers.append(nn.ReLU(inplace=True))
    return [*layers, nn.BatchNorm2d(block.channels)] if block.is_renormed else layers


def _head(n_clusters: int, *, is_cut_off: bool) -> list[nn.Module]:
    layers: list[nn.Module] = []
    for is_cut in (True, is_cut_off):
        linear = nn.Linear(n_clusters, n_clusters)
        nn.init.eye_(linear.weight)
        nn.init.zeros_(linear.bias)
        layers += [linear, nn.BatchNorm1d(n_clusters), Cut() if is_cut else nn.Identity()]
    return layers
