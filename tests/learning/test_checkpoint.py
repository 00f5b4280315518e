from __future__ import annotations

import pytest
import torch
from torch import nn

from selfsort.errors import InvalidInput
from selfsort.learning.checkpoint import (
    pack_generator,
    pack_module,
    pack_optimizer,
    unpack_generator,
    unpack_module,
    unpack_optimizer,
)
from selfsort.learning.seeds import seeded_init, torch_generator


@pytest.mark.parametrize("kind", [torch.optim.SGD, torch.optim.Adam, torch.optim.RMSprop])
def test_packed_state_continues_exactly(kind: type[torch.optim.Optimizer]) -> None:
    def build() -> tuple[nn.Module, torch.optim.Optimizer, torch.Generator]:
        with seeded_init(0):
            net = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Linear(4, 1))
        options = {"lr": 0.05, "momentum": 0.9} if kind is not torch.optim.Adam else {"lr": 0.05}
        return net, kind(net.parameters(), **options), torch_generator(0, "data")  # type: ignore[arg-type]

    def steps(net: nn.Module, optimizer: torch.optim.Optimizer, generator: torch.Generator, n: int) -> None:
        for _ in range(n):
            optimizer.zero_grad()
            net(torch.randn(8, 4, generator=generator)).pow(2).mean().backward()
            optimizer.step()

    net, optimizer, generator = build()
    steps(net, optimizer, generator, 3)
    arrays = pack_module("net", net) | pack_optimizer("opt", optimizer)
    position = pack_generator(generator)
    steps(net, optimizer, generator, 3)

    other_net, other_optimizer, other_generator = build()
    unpack_module("net", other_net, arrays)
    unpack_optimizer("opt", other_optimizer, arrays)
    unpack_generator(other_generator, position)
    steps(other_net, other_optimizer, other_generator, 3)
    for name, value in net.state_dict().items():
        assert torch.equal(value, other_net.state_dict()[name]), name


def test_weights_of_another_shape_are_refused() -> None:
    arrays = pack_module("net", nn.Linear(3, 3))
    with pytest.raises(InvalidInput, match="the saved weights of 'net' must fit the network"):
        unpack_module("net", nn.Linear(3, 4), arrays)
