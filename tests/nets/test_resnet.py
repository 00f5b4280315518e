from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from selfsort.nets.resnet import PLANS, BasicBlock, Bottleneck, Normalise, ResNet, plan_for, small_plan


def count(module: nn.Module) -> int:
    return sum(weight.numel() for weight in module.parameters())


class TestPlans:
    @pytest.mark.parametrize(
        ("arch", "side", "sides", "n_features"),
        [
            ("resnet18", 32, [32, 16, 8, 4], 512),
            ("resnet18-stl", 96, [49, 25, 13, 7], 512),
            ("resnet50", 224, [56, 28, 14, 7], 2048),
        ],
    )
    def test_published_shapes(self, arch: str, side: int, sides: list[int], n_features: int) -> None:
        assert PLANS[arch].sides(side) == sides
        assert PLANS[arch].n_features == n_features

    @pytest.mark.parametrize(("arch", "millions"), [("resnet18", 11.17), ("resnet50", 23.51)])
    def test_published_sizes(self, arch: str, millions: float) -> None:
        """Known counts without the classifier: 11.17 million with a 3x3 stem, 23.51 million."""
        assert count(ResNet(3, PLANS[arch])) == pytest.approx(millions * 1e6, rel=1e-3)

    @pytest.mark.parametrize("arch", ["resnet18", "resnet18-stl"])
    def test_the_maps_are_what_the_plan_says(self, arch: str) -> None:
        torch.manual_seed(0)
        net = ResNet(3, PLANS[arch]).eval()
        with torch.inference_mode():
            maps = net.maps(torch.rand(1, 3, 48, 48))
        assert maps.shape[2:] == (PLANS[arch].sides(48)[-1],) * 2

    @pytest.mark.parametrize(
        ("side", "arch"), [(16, "resnet18"), (32, "resnet18"), (96, "resnet18-stl"), (224, "resnet50")]
    )
    def test_auto_takes_the_nearest_published_one(self, side: int, arch: str) -> None:
        assert plan_for("auto", (side, side, 3)) == PLANS[arch]

    @pytest.mark.parametrize("side", [8, 16, 28, 32, 48, 64, 100])
    def test_the_small_net_works_on_at_most_16_pixels(self, side: int) -> None:
        plan = small_plan(side, side, 8)
        assert max(plan.sides(side)) <= 16
        assert plan.n_features == 32
        assert ResNet(1, plan)(torch.rand(2, 1, side, side)).shape == (2, 32)

    def test_oblong_images(self) -> None:
        plan = plan_for("small", (12, 40, 3), 8)
        assert ResNet(3, plan)(torch.rand(2, 3, 12, 40)).shape == (2, 32)


class TestBlocks:
    def test_equal_shapes_have_a_free_shortcut(self) -> None:
        assert isinstance(BasicBlock(4, 4, 1).shortcut, nn.Identity)
        assert isinstance(BasicBlock(4, 8, 1).shortcut, nn.Sequential)
        assert isinstance(Bottleneck(4, 4, 1).shortcut, nn.Sequential)

    @pytest.mark.parametrize("block", [BasicBlock(4, 4, 1), Bottleneck(16, 4, 1)])
    def test_with_a_dead_inner_way_only_the_shortcut_is_left(self, block: BasicBlock | Bottleneck) -> None:
        last = block.norm2 if isinstance(block, BasicBlock) else block.norm3
        nn.init.zeros_(last.weight)
        x = torch.rand(2, 4 if isinstance(block, BasicBlock) else 16, 5, 5)
        torch.testing.assert_close(block(x), x)

    def test_convolutions_start_by_their_fan_out(self) -> None:
        torch.manual_seed(0)
        weight = ResNet(3, PLANS["resnet18"]).stem.weight
        assert weight.std().item() == pytest.approx((2 / (64 * 9)) ** 0.5, rel=0.05)

    def test_features_are_the_mean_over_the_map(self) -> None:
        net = ResNet(1, small_plan(16, 16, 8)).eval()
        x = torch.rand(3, 1, 16, 16)
        torch.testing.assert_close(net(x), net.maps(x).flatten(2).mean(dim=2))


class TestNormalise:
    def test_mean_zero_and_deviation_one(self) -> None:
        pixels = np.random.default_rng(0).integers(0, 200, (50, 6, 5, 3)).astype(np.uint8)
        layer = Normalise(3)
        layer.fit(pixels)
        found = layer(torch.from_numpy(pixels).permute(0, 3, 1, 2) / 255)
        torch.testing.assert_close(found.mean(dim=(0, 2, 3)), torch.zeros(3), atol=1e-5, rtol=0)
        torch.testing.assert_close(found.std(dim=(0, 2, 3), correction=0), torch.ones(3), atol=1e-4, rtol=0)

    def test_images_of_one_value_stay_finite(self) -> None:
        layer = Normalise(1)
        layer.fit(np.full((3, 4, 4, 1), 77, dtype=np.uint8))
        assert torch.isfinite(layer(torch.full((1, 1, 4, 4), 77 / 255))).all()
