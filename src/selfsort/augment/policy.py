"""Random changes of pictures, whole batches at a time; each method lists the ones it wants.

A primitive is a frozen dataclass. Called with a batch (uint8, or floats in [0, 1], of shape (B, C, H, W), gray or
RGB) and a generator, it returns a changed batch of the same dtype; every sample draws its own parameters, and `p` is
the chance that a sample is changed at all. A policy is a plain tuple of primitives.

>>> policy = (Affine(rotate=10, translate=0.1), ColourJitter(brightness=0.4, p=0.8), Flip())
>>> batch = torch.zeros(2, 3, 8, 8, dtype=torch.uint8)
>>> augment(batch, policy, torch.Generator().manual_seed(0)).shape
torch.Size([2, 3, 8, 8])

Results agree with Pillow's operations of the same names up to rounding; docs/augment.md shows each of them. A batch of
floats is faster than a batch of bytes, which is converted there and back by every primitive.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from selfsort.augment.colour import (
    AutoContrast,
    Blur,
    ChannelShift,
    ColourJitter,
    Equalise,
    Grayscale,
    Posterise,
    Sharpness,
    Solarise,
    adjust,
)
from selfsort.augment.geometry import Affine, CutOut, Flip, RandomCrop, ResizedCrop, Zoom, linear_map, warp
from selfsort.augment.primitive import Primitive, on_rows, uniform, whole

__all__ = [
    "Affine",
    "AutoContrast",
    "Blur",
    "ChannelShift",
    "ColourJitter",
    "CutOut",
    "Equalise",
    "Flip",
    "Grayscale",
    "Policy",
    "Posterise",
    "Primitive",
    "RandomCrop",
    "RandomOps",
    "ResizedCrop",
    "Sharpness",
    "Solarise",
    "Zoom",
    "augment",
    "gentle",
]

Policy = tuple[Primitive, ...]


def augment(batch_BCHW: Tensor, policy: Iterable[Primitive], generator: torch.Generator) -> Tensor:
    """Apply the primitives of a policy in order."""
    for primitive in policy:
        batch_BCHW = primitive(batch_BCHW, generator)
    return batch_BCHW


def gentle(strength: float = 1.0) -> tuple[Affine, ...]:
    """Return what leaves most pictures what they are: at strength 1, 15 degrees, a tenth of the side, a fifth of zoom.

    >>> [part.rotate for part in gentle(0.5)], gentle(0)
    ([7.5], ())
    """
    if strength <= 0:
        return ()
    zoom = min(0.2 * strength, 0.9)
    degrees = min(15.0 * strength, 80.0)
    return (Affine(rotate=15.0 * strength, translate=0.1 * strength, shear=degrees, zoom=(1 - zoom, 1 + zoom)),)


# The fourteen operations of SCAN's strong policy, by number; those of one line share one pass over the batch.
_ROTATE, _SHEAR_X, _SHEAR_Y, _TRANSLATE_X, _TRANSLATE_Y = range(5)
_BRIGHTNESS, _CONTRAST, _COLOUR = range(5, 8)
_SHARPNESS, _AUTO_CONTRAST, _EQUALISE, _SOLARISE, _POSTERISE = range(8, 13)
_N_OPS = 14  # the last one, 13, leaves a picture as it is

_ALONE: dict[int, Primitive] = {
    _SHARPNESS: Sharpness(factor=(0.05, 0.95)),
    _AUTO_CONTRAST: AutoContrast(),
    _EQUALISE: Equalise(),
    _SOLARISE: Solarise(threshold=(0.0, 1.0)),
    _POSTERISE: Posterise(bits=(4, 8)),
}


@dataclass(frozen=True, kw_only=True)
class RandomOps(Primitive):
    """Apply `n` operations drawn with replacement from a fixed list of fourteen, as SCAN's strong augmentation does.

    Identity, auto-contrast, equalise, rotate +-30 degrees, solarise at any level, colour, contrast, brightness and
    sharpness by 0.05 to 0.95, shear and translate by up to 0.1 along either axis, posterise to 4 to 8 bits.
    """

    n: int = 4

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require("n", self.n >= 0, "be at least 0")

    def change(self, x_BCHW: Tensor, generator: torch.Generator) -> Tensor:
        """Draw and apply the operations of every sample."""
        for _ in range(self.n):
            op_B = whole(len(x_BCHW), 0, _N_OPS - 1, generator, x_BCHW.device)
            x_BCHW = self._one_each(x_BCHW, op_B, generator)
        return x_BCHW

    def _one_each(self, x_BCHW: Tensor, op_B: Tensor, generator: torch.Generator) -> Tensor:
        is_moved_B = op_B <= _TRANSLATE_Y
        is_dulled_B = (op_B >= _BRIGHTNESS) & (op_B <= _COLOUR)
        x_BCHW = on_rows(x_BCHW, is_moved_B, partial(_move, op_B=op_B[is_moved_B], generator=generator))
        x_BCHW = on_rows(x_BCHW, is_dulled_B, partial(_dull, op_B=op_B[is_dulled_B], generator=generator))
        for number, primitive in _ALONE.items():
            x_BCHW = on_rows(x_BCHW, op_B == number, partial(primitive.change, generator=generator))
        return x_BCHW


def _move(x_BCHW: Tensor, op_B: Tensor, generator: torch.Generator) -> Tensor:
    """Rotate, shear or translate each sample, in one resampling; black comes in."""
    n, device = len(x_BCHW), x_BCHW.device
    amount_B = uniform(n, (-1.0, 1.0), generator, device)
    zero_B, one_B = torch.zeros_like(amount_B), torch.ones_like(amount_B)

    def only(op: int, most: float) -> Tensor:
        return torch.where(op_B == op, amount_B * most, zero_B)

    forward_B22 = linear_map(only(_ROTATE, math.radians(30)), only(_SHEAR_X, 0.1), one_B, one_B)
    forward_B22[:, 1, 0] += only(_SHEAR_Y, 0.1)
    height, width = x_BCHW.shape[2:]
    move_B2 = torch.stack([only(_TRANSLATE_X, 0.1 * width), only(_TRANSLATE_Y, 0.1 * height)], dim=1)
    return warp(x_BCHW, forward_B22, move_B2, "zero")


def _dull(x_BCHW: Tensor, op_B: Tensor, generator: torch.Generator) -> Tensor:
    """Take brightness, contrast or colour away from each sample."""
    factor_B = uniform(len(x_BCHW), (0.05, 0.95), generator, x_BCHW.device)
    return adjust(x_BCHW, (op_B - _BRIGHTNESS).unsqueeze(1), factor_B.unsqueeze(1))
