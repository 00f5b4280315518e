"""EfficientNet-Lite: inverted residual blocks with ReLU6 and without squeeze-and-excitation.

Tan and Le, EfficientNet: rethinking model scaling for convolutional neural networks, ICML 2019; the Lite variants are
the authors' own (2020). Their weights were learned with TensorFlow's padding, which puts the odd pixel behind.

Shape letters: B batch, C channels, H x W pixels, h x w the last map, D features, L classes.
"""

from __future__ import annotations

import copy
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils import fuse_conv_bn_eval

N_FEATURES = 1280
_STEM, _CLASSES = 32, 1000
# As published; torch counts momentum the other way round.
_EPS, _MOMENTUM = 1e-3, 0.01
# Channels come in eights.
_DIVISOR = 8


@dataclass(frozen=True)
class Stage:
    """Blocks of one width; the first of them has the stride."""

    width: int
    depth: int
    kernel: int
    stride: int
    expansion: int = 6


STAGES = (
    Stage(16, 1, 3, 1, expansion=1),
    Stage(24, 2, 3, 2),
    Stage(40, 2, 5, 2),
    Stage(80, 3, 3, 2),
    Stage(112, 3, 5, 1),
    Stage(192, 4, 5, 2),
    Stage(320, 1, 3, 1),
)
"""Lite0; the others are wider and deeper."""


@dataclass(frozen=True)
class Plan:
    """How much wider and deeper than Lite0, and the side of the images it learned from."""

    width: float
    depth: float
    side: int

    def stages(self) -> list[Stage]:
        """Return the stages as built; the first and the last keep their depth, stem and head their width."""
        inner = range(1, len(STAGES) - 1)
        return [
            Stage(
                _rounded(stage.width * self.width),
                math.ceil(stage.depth * self.depth) if i in inner else stage.depth,
                stage.kernel,
                stage.stride,
                stage.expansion,
            )
            for i, stage in enumerate(STAGES)
        ]


PLANS: dict[str, Plan] = {"lite0": Plan(1.0, 1.0, 224), "lite2": Plan(1.1, 1.2, 260)}


class Layer(nn.Module):
    """A convolution with TensorFlow's padding, batch normalisation and, unless it is linear, ReLU6."""

    def __init__(
        self, n_in: int, n_out: int, kernel: int = 1, stride: int = 1, *, groups: int = 1, is_linear: bool = False
    ) -> None:
        super().__init__()
        # With a stride the padding depends on the image.
        padding = kernel // 2 if stride == 1 else 0
        self.conv = nn.Conv2d(n_in, n_out, kernel, stride, padding, groups=groups, bias=False)
        self.norm: nn.Module = nn.BatchNorm2d(n_out, _EPS, _MOMENTUM)
        self.is_linear = is_linear

    def forward(self, x_BCHW: Tensor) -> Tensor:
        """Return the next map."""
        (kernel, _), (stride, _) = self.conv.kernel_size, self.conv.stride
        if stride > 1:
            top, bottom = same_padding(int(x_BCHW.shape[2]), kernel, stride)
            left, right = same_padding(int(x_BCHW.shape[3]), kernel, stride)
            x_BCHW = F.pad(x_BCHW, (left, right, top, bottom))
        x_BCHW = self.norm(self.conv(x_BCHW))
        return x_BCHW if self.is_linear else F.relu6(x_BCHW, inplace=True)

    def fold(self) -> None:
        """Make normalisation a part of the convolution; the layer can then no longer be trained as it was."""
        if isinstance(self.norm, nn.BatchNorm2d):
            self.conv, self.norm = fuse_conv_bn_eval(self.conv, self.norm), nn.Identity()


class Block(nn.Module):
    """Widen, filter each channel on its own, narrow again; around it a shortcut where the shapes agree."""

    def __init__(self, n_in: int, n_out: int, kernel: int, stride: int, expansion: int) -> None:
        super().__init__()
        n_inner = n_in * expansion
        self.expand = nn.Identity() if expansion == 1 else Layer(n_in, n_inner)
        self.depthwise = Layer(n_inner, n_inner, kernel, stride, groups=n_inner)
        self.project = Layer(n_inner, n_out, is_linear=True)
        self.has_shortcut = n_in == n_out and stride == 1

    def forward(self, x_BCHW: Tensor) -> Tensor:
        """Return the next map."""
        found: Tensor = self.project(self.depthwise(self.expand(x_BCHW)))
        return found + x_BCHW if self.has_shortcut else found


class EfficientNetLite(nn.Module):
    """Images (B, 3, H, W) in [0, 1] to features (B, 1280) or logits of the ImageNet classes (B, 1000)."""

    def __init__(self, plan: Plan) -> None:
        """Build a plan; weights come from torch's global generator."""
        super().__init__()
        self.stem = Layer(3, _STEM, 3, 2)
        blocks: list[nn.Module] = []
        n_in = _STEM
        for stage in plan.stages():
            for i in range(stage.depth):
                blocks.append(Block(n_in, stage.width, stage.kernel, 1 if i else stage.stride, stage.expansion))
                n_in = stage.width
        self.blocks = nn.Sequential(*blocks)
        self.head = Layer(n_in, N_FEATURES)
        self.classifier = nn.Linear(N_FEATURES, _CLASSES)
        self.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    def maps(self, x_BCHW: Tensor) -> Tensor:
        """Return the last map (B, 1280, h, w), before the mean over it."""
        x_BCHW = (x_BCHW * 255 - 127) / 128
        found: Tensor = self.head(self.blocks(self.stem(x_BCHW)))
        return found

    def features(self, x_BCHW: Tensor) -> Tensor:
        """Return the mean over the last map."""
        return self.maps(x_BCHW).mean(dim=(2, 3))

    def last_weights(self) -> list[nn.Parameter]:
        """Return the weights of the last stage and of what follows it."""
        return [*self.blocks[-1].parameters(), *self.head.parameters()]

    def logits(self, x_BCHW: Tensor) -> Tensor:
        """Return what it says of the classes it was trained on."""
        found: Tensor = self.classifier(self.features(x_BCHW))
        return found

    def forward(self, x_BCHW: Tensor) -> Tensor:
        """Return the features."""
        return self.features(x_BCHW)


def same_padding(side: int, kernel: int, stride: int) -> tuple[int, int]:
    """Return how many zeros TensorFlow puts before and behind, so that a side becomes side / stride, rounded up.

    >>> same_padding(224, 3, 2), same_padding(65, 3, 2), same_padding(56, 5, 2)
    ((0, 1), (1, 1), (1, 2))
    """
    total = (-(-side // stride) - 1) * stride + kernel - side
    return total // 2, total - total // 2


def folded(net: EfficientNetLite) -> EfficientNetLite:
    """Return a copy for inference alone: fewer operations, the same features but for rounding."""
    copied = copy.deepcopy(net).eval().requires_grad_(False)
    for module in copied.modules():
        if isinstance(module, Layer):
            module.fold()
    return copied.to(memory_format=torch.channels_last)  # type: ignore[no-any-return, call-overload]


def renamed(published: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Give published weights the names they have here."""
    return {_rename(name): weight for name, weight in published.items()}


_NAMES = (
    (r"^_conv_stem\.", "stem.conv."),
    (r"^_bn0\.", "stem.norm."),
    (r"^_conv_head\.", "head.conv."),
    (r"^_bn1\.", "head.norm."),
    (r"^_fc\.", "classifier."),
    (r"^_blocks\.", "blocks."),
    (r"\._(expand|depthwise|project)_conv\.", r".\1.conv."),
    (r"\._bn0\.", ".expand.norm."),
    (r"\._bn1\.", ".depthwise.norm."),
    (r"\._bn2\.", ".project.norm."),
)


def _rename(name: str) -> str:
    """Apply the table.

    >>> _rename("_blocks.3._bn1.weight"), _rename("_bn1.weight")
    ('blocks.3.depthwise.norm.weight', 'head.norm.weight')
    """
    for pattern, ours in _NAMES:
        name = re.sub(pattern, ours, name)
    return name


def _rounded(width: float) -> int:
    """Return the nearest number of channels that is divisible; never more than a tenth below.

    >>> [_rounded(width * 1.1) for width in (16, 24, 40, 80, 112, 192, 320)]
    [16, 24, 48, 88, 120, 208, 352]
    """
    nearest = max(_DIVISOR, int(width + _DIVISOR / 2) // _DIVISOR * _DIVISOR)
    return nearest + _DIVISOR if nearest < 0.9 * width else nearest
