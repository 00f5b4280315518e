"""What a network looks at: attention maps over pictures, filters and activations as pictures."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from selfsort.report.read import RunData
from selfsort.runs.arrays import as_rows, finite
from selfsort.types import F32, F64, I64, U8


@dataclass(frozen=True, eq=False)
class Attention:
    """Where GATCluster looks."""

    rows: I64
    maps: F32
    """(M, h, w) between 0 and 1."""


def attention(run: RunData) -> Attention | None:
    """Find attention maps among the extras."""
    extras = run.extras()
    maps, rows = extras.get("attention"), as_rows(extras.get("attention_rows"), run.n_images)
    if maps is None or rows is None or maps.ndim != 3 or not maps.size or len(rows) != len(maps):
        return None
    return Attention(rows, finite(maps).clip(0, 1))


def overlay(picture: U8, map_hw: F32) -> U8:
    """Lay an attention map over a picture: colours from blue to red, blended in with weight A^0.7."""
    height, width = picture.shape[:2]
    weight = _stretch(map_hw, height, width)
    level = 4 * weight[:, :, None]
    jet = np.clip(1.5 - np.abs(level - np.array([3.0, 2.0, 1.0])), 0, 1) * 255
    blend = weight[:, :, None] ** 0.7
    mixed: U8 = np.rint(picture * (1 - blend) + jet * blend).astype(np.uint8)
    return mixed


def filters(run: RunData) -> dict[str, U8]:
    """Return the filters among the extras (`filters.LAYER`) by layer, each scaled to its own range."""
    found = {}
    for name, array in sorted(run.extras().items()):
        shown = array[..., None] if array.ndim == 3 else array
        if name.startswith("filters.") and shown.ndim == 4 and shown.size and shown.shape[3] in (1, 3):
            found[name.removeprefix("filters.")] = _as_pixels(shown)
    return found


def activations(run: RunData) -> dict[str, U8]:
    """Return the activation maps among the extras (`activations.LAYER`, (M, C, h, w)) by layer, as (M, C, h, w, 1)."""
    return {
        name.removeprefix("activations."): _as_pixels(array[..., None])
        for name, array in sorted(run.extras().items())
        if name.startswith("activations.") and array.ndim == 4 and array.size
    }


def _as_pixels(array: F32) -> U8:
    values = finite(array)
    axes = tuple(range(values.ndim - 3, values.ndim))
    low, high = values.min(axis=axes, keepdims=True), values.max(axis=axes, keepdims=True)
    pixels: U8 = np.rint((values - low) / np.maximum(high - low, 1e-12) * 255).astype(np.uint8)
    return pixels


def _stretch(map_hw: F32, height: int, width: int) -> F64:
    """Enlarge a map bilinearly, sampling at the middles of the pixels."""
    rows = np.clip((np.arange(height) + 0.5) * map_hw.shape[0] / height - 0.5, 0, map_hw.shape[0] - 1)
    columns = np.clip((np.arange(width) + 0.5) * map_hw.shape[1] / width - 0.5, 0, map_hw.shape[1] - 1)
    top, left = np.floor(rows).astype(int), np.floor(columns).astype(int)
    bottom, right = np.minimum(top + 1, map_hw.shape[0] - 1), np.minimum(left + 1, map_hw.shape[1] - 1)
    down, across = (rows - top)[:, None], (columns - left)[None, :]
    upper = map_hw[top][:, left] * (1 - across) + map_hw[top][:, right] * across
    lower = map_hw[bottom][:, left] * (1 - across) + map_hw[bottom][:, right] * across
    stretched: F64 = upper * (1 - down) + lower * down
    return stretched
