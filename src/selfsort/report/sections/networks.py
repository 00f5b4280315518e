"""Filters and activations of a network as contact sheets."""

from __future__ import annotations

import numpy as np

from selfsort.report.drawings import Panels, Sheet
from selfsort.report.read import RunData
from selfsort.report.render.images import tiled
from selfsort.runs.arrays import finite
from selfsort.text import plural
from selfsort.types import F32, U8

MAX_FILTERS = 64
MAX_CHANNELS = 12
MAX_IMAGES = 4


def network_sheets(run: RunData) -> Panels | None:
    """Lay filters and activation maps out in sheets."""
    sheets = []
    for layer, pixels in filters(run).items():
        alt = f"{plural(len(pixels), 'filter')} of layer {layer}"
        scale = max(1, 24 // max(pixels.shape[1:3]))
        sheets.append(Sheet(f"Filters: {layer}", tiled(pixels[:MAX_FILTERS], 16), alt, scale))
    for layer, maps in activations(run).items():
        shown = maps[:MAX_IMAGES, :MAX_CHANNELS]
        sheet = tiled(shown.reshape(-1, *maps.shape[2:]), shown.shape[1])
        alt = f"{plural(shown.shape[1], 'channel')}, one image per row"
        sheets.append(Sheet(f"Activations: {layer}", sheet, alt, max(1, 40 // max(maps.shape[2:4]))))
    return Panels(sheets) if sheets else None


def filters(run: RunData) -> dict[str, U8]:
    """Return the filters among the extras (`filters.LAYER`) by layer, each scaled to its own range."""
    found = {}
    for name, array in sorted(run.extras.items()):
        shown = array[..., None] if array.ndim == 3 else array
        if name.startswith("filters.") and shown.ndim == 4 and shown.size and shown.shape[3] in (1, 3):
            found[name.removeprefix("filters.")] = _as_pixels(shown)
    return found


def activations(run: RunData) -> dict[str, U8]:
    """Return the activation maps among the extras (`activations.LAYER`, (M, C, h, w)) by layer, as (M, C, h, w, 1)."""
    return {
        name.removeprefix("activations."): _as_pixels(array[..., None])
        for name, array in sorted(run.extras.items())
        if name.startswith("activations.") and array.ndim == 4 and array.size
    }


def _as_pixels(array: F32) -> U8:
    values = finite(array)
    axes = tuple(range(values.ndim - 3, values.ndim))
    low, high = values.min(axis=axes, keepdims=True), values.max(axis=axes, keepdims=True)
    pixels: U8 = np.rint((values - low) / np.maximum(high - low, 1e-12) * 255).astype(np.uint8)
    return pixels
