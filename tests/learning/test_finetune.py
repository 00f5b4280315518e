"""An encoder beside the head of a method, in one network and one optimiser."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from torch import nn

from selfsort.learning.checkpoint import pack_module
from selfsort.learning.finetune import train_along
from selfsort.types import Encoded, Images, Tunable


def inputs(rate: float = 0.1) -> Tunable:
    network = nn.Linear(4, 2)
    network.bias.requires_grad_(False)
    images = Images(np.zeros((3, 2, 2, 1), np.uint8))
    return Tunable(np.zeros((3, 2), np.float32), images=images, network=network, rate=rate)


@pytest.mark.parametrize("kind", [torch.optim.SGD, torch.optim.Adam, torch.optim.RMSprop])
def test_it_goes_a_part_of_the_way(kind: type[torch.optim.Optimizer]) -> None:
    given, head = inputs(), nn.Linear(2, 1)
    moved = []
    for rate in (1.0, 0.25):
        encoder, own = copy.deepcopy(given.network), copy.deepcopy(head)
        optimizer = kind(own.parameters(), lr=0.1)  # type: ignore[call-arg]
        train_along(own, optimizer, Tunable(given.features, images=given.images, network=encoder, rate=rate))
        own(encoder(torch.ones(3, 4))).sum().backward()
        optimizer.step()
        moved.append((encoder.get_parameter("weight") - given.network.get_parameter("weight")).detach())
        torch.testing.assert_close(encoder.get_parameter("bias"), given.network.get_parameter("bias"), rtol=0, atol=0)
    assert float(moved[0].abs().min()) > 0
    torch.testing.assert_close(moved[1], 0.25 * moved[0], rtol=1e-3, atol=1e-6)


def test_the_network_holds_both() -> None:
    head, given = nn.Linear(2, 1), inputs()
    train_along(head, torch.optim.SGD(head.parameters(), lr=0.1), given)
    assert set(pack_module("net", head)) == {"net.weight", "net.bias", "net.tuned.weight", "net.tuned.bias"}


def test_what_stands_still_changes_nothing() -> None:
    head = nn.Linear(2, 1)
    optimizer = torch.optim.SGD(head.parameters(), lr=0.1)
    train_along(head, optimizer, Encoded(np.zeros((3, 2), np.float32)))
    assert len(optimizer.param_groups[0]["params"]) == len(list(head.parameters())) == 2
