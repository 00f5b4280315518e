from __future__ import annotations

import torch
from torch import nn

from selfsort.learning.seeds import derive_seed, numpy_generator, seeded_init


def test_seeds_of_different_purposes_differ_and_repeat() -> None:
    assert derive_seed(1, "a") == derive_seed(1, "a")
    assert len({derive_seed(s, p) for s in range(5) for p in "abc"}) == 15
    first, second = (numpy_generator(3, "x").integers(1 << 30) for _ in range(2))
    assert first == second


def test_seeded_init_leaves_the_global_generator_alone() -> None:
    before = torch.get_rng_state()
    with seeded_init(0):
        first = nn.Linear(3, 3)
    with seeded_init(0):
        second = nn.Linear(3, 3)
    assert torch.equal(first.weight, second.weight)
    assert torch.equal(torch.get_rng_state(), before)
