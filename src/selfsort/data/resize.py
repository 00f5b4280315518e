"""One picture to the size of a spec: the rule for other aspect ratios, shared by files and arrays."""

from __future__ import annotations

import os

from PIL import Image

from selfsort.data.datasets import ImageSpec

# Pillow widens this filter when shrinking, so it averages (no aliasing), and it never overshoots at edges.
_FILTER = Image.Resampling.BILINEAR


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
    target = (spec.width, spec.height)
    if picture.size == target:
        return picture
    if spec.fit == "stretch":
        return picture.resize(target, _FILTER)
    width, height = picture.size
    inner = needed_size(width, height, spec)
    if spec.fit == "pad":
        canvas = Image.new(picture.mode, target, 255 if picture.mode == "L" else (255, 255, 255))
        scaled = picture if inner == picture.size else picture.resize(inner, _FILTER)
        canvas.paste(scaled, ((spec.width - inner[0]) // 2, (spec.height - inner[1]) // 2))
        return canvas
    if inner == picture.size:
        # The size is right and only the surplus goes: whole pixels, so that nothing is blurred.
        column, row = (width - spec.width) // 2, (height - spec.height) // 2
        return picture.crop((column, row, column + spec.width, row + spec.height))
    # Cutting and scaling in one step: what is cut away is never computed, and the cut is exactly central.
    scale = max(spec.width / width, spec.height / height)
    kept_width, kept_height = min(width, spec.width / scale), min(height, spec.height / scale)
    left, top = (width - kept_width) / 2, (height - kept_height) / 2
    return picture.resize(target, _FILTER, box=(left, top, left + kept_width, top + kept_height))
