"""Real images that ship with scikit-learn, as a file any command can read."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from selfsort.runs.folder import write_whole


def write_digits(folder: Path) -> Path:
    """Write the 1,797 handwritten digits (8x8) with their labels to an npz in a folder, unless it is there.

    The file stays, so that the run can be resumed, predicted on and exported like any other.
    """
    path = folder / "scikit-learn-digits.npz"
    if not path.exists():
        from sklearn.datasets import load_digits

        digits = load_digits()
        pixels = np.rint(digits.images * (255 / 16)).astype(np.uint8)
        write_whole(path, lambda file: np.savez_compressed(file, images=pixels, labels=digits.target))
    return path
