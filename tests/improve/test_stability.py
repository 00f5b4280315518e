from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.improve.pupil import Pupil
from torch import Tensor

from selfsort.augment.policy import Affine
from selfsort.data import from_array
from selfsort.improve.stability import probe_twice, stability_of
from selfsort.learning.batches import PixelTensor
from selfsort.metrics.stability import stability

CPU = torch.device("cpu")


class TestStability:
    def test_what_survives_a_move_beats_what_does_not(self) -> None:
        rng = np.random.default_rng(0)
        bright = rng.integers(0, 2, 300)
        pixels = np.repeat(np.repeat(bright[:, None, None], 8, 1), 8, 2) * 120 + rng.integers(0, 100, (300, 8, 8))
        images = PixelTensor(from_array(pixels.astype(np.uint8)), CPU)
        policy = (Affine(translate=0.3),)

        def by_brightness(x: Tensor) -> tuple[Tensor, Tensor]:
            return (x.mean(dim=(1, 2, 3)) > 0.4).long(), x[:, 0, 0]

        def by_a_corner(x: Tensor) -> tuple[Tensor, Tensor]:
            return (x[:, 0, 0, 0] > x[:, 0, 3, 3]).long(), x[:, 0, 0]

        assert stability_of(Pupil(by_brightness, images, policy), 2) > 0.6
        assert stability_of(Pupil(by_a_corner, images, policy), 2) < 0.1

    def test_it_is_the_same_again(self) -> None:
        images = PixelTensor(from_array(np.random.default_rng(0).integers(0, 255, (50, 8, 8)).astype(np.uint8)), CPU)
        pupil = Pupil(lambda x: ((x.sum(dim=(1, 2, 3)) > 30).long(), x[:, 0, 0]), images, (Affine(rotate=20),))
        assert len({stability_of(pupil, 2) for _ in range(3)}) == 1

    def test_it_is_that_of_the_labels_of_both_views(self) -> None:
        images = PixelTensor(from_array(np.random.default_rng(0).integers(0, 255, (50, 8, 8)).astype(np.uint8)), CPU)
        pupil = Pupil(lambda x: (x[:, 0, 2:5, 3].argmax(dim=1), x[:, 0, 0]), images, (Affine(rotate=20),))
        (first, _), (second, _) = probe_twice(pupil.probe, images, pupil.policy)
        assert (first != second).any()
        assert stability_of(pupil, 3) == pytest.approx(stability(first.numpy(), second.numpy(), 3), rel=1e-6)
