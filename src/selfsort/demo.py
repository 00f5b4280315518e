"""Real images that ship with scikit-learn, as a file any command can read."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np


@contextmanager
def digits_file() -> Iterator[Path]:
    """Write the 1,797 handwritten digits (8x8) with their labels to a temporary npz."""
    from sklearn.datasets import load_digits

    digits = load_digits()
    pixels = np.rint(digits.images * (255 / 16)).astype(np.uint8)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "digits.npz"
        np.savez_compressed(path, images=pixels, labels=digits.target)
        yield path
