"""Batches for the tests of this room, and the comparison with Pillow."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from PIL import Image
from tests.data.samples import noise, picture
from torch import Tensor

from selfsort.types import U8


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def batch(n: int = 6, height: int = 12, width: int = 16, channels: int = 3) -> Tensor:
    pixels = np.stack([noise(height, width, channels, seed) for seed in range(n)])
    return torch.from_numpy(pixels).permute(0, 3, 1, 2)


def pixels_of(image: Image.Image) -> U8:
    array = np.asarray(image)
    return array[:, :, None] if array.ndim == 2 else array


def assert_like_pillow(changed: Tensor, original: Tensor, do: Callable[[Image.Image], Image.Image], atol: int) -> None:
    """Compare with Pillow on every picture of a batch of bytes."""
    for new, old in zip(changed, original, strict=True):
        expected = pixels_of(do(picture(old.permute(1, 2, 0).contiguous().numpy())))
        np.testing.assert_allclose(new.permute(1, 2, 0).numpy().astype(int), expected.astype(int), atol=atol)
