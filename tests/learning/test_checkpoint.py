from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from selfsort.errors import InvalidInput
from selfsort.learning.checkpoint import Checkpoint, pack_module, unpack_module
from selfsort.learning.seeds import seeded_init, torch_generator
from selfsort.types import State

SAVED = Checkpoint(generators=("data",), counters=("step", "loss"), arrays=("centres_KD", "seen", "latest_N", "extra"))


class Run:
    """A training with something of everything that can be saved."""

    def __init__(self, kind: type[torch.optim.Optimizer]) -> None:
        with seeded_init(0):
            self.net = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Linear(4, 1))
        self.centres_KD = nn.Parameter(torch.zeros(2, 4))
        options = {"lr": 0.05, "momentum": 0.9} if kind is not torch.optim.Adam else {"lr": 0.05}
        self.optimizer = kind([*self.net.parameters(), self.centres_KD], **options)  # type: ignore[arg-type]
        self.data = torch_generator(0, "data")
        self.seen = np.zeros(2, dtype=np.int64)
        self.latest_N = torch.zeros(0)
        self.extra: dict[str, np.ndarray[Any, Any]] = {}
        self.step, self.loss = 0, 0.0

    def steps(self, n: int) -> None:
        for _ in range(n):
            self.optimizer.zero_grad()
            x = torch.randn(8, 4, generator=self.data)
            loss = self.net(x).pow(2).mean() + (x - self.centres_KD[0]).pow(2).mean()
            loss.backward()
            self.optimizer.step()
            self.step, self.loss, self.latest_N = self.step + 1, self.loss + float(loss.detach()), x[:, 0]
            self.seen = self.seen + 1
            self.extra[f"step {self.step}"] = self.seen


@pytest.mark.parametrize("kind", [torch.optim.SGD, torch.optim.Adam, torch.optim.RMSprop])
def test_a_restored_training_goes_on_exactly(kind: type[torch.optim.Optimizer]) -> None:
    run, again = Run(kind), Run(kind)
    run.steps(3)
    state = SAVED.pack(run)
    run.steps(3)
    SAVED.restore(again, state)
    again.steps(3)
    wanted, found = SAVED.pack(run), SAVED.pack(again)
    assert found.meta == wanted.meta == {"step": 6, "loss": run.loss}
    assert found.arrays.keys() == wanted.arrays.keys()
    for name, array in wanted.arrays.items():
        assert np.array_equal(found.arrays[name], array), name


def test_arrays_are_saved_under_their_names_without_the_letters_of_a_shape() -> None:
    run = Run(torch.optim.SGD)
    run.steps(1)
    names = {name for name in SAVED.pack(run).arrays if not name.startswith(("net.", "optimizer."))}
    assert names == {"data", "centres", "seen", "latest", "extra.step 1"}


def test_a_tensor_is_restored_in_place_because_others_hold_it() -> None:
    run, again = Run(torch.optim.SGD), Run(torch.optim.SGD)
    run.steps(1)
    held = again.centres_KD
    SAVED.restore(again, SAVED.pack(run))
    assert again.centres_KD is held
    assert torch.equal(held, run.centres_KD)


def test_a_saved_state_is_a_copy() -> None:
    run = Run(torch.optim.SGD)
    run.steps(1)
    state = SAVED.pack(run)
    run.seen += 5
    assert state.arrays["seen"].tolist() == [1, 1]


@pytest.mark.parametrize("name", ["seen", "centres"])
def test_arrays_of_another_shape_are_refused(name: str) -> None:
    state = SAVED.pack(Run(torch.optim.SGD))
    damaged = State({**state.arrays, name: np.zeros(1)}, state.meta)
    with pytest.raises(InvalidInput, match="must have the shape"):
        SAVED.restore(Run(torch.optim.SGD), damaged)


def test_weights_of_another_shape_are_refused() -> None:
    arrays = pack_module("net", nn.Linear(3, 3))
    with pytest.raises(InvalidInput, match="the saved weights of 'net' must fit the network"):
        unpack_module("net", nn.Linear(3, 4), arrays)
