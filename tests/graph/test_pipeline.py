"""From images to clusters: the steps together, on awkward data and on the published data sets if they are there."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from scipy.optimize import linear_sum_assignment
from sklearn.datasets import load_digits
from sklearn.metrics import normalized_mutual_info_score

from selfsort.graph.affinity import Scaling, centre, digraph, unit_rows
from selfsort.graph.agglomerate import Agglomeration, agglomerate, nearest_neighbour_components
from selfsort.graph.knn import nearest_neighbours
from selfsort.types import I64

DATA = Path(os.environ.get("SELFSORT_DATA", Path(__file__).parents[3] / "shared" / "data"))


def cluster(images: npt.NDArray[Any], n_clusters: int, scaling: Scaling) -> tuple[int, Agglomeration, Agglomeration]:
    """Run AC-GDL; return the number of starting clusters, the paper's result and the one with outliers absorbed."""
    features = unit_rows(images if scaling == "global" else centre(images))
    neighbours = nearest_neighbours(features, 20)
    start = nearest_neighbour_components(neighbours)
    weights = digraph(neighbours, scaling)
    plain = agglomerate(weights, start, n_clusters, absorb=False, features=features)
    return int(start.max()) + 1, plain, agglomerate(weights, start, n_clusters, features=features)


def accuracy(labels: I64, truth: I64) -> float:
    table = np.zeros((labels.max() + 1, truth.max() + 1))
    np.add.at(table, (labels, truth), 1)
    rows, columns = linear_sum_assignment(-table)
    return float(table[rows, columns].sum() / len(truth))


def draw(*shape: int) -> npt.NDArray[np.float64]:
    return np.random.default_rng(0).random(shape)


@pytest.mark.parametrize("scaling", ["global", "local"])
@pytest.mark.parametrize(
    ("images", "n_clusters"),
    [
        pytest.param(np.zeros((60, 4, 4)), 3, id="black"),
        pytest.param(np.full((60, 4, 4), 9), 3, id="all the same"),
        pytest.param(np.concatenate([np.repeat(draw(1, 16), 50, axis=0), draw(50, 16)]), 3, id="half the same"),
        pytest.param(np.repeat(draw(6, 16), 30, axis=0), 6, id="six pictures"),
        pytest.param(np.repeat(draw(6, 16), 30, axis=0), 2, id="six pictures in two"),
        pytest.param(draw(5, 16), 3, id="fewer images than neighbours"),
        pytest.param(draw(3, 16), 3, id="as many clusters as images"),
        pytest.param(draw(1, 16), 1, id="one image"),
        pytest.param(draw(200, 16), 150, id="more clusters than starts"),
    ],
)
def test_awkward_images_give_exactly_k_clusters(images: npt.NDArray[Any], n_clusters: int, scaling: Scaling) -> None:
    n_start, *both = cluster(images, n_clusters, scaling)
    for done in both:
        assert sorted(np.unique(done.labels)) == list(range(n_clusters))
        assert done.is_split_start == (n_start < n_clusters)


def test_six_pictures_are_told_apart() -> None:
    _, _, done = cluster(np.repeat(draw(6, 16), 30, axis=0), 6, "global")
    np.testing.assert_array_equal(done.labels, np.repeat(np.arange(6), 30))


def test_digits_that_ship_with_scikit_learn() -> None:
    digits = load_digits()
    _, _, done = cluster(digits.images, 10, "local")
    assert accuracy(done.labels, digits.target) == pytest.approx(0.894, abs=0.001)


# Start clusters, NMI (geometric) and ACC of the exact update on these files; nothing is random.
PUBLISHED = [
    ("umist-32", "global", 187, 0.774, 0.614),
    ("umist-32", "local", None, 0.751, 0.579),
    ("cmu-pie", "global", 799, 0.934, 0.842),
    ("coil20", "local", None, 0.942, 0.856),
    ("usps-9298", "global", 1590, 0.756, 0.575),
    ("mnist-test", "global", 1762, 0.856, 0.852),
    ("mnist-test", "local", None, 0.864, 0.932),
]
# The same two scores with outliers absorbed: at least these.
ABSORBED = {("mnist-test", "global"): (0.86, 0.92), ("usps-9298", "global"): (0.90, 0.96)}


@pytest.mark.parametrize(("name", "scaling", "n_start", "nmi", "acc"), PUBLISHED)
def test_known_scores(name: str, scaling: Scaling, n_start: int | None, nmi: float, acc: float) -> None:
    path = DATA / ("mnist.npz" if name == "mnist-test" else f"{name}.npz")
    if not path.exists():
        pytest.skip(f"{path.name} is not here")
    with np.load(path) as archive:
        rows = archive["split"] == 1 if name == "mnist-test" else slice(None)
        images, truth = archive["images"][rows], archive["labels"][rows].astype(np.int64)
    found_start, plain, absorbed = cluster(images, truth.max() + 1, scaling)
    assert n_start in (None, found_start)
    assert accuracy(plain.labels, truth) == pytest.approx(acc, abs=0.001)
    assert normalized_mutual_info_score(truth, plain.labels, average_method="geometric") == pytest.approx(
        nmi, abs=0.001
    )
    least_nmi, least_acc = ABSORBED.get((name, scaling), (nmi - 0.001, acc - 0.001))
    assert accuracy(absorbed.labels, truth) >= least_acc
    assert normalized_mutual_info_score(truth, absorbed.labels, average_method="geometric") >= least_nmi
