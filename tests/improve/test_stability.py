from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from selfsort.augment.policy import Affine
from selfsort.data import from_array
from selfsort.improve.stability import count_pairs, mutual_information, steadiness
from selfsort.learning.batches import PixelTensor

CPU = torch.device("cpu")


class TestMutualInformation:
    def test_by_hand(self) -> None:
        # Half of the images keep their label, half change it: the second label tells nothing of the first.
        assert mutual_information(torch.tensor([[1.0, 1.0], [1.0, 1.0]])) == pytest.approx(0)
        # (0,0) 2/4, (1,0) 1/4, (1,1) 1/4.
        expected = 0.5 * math.log(0.5 / (0.5 * 0.75)) + 0.25 * math.log(0.25 / (0.5 * 0.75))
        expected += 0.25 * math.log(0.25 / (0.5 * 0.25))
        found = mutual_information(count_pairs(torch.tensor([0, 0, 1, 1]), torch.tensor([0, 0, 0, 1]), 2))
        assert found == pytest.approx(expected)

    def test_equal_use_of_k_clusters_is_the_most(self) -> None:
        labels = torch.arange(40) % 4
        assert mutual_information(count_pairs(labels, labels, 4)) == pytest.approx(math.log(4))

    def test_one_cluster_for_all_tells_nothing(self) -> None:
        labels = torch.zeros(40, dtype=torch.long)
        assert mutual_information(count_pairs(labels, labels, 4)) == 0


class TestSteadiness:
    def test_what_survives_a_move_beats_what_does_not(self) -> None:
        rng = np.random.default_rng(0)
        bright = rng.integers(0, 2, 300)
        pixels = np.repeat(np.repeat(bright[:, None, None], 8, 1), 8, 2) * 120 + rng.integers(0, 100, (300, 8, 8))
        images = PixelTensor(from_array(pixels.astype(np.uint8)), CPU)
        policy = (Affine(translate=0.3),)

        def by_brightness(x: Tensor) -> Tensor:
            return (x.mean(dim=(1, 2, 3)) > 0.4).long()

        def by_a_corner(x: Tensor) -> Tensor:
            return (x[:, 0, 0, 0] > x[:, 0, 3, 3]).long()

        assert steadiness(by_brightness, images, policy, 2) > 0.6
        assert steadiness(by_a_corner, images, policy, 2) < 0.1

    def test_it_is_the_same_again(self) -> None:
        images = PixelTensor(from_array(np.random.default_rng(0).integers(0, 255, (50, 8, 8)).astype(np.uint8)), CPU)
        policy = (Affine(rotate=20),)
        values = {steadiness(lambda x: (x.sum(dim=(1, 2, 3)) > 30).long(), images, policy, 2) for _ in range(3)}
        assert len(values) == 1
