from __future__ import annotations

import numpy as np
import pytest

from selfsort.improve.corrections import Said, learn, passing_on, spread
from selfsort.types import F32, I64

NONE: I64 = np.empty(0, np.int64)


@pytest.fixture
def three() -> tuple[F32, I64]:
    """Three blobs, of which a method has seen two: the middle one is in the first cluster."""
    rng = np.random.default_rng(0)
    centres = np.repeat([[0, 0], [4, 0], [8, 0]], 40, axis=0)
    rows = (centres + 0.4 * rng.normal(size=(120, 2))).astype(np.float32)
    return rows, np.repeat([0, 0, 1], 40)


def test_few_corrections_carry_those_that_are_like_them(three: tuple[F32, I64]) -> None:
    rows, labels = three
    moved = np.array([40, 50, 60, 70])
    corrected = labels.copy()
    corrected[moved] = 2
    found = learn(rows, corrected, Said(moved, corrected[moved], NONE), 3)
    assert (found[40:80] == 2).mean() > 0.5  # moving them alone gives a tenth
    assert (found[:40] == 0).all()
    assert (found[80:] == 1).all()


def test_what_a_person_has_said_is_never_contradicted(three: tuple[F32, I64]) -> None:
    rows, labels = three
    moved = np.array([5, 90])
    corrected = labels.copy()
    corrected[moved] = 2  # against all their neighbours
    found = learn(rows, corrected, Said(moved, corrected[moved], NONE), 3)
    assert found[moved].tolist() == [2, 2]


def test_what_is_wrong_leaves_its_cluster(three: tuple[F32, I64]) -> None:
    rows, labels = three
    labels = labels.copy()
    labels[100] = 0  # among those of cluster 1
    found = learn(rows, labels, Said(NONE, NONE, np.array([100])), 2)
    assert found[100] == 1
    assert (np.delete(found, 100) == np.delete(labels, 100)).all()


def test_without_corrections_nothing_changes(three: tuple[F32, I64]) -> None:
    rows, labels = three
    assert (learn(rows, labels, Said(NONE, NONE, NONE), 2) == labels).all()


def test_a_confirmed_image_in_its_place_moves_nobody(three: tuple[F32, I64]) -> None:
    rows, labels = three
    said = Said(np.array([0]), np.array([0]), NONE)
    assert (learn(rows, labels, said, 2) == labels).all()


def test_labels_spread_as_the_equation_says(three: tuple[F32, I64]) -> None:
    rows, labels = three
    graph = passing_on(rows)
    found = spread(graph, labels, np.ones(len(labels)), 2)
    start = np.eye(2)[labels]
    exact = 0.2 * np.linalg.solve(np.eye(len(labels)) - 0.8 * graph.toarray(), start)
    np.testing.assert_allclose(found, exact, atol=0.01)


def test_a_picture_of_a_small_cluster_takes_nobody_of_another_along() -> None:
    features = np.repeat(np.eye(3, dtype=np.float32) * 5, 6, axis=0)
    features += np.random.default_rng(0).normal(0, 0.1, features.shape).astype(np.float32)
    labels = np.repeat(np.arange(3), 6)
    moved = labels.copy()
    moved[0] = 3
    found = learn(features, moved, Said(np.array([0]), np.array([3]), np.zeros(0, np.int64)), 4)
    assert found[0] == 3
    assert (found[6:] == labels[6:]).all()
