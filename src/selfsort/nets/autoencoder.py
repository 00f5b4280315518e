"""Auto-encoders: the fully convolutional one of DBC, with switch un-pooling, and the fully connected one of DEC.

FCAE, the encoder: per stage a convolution, batch normalisation, ReLU and a 2x2 max pooling, then one convolution as
large as the map that is left, so that the feature layer is a 1x1 map. The decoder is its exact mirror. It puts every
value back where the maximum was found (the "switches") and zeros elsewhere; nothing is normalised or cut off after its
last deconvolution. `ARCHITECTURES` holds the published networks, `plan_stages` a rule for any other image size.

The decoder begins at the feature layer after its ReLU. What is read there as features may be something else, which
a `Reading` says: the same before the ReLU, or whitened.

Shape letters: B batch, C channels, H x W pixels, D features.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from selfsort.errors import invalid
from selfsort.nets.whitening import Whitening

# Below this side a plain 5x5 convolution would eat most of the image; USPS (16) is the published case.
_SMALL_IMAGE = 24
# From this side on the first convolution is 9x9, as published for COIL (128).
_LARGE_IMAGE = 96
# Plain 5x5 convolutions as long as pooling leaves a map of 4 or more; then padded 3x3 ones under the same condition.
_PLAIN_SIDE, _PADDED_SIDE = 12, 8


@dataclass(frozen=True)
class Stage:
    """One convolution; a 2x2 max pooling follows."""

    channels: int
    kernel: int = 5
    padding: int = 0

    def conv_side(self, side: int) -> int:
        """Length of a side after the convolution."""
        return side + 2 * self.padding - self.kernel + 1

    def out_side(self, side: int) -> int:
        """Length of a side after the pooling, which drops an odd last row."""
        return self.conv_side(side) // 2


@dataclass(frozen=True)
class Plan:
    """An encoder: its stages, and the width of the feature layer behind them."""

    stages: tuple[Stage, ...]
    n_features: int

    def sides(self, side: int) -> list[int]:
        """Lengths of a side: of the image, then after each stage."""
        found = [side]
        for stage in self.stages:
            found.append(stage.out_side(found[-1]))
        return found


ARCHITECTURES: dict[str, Plan] = {
    "mnist": Plan((Stage(6), Stage(16)), 120),
    "usps": Plan((Stage(20, 3, 1), Stage(20, 3, 1)), 160),
    "coil": Plan((Stage(20, 9), Stage(20), Stage(20), Stage(40)), 320),
}
"""The published networks, by data set."""

_PUBLISHED_SIDES = {28: "mnist", 16: "usps", 128: "coil"}


def plan_stages(height: int, width: int) -> Plan:
    """Choose an encoder for any image size: stages until the map is between 4 and 7 pixels, then the feature layer.

    Squares of 16, 28 and 128 pixels get their published network. The widths of all others follow COIL's: 20 channels,
    twice as many in the last of three or more stages, and 160 or 320 features.

    >>> [(stage.kernel, stage.padding) for stage in plan_stages(64, 64).stages], plan_stages(64, 64).sides(64)
    ([(5, 0), (5, 0), (5, 0)], [64, 30, 13, 4])
    """
    if height == width and height in _PUBLISHED_SIDES:
        return ARCHITECTURES[_PUBLISHED_SIDES[height]]
    side = min(height, width)
    kernels: list[tuple[int, int]] = []
    while side >= _PADDED_SIDE:
        if min(height, width) < _SMALL_IMAGE or side < _PLAIN_SIDE:
            kernels.append((3, 1))
        else:
            kernels.append((9 if not kernels and side >= _LARGE_IMAGE else 5, 0))
        side = Stage(0, *kernels[-1]).out_side(side)
    is_deep = len(kernels) >= 3
    widths = [20] * len(kernels)
    if is_deep:
        widths[-1] = 40
    stages = tuple(Stage(channels, *kernel) for channels, kernel in zip(widths, kernels, strict=True))
    return Plan(stages, 320 if is_deep else 160)


@dataclass(frozen=True)
class Reading:
    """How features are read off the feature layer; as published, after its ReLU and as they are."""

    before_relu: bool = False
    whiten: bool = False


PLAIN = Reading()
"""As published."""


@dataclass(frozen=True, eq=False)
class Switches:
    """What a pooling remembers for its un-pooling: where each maximum was, and the size before."""

    idx: Tensor
    size: tuple[int, int]


class ConvEncoder(nn.Module):
    """Stages of convolution and pooling, then the feature layer: (B, C, H, W) to (B, D)."""

    def __init__(self, shape: tuple[int, int, int], plan: Plan, reading: Reading = PLAIN) -> None:
        super().__init__()
        height, width, in_channels = shape
        last_height, last_width = plan.sides(height)[-1], plan.sides(width)[-1]
        if min(plan.sides(height) + plan.sides(width)) < 1:
            raise invalid(
                "the image size",
                f"be large enough for {len(plan.stages)} stages of convolution",
                f"{height}x{width}",
                "Use --set arch=auto, or larger images with --size.",
            )
        channels = [in_channels, *(stage.channels for stage in plan.stages)]
        # Batch normalisation takes away any constant, so a bias before it would only be computed for nothing.
        self.convs = nn.ModuleList(
            nn.Conv2d(n, stage.channels, stage.kernel, padding=stage.padding, bias=False)
            for n, stage in zip(channels, plan.stages, strict=False)
        )
        self.norms = nn.ModuleList(nn.BatchNorm2d(stage.channels) for stage in plan.stages)
        self.top = nn.Conv2d(channels[-1], plan.n_features, (last_height, last_width), bias=False)
        self.top_norm = nn.BatchNorm1d(plan.n_features)
        self.before_relu = reading.before_relu
        self.whitening = Whitening(plan.n_features) if reading.whiten else nn.Identity()
        self.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    def forward(self, x_BCHW: Tensor) -> Tensor:
        """Return the features (B, D)."""
        for conv, norm in zip(self.convs, self.norms, strict=True):
            # Pooling before the ReLU gives the same maxima from a quarter of the values.
            x_BCHW = F.relu(F.max_pool2d(norm(conv(x_BCHW)), 2), inplace=True)
        return self.read(self._top(x_BCHW))

    def with_switches(self, x_BCHW: Tensor) -> tuple[Tensor, list[Switches]]:
        """Return the feature layer before its ReLU, and the switches of every pooling for the decoder."""
        switches = []
        for conv, norm in zip(self.convs, self.norms, strict=True):
            full = F.relu(norm(conv(x_BCHW)), inplace=True)
            x_BCHW, idx = F.max_pool2d(full, 2, return_indices=True)
            switches.append(Switches(idx, (full.shape[2], full.shape[3])))
        return self._top(x_BCHW), switches

    def maps(self, x_BCHW: Tensor) -> list[Tensor]:
        """Return the output of every convolution, after its ReLU and before its pooling."""
        found = []
        for conv, norm in zip(self.convs, self.norms, strict=True):
            found.append(F.relu(norm(conv(x_BCHW))))
            x_BCHW = F.max_pool2d(found[-1], 2)
        return found

    def read(self, top_BD: Tensor) -> Tensor:
        """Return the features, given the feature layer before its ReLU."""
        features_BD: Tensor = self.whitening(top_BD if self.before_relu else F.relu(top_BD))
        return features_BD

    def _top(self, x_BCHW: Tensor) -> Tensor:
        # A convolution as large as its map is a matrix product, which is quicker when called by that name.
        flat_BD = F.linear(x_BCHW.flatten(1), self.top.weight.flatten(1))
        top_BD: Tensor = self.top_norm(flat_BD)
        return top_BD


class ConvDecoder(nn.Module):
    """The mirror of a `ConvEncoder`: (B, D) and its switches to (B, C, H, W)."""

    def __init__(self, encoder: ConvEncoder) -> None:
        super().__init__()
        top, convs = encoder.top, [conv for conv in reversed(encoder.convs) if isinstance(conv, nn.Conv2d)]
        self.top = nn.ConvTranspose2d(top.out_channels, top.in_channels, _pair(top.kernel_size), bias=not convs)
        self.deconvs = nn.ModuleList(
            nn.ConvTranspose2d(
                conv.out_channels,
                conv.in_channels,
                _pair(conv.kernel_size),
                padding=_pair(conv.padding),
                bias=i == len(convs) - 1,
            )
            for i, conv in enumerate(convs)
        )
        # One after every deconvolution but the last, whose output is the image.
        self.norms = nn.ModuleList(nn.BatchNorm2d(conv.out_channels) for conv in convs)
        self.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    def forward(self, z_BD: Tensor, switches: Sequence[Switches]) -> Tensor:
        """Return the reconstructed images."""
        return self.maps(z_BD, switches)[-1]

    def maps(self, z_BD: Tensor, switches: Sequence[Switches]) -> list[Tensor]:
        """Return the output of every deconvolution; the last is the image."""
        height, width = _pair(self.top.kernel_size)
        flat_BD = F.linear(z_BD, self.top.weight.flatten(1).T)
        x_BCHW = flat_BD.view(-1, self.top.out_channels, height, width)
        if self.top.bias is not None:
            x_BCHW = x_BCHW + self.top.bias[:, None, None]
        found = [x_BCHW]
        for norm, deconv, switch in zip(self.norms, self.deconvs, reversed(switches), strict=True):
            found[-1] = F.relu(norm(found[-1]))
            found.append(deconv(F.max_unpool2d(found[-1], switch.idx, [2, 2], output_size=list(switch.size))))
        return found


class FCAE(nn.Module):
    """Fully convolutional auto-encoder."""

    def __init__(self, shape: tuple[int, int, int], plan: Plan, reading: Reading = PLAIN) -> None:
        """Build for images of this height, width and channel count; weights come from torch's global generator."""
        super().__init__()
        self.encoder = ConvEncoder(shape, plan, reading)
        self.decoder = ConvDecoder(self.encoder)

    def forward(self, x_BCHW: Tensor) -> tuple[Tensor, Tensor]:
        """Return features (B, D) and reconstructed images."""
        top_BD, switches = self.encoder.with_switches(x_BCHW)
        return self.encoder.read(top_BD), self.decoder(F.relu(top_BD), switches)

    def activations(self, x_BCHW: Tensor) -> dict[str, Tensor]:
        """Return the maps of every layer, in the order of computation."""
        top_BD, switches = self.encoder.with_switches(x_BCHW)
        back = self.decoder.maps(F.relu(top_BD), switches)
        found = {f"conv{i}": maps for i, maps in enumerate(self.encoder.maps(x_BCHW), start=1)}
        found |= {f"deconv{len(back) - i}": maps for i, maps in enumerate(back)}
        return found

    def filters(self) -> dict[str, Tensor]:
        """Return the filters next to the image, (F, C, h, w): of the first convolution and the last deconvolution."""
        first, last = [self.encoder.top, *self.encoder.convs], [self.decoder.top, *self.decoder.deconvs]
        is_deep = len(first) > 1
        conv, deconv = first[1 if is_deep else 0], last[-1]
        assert isinstance(conv, nn.Conv2d) and isinstance(deconv, nn.ConvTranspose2d)  # noqa: PT018 (narrowing)
        return {"conv1": conv.weight.detach(), "deconv1": deconv.weight.detach()}


class DenseEncoder(nn.Module):
    """Linear layers with ReLU between them: (B, C, H, W), or (B, ...) of an encoder, to (B, D).

    No ReLU follows the feature layer, so only whitening makes a difference to how it is read.
    """

    def __init__(self, shape: tuple[int, ...], widths: Sequence[int], reading: Reading = PLAIN) -> None:
        super().__init__()
        self.layers = _linear_stack([math.prod(shape), *widths])
        self.whitening = Whitening(widths[-1]) if reading.whiten else nn.Identity()
        # Features of an encoder have unit length; layers expect numbers of about one.
        self.scale = math.sqrt(shape[0]) if len(shape) == 1 else 1.0

    def forward(self, x_BCHW: Tensor) -> Tensor:
        """Return the features (B, D)."""
        return self.read(self.top(x_BCHW))

    def top(self, x_BCHW: Tensor) -> Tensor:
        """Return the feature layer, for the decoder."""
        flat_BD = x_BCHW.flatten(1)
        return _through(self.layers, flat_BD if self.scale == 1 else flat_BD * self.scale)

    def read(self, top_BD: Tensor) -> Tensor:
        """Return the features, given the feature layer."""
        features_BD: Tensor = self.whitening(top_BD)
        return features_BD


class DenseAE(nn.Module):
    """Fully connected auto-encoder of DEC: d-500-500-2000-10 and back; features and output are linear."""

    WIDTHS = (500, 500, 2000, 10)

    def __init__(self, shape: tuple[int, ...], widths: Sequence[int] = WIDTHS, reading: Reading = PLAIN) -> None:
        """Build for images, or features, of this shape; weights come from torch's global generator."""
        super().__init__()
        self.encoder = DenseEncoder(shape, widths, reading)
        self.decoder = _linear_stack([*reversed(widths), math.prod(shape)])

    def forward(self, x_BCHW: Tensor) -> tuple[Tensor, Tensor]:
        """Return features (B, D) and reconstructed images."""
        top_BD, scale = self.encoder.top(x_BCHW), self.encoder.scale
        again_BD = _through(self.decoder, top_BD)
        return self.encoder.read(top_BD), (again_BD if scale == 1 else again_BD / scale).view(x_BCHW.shape)

    def activations(self, x_BCHW: Tensor) -> dict[str, Tensor]:
        """Return the only maps there are: the reconstruction."""
        return {"reconstruction": self(x_BCHW)[1]}

    def filters(self) -> dict[str, Tensor]:
        """Return none: the layers have no filters."""
        return {}


AutoEncoder = FCAE | DenseAE


def _linear_stack(widths: Sequence[int]) -> nn.ModuleList:
    layers = nn.ModuleList(nn.Linear(n, m) for n, m in pairwise(widths))
    for layer in layers:
        assert isinstance(layer, nn.Linear)
        nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
        nn.init.zeros_(layer.bias)
    return layers


def _through(layers: nn.ModuleList, x_BD: Tensor) -> Tensor:
    for i, layer in enumerate(layers):
        x_BD = layer(x_BD if i == 0 else F.relu(x_BD))
    return x_BD


def _pair(sides: tuple[int, ...] | str) -> tuple[int, int]:
    """Narrow what torch declares for kernel sizes and paddings."""
    assert not isinstance(sides, str)
    height, width = sides
    return height, width
