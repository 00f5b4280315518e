from __future__ import annotations

import numpy as np
import torch

from selfsort.runs.arrivals import ASIDE, DOUBTFUL, SMALLEST_GROUP, place
from selfsort.types import F32, I64

CPU = torch.device("cpu")


def blob(x: float, n: int, seed: int) -> F32:
    rows: F32 = (np.array([x, 0.0]) + 0.5 * np.random.default_rng(seed).normal(size=(n, 2))).astype(np.float32)
    return rows


OLD: F32 = np.concatenate([blob(0, 60, 0), blob(10, 60, 1)])
LABELS: I64 = np.repeat([0, 4], 60)


def test_near_pictures_join_their_group() -> None:
    found = place(OLD, LABELS, np.concatenate([blob(0, 5, 2), blob(10, 5, 3)]), 5, CPU)
    assert set(found.labels[:5].tolist()) <= {0, ASIDE}
    assert set(found.labels[5:].tolist()) <= {4, ASIDE}
    assert (found.labels >= 0).sum() >= 8  # the farthest of a blob may be farther than all others
    assert found.n_new == 0


def test_enough_that_fit_nowhere_are_a_group_and_few_are_not() -> None:
    far = np.concatenate([blob(40, SMALLEST_GROUP + 3, 4), np.array([[200.0, 0.0], [-300.0, 5.0]], np.float32)])
    found = place(OLD, LABELS, far, 9, CPU)
    assert found.labels.tolist() == [9] * (SMALLEST_GROUP + 3) + [ASIDE] * 2
    assert (found.n_new, found.n_nowhere) == (1, 2)
    assert place(OLD, LABELS, far[:3], 9, CPU).labels.tolist() == [ASIDE] * 3


def test_outliers_of_the_run_do_not_vote() -> None:
    labels = LABELS.copy()
    labels[:5] = -1
    assert place(OLD, labels, blob(0, 4, 7), 5, CPU).labels.tolist() == [0] * 4


def test_a_divided_vote_is_doubtful() -> None:
    labels = np.arange(120) % 4  # neighbours that agree on nothing
    found = place(OLD, labels, blob(0, 6, 8), 5, CPU)
    assert found.n_doubtful == int((found.confidence < DOUBTFUL).sum()) > 1
    assert (found.labels == ASIDE).sum() == found.n_doubtful
