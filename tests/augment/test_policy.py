"""Random operations in a row."""

from __future__ import annotations

import pytest
import torch
from tests.augment.pillow import batch, seeded

from selfsort.augment import primitive as _primitive
from selfsort.augment.policy import (
    AutoContrast,
    Equalise,
    Posterise,
    RandomOps,
)


class TestRandomOps:
    @pytest.mark.parametrize("channels", [1, 3])
    def test_each_operation_occurs(self, channels: int) -> None:
        """One picture, one operation each: the results fall into the operations of the list."""
        given = (batch(1, 16, 16, channels) // 2 + 40).expand(600, -1, -1, -1)
        changed = RandomOps(n=1)(given, seeded())
        is_same = (changed == given).all(dim=(1, 2, 3))
        share = float(is_same.float().mean())  # identity, 8 bits, solarising at the top; for gray also colour
        assert (0.05 if channels == 3 else 0.1) < share < 0.35
        assert any(torch.equal(one, Equalise()(given[:1], seeded())[0]) for one in changed)
        assert any(torch.equal(one, AutoContrast()(given[:1], seeded())[0]) for one in changed)
        assert any(torch.equal(one, Posterise(bits=4)(given[:1], seeded())[0]) for one in changed)
        black_column = (changed[:, :, :, 0] == 0).all(dim=(1, 2))
        assert bool(black_column.any())  # moved to the right by more than a pixel

    def test_samples_do_not_mix(self) -> None:
        values = torch.linspace(0.2, 0.8, 30)
        changed = RandomOps(n=1)(_primitive.per_sample(values).expand(30, 3, 9, 9), seeded())
        for one, value in zip(changed[:, :, 4, 4], values, strict=True):
            assert torch.allclose(one, one[0])  # gray stays gray
            is_known = any(abs(float(one[0]) - known) < 0.04 for known in (float(value), 1 - float(value)))
            assert is_known or float(one[0]) < float(value)

    def test_none_is_the_identity(self) -> None:
        given = batch()
        assert torch.equal(RandomOps(n=0)(given, seeded()), given)
