"""As many digits as one likes: MNIST, then MNIST again and again, each image a little warped, as rows of features.

Image i shows digit i modulo 70,000 of a seeded order. The first 70,000 are as they are; of every further one a small
rotation, shift, lean and scale are drawn, by blocks that each have a seed of their own, so that the first n images are
the same whatever the number. Pixels are made block by block and never held together: what is kept is 160 numbers per
image, the principal components of the digits as they are.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch

from selfsort.augment.geometry import Affine
from selfsort.bench.datasets import find_or_exit
from selfsort.graph.affinity import unit_rows
from selfsort.learning.seeds import derive_seed
from selfsort.types import F32, I64, U8

N_COMPONENTS = 160
_BLOCK = 2000
_WARP = Affine(p=1.0, rotate=10.0, translate=0.04, scale=(0.92, 1.08), shear=6.0, fill="zero")


@dataclass(frozen=True, eq=False)
class Digits:
    """Gray pictures of one size, and what they show."""

    pixels: U8
    """(N, H, W)."""
    classes: I64
    """(N,)."""

    def __len__(self) -> int:
        return len(self.pixels)


def load(seed: int = 0) -> Digits:
    """Read MNIST and put it into a seeded order."""
    with np.load(find_or_exit("mnist")) as archive:
        pixels, classes = archive["images"], archive["labels"].astype(np.int64)
    order = np.random.default_rng(seed).permutation(len(pixels))
    return Digits(pixels.reshape(pixels.shape[:3])[order], classes[order])


def repeated(digits: Digits, n: int, seed: int = 0) -> Iterator[tuple[I64, F32]]:
    """Yield which digits a block shows, and its pixels as rows from 0 to 1; n images in all."""
    for start in range(0, n, _BLOCK):
        number = np.arange(start, min(start + _BLOCK, n))
        shown = number % len(digits)
        pixels_BHW = torch.from_numpy(digits.pixels[shown]).float() / 255
        is_again = torch.from_numpy(number >= len(digits))
        if is_again.any():
            # A whole block is drawn even where less is needed: what an image looks like must not depend on n.
            drawn = torch.from_numpy(digits.pixels[np.arange(start, start + _BLOCK) % len(digits)]).float() / 255
            generator = torch.Generator().manual_seed(derive_seed(seed, f"warp {start}"))
            warped_BHW = _WARP(drawn.unsqueeze(1), generator).squeeze(1)[: len(number)]
            pixels_BHW = torch.where(is_again[:, None, None], warped_BHW, pixels_BHW)
        yield shown, pixels_BHW.flatten(1).numpy()


def features_of(digits: Digits, n: int, seed: int = 0) -> tuple[F32, I64]:
    """Return (n, 160) principal components of the images as rows of unit length, and what they show."""
    mean, axes = _components(digits)
    features: F32 = np.empty((n, axes.shape[1]), dtype=np.float32)
    classes: I64 = np.empty(n, dtype=np.int64)
    done = 0
    for shown, rows in repeated(digits, n, seed):
        block = slice(done, done + len(rows))
        features[block], classes[block] = (unit_rows(rows) - mean) @ axes, digits.classes[shown]
        done += len(rows)
    return features, classes


def _components(digits: Digits) -> tuple[F32, F32]:
    """Return the mean row and the axes (D, 160) along which the digits as they are differ most."""
    width = digits.pixels[0].size
    total, products = np.zeros(width), np.zeros((width, width))
    for _, pixels in repeated(digits, len(digits)):
        rows = unit_rows(pixels)
        total += rows.sum(axis=0, dtype=np.float64)
        products += rows.T @ rows
    mean = total / len(digits)
    _, axes = np.linalg.eigh(products / len(digits) - np.outer(mean, mean))
    most: F32 = np.ascontiguousarray(axes[:, ::-1][:, :N_COMPONENTS], dtype=np.float32)
    return mean.astype(np.float32), most
