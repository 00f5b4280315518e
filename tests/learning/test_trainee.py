"""What several starts and regrouping ask of a method that can be improved."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.contract.tiny import TINY

from selfsort.config import Config
from selfsort.data.synthetic import shapes
from selfsort.learning.trainee import Trainee
from selfsort.methods.registry import METHODS
from selfsort.types import Improvable, Snapshot

CPU = torch.device("cpu")
IMAGES = shapes(12, size=16, seed=1, n_classes=3)[0]
improvable = pytest.mark.parametrize("name", [name for name, method in METHODS.items() if method.improvable])


def opened(name: str) -> tuple[Trainee, Snapshot, Improvable, Config]:
    """Train a method for three snapshots and open it there."""
    method = METHODS[name]
    config = method.config.from_json({"n_clusters": 3, **TINY[name]})
    training = method.train(IMAGES, config, device=CPU, seed=0)
    next(training), next(training)
    snapshot = next(training)
    assert method.improvable is not None
    trainee = method.improvable.open(IMAGES, config, device=CPU, seed=0, state=snapshot.state())
    return trainee, snapshot, method.improvable, config


@improvable
def test_opened_and_left_alone_it_is_saved_as_it_was(name: str) -> None:
    trainee, snapshot, _, _ = opened(name)
    before, after = snapshot.state(), trainee.state()
    assert before.meta == after.meta
    assert before.arrays.keys() == after.arrays.keys()
    for key, array in before.arrays.items():
        np.testing.assert_array_equal(array, after.arrays[key], err_msg=key)


@improvable
def test_it_answers_with_clusters_and_features(name: str) -> None:
    trainee, _, _, _ = opened(name)
    trainee.net.eval()
    with torch.inference_mode():
        labels, features = trainee.probe(trainee.pixels.floats(torch.arange(5)))
    assert labels.shape == (5,)
    assert labels.dtype == torch.int64
    assert (features.ndim, len(features)) == (2, 5)


@improvable
def test_it_can_be_taught(name: str) -> None:
    """One cluster for all is soon learned; a snapshot taken again then says so."""
    trainee, snapshot, _, _ = opened(name)
    trainee.begin_teaching()
    trainee.net.train()
    rows, zeros = torch.arange(len(IMAGES)), torch.zeros(len(IMAGES), dtype=torch.int64)
    for group in trainee.optimizer.param_groups:
        group["lr"] = 0.02
    losses = []
    for _ in range(60):
        trainee.optimizer.zero_grad()
        loss = trainee.teaching_loss(rows, zeros)
        loss.backward()  # type: ignore[no-untyped-call]
        trainee.optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.5 * losses[0]
    again = trainee.retake(snapshot)
    assert (again.labels == 0).mean() > 0.9
    assert again.step == snapshot.step


@improvable
def test_progress_is_counted_in_its_own_unit(name: str) -> None:
    _, snapshot, door, config = opened(name)
    counts = [door.done(config, step) for step in range(snapshot.total + 1)]
    assert counts[0] == 0
    assert counts == sorted(counts)
    assert counts[-1] > counts[-2]
    assert door.unit
