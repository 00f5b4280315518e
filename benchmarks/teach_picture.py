"""The picture of docs/methods/teach.md: digits that a taught network puts into another cluster than the graph did.

    python -m benchmarks.teach_picture

The digits are those that come with scikit-learn. Nothing here knows their classes.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from sklearn.datasets import load_digits

from selfsort.data import from_array
from selfsort.methods.teach import TeachConfig, train
from selfsort.types import F64, I64

ASSET = Path(__file__).parents[1] / "docs" / "assets" / "teach-moved.png"
N_SHOWN = 14


def main() -> None:
    pixels = load_digits().images / 16
    *_, last = train(from_array(pixels), TeachConfig(n_clusters=10), device=torch.device("cpu"), seed=0)
    assert last.result is not None
    before, after = last.result.extras["labels_before"], last.result.labels
    moved = np.flatnonzero(before != after)
    surest = moved[np.argsort(-last.result.soft[moved].max(axis=1), kind="stable")][:N_SHOWN]
    draw(pixels, before, after, surest)
    print(f"{len(moved)} of {len(after)} digits moved; {ASSET}")


def draw(pixels: F64, before: I64, after: I64, shown: I64) -> None:
    """Draw each digit between the mean picture of the cluster it left and that of the one it came to."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(3, len(shown), figsize=(0.62 * len(shown) + 1, 2.1), layout="constrained")
    titles = ("graph's cluster", "digit", "network's cluster")
    for column, row in enumerate(shown):
        means = (pixels[before == before[row]].mean(axis=0), pixels[row], pixels[after == after[row]].mean(axis=0))
        for place, picture in zip(axes[:, column], means, strict=True):
            place.imshow(picture, cmap="gray_r")
            place.set(xticks=[], yticks=[])
    for place, title in zip(axes[:, 0], titles, strict=True):
        place.set_ylabel(title, rotation=0, ha="right", va="center")
    figure.savefig(ASSET, dpi=110)


if __name__ == "__main__":
    main()
