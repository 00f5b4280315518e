"""One picture to the size of a spec: the rule for other aspect ratios, shared by files and arrays."""

from __future__ import annotations

import math
import os
from collections.abc import Callable

from PIL import Image

from selfsort.data.datasets import ImageSpec

# Pillow widens this filter when shrinking, so it averages (no aliasing), and it never overshoots at edges.
_FILTER = Image.Resampling.BILINEAR


Box = tuple[float, float, float, float]
Rows = Callable[[int, int], Image.Image]
"""The part of a picture between two rows, the second one excluded; mode L or RGB."""


def cpu_count() -> int:
    """Return how many processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def needed_size(width: int, height: int, spec: ImageSpec) -> tuple[int, int]:
    """Return the (width, height) at which a picture of this size enters the spec, before cutting or filling."""
    across, down = spec.width / width, spec.height / height
    if spec.fit == "stretch":
        return spec.width, spec.height
    scale = max(across, down) if spec.fit == "crop" else min(across, down)
    return max(1, round(width * scale)), max(1, round(height * scale))


def fit_picture(picture: Image.Image, spec: ImageSpec) -> Image.Image:
    """Resize a picture of mode L or RGB to the spec's height and width.

    crop: the shorter side (relative to the target) fills it, the surplus is cut evenly on both sides.
    pad: the longer side fills it, the rest is white. stretch: both sides are brought to the target.
    """
    if picture.size == (spec.width, spec.height):
        return picture
    size, box = _plan(*picture.size, spec)
    # Cutting and scaling in one step: what is cut away is never computed, and the cut is exactly central.
    return _pad(picture.resize(size, _FILTER, box=box), spec)


def fit_rows(width: int, height: int, rows: Rows, step: int, spec: ImageSpec) -> Image.Image:
    """Do what `fit_picture` does with a picture that is only had in bands of `step` rows.

    Resizing has two halves, across and down, and the first needs no more than a band. Values may differ by one from
    those of `fit_picture`, where Pillow takes the halves in the other order.
    """
    size, (left, top, right, bottom) = _plan(width, height, spec)
    first, last = needed_rows(height, top, bottom, size[1])
    narrow: Image.Image | None = None
    for start in range(first, last, step):
        band = rows(start, min(start + step, last))
        scaled = band.resize((size[0], band.height), _FILTER, box=(left, 0, right, band.height))
        if narrow is None:
            narrow = Image.new(band.mode, (size[0], last - first))
        narrow.paste(scaled, (0, start - first))
    assert narrow is not None
    return _pad(narrow.resize(size, _FILTER, box=(0, top - first, size[0], bottom - first)), spec)


def narrow_pixels(width: int, height: int, spec: ImageSpec) -> int:
    """Return how many pixels there are between the two halves of resizing: many, if a tall picture is made wide."""
    size, (_, top, _, bottom) = _plan(width, height, spec)
    first, last = needed_rows(height, top, bottom, size[1])
    return size[0] * (last - first)


def needed_rows(height: int, top: float, bottom: float, scaled: int) -> tuple[int, int]:
    """Return the rows that a part of a picture is made of, with those around it that the filter reaches."""
    reach = math.ceil(max(1.0, (bottom - top) / scaled)) + 1
    return max(0, math.floor(top) - reach), min(height, math.ceil(bottom) + reach)


def _plan(width: int, height: int, spec: ImageSpec) -> tuple[tuple[int, int], Box]:
    """Return the size to scale to, and which part of the picture is scaled."""
    whole: Box = (0, 0, width, height)
    inner = needed_size(width, height, spec)
    if spec.fit != "crop":
        return inner, whole
    if inner == (width, height):
        # The size is right and only the surplus goes: whole pixels, so that nothing is blurred.
        column, row = (width - spec.width) // 2, (height - spec.height) // 2
        return (spec.width, spec.height), (column, row, column + spec.width, row + spec.height)
    scale = max(spec.width / width, spec.height / height)
    kept_width, kept_height = min(width, spec.width / scale), min(height, spec.height / scale)
    left, top = (width - kept_width) / 2, (height - kept_height) / 2
    return (spec.width, spec.height), (left, top, left + kept_width, top + kept_height)


def _pad(picture: Image.Image, spec: ImageSpec) -> Image.Image:
    if picture.size == (spec.width, spec.height):
        return picture
    canvas = Image.new(picture.mode, (spec.width, spec.height), 255 if picture.mode == "L" else (255, 255, 255))
    canvas.paste(picture, ((spec.width - picture.width) // 2, (spec.height - picture.height) // 2))
    return canvas
