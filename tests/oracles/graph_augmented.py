"""Augmented neighbours from the definition: every pair of images, every view of the first, one at a time."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from selfsort.types import F32, F64, U8


def sampled(image: F64, y: float, x: float) -> F64:
    """Weigh the sixteen pixels around a place by Keys' cubic; beyond the border the nearest pixel counts."""
    height, width, _ = image.shape
    top, left = math.floor(y), math.floor(x)
    total = np.zeros(image.shape[2])
    for row in range(top - 1, top + 3):
        for column in range(left - 1, left + 3):
            pixel = image[min(max(row, 0), height - 1), min(max(column, 0), width - 1)]
            total += cubic(y - row) * cubic(x - column) * pixel
    found: F64 = np.clip(total, 0, 255)
    return found


def cubic(t: float, a: float = -0.75) -> float:
    """Return Keys' kernel at a distance."""
    t = abs(t)
    if t <= 1:
        return (a + 2) * t**3 - (a + 3) * t**2 + 1
    return a * (t**3 - 5 * t**2 + 8 * t - 4) if t < 2 else 0.0


def seen(image: F64, *, right: float, down: float, rotate: float, zoom: float) -> F64:
    """Zoom, rotate counter-clockwise as seen and translate an image (H, W, C) about its centre, pixel by pixel."""
    height, width, _ = image.shape
    angle, result = math.radians(rotate), np.empty_like(image)
    for row in range(height):
        for column in range(width):
            x, y = column - (width - 1) / 2 - right, row - (height - 1) / 2 - down
            # Back by the same angle; y points down.
            back_x = (math.cos(angle) * x - math.sin(angle) * y) / zoom
            back_y = (math.sin(angle) * x + math.cos(angle) * y) / zoom
            result[row, column] = sampled(image, back_y + (height - 1) / 2, back_x + (width - 1) / 2)
    return result


def unit_row(image: F64, mean: F32 | None) -> F64:
    """Flatten, subtract the mean image, and scale to length one."""
    row = image.ravel() / 255 - (0 if mean is None else mean.astype(np.float64))
    unit: F64 = row / max(float(np.linalg.norm(row)), 1e-8)
    return unit


def least_distances(pixels: U8, views: list[dict[str, float]], mean: F32 | None = None) -> npt.NDArray[np.float64]:
    """Return (N, N): the least squared distance of any view of image i to image j as it is."""
    n = len(pixels)
    images = pixels.astype(np.float64)
    plain = [unit_row(image, mean) for image in images]
    found = np.full((n, n), np.inf)
    for i in range(n):
        for view in views:
            row = unit_row(seen(images[i], **view), mean)
            for j in range(n):
                found[i, j] = min(found[i, j], float(((row - plain[j]) ** 2).sum()))
    return found


def nearest(least: F64, n_neighbours: int) -> npt.NDArray[np.int64]:
    """Return each row's nearest others."""
    return np.array(
        [[j for j in np.argsort(row, kind="stable") if j != i][:n_neighbours] for i, row in enumerate(least)]
    )
