"""Real images that ship with scikit-learn, as a file any command can read."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from selfsort.data import read_source
from selfsort.runs.files import write_whole
from selfsort.runs.launch import launch
from selfsort.runs.request import Request


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


def measure_others(source: Path, n_clusters: int) -> Iterator[tuple[str, float]]:
    """Cluster the same images by what people use otherwise, where it is installed, and yield its name and ACC."""
    dataset = read_source(source)
    others = {"k-means": "kmeans"} | ({"UMAP + k-means": "umap-kmeans"} if find_spec("umap") else {})
    for title, method in others.items():
        outcome = launch(Request(source=dataset, clusters=n_clusters, method=method)).fit.run()
        assert outcome.metrics is not None, "the digits have labels"
        yield title, outcome.metrics["acc"]
