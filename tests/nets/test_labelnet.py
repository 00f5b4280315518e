from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from selfsort.errors import InvalidInput
from selfsort.learning.seeds import seeded_init
from selfsort.methods.recipes import recipes_of
from selfsort.nets.labelnet import Arch, Block, LabelNet, Plan, plan_network, restrain


def network(plan: Plan, channels: int = 1, n_clusters: int = 5, mean: list[float] | None = None) -> LabelNet:
    with seeded_init(0):
        return LabelNet(channels, n_clusters, plan, mean)


def sides(plan: Plan, side: int) -> list[int]:
    found = []
    for block in plan.blocks:
        side = block.out_side(side)
        found.append(side)
    return found


class TestPlans:
    @pytest.mark.parametrize(
        ("side", "arch", "channels", "expected"),
        [
            (28, "code", [64, 128], [11, 2]),
            (32, "code-cifar", [64, 128], [14, 5]),
            (32, "code-cifar2", [64, 128], [13, 3]),
            (96, "code-stl", [64, 128, 256], [45, 19, 6]),
            (96, "code-dog", [64, 128], [22, 4]),
            (28, "paper", [64, 128], [11, 3]),
            (96, "paper", [64, 128], [21, 3]),
            (16, "code", [64, 128], [8, 4]),  # padded
            (8, "paper", [64, 128], [4, 2]),
            (4, "code", [64, 128], [2, 1]),
        ],
    )
    def test_published_shapes(self, side: int, arch: Arch, channels: list[int], expected: list[int]) -> None:
        plan = plan_network(side, side, arch)
        assert [block.channels for block in plan.blocks] == channels
        assert sides(plan, side) == expected

    @pytest.mark.parametrize("arch", ["code", "code-cifar", "code-cifar2", "code-dog", "paper"])
    @pytest.mark.parametrize("side", [16, 28, 40, 64])
    def test_the_shape_computed_is_the_shape_that_comes_out(self, arch: Arch, side: int) -> None:
        plan = plan_network(side, side + 3, arch, channels=2)
        net = network(plan).eval()
        with torch.inference_mode():
            out = net.body(torch.zeros(1, 1, side, side + 3))
            assert net(torch.zeros(2, 1, side, side + 3)).shape == (2, 5)
        assert list(out.shape[2:]) == [sides(plan, side)[-1], sides(plan, side + 3)[-1]]

    def test_too_small_images_are_refused(self) -> None:
        with pytest.raises(InvalidInput, match="the image size must be at least 4 pixels; got 3x9"):
            plan_network(3, 9)
        with pytest.raises(InvalidInput, match="be large enough for arch=code-dog; got 8x8"):
            plan_network(8, 8, "code-dog")


class TestRestraint:
    def test_equals_softmax_then_unit_length(self) -> None:
        a = torch.randn(20, 7, generator=torch.Generator().manual_seed(0), dtype=torch.float64) * 5
        found = restrain(a)
        torch.testing.assert_close(found, F.normalize(a.softmax(dim=1), dim=1))
        torch.testing.assert_close(found.norm(dim=1), torch.ones(20, dtype=torch.float64))
        assert (found >= 0).all()

    def test_by_hand(self) -> None:
        # exp(0), exp(log 2) = 1, 2: divided by the root of 5.
        found = restrain(torch.tensor([[0.0, np.log(2.0)]], dtype=torch.float64))
        torch.testing.assert_close(found, torch.tensor([[1.0, 2.0]], dtype=torch.float64) / 5**0.5)

    def test_huge_activations_stay_finite(self) -> None:
        assert torch.isfinite(restrain(torch.tensor([[1e30, 0.0], [-1e30, -1e30]]))).all()


class TestNetwork:
    def test_convolutions_start_after_he_and_the_head_as_the_identity(self) -> None:
        net = network(plan_network(28, 28))
        conv = net.body[3]
        assert isinstance(conv, nn.Conv2d)
        assert float(conv.weight.detach().std()) == pytest.approx((2 / (64 * 9)) ** 0.5, rel=0.05)
        linears = [module for module in net.head if isinstance(module, nn.Linear)]
        assert len(linears) == 2
        for linear in linears:
            assert torch.equal(linear.weight, torch.eye(5))
            assert not linear.bias.any()

    def test_families_end_as_published(self) -> None:
        assert len(network(plan_network(32, 32, "paper", 2)).head) == 0
        assert isinstance(network(plan_network(32, 32, "code", 2)).head[-1], nn.ReLU)
        assert isinstance(network(plan_network(96, 96, "code-stl", 2)).head[-1], nn.ReLU)
        assert isinstance(network(plan_network(96, 96, "code-dog", 2)).head[-1], nn.ReLU)
        archs: tuple[Arch, ...] = ("code-cifar", "code-cifar2")
        for arch in archs:
            assert isinstance(network(plan_network(32, 32, arch, 2)).head[-1], nn.Identity)

    @pytest.mark.parametrize(
        ("arch", "side", "n_norms"),
        # One for each convolution and each of the two layers of the head; the script for MNIST has three more.
        [
            ("code", 28, 12),
            ("code-cifar", 32, 7),
            ("code-cifar2", 32, 9),
            ("code-stl", 96, 12),
            ("code-dog", 96, 7),
            ("paper", 32, 8),
        ],
    )
    def test_as_many_normalisations_as_the_scripts_have(self, arch: Arch, side: int, n_norms: int) -> None:
        net = network(plan_network(side, side, arch, 2), 3)
        norms = [module for module in net.modules() if isinstance(module, nn.BatchNorm1d | nn.BatchNorm2d)]
        assert len(norms) == n_norms

    @pytest.mark.parametrize(
        ("recipe", "arch"),
        [
            ("cifar10", "code-cifar2"),
            ("cifar10-star", "code-cifar"),
            ("cifar100-20", "code-cifar"),
            ("stl10", "code-stl"),
            ("imagenet10", "code-stl"),
            ("imagenet-dog", "code-dog"),
        ],
    )
    def test_recipes_take_the_network_of_their_script(self, recipe: str, arch: Arch) -> None:
        found = next(one for one in recipes_of("dac") if one.name == recipe)
        assert found.settings["arch"] == arch

    def test_pooling_before_the_relu_changes_nothing(self) -> None:
        block = Block(3, n_convs=1, is_renormed=True)
        net = network(Plan((block,)), 1).eval()
        conv, norm, pool, relu, last = net.body
        x = torch.rand(2, 1, 9, 9)
        torch.testing.assert_close(net.body(x), last(pool(relu(norm(conv(x))))))

    def test_the_mean_is_taken_off(self) -> None:
        plan = plan_network(16, 16, "code", 2)
        with_mean, without = network(plan, 3, mean=[0.5, 0.25, 0.0]).eval(), network(plan, 3).eval()
        x = torch.rand(2, 3, 16, 16)
        shifted = x - torch.tensor([0.5, 0.25, 0.0]).view(1, 3, 1, 1)
        torch.testing.assert_close(with_mean(x), without(shifted))

    def test_pooled_features(self) -> None:
        net = network(plan_network(16, 16, "code", 2)).eval()
        assert net.pooled(torch.rand(3, 1, 16, 16)).shape == (3, 4)
