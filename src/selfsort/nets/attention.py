"""The networks of GATCluster: an image module of 3x3 convolutions, a label module and a Gaussian attention module.

The image module ends in a small map with one channel per cluster. The label module averages it over the whole image and
gives the label features l. The attention module looks at the same map, places one Gaussian bump on it and gives the
label features l^a of what lies under the bump. `ARCHITECTURES` holds the published stems; `plan_network` adds unpadded
convolutions until the map has the size asked for, which is how the published variants differ, and is our rule for any
other image size.

Shape letters: B batch, C channels, H x W pixels, h x w positions of the map, D features, K clusters.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from selfsort.errors import invalid
from selfsort.nets.cut import Cut
from selfsort.nets.norm import standardised

Arch = Literal["auto", "stl", "dog-96", "dog-128", "cifar", "small"]
AttentionKind = Literal["gaussian", "soft"]
Modules = Literal["code", "paper"]

PRINTED_CHANNELS = 64
"""Of the label module's convolution in the paper's Table S7."""

# The published maps are 6x6 or 5x5; unless told otherwise, convolutions are added until the map is no larger than this.
_LARGEST_MAP = 7
# From this side on three poolings leave a map of 4 or more; below 28 there is no room for unpadded convolutions.
_THREE_POOLINGS, _UNPADDED = 80, 28
# Keeps the width of a Gaussian positive (released code).
_MIN_WIDTH = 1e-5
# Rec. 601, as in Pillow's conversion to gray.
_LUMA = (0.299, 0.587, 0.114)


@dataclass(frozen=True)
class Conv:
    """One convolution of stride 1, followed by batch normalisation and ReLU."""

    channels: int
    kernel: int = 3
    padding: int = 0

    def out_side(self, side: int) -> int:
        """Length of a side after the convolution."""
        return side + 2 * self.padding - self.kernel + 1


@dataclass(frozen=True)
class Plan:
    """An image module: stages, each followed by a 2x2 max pooling, then further convolutions."""

    stages: tuple[tuple[Conv, ...], ...]
    extra: tuple[Conv, ...] = ()

    @property
    def n_features(self) -> int:
        """Channels of the map before it is brought to one channel per cluster."""
        return (self.extra or self.stages[-1])[-1].channels

    def side(self, side: int) -> int:
        """Length of a side of the map; below 1 if the image is too small."""
        for stage in self.stages:
            for conv in stage:
                side = conv.out_side(side)
            side //= 2
        for conv in self.extra:
            side = conv.out_side(side)
        return side

    def scaled(self, width: float) -> Plan:
        """Return the same plan with this share of the channels, at least four."""

        def narrow(convs: tuple[Conv, ...]) -> tuple[Conv, ...]:
            return tuple(replace(conv, channels=max(4, round(width * conv.channels))) for conv in convs)

        return Plan(tuple(narrow(stage) for stage in self.stages), narrow(self.extra))


_LATER = ((Conv(128),) * 3, (Conv(256),) * 3)

ARCHITECTURES: dict[str, Plan] = {
    "stl": Plan(((Conv(64),) * 3, *_LATER)),  # STL-10 and ImageNet-10
    "dog-96": Plan(((Conv(64, 5, 1), Conv(64), Conv(64)), *_LATER)),  # ImageNet-Dog
    "dog-128": Plan(((Conv(64, 7, 1), Conv(64), Conv(64)), *_LATER)),
    "cifar": Plan(((Conv(64, 3, 1),) * 3, (Conv(128),) * 3)),
    "small": Plan(((Conv(64, 3, 1),) * 3, (Conv(128, 3, 1),) * 3)),  # ours, for images below 28 pixels
}
"""Stems by experiment; what `plan_network` adds completes them."""


def plan_network(height: int, width: int, arch: Arch = "auto", map_side: int = 0) -> Plan:
    """Choose an image module: the stem for this image size, then unpadded 3x3 convolutions down to the map asked for.

    Args:
        height: of the images, in pixels.
        width: of the images, in pixels.
        arch: a key of `ARCHITECTURES`, or auto: by the shorter side.
        map_side: shorter side of the map; 0 takes the first that is 7 or less.

    >>> [plan_network(side, side).side(side) for side in (28, 32, 96, 128, 160, 192, 224)]
    [4, 5, 6, 6, 6, 6, 6]
    """
    side = min(height, width)
    if arch == "auto":
        arch = "stl" if side >= _THREE_POOLINGS else "cifar" if side >= _UNPADDED else "small"
    stem = ARCHITECTURES[arch]
    reached = stem.side(side)
    if reached < 1:
        raise invalid(
            "the image size", f"be large enough for arch={arch}", f"{height}x{width}", "Use arch=auto or raise --size."
        )
    if map_side and (reached < map_side or (reached - map_side) % 2):
        possible = ", ".join(str(s) for s in range(reached, 0, -2))
        raise invalid("map_side", f"be one that {side} pixels can give ({possible})", map_side, "Change it or --size.")
    n_extra = max(0, -(-(reached - (map_side or _LARGEST_MAP)) // 2))
    return replace(stem, extra=(Conv(stem.n_features),) * n_extra)


def gaussian_map(parameters_B3: Tensor, height: int, width: int, *, a0: float = 0.1, tied: bool = False) -> Tensor:
    """Draw A(u) = exp(-||u - mu||^2 / (a0 delta)) on a grid over [0, 1]^2.

    Args:
        parameters_B3: mu_x (along the width), mu_y (along the height) and delta, each in [0, 1].
        height: rows of the grid.
        width: columns of the grid.
        a0: width at delta = 1; the paper prints 0.05, its code computes with 0.1.
        tied: take delta for mu_y as well, as the released code does by mistake.
    """
    mu_x_B, mu_y_B, delta_B = parameters_B3.unbind(dim=1)
    if tied:
        mu_y_B = delta_B
    y_h = torch.linspace(0, 1, height, dtype=parameters_B3.dtype, device=parameters_B3.device)
    x_w = torch.linspace(0, 1, width, dtype=parameters_B3.dtype, device=parameters_B3.device)
    squared_Bhw = (y_h - mu_y_B[:, None]).square()[:, :, None] + (x_w - mu_x_B[:, None]).square()[:, None, :]
    return torch.exp(-squared_Bhw / (a0 * delta_B + _MIN_WIDTH)[:, None, None])


class Prepare(nn.Module):
    """Colour to gray if asked for, then subtract a mean and divide by a deviation.

    `is_standardised` tells that the network expects images of the same brightness and contrast. They are made so where
    images are read and not here: before they are augmented, or a black border would count.
    """

    def __init__(
        self, is_gray: bool, mean: tuple[float, ...], std: tuple[float, ...], *, is_standardised: bool = False
    ) -> None:
        super().__init__()
        self.is_standardised = is_standardised
        self.is_gray, self.is_plain = is_gray, set(mean) == {0.0} and set(std) == {1.0}
        # Constants of the settings, so not part of what is saved.
        self.register_buffer("luma", torch.tensor(_LUMA)[:, None, None], persistent=False)
        self.register_buffer("mean", torch.tensor(mean)[:, None, None], persistent=False)
        self.register_buffer("std", torch.tensor(std)[:, None, None], persistent=False)

    def gray(self, x_BCHW: Tensor) -> Tensor:
        """Return one channel where gray is asked for and colour is given."""
        if not self.is_gray or x_BCHW.shape[1] == 1:
            return x_BCHW
        return (x_BCHW * self.get_buffer("luma")).sum(dim=1, keepdim=True)

    def forward(self, x_BCHW: Tensor) -> Tensor:
        """Return what the first convolution sees; gray images stay as they are."""
        x_BCHW = self.gray(x_BCHW)
        return x_BCHW if self.is_plain else (x_BCHW - self.get_buffer("mean")) / self.get_buffer("std")


class ConvUnit(nn.Module):
    """Convolution, batch normalisation and, where wanted, pooling and ReLU."""

    def __init__(self, in_channels: int, conv: Conv, *, is_pooled: bool = False, has_relu: bool = True) -> None:
        super().__init__()
        # Batch normalisation takes away any constant, so a bias before it would only be computed for nothing.
        self.conv = nn.Conv2d(in_channels, conv.channels, conv.kernel, padding=conv.padding, bias=False)
        self.norm = nn.BatchNorm2d(conv.channels)
        self.is_pooled, self.has_relu = is_pooled, has_relu

    def forward(self, x_BCHW: Tensor) -> Tensor:
        """Pool before the ReLU: the order does not change the result, and a quarter of the values is left."""
        x_BCHW = self.norm(self.conv(x_BCHW))
        if self.is_pooled:
            x_BCHW = F.max_pool2d(x_BCHW, 2)
        return F.relu(x_BCHW, inplace=True) if self.has_relu else x_BCHW


class Head(nn.Module):
    """Linear(K, K), ReLU, Linear(K, K), softmax."""

    def __init__(self, n_clusters: int) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(n_clusters, n_clusters), nn.Linear(n_clusters, n_clusters)
        self.cut = Cut()

    def forward(self, x_BK: Tensor) -> Tensor:
        """Return probabilities (B, K)."""
        return F.softmax(self.second(self.cut(self.first(x_BK))), dim=1)


class PrintedHead(nn.Module):
    """Three linear layers with ReLU between them, then softmax: Tables S7 and S8.

    They print Linear(K, K) three times behind 64 channels; the first must take those.
    """

    def __init__(self, n_clusters: int) -> None:
        super().__init__()
        sizes = (PRINTED_CHANNELS, n_clusters, n_clusters, n_clusters)
        self.layers = nn.ModuleList(nn.Linear(sizes[i], sizes[i + 1]) for i in range(3))
        self.cut = Cut()

    def forward(self, x_BD: Tensor) -> Tensor:
        """Return probabilities (B, K)."""
        for layer in self.layers[:2]:
            x_BD = self.cut(layer(x_BD))
        return F.softmax(self.layers[2](x_BD), dim=1)


class Attention(nn.Module):
    """From the image module's map (B, K, h, w) to an attention map (B, h, w), and what is left of it (B, K)."""

    def __init__(
        self,
        n_clusters: int,
        size: tuple[int, int],
        *,
        kind: AttentionKind = "gaussian",
        has_conv: bool = True,
        a0: float = 0.1,
        tied: bool = False,
        modules: Modules = "code",
    ) -> None:
        super().__init__()
        self.size, self.a0, self.tied, self.kind, self.is_printed = size, a0, tied, kind, modules == "paper"
        self.conv = ConvUnit(n_clusters, Conv(n_clusters, 1)) if has_conv else nn.Identity()
        self.place: nn.Module
        if kind == "gaussian":
            self.place = nn.Linear(n_clusters * size[0] * size[1], 3)
        else:
            self.place = nn.Conv2d(n_clusters, 1, 1)
        self.head = PrintedHead(n_clusters) if self.is_printed else Head(n_clusters)

    def parameters_of(self, map_BKhw: Tensor) -> Tensor:
        """Return mu_x, mu_y and delta (B, 3) of the Gaussian; the sigmoid keeps them where the grid is."""
        placed_B3: Tensor = self.place(self.conv(map_BKhw).flatten(1))
        return F.relu(placed_B3) if self.is_printed else torch.sigmoid(placed_B3)

    def attention_map(self, map_BKhw: Tensor) -> Tensor:
        """Return the attention map (B, h, w), between 0 and 1."""
        if self.kind == "soft":
            return torch.sigmoid(self.place(self.conv(map_BKhw)))[:, 0]
        return gaussian_map(self.parameters_of(map_BKhw), *self.size, a0=self.a0, tied=self.tied)

    def forward(self, map_BKhw: Tensor, label_BKhw: Tensor) -> Tensor:
        """Return the label features l^a (B, K) of what the map lets through."""
        seen_BKhw = label_BKhw * self.attention_map(map_BKhw)[:, None]
        label: Tensor = self.head(seen_BKhw.mean(dim=(2, 3)) if self.is_printed else seen_BKhw.sum(dim=(2, 3)))
        return label


class GATNet(nn.Module):
    """All modules; without `attention` the third is missing."""

    def __init__(
        self,
        shape: tuple[int, int, int],
        plan: Plan,
        n_clusters: int,
        *,
        prepare: Prepare,
        label_relu: bool = False,
        has_attention: bool = True,
        attention_kind: AttentionKind = "gaussian",
        attention_conv: bool = True,
        a0: float = 0.1,
        tied: bool = False,
        modules: Modules = "code",
    ) -> None:
        """Build for images of this height, width and channel count; weights come from torch's global generator."""
        super().__init__()
        height, width, channels = shape
        self.prepare, self.map_size = prepare, (plan.side(height), plan.side(width))
        units: list[nn.Module] = []
        n = 1 if prepare.is_gray else channels
        for stage in plan.stages:
            for i, conv in enumerate(stage):
                units.append(ConvUnit(n, conv, is_pooled=i == len(stage) - 1))
                n = conv.channels
        units += [ConvUnit(n, conv) for conv in plan.extra]
        self.image = nn.Sequential(*units)
        self.to_clusters = ConvUnit(n, Conv(n_clusters, 1))
        is_printed = modules == "paper"
        self.label_conv = ConvUnit(
            n_clusters, Conv(PRINTED_CHANNELS if is_printed else n_clusters, 1), has_relu=label_relu or is_printed
        )
        self.label_head = PrintedHead(n_clusters) if is_printed else Head(n_clusters)
        self.attention: Attention | None = None
        if has_attention:
            self.attention = Attention(
                n_clusters,
                self.map_size,
                kind=attention_kind,
                has_conv=attention_conv and not is_printed,
                a0=a0,
                tied=tied,
                modules=modules,
            )
        self.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    def forward(self, x_BCHW: Tensor) -> tuple[Tensor, Tensor | None]:
        """Return label features l and attention label features l^a, each (B, K)."""
        map_BKhw = self.to_clusters(self.image(self.prepare(x_BCHW)))
        label_BKhw = self.label_conv(map_BKhw)
        l_BK = self.label_head(label_BKhw.mean(dim=(2, 3)))
        return l_BK, None if self.attention is None else self.attention(map_BKhw, label_BKhw)

    def label(self, x_BCHW: Tensor) -> Tensor:
        """Return the label features alone: all that the targets need."""
        label_BKhw = self.label_conv(self.to_clusters(self.image(self.prepare(x_BCHW))))
        label: Tensor = self.label_head(label_BKhw.mean(dim=(2, 3)))
        return label

    def describe(self, x_BCHW: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return label features (B, K), image features (B, D) and the map with a channel per cluster (B, K, h, w)."""
        image_BDhw = self.image(self.prepare(x_BCHW))
        map_BKhw = self.to_clusters(image_BDhw)
        l_BK = self.label_head(self.label_conv(map_BKhw).mean(dim=(2, 3)))
        return l_BK, image_BDhw.mean(dim=(2, 3)), map_BKhw


class LabelPath(nn.Module):
    """The way through a network that labels images, without attention: what is exported."""

    def __init__(self, net: GATNet) -> None:
        super().__init__()
        self.net = net

    def forward(self, x_BCHW: Tensor) -> tuple[Tensor, Tensor]:
        """Return label features (B, K) and image features (B, D)."""
        l_BK, features_BD, _ = self.net.describe(standardised(x_BCHW) if self.net.prepare.is_standardised else x_BCHW)
        return l_BK, features_BD
