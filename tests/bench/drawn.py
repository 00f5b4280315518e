"""A file that has the form of UMist, drawn: 575 images in 20 classes, each a bright block at a place of its own."""

from __future__ import annotations

from pathlib import Path

import numpy as np


def write_umist(folder: Path, seed: int = 0) -> Path:
    labels = np.arange(575) % 20
    images = np.random.default_rng(seed).integers(0, 60, (575, 32, 32), dtype=np.uint8)
    for row, label in enumerate(labels):
        top, left = divmod(label, 5)
        images[row, 8 * top : 8 * top + 8, 6 * left : 6 * left + 6] = 255
    folder.mkdir(exist_ok=True)
    path = folder / "umist-32.npz"
    np.savez(path, images=images, labels=labels.astype(np.uint8))
    return path
