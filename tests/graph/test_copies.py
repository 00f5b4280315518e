from __future__ import annotations

import numpy as np

from selfsort.graph.copies import count_once, exact_copies, find_copies
from selfsort.graph.knn import nearest_neighbours
from selfsort.types import F32


def cloud(n: int, seed: int = 0) -> F32:
    return np.random.default_rng(seed).standard_normal((n, 60)).astype(np.float32)


def test_exact_copies_by_hand() -> None:
    rows = np.array([[1, 2], [0, 0], [1, 2], [-0.0, 0]], dtype=np.float32)
    group, first = exact_copies(rows)
    assert group.tolist() == [0, 1, 0, 1]
    assert first.tolist() == [0, 1]


def test_bursts_are_one_picture_and_others_stay() -> None:
    pictures = cloud(100)
    bursts = np.repeat(pictures[:10], 5, axis=0) + 0.05 * cloud(50, seed=1)
    features = np.concatenate([bursts, pictures[10:]])
    group = find_copies(nearest_neighbours(features, 30))
    assert group.max() + 1 == 100
    assert all(len(set(group[5 * i : 5 * i + 5].tolist())) == 1 for i in range(10))


def test_a_sequence_of_views_is_not_a_burst() -> None:
    angle = np.linspace(0, 2 * np.pi, 72, endpoint=False)
    ring = np.stack([np.cos(angle), np.sin(angle)], axis=1).astype(np.float32)
    assert find_copies(nearest_neighbours(ring, 30)).max() == 71


def test_many_exact_copies_are_one_however_long_the_list() -> None:
    features = np.concatenate([np.zeros((60, 60), dtype=np.float32), cloud(40)])
    group = find_copies(nearest_neighbours(features, 20))
    assert len(set(group[:60].tolist())) == 1  # although no list holds them all
    assert len(set(group[60:].tolist())) == 40


def test_lists_hold_every_other_picture_once() -> None:
    pictures = cloud(60)
    features = np.concatenate([pictures, pictures[:20] + np.float32(1e-3)])
    distinct = count_once(nearest_neighbours(features, 25))
    assert len(distinct) == 60
    assert distinct.group.tolist() == [*range(60), *range(20)]
    plain = nearest_neighbours(pictures, 15)
    near = distinct.neighbours
    assert (near.idx[:, :15] >= 0).all()
    overlap = [len(set(a) & set(b)) for a, b in zip(near.idx[:, :15].tolist(), plain.idx.tolist(), strict=True)]
    assert np.mean(overlap) > 14
    assert all(len({j for j in row if j >= 0}) == sum(j >= 0 for j in row) for row in near.idx.tolist())
    assert (near.idx != np.arange(60)[:, None]).all()
    assert (np.isinf(near.sq_dist) == (near.idx < 0)).all()


def test_without_copies_nothing_changes() -> None:
    near = nearest_neighbours(cloud(50), 12)
    distinct = count_once(near)
    np.testing.assert_array_equal(distinct.neighbours.idx, near.idx)
    np.testing.assert_array_equal(distinct.neighbours.sq_dist, near.sq_dist)


def test_two_images() -> None:
    assert find_copies(nearest_neighbours(cloud(2), 5)).tolist() == [0, 1]
