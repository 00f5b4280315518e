from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.choose_k.planted import blobs

from selfsort.trust import evidence
from selfsort.trust.evidence import gather
from selfsort.trust.outliers import Bools, excess, find_outliers
from selfsort.types import F32, I64

CPU = torch.device("cpu")


def found(rows: F32, labels: I64) -> Bools:
    return find_outliers(gather(rows, labels, int(labels.max()) + 1, seed=0, device=CPU), labels)


def scattered(rows: F32, truth: I64, n_far: int, seed: int = 1) -> tuple[F32, I64]:
    """Add points far from everything; each is given to the blob nearest to it, as a method would."""
    far = 15 * np.random.default_rng(seed).standard_normal((n_far, rows.shape[1])).astype(np.float32)
    nearest = ((far[:, None] - rows) ** 2).sum(axis=2).argmin(axis=1)
    return np.vstack([rows, far]), np.concatenate([truth, truth[nearest]])


@pytest.mark.parametrize("n_dims", [10, 30, 100])
def test_scattered_points_are_found_and_no_others(n_dims: int) -> None:
    rows, labels = scattered(*blobs([100] * 5, n_dims=n_dims), 20)
    np.testing.assert_array_equal(np.flatnonzero(found(rows, labels)), np.arange(500, 520))


@pytest.mark.parametrize("n_dims", [10, 30, 100])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_clean_blobs_have_none(n_dims: int, seed: int) -> None:
    rows, truth = blobs([300, 100, 40, 15], n_dims=n_dims, seed=seed)
    assert not found(rows, truth).any()


def test_what_was_sorted_wrongly_belongs_somewhere() -> None:
    # A dense cluster and a wide one: by the measure of the dense one, an image of the wide one is far off.
    rows, truth = blobs([100, 100])
    rows[truth == 1] *= 5
    labels = truth.copy()
    labels[[150, 160]] = 0
    assert not found(rows, labels).any()


def test_a_small_cluster_stays_a_cluster() -> None:
    rows, truth = blobs([200, 200, 6], spread=12)
    assert not found(rows, truth).any()
    # Nor does it become one of outliers where the method has joined it to another.
    assert not found(rows, np.minimum(truth, 1)).any()


def test_copies_are_no_outliers_and_make_none() -> None:
    rows, truth = blobs([100, 100])
    copied = np.vstack([rows, np.repeat(rows[:3], 60, axis=0)])
    assert not found(copied, np.concatenate([truth, np.repeat(truth[:3], 60)])).any()


def test_a_picture_far_away_that_is_there_many_times_is_a_group() -> None:
    rows, labels = scattered(*blobs([100] * 3), 1)
    assert found(rows, labels).sum() == 1
    repeated = np.concatenate([np.arange(300), np.full(5, 300)])
    assert not found(rows[repeated], labels[repeated]).any()


def test_a_sample_speaks_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, labels = scattered(*blobs([200] * 4), 12)
    monkeypatch.setattr(evidence, "MOST_JUDGES", 400)
    np.testing.assert_array_equal(np.flatnonzero(found(rows, labels)), np.arange(800, 812))


def test_excess_by_hand() -> None:
    distance, labels = np.exp([0.0, 1.0, 2.0, 5.0, 9.0]), np.zeros(5, np.int64)
    # The median of the logarithms is 2, their median deviation 2.
    np.testing.assert_allclose(excess(distance, labels, labels), np.array([-2, -1, 0, 3, 7]) / (1.4826 * 2))


def test_excess_leaves_copies_out_of_what_is_usual() -> None:
    distance, labels = np.array([0.0, 0.0, 0.0, 1.0, 2.0]), np.array([0, 0, 0, 0, 1])
    above = excess(distance, labels, np.array([0, 0, 1, 0, 0]))
    assert (above[:3] == -np.inf).all()
    assert above[3] == 0
    assert above[4] == pytest.approx(np.log(2) / 0.05)


def test_a_cluster_of_copies_alone_is_no_measure() -> None:
    distance, labels = np.array([0.0, 0.0, 3.0]), np.array([0, 0, 1])
    above = excess(distance, labels, np.array([0, 0, 0]))
    assert not (above > 0).any()
