"""Augmented neighbours from the definition: every pair of images, every view of the first, one at a time."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from selfsort.types import F32, F64, U8


def sampled(image: F64, y: float, x: float) -> F64:
    """Interpolate between the four pixels around a place; beyond the border the nearest pixel counts."""
    height, width, _ = image.shape
    y, x = min(max(y, 0.0), height - 1.0), min(max(x, 0.0), width - 1.0)
    top, left = math.floor(y), math.floor(x)
    below, beside = min(top + 1, height - 1), min(left + 1, width - 1)
    dy, dx = y - top, x - left
    upper = (1 - dx) * image[top, left] + dx * image[top, beside]
    lower = (1 - dx) * image[below, left] + dx * image[below, beside]
    found: F64 = (1 - dy) * upper + dy * lower
    return found


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
