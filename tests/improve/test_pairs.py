from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from selfsort.improve.corrections import Said
from selfsort.improve.pairs import PairSettings, can_be_taught, pair_loss, teach
from selfsort.learning.checkpoint import pack_module
from selfsort.learning.encode import apply_in_blocks
from selfsort.types import F32, I64, Assignment, Encoded, State

CPU = torch.device("cpu")
NONE: I64 = np.empty(0, np.int64)
QUICK = PairSettings(lr=0.05, n_steps=200)
"""For a head of six numbers."""


class Head(nn.Module):
    """Features to the softmax of a linear map, and the features again."""

    def __init__(self, dim: int, n_clusters: int) -> None:
        super().__init__()
        self.linear = nn.Linear(dim, n_clusters)

    def forward(self, x_BD: Tensor) -> tuple[Tensor, Tensor]:
        return self.linear(x_BD).softmax(dim=1), x_BD


class Model:
    def __init__(self, net: nn.Module) -> None:
        self.net = net

    def apply(self, images: Encoded, layer: str = "top") -> Assignment:
        with torch.no_grad():
            soft, features = self.net(torch.from_numpy(images.features))
        return Assignment(features.numpy(), soft.numpy())

    def network(self) -> nn.Module:
        return self.net


@pytest.fixture
def three() -> tuple[Model, State, F32]:
    """Three blobs; the head has put the middle one to the first, at a border that is too far to the right."""
    rng = np.random.default_rng(0)
    rows = (np.repeat([[0, 0], [4, 0], [8, 0]], 40, axis=0) + 0.4 * rng.normal(size=(120, 2))).astype(np.float32)
    net = Head(2, 2)
    with torch.no_grad():
        net.linear.weight.copy_(torch.tensor([[-1.0, 0.0], [1.0, 0.0]]))
        net.linear.bias.copy_(torch.tensor([6.0, -6.0]))
    return Model(net), State(pack_module("net", net), {}), rows


def test_corrected_images_take_those_like_them_along(three: tuple[Model, State, F32]) -> None:
    model, state, rows = three
    labels = model.apply(Encoded(rows)).labels
    assert labels.tolist() == [0] * 80 + [1] * 40
    moved = np.arange(40, 46)
    labels[moved] = 1
    taught = teach(
        model, state, Encoded(rows), labels, Said(moved, labels[moved], NONE), device=CPU, seed=0, settings=QUICK
    )
    after = apply_in_blocks(model, Encoded(rows)).labels
    assert (after[:40] == 0).all(), "what it was sure of it still knows"
    assert (after[40:80] == 1).mean() >= 0.8
    assert (after[80:] == 1).all()
    assert not np.array_equal(taught.arrays["net.linear.bias"], state.arrays["net.linear.bias"])


def test_the_same_seed_teaches_the_same(three: tuple[Model, State, F32]) -> None:
    model, state, rows = three
    labels = model.apply(Encoded(rows)).labels
    said = Said(np.arange(40, 43), np.ones(3, np.int64), NONE)
    found = []
    for _ in range(2):
        model.net.load_state_dict({name[4:]: torch.from_numpy(a) for name, a in state.arrays.items()})
        found.append(teach(model, state, Encoded(rows), labels, said, device=CPU, seed=3).arrays["net.linear.weight"])
    np.testing.assert_array_equal(found[0], found[1])


def test_what_is_marked_wrong_leaves_its_cluster(three: tuple[Model, State, F32]) -> None:
    model, state, rows = three
    labels = model.apply(Encoded(rows)).labels
    before = model.apply(Encoded(rows)).soft[40:46, 0].mean()
    teach(model, state, Encoded(rows), labels, Said(NONE, NONE, np.arange(40, 46)), device=CPU, seed=0, settings=QUICK)
    assert model.apply(Encoded(rows)).soft[40:46, 0].mean() < before


def test_nothing_said_changes_nothing(three: tuple[Model, State, F32]) -> None:
    model, state, rows = three
    labels = np.zeros(120, np.int64)
    assert teach(model, state, Encoded(rows), labels, Said(NONE, NONE, NONE), device=CPU, seed=0) is state


def test_a_batch_without_pairs_adds_nothing() -> None:
    none = torch.zeros(2, 3, dtype=torch.bool)
    assert pair_loss(torch.full((2, 3), 0.5), none, none).item() == 0


def test_only_a_network_that_the_state_holds_can_be_taught(three: tuple[Model, State, F32]) -> None:
    model, state, _ = three
    assert can_be_taught(model, state)
    assert not can_be_taught(model, State({}, {}))
    assert not can_be_taught(object(), state)
    model.votes = None  # type: ignore[attr-defined]
    assert not can_be_taught(model, state), "its own images vote, with features of the network as it was"
