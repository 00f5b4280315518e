"""Large images averaged down by a whole factor, for a network that needs no more: as arrays of bytes, and as a layer.

Both give the same bytes, so a network that has learned from the array can be handed on with the layer in front.
"""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from selfsort.types import U8

_ENOUGH = 32
"""Pixels of the shorter side that are left, at least."""


def averaging_factor(shape: tuple[int, ...]) -> int:
    """Return by how much images of this height, width and channel count are averaged down; 1 for features.

    >>> [averaging_factor(shape) for shape in ((128, 128, 1), (96, 80, 3), (63, 90, 3), (1280,))]
    [4, 2, 1, 1]
    """
    return max(1, min(shape[:2]) // _ENOUGH) if len(shape) == 3 else 1


def averaged_blocks(pixels_NHWC: U8, down: int, across: int) -> U8:
    """Average blocks of so many rows and columns to one pixel; what is over at the right and below is cut off."""
    n, height, width, channels = pixels_NHWC.shape
    rows, columns = height // down, width // across
    cut = pixels_NHWC[:, : rows * down, : columns * across]
    blocks = cut.reshape(n, rows, down, columns, across, channels)
    small: U8 = np.rint(blocks.mean(axis=(2, 4))).astype(np.uint8)
    return small


class Averaged(nn.Module):
    """Images (B, C, H, W) in [0, 1] to what `averaged_blocks` makes of their bytes, in [0, 1] again."""

    def __init__(self, factor: int) -> None:
        super().__init__()
        self.factor = factor

    def forward(self, x_BCHW: Tensor) -> Tensor:
        """Average whole bytes, and round to whole bytes."""
        bytes_BChw = F.avg_pool2d(torch.round(x_BCHW * 255), self.factor)
        return torch.round(bytes_BChw) / 255
