from __future__ import annotations

import itertools

import pytest
import torch
from torch import nn

from selfsort.learning.rates import half_cosine, set_rate


def test_the_rate_falls_along_half_a_cosine() -> None:
    optimizer = torch.optim.SGD(nn.Linear(2, 2).parameters(), lr=1.0)
    rates = []
    for progress in (0.0, 1 / 3, 0.5, 1.0, 1.5):
        set_rate(optimizer, 0.4, progress)
        rates.append(optimizer.param_groups[0]["lr"])
    assert rates == pytest.approx([0.4, 0.3, 0.2, 0.0, 0.0])


def test_it_never_rises() -> None:
    shares = [half_cosine(step / 50) for step in range(60)]
    assert all(later <= earlier for earlier, later in itertools.pairwise(shares))
