"""The pictures of docs/classic.md: how far neighbours can be trusted, and the last merges of ac-gdl.

    python -m benchmarks.classic_pictures

The tables of that page come from the records of `selfsort bench`. The data are looked for in the folder that
SELFSORT_DATA names.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from selfsort.bench.datasets import DATASETS, missing, read
from selfsort.bench.tables import TABLES
from selfsort.classic.method import pixel_features
from selfsort.errors import MissingData
from selfsort.graph.knn import nearest_neighbours
from selfsort.methods.registry import find_method
from selfsort.metrics import knn_purity
from selfsort.types import I64, Images

ASSETS = Path(__file__).parents[1] / "docs" / "assets"


def main() -> None:
    try:
        draw_purity(TABLES["classic"].datasets)
        draw_dendrogram("mnist-test")
    except MissingData:
        print(missing(TABLES["classic"].datasets), file=sys.stderr)
        sys.exit(MissingData.exit_code)


def load(dataset: str) -> tuple[Images, I64]:
    """Read images and classes."""
    found = read(dataset)
    assert found.labels is not None
    return found.images, found.labels


def purity_curve(dataset: str, n_ranks: int = 100) -> npt.NDArray[np.float64]:
    """Mean purity of the 1..n nearest neighbours in unit-norm pixels."""
    images, truth = load(dataset)
    return knn_purity(nearest_neighbours(pixel_features(images), n_ranks).idx, truth)


def _figure(width: float, height: float) -> tuple[Any, Any]:
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    # Text as text keeps the file small; a fixed salt keeps it the same from run to run.
    mpl.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "selfsort", "font.size": 9})
    return pyplot.subplots(figsize=(width, height), layout="constrained")


def _save(figure: Any, name: str) -> None:
    ASSETS.mkdir(exist_ok=True)
    figure.savefig(ASSETS / name, metadata={"Date": None})


def draw_purity(datasets: tuple[str, ...]) -> None:
    """How often the K nearest images in pixel space are of the same class."""
    figure, axes = _figure(6.4, 3.6)
    for dataset in datasets:
        curve = purity_curve(dataset)
        axes.plot(np.arange(1, len(curve) + 1), curve, label=DATASETS[dataset].title)
    axes.set(xlabel="K nearest neighbours in unit-norm pixels", ylabel="share of the same class", ylim=(0, 1))
    axes.set_xlim(1, 100)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(loc="lower left", ncols=3, frameon=False)
    _save(figure, "classic-purity.svg")


def draw_dendrogram(dataset: str, n_leaves: int = 40) -> None:
    """The last merges of ac-gdl without absorbing: where real clusters are glued and outliers survive."""
    method = find_method("ac-gdl")
    images, truth = load(dataset)
    config = method.config.from_json({"n_clusters": 2, "absorb": False})
    *_, last = method.train(images, config, device=torch.device("cpu"), seed=0)
    assert last.result is not None
    extras = last.result.extras
    n_start = int(extras["start_labels"].max()) + 1
    leaves, joins = top_of_tree(extras["merges"], n_start, n_leaves)
    counts = class_counts(extras["merges"], extras["start_labels"], truth)
    figure, axes = _figure(7.2, 4.0)
    _draw_tree(axes, leaves, joins, counts, n_leaves)
    axes.set(ylabel="clusters left", xlabel="images in the cluster (digit of most of them)")
    axes.spines[["top", "right", "bottom"]].set_visible(False)
    _save(figure, "classic-dendrogram.svg")


def top_of_tree(
    merges: npt.NDArray[np.int64], n_start: int, n_leaves: int
) -> tuple[list[int], list[tuple[int, int, int]]]:
    """Clusters alive when `n_leaves` were left, in an order without crossings, and the later merges (a, b, new)."""
    first = n_start - n_leaves
    joins = [(int(a), int(b), n_start + m) for m, (a, b) in enumerate(merges.tolist()) if m >= first]
    children = {new: (a, b) for a, b, new in joins}
    merged = {child for pair in children.values() for child in pair}
    roots = [new for new in children if new not in merged]
    alive = set(range(n_start + first)) - set(merges[:first].ravel().tolist())
    roots += sorted(alive - merged)

    def walk(node: int) -> list[int]:
        return [leaf for child in children[node] for leaf in walk(child)] if node in children else [node]

    return [leaf for root in roots for leaf in walk(root)], joins


def class_counts(
    merges: npt.NDArray[np.int64], start_labels: npt.NDArray[np.int64], truth: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """Images of each class in every cluster that ever existed."""
    n_start = int(start_labels.max()) + 1
    counts = np.zeros((n_start + len(merges), int(truth.max()) + 1), dtype=np.int64)
    np.add.at(counts, (start_labels, truth), 1)
    for m, (a, b) in enumerate(merges):
        counts[n_start + m] = counts[a] + counts[b]
    return counts


def _draw_tree(
    axes: Any,
    leaves: list[int],
    joins: list[tuple[int, int, int]],
    counts: npt.NDArray[np.int64],
    n_leaves: int,
) -> None:
    from matplotlib import colormaps

    colours = colormaps["tab10"]
    place = {leaf: float(x) for x, leaf in enumerate(leaves)}
    height = dict.fromkeys(leaves, 0)
    for step, (a, b, new) in enumerate(joins, start=1):
        for child in (a, b):
            purity = counts[child].max() / counts[child].sum()
            colour = colours(int(counts[child].argmax())) if purity >= 0.8 else "0.6"
            axes.plot([place[child]] * 2, [height[child], step], color=colour, lw=1.2)
        axes.plot([place[a], place[b]], [step, step], color="0.4", lw=0.8)
        place[new], height[new] = (place[a] + place[b]) / 2, step
    names = [f"{counts[leaf].sum()} ({counts[leaf].argmax()})" for leaf in leaves]
    axes.set_xticks(range(len(leaves)), names, rotation=90, fontsize=6)
    ticks = [n for n in (n_leaves, 30, 20, 10, 5, 2) if n <= n_leaves]
    axes.set_yticks([n_leaves - n for n in ticks], ticks)
    axes.set_ylim(0, len(joins) + 1)


if __name__ == "__main__":
    main()
