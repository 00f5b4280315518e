"""The small convolutional network of JULE: a few 5x5 blocks, then one linear layer.

A block is, in the paper's words, convolution, batch normalisation, ReLU and a 2x2 max pooling; the pooling rounds
sizes up. The table of networks published for eight data sets is in `ARCHITECTURES`; `plan_blocks` is the paper's
rule for any other image size.

Shape letters: B batch, C channels, H x W pixels, D features.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from selfsort.errors import invalid
from selfsort.nets.norm import Standardise

Layer = Literal["top", "top-1", "top-2"]

LAYERS: tuple[Layer, ...] = ("top", "top-1", "top-2")

# "The size of the output feature map is about 10 x 10" before the last pooling.
_GOAL_SIDE = 10
# A map this small is not pooled again; MNIST's second block (8 x 8) is the published case.
_SMALL_SIDE = 8
_FACES_OF_YTF = (55, 55)


@dataclass(frozen=True)
class Block:
    """One stage of the network."""

    is_pooled: bool = True
    padding: int = 0
    kernel: int = 5
    channels: int = 50
    is_normalised: bool = True

    def conv_side(self, side: int) -> int:
        """Length of a side after the convolution."""
        return side + 2 * self.padding - self.kernel + 1

    def out_side(self, side: int) -> int:
        """Length of a side after the whole block."""
        return -(-self.conv_side(side) // 2) if self.is_pooled else self.conv_side(side)


ARCHITECTURES: dict[str, tuple[Block, ...]] = {
    "coil": (Block(),) * 4,
    "usps": (Block(),),
    "mnist": (Block(), Block(is_pooled=False)),
    "umist": (Block(padding=2),) * 3,  # the released code's; the paper pads nowhere
    "umist-paper": (Block(),) * 3,
    "faces": (Block(),) * 2,  # FRGC, CMU-PIE, YTF
    "patches": (Block(kernel=3, padding=1, is_normalised=False),) * 2,
}
"""The published networks, by data set."""


def plan_blocks(height: int, width: int) -> tuple[Block, ...]:
    """Stack blocks until the map before the last pooling is as near to 10 x 10 as it gets.

    Published networks come out for 16, 28, 32, 55 and 128 pixels (55 by itself: the rule would add a block). Images too
    small for a plain 5x5 convolution are padded.

    >>> [block.is_pooled for block in plan_blocks(28, 28)]
    [True, False]
    """
    if min(height, width) <= _SMALL_SIDE:
        return (Block(padding=2),)
    if (height, width) == _FACES_OF_YTF:
        return ARCHITECTURES["faces"]
    plans = list(_plans(height, width))
    return min(plans, key=lambda plan: _distance_to_goal(plan, height, width))


def _plans(height: int, width: int) -> Iterator[tuple[Block, ...]]:
    """Yield stacks of one block, of two, ... as long as a convolution fits."""
    blocks: tuple[Block, ...] = ()
    while min(height, width) >= Block().kernel:
        is_pooled = not blocks or Block().conv_side(min(height, width)) > _SMALL_SIDE
        block = Block(is_pooled=is_pooled)
        blocks = (*blocks, block)
        yield blocks
        height, width = block.out_side(height), block.out_side(width)


def _distance_to_goal(plan: tuple[Block, ...], height: int, width: int) -> float:
    for block in plan[:-1]:
        height, width = block.out_side(height), block.out_side(width)
    area = plan[-1].conv_side(height) * plan[-1].conv_side(width)
    return abs(math.log(area / _GOAL_SIDE**2))


class ConvBlock(nn.Module):
    """Convolution, batch normalisation, ReLU and, if asked for, pooling."""

    def __init__(self, in_channels: int, block: Block) -> None:
        super().__init__()
        # Batch normalisation takes away any constant, so a bias before it would only be computed for nothing.
        self.conv = nn.Conv2d(
            in_channels, block.channels, block.kernel, padding=block.padding, bias=not block.is_normalised
        )
        self.norm = nn.BatchNorm2d(block.channels) if block.is_normalised else nn.Identity()
        self.pool = nn.MaxPool2d(2, ceil_mode=True) if block.is_pooled else nn.Identity()

    def forward(self, x_BCHW: Tensor) -> Tensor:
        """Pool before the ReLU: the order does not change the result, and a quarter of the values is left."""
        return F.relu(self.pool(self.norm(self.conv(x_BCHW))), inplace=True)

    def before_pooling(self, x_BCHW: Tensor) -> Tensor:
        """Return the map at the resolution of the convolution."""
        return F.relu(self.norm(self.conv(x_BCHW)), inplace=True)


class ConvNet(nn.Module):
    """Blocks, flatten, Linear(160), and for low-dimensional embeddings one more Linear(D)."""

    def __init__(
        self,
        shape: tuple[int, int, int],
        blocks: tuple[Block, ...],
        *,
        width: int = 160,
        embedding_dim: int = 0,
        standardise: bool = False,
    ) -> None:
        """Build for images of this height, width and channel count; weights come from torch's global generator."""
        super().__init__()
        self.prepare = Standardise() if standardise else nn.Identity()
        height, image_width, in_channels = shape
        self._check_fit(blocks, height, image_width)
        channels = [in_channels, *(block.channels for block in blocks)]
        self.blocks = nn.ModuleList(ConvBlock(n, block) for n, block in zip(channels, blocks, strict=False))
        with torch.no_grad():
            dummy = torch.zeros(1, in_channels, height, image_width)
            n_flat = self.eval().maps(dummy)[-1].numel()
        self.train()
        self.ip = nn.Linear(n_flat, width)
        self.embed = nn.Linear(width, embedding_dim) if embedding_dim else nn.Identity()
        for module in self.modules():
            if isinstance(module, nn.Conv2d | nn.Linear):
                nn.init.normal_(module.weight, std=0.01)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)
        self.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    @property
    def is_embedding(self) -> bool:
        """True if the last layer is the low-dimensional one."""
        return isinstance(self.embed, nn.Linear)

    @staticmethod
    def _check_fit(blocks: tuple[Block, ...], height: int, width: int) -> None:
        sides = [height, width]
        for block in blocks:
            if min(block.conv_side(side) for side in sides) < 1:
                raise invalid(
                    "the image size",
                    f"be large enough for {len(blocks)} blocks of convolution",
                    f"{height}x{width}",
                    "Use --set arch=auto, or larger images with --size.",
                )
            sides = [block.out_side(side) for side in sides]

    def maps(self, x_BCHW: Tensor) -> list[Tensor]:
        """Return the output of every block."""
        found = []
        x_BCHW = self.prepare(x_BCHW)
        for block in self.blocks:
            x_BCHW = block(x_BCHW)
            found.append(x_BCHW)
        return found

    def forward(self, x_BCHW: Tensor) -> Tensor:
        """Return the features (B, D), not normalised."""
        x_BCHW = self.prepare(x_BCHW)
        for block in self.blocks:
            x_BCHW = block(x_BCHW)
        features: Tensor = self.embed(self.ip(x_BCHW.flatten(1)))
        return features

    def layer(self, x_BCHW: Tensor, name: str) -> Tensor:
        """Return the flattened output of a layer: `top`, or the block outputs below it, `top-1` and `top-2`.

        A network of a single block has none before it; its `top-2` is the block's map before the pooling.
        """
        if name == "top":
            return self(x_BCHW)  # type: ignore[no-any-return]
        if name == "top-1":
            return self.maps(x_BCHW)[-1].flatten(1)
        if name == "top-2":
            if len(self.blocks) > 1:
                return self.maps(x_BCHW)[-2].flatten(1)
            block = self.blocks[0]
            assert isinstance(block, ConvBlock)
            return block.before_pooling(self.prepare(x_BCHW)).flatten(1)
        raise invalid("the layer", f"be one of {', '.join(LAYERS)}", repr(name), "Name one of them.")
