from __future__ import annotations

import numpy as np
import pytest
import torch

from selfsort.nets.averaged import Averaged, averaged_blocks


def test_by_hand() -> None:
    pixels = np.array([[0, 1, 9], [2, 8, 9], [9, 9, 9]], dtype=np.uint8).reshape(1, 3, 3, 1)
    # (0 + 1 + 2 + 8) / 4 = 2.75; the third row and column are over
    assert averaged_blocks(pixels, 2, 2).tolist() == [[[[3]]]]


@pytest.mark.parametrize("factor", [2, 3, 4])
def test_the_layer_gives_the_same_bytes(factor: int) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (20, 25, 14, 3), dtype=np.uint8)
    x_BCHW = torch.from_numpy(pixels).permute(0, 3, 1, 2).float() / 255
    found = Averaged(factor)(x_BCHW).mul(255).round().byte().permute(0, 2, 3, 1).numpy()
    np.testing.assert_array_equal(found, averaged_blocks(pixels, factor, factor))
