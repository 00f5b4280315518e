"""Arrays that are images already: find the layout, bring the values to 0..255, make sizes and channels fit.

What counts as images:
- shape (n, h, w), (n, h, w, c) or (n, c, h, w) with c = 1 or 3; flat (n, d) only with `image_shape`;
- uint8 is taken as it is; bool becomes 0 and 255; other whole numbers are pixel values and must lie in
  0..255; floats must lie in `value_range` (0..1 unless said otherwise), which is mapped to 0..255. A range
  other than 0..1 applies to whole numbers too, which is how (0, 65535) or (0, 16) are read.
Nothing is clipped in silence, and the input is never written to.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from PIL import Image

from selfsort.data.datasets import ImageSpec
from selfsort.data.resize import cpu_count, fit_picture
from selfsort.errors import InvalidInput, invalid
from selfsort.types import U8, Images

Array = npt.NDArray[Any]
Range = tuple[float, float]

UNIT: Range = (0.0, 1.0)
_CHANNELS = (1, 3)
_BLOCK_BYTES = 1 << 24


def from_array(
    array: npt.ArrayLike,
    *,
    image_shape: tuple[int, ...] | None = None,
    value_range: Range | Literal["auto"] = UNIT,
    clip: bool = False,
) -> Images:
    """Turn an array of any accepted layout and type into uint8 images.

    Args:
        array: see the top of this file.
        image_shape: (h, w), (h, w, c) or (c, h, w) of one image; one entry may be -1. Needed for flat arrays.
        value_range: what black and white are; "auto" takes the smallest and largest value of the array.
        clip: cut values outside the range instead of refusing them (for new images under an old range).

    >>> from_array(np.array([[[0.0, 0.5], [1.0, 0.25]]])).pixels[0, :, :, 0]
    array([[  0, 128],
           [255,  64]], dtype=uint8)
    """
    values = np.asarray(array)
    to_nhwc = find_layout(values.shape, image_shape)
    check_dtype(values.dtype)
    limits = range_of(values) if isinstance(value_range, str) else value_range
    return Images(np.ascontiguousarray(to_nhwc(to_uint8(values, limits, clip=clip))))


def range_of(array: npt.ArrayLike) -> Range:
    """Return the smallest and largest value, which "auto" maps to black and white; uint8 and bool stay 0..1."""
    values = np.asarray(array)
    check_dtype(values.dtype)
    if values.dtype in (np.uint8, np.bool_) or not values.size:
        return UNIT
    _require_finite(values)
    return float(values.min()), float(values.max())


def check_dtype(dtype: np.dtype[Any]) -> None:
    """Refuse values that are not numbers."""
    if dtype.kind == "c":
        raise InvalidInput(
            f"Complex data not supported: images must be uint8 or float; got {dtype}. Pass the magnitude, for example."
        )
    if dtype.kind not in "buif":
        raise invalid("images", "be numbers (uint8, or float in [0, 1])", f"dtype {dtype}", "Convert the array first.")


def find_layout(shape: tuple[int, ...], image_shape: tuple[int, ...] | None = None) -> Callable[[Array], Array]:
    """Return the view that brings an array of this shape to (N, H, W, C), or say why there is none.

    The number of rows of what is passed to the view may differ from `shape[0]`.
    """
    if len(shape) < 2 or 0 in shape:
        raise invalid(
            "images",
            "have shape (n, h, w), (n, h, w, c) or (n, c, h, w) with at least one image and one pixel",
            f"shape {shape}",
            "Reshape your data or check that it is not empty.",
        )
    if image_shape is not None:
        shape = (shape[0], *_complete(image_shape, shape))
    elif len(shape) == 2:
        raise invalid(
            "flat images",
            "come with image_shape",
            f"shape {shape} without it",
            "Pass image_shape=(h, w), (h, w, c) or (c, h, w).",
        )
    one = shape[1:]
    if len(one) == 2:
        return lambda a: a.reshape(len(a), *one, 1)
    is_last, is_first = (len(one) == 3 and one[axis] in _CHANNELS for axis in (2, 0))
    if is_last and is_first:
        raise invalid(
            "images",
            "have a layout that can be told",
            f"shape {shape}, where both ends of an image may be channels",
            "Drop the channel axis of gray images, or pad the narrow side.",
        )
    if is_last:
        return lambda a: a.reshape(len(a), *one)
    if is_first:
        return lambda a: a.reshape(len(a), *one).transpose(0, 2, 3, 1)
    raise invalid(
        "images",
        "have shape (n, h, w), (n, h, w, c) or (n, c, h, w) with 1 or 3 channels",
        f"shape {shape}",
        "Reshape, or drop the further channels (alpha, bands).",
    )


def _complete(image_shape: tuple[int, ...], shape: tuple[int, ...]) -> tuple[int, ...]:
    """Fill in the one -1 of an image shape and check it against what one row holds."""
    features = int(np.prod(shape[1:], dtype=np.int64))
    known = int(np.prod([side for side in image_shape if side != -1], dtype=np.int64))
    n_open = sum(side == -1 for side in image_shape)
    is_valid = len(image_shape) in (2, 3) and known > 0 and n_open <= 1 and all(s == -1 or s > 0 for s in image_shape)
    if is_valid and (features % known == 0 if n_open else features == known):
        return tuple(features // known if side == -1 else side for side in image_shape)
    raise invalid(
        "image_shape",
        f"be (h, w), (h, w, c) or (c, h, w) with {features} values in all (one entry may be -1)",
        image_shape,
        "Check the size of one image.",
    )


def to_uint8(values: Array, limits: Range = UNIT, *, clip: bool = False) -> U8:
    """Map numbers to 0..255 by the rules at the top of this file; uint8 comes back as it is, without a copy."""
    if values.dtype == np.uint8:
        return values
    if values.dtype == np.bool_:
        return values.astype(np.uint8) * np.uint8(255)
    low, high = limits
    if not (np.isfinite(low) and np.isfinite(high) and low <= high):
        raise invalid("value_range", "be two finite numbers, the lower one first", limits, "Change value_range.")
    is_pixel_value = values.dtype.kind in "iu" and tuple(limits) == UNIT
    if is_pixel_value:
        low, high = 0.0, 255.0
    out = np.empty(values.shape, np.uint8)
    rows = max(1, _BLOCK_BYTES // max(1, values[:1].size * 8)) if values.ndim else 1
    for start in range(0, len(values), rows):
        block = values[start : start + rows]
        _require_finite(block)
        if not clip and (block.min() < low or block.max() > high):
            raise _out_of_range(block, low, high, is_pixel_value)
        span = (high - low) or 1.0
        scaled = (np.clip(block, low, high).astype(np.float64) - low) * (255.0 / span)
        # Half goes up, not to even: 0.5 in 0..1 is 128 on every machine and in every head.
        out[start : start + rows] = np.floor(scaled + 0.5).astype(np.uint8)
    return out


def _require_finite(values: Array) -> None:
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        what = "NaN" if np.isnan(values).any() else "inf"
        raise invalid("images", "be finite numbers", f"{what} (NaN or infinity)", "Remove or fill these pixels.")


def _out_of_range(block: Array, low: float, high: float, is_pixel_value: bool) -> InvalidInput:
    kind = "whole-number" if is_pixel_value else str(block.dtype)
    return invalid(
        f"{kind} images",
        f"lie in {low:g}..{high:g}",
        f"values from {block.min():g} to {block.max():g}",
        "Pass the true range as value_range, or convert the images to uint8.",
    )


def conform(images: Images, spec: ImageSpec) -> Images:
    """Give decoded images the size and the channels of a spec, by the same rules as pictures from files."""
    if images.shape == spec.shape:
        return images
    out = np.empty((len(images), *spec.shape), np.uint8)
    conform_into(images.pixels, spec, out)
    return Images(out)


def conform_into(pixels: U8, spec: ImageSpec, out: U8) -> None:
    """Write conformed pixels into `out`; each row depends on its own picture only."""
    if pixels.shape[1:] == spec.shape:
        out[...] = pixels
        return
    rows = max(1, _BLOCK_BYTES // pixels[:1].nbytes)

    def one_block(start: int) -> None:
        block = match_channels(pixels[start : start + rows], spec.channels)
        target = out[start : start + rows]
        if block.shape[1:3] == (spec.height, spec.width):
            target[...] = block
            return
        for row, picture in enumerate(block):
            flat = np.ascontiguousarray(picture if spec.channels == 3 else picture[:, :, 0])
            fitted = np.asarray(fit_picture(Image.fromarray(flat), spec))
            target[row] = fitted.reshape(spec.shape)

    with ThreadPoolExecutor(cpu_count()) as pool:
        # list() raises what a thread raised.
        list(pool.map(one_block, range(0, len(pixels), rows)))


def match_channels(pixels: U8, channels: int) -> U8:
    """Repeat gray three times, or weigh RGB to gray by ITU-R 601 (the integers Pillow uses)."""
    if pixels.shape[-1] == channels:
        return pixels
    if channels == 3:
        return np.repeat(pixels, 3, axis=-1)
    red, green, blue = (pixels[..., c].astype(np.uint32) for c in range(3))
    luma = (red * 19595 + green * 38470 + blue * 7471 + 0x8000) >> 16
    return luma.astype(np.uint8)[..., None]
