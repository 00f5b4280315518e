from __future__ import annotations

import numpy as np
import pytest

from selfsort.data import shapes
from selfsort.errors import InvalidInput


@pytest.mark.parametrize("size", [8, 16, 28])
@pytest.mark.parametrize("channels", [1, 3])
def test_classes_are_further_apart_than_wide(size: int, channels: int) -> None:
    """Separable by pixels alone: every other class is further away than the nearest of the own one, by far."""
    for seed in range(3):
        images, labels = shapes(15, size, seed, channels=channels)
        flat = images.pixels.reshape(60, -1).astype(float)
        flat /= np.linalg.norm(flat, axis=1, keepdims=True)
        apart = 2 - 2 * flat @ flat.T
        np.fill_diagonal(apart, np.inf)
        is_same = labels[:, None] == labels
        assert (2 * np.where(is_same, apart, np.inf).min(axis=1) < np.where(is_same, np.inf, apart).min(axis=1)).all()


def test_same_seed_same_pictures() -> None:
    (first, labels), (second, again), (other, _) = shapes(seed=1), shapes(seed=1), shapes(seed=2)
    assert (first.pixels == second.pixels).all()
    assert (labels == again).all()
    assert not (first.pixels == other.pixels).all()


def test_counts_and_jitter() -> None:
    images, labels = shapes(5, 12, n_classes=3)
    assert labels.dtype == np.int64
    assert np.bincount(labels).tolist() == [5, 5, 5]
    assert len(np.unique(images.pixels.reshape(15, -1), axis=0)) == 15


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_classes": 5}, "n_classes must be between 1 and 4; got 5"),
        ({"size": 4}, "at least 8 pixels"),
        ({"n_per_class": 0}, "at least 1 picture"),
    ],
)
def test_impossible_wishes(options: dict[str, int], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        shapes(**options)
