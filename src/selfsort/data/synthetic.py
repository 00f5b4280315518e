"""Small pictures with a known answer: four drawn shapes, jittered and noisy, one class each."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from selfsort.errors import invalid
from selfsort.types import F32, I64, U8, Images

_Draw = Callable[[F32, F32], F32]


def _disc(y: F32, x: F32) -> F32:
    radius: F32 = np.hypot(y, x)
    return radius - np.float32(0.5)


def _stripes(y: F32, _x: F32) -> F32:
    wave: F32 = np.sin(np.float32(3.5 * np.pi) * y + np.float32(0.5))
    return wave * np.float32(-0.3)


def _cross(y: F32, x: F32) -> F32:
    nearest: F32 = np.minimum(np.abs(y - x), np.abs(y + x))
    return nearest - np.float32(0.22)


def _frame(y: F32, x: F32) -> F32:
    ring: F32 = np.abs(np.maximum(np.abs(y), np.abs(x)) - np.float32(0.78))
    return ring - np.float32(0.18)


_SHAPES: tuple[_Draw, ...] = (_disc, _stripes, _cross, _frame)


def shapes(
    n_per_class: int = 15, size: int = 16, seed: int = 0, n_classes: int = 4, channels: int = 1
) -> tuple[Images, I64]:
    """Draw discs, stripes, crosses and frames, shuffled; pixels alone tell them apart, and so should a network.

    Args:
        n_per_class: pictures of each shape.
        size: height and width in pixels, at least 8.
        seed: same seed, same pictures.
        n_classes: how many of the four shapes to use.
        channels: 1, or 3 for a faint random tint on every picture.

    >>> images, labels = shapes(2, size=8, n_classes=2)
    >>> images.pixels.shape, sorted(labels.tolist())
    ((4, 8, 8, 1), [0, 0, 1, 1])
    """
    if n_per_class < 1 or size < 8:
        raise invalid(
            "shapes", "have at least 1 picture per class of at least 8 pixels", (n_per_class, size), "Raise it."
        )
    if not 1 <= n_classes <= len(_SHAPES):
        raise invalid("n_classes", f"be between 1 and {len(_SHAPES)}", n_classes, "Ask for fewer shapes.")
    generator = np.random.default_rng(seed)
    labels: I64 = generator.permutation(np.repeat(np.arange(n_classes), n_per_class)).astype(np.int64)
    pixels = np.stack([_picture(_SHAPES[label], size, channels, generator) for label in labels])
    return Images(pixels), labels


def _picture(draw: _Draw, size: int, channels: int, generator: np.random.Generator) -> U8:
    """Render one shape, shifted and scaled a little, in varying ink on a noisy ground."""
    shift_y, shift_x = generator.uniform(-0.06, 0.06, 2)
    zoom = generator.uniform(0.94, 1.06)
    line = (np.arange(size, dtype=np.float32) + 0.5) / size * 2 - 1
    y, x = np.meshgrid((line - shift_y) / zoom, (line - shift_x) / zoom, indexing="ij")
    # The signed distance over one pixel gives a soft edge, so that small shifts move gray levels, not whole pixels.
    cover = np.clip(0.5 - draw(y.astype(np.float32), x.astype(np.float32)) * size / 2, 0, 1)
    ink = generator.uniform(0.8, 1.0) - generator.uniform(0, 0.12, channels)
    picture = 0.1 + cover[:, :, None] * (ink - 0.1) + generator.normal(0, 0.03, (size, size, channels))
    rounded: U8 = np.round(np.clip(picture, 0, 1) * 255).astype(np.uint8)
    return rounded
