from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from selfsort.errors import InvalidInput
from selfsort.methods._secu_lars import LARS


def moved(weight: Tensor, gradient: Tensor, *, steps: int = 1, **options: float) -> Tensor:
    parameter = nn.Parameter(weight.clone())
    optimizer = LARS([parameter], lr=0.5, **options)
    for _ in range(steps):
        parameter.grad = gradient.clone()
        optimizer.step()
    return parameter.detach()


def test_a_matrix_moves_by_a_share_of_its_own_length() -> None:
    # |w| = 5, |g| = 10: the gradient is scaled by 0.1 * 5 / 10.
    weight, gradient = torch.tensor([[3.0, 4.0]]), torch.tensor([[6.0, 8.0]])
    torch.testing.assert_close(moved(weight, gradient, trust=0.1, momentum=0.0), weight - 0.5 * 0.05 * gradient)
    # However large the gradient, the step is the same.
    torch.testing.assert_close(
        moved(weight, gradient, trust=0.1, momentum=0.0), moved(weight, 1000 * gradient, trust=0.1, momentum=0.0)
    )


def test_a_vector_takes_a_plain_step_and_is_not_decayed() -> None:
    weight, gradient = torch.tensor([3.0, 4.0]), torch.tensor([6.0, 8.0])
    torch.testing.assert_close(moved(weight, gradient, momentum=0.0, weight_decay=0.1), weight - 0.5 * gradient)


def test_decay_is_part_of_the_gradient() -> None:
    weight, gradient = torch.tensor([[3.0, 4.0]]), torch.zeros(1, 2)
    # g = 0.1 w, scaled to length trust * |w|.
    torch.testing.assert_close(
        moved(weight, gradient, trust=0.2, momentum=0.0, weight_decay=0.1), weight - 0.5 * 0.2 * weight
    )


def test_momentum_adds_up() -> None:
    weight, gradient = torch.tensor([1.0]), torch.tensor([1.0])
    # Buffers 1, then 0.9 + 1.
    torch.testing.assert_close(moved(weight, gradient, steps=2, momentum=0.9), weight - 0.5 * (1 + 1.9))


def test_zero_weights_and_missing_gradients_are_harmless() -> None:
    zero, unused = nn.Parameter(torch.zeros(1, 2)), nn.Parameter(torch.ones(1, 2))
    optimizer = LARS([zero, unused], lr=0.5)
    zero.grad = torch.tensor([[1.0, 0.0]])
    optimizer.step()
    assert torch.isfinite(zero).all()
    torch.testing.assert_close(unused.detach(), torch.ones(1, 2))


def test_wrong_use_is_refused() -> None:
    with pytest.raises(InvalidInput, match="trust must be at least 0 and positive"):
        LARS([nn.Parameter(torch.ones(1))], lr=0.1, trust=0.0)
    with pytest.raises(InvalidInput, match="closure must be left out"):
        LARS([nn.Parameter(torch.ones(1))], lr=0.1).step(lambda: 0.0)
