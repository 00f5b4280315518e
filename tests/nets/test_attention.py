from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from tests.oracles import gatcluster as oracle
from torch import Tensor, nn

from selfsort.errors import InvalidInput
from selfsort.nets.attention import (
    ARCHITECTURES,
    Arch,
    Attention,
    GATNet,
    Plan,
    Prepare,
    PrintedHead,
    gaussian_map,
    plan_network,
)

PLAIN = Prepare(True, (0.0,), (1.0,))


def network(plan: Plan, side: int, n_clusters: int = 10, channels: int = 1, **rest: Any) -> GATNet:
    return GATNet((side, side, channels), plan, n_clusters, prepare=PLAIN, **rest)


def n_parameters(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


class TestPlans:
    @pytest.mark.parametrize(
        ("arch", "side", "map_side", "n_extra"),
        [
            ("stl", 96, 6, 0),
            ("stl", 128, 6, 2),
            ("stl", 128, 10, 0),
            ("stl", 128, 8, 1),
            ("stl", 128, 4, 3),
            ("stl", 128, 2, 4),
            ("stl", 160, 6, 4),
            ("stl", 192, 6, 6),
            ("dog-96", 96, 4, 1),
            ("dog-128", 128, 4, 3),
            ("cifar", 32, 5, 0),
        ],
    )
    def test_published(self, arch: Arch, side: int, map_side: int, n_extra: int) -> None:
        plan = plan_network(side, side, arch, map_side)
        assert len(plan.extra) == n_extra
        assert plan.side(side) == map_side

    @pytest.mark.parametrize(("side", "arch"), [(32, "cifar"), (96, "stl"), (128, "stl"), (160, "stl"), (192, "stl")])
    def test_the_rule_gives_the_published_ones(self, side: int, arch: Arch) -> None:
        goal = {32: 5}.get(side, 6)
        assert plan_network(side, side) == plan_network(side, side, arch, goal)

    def test_the_rule_covers_every_size(self) -> None:
        for side in range(28, 225):
            assert 4 <= plan_network(side, side).side(side) <= 7
        for side in range(4, 28):
            assert 1 <= plan_network(side, side).side(side) <= 6

    def test_plans_describe_the_network(self) -> None:
        for side in (9, 16, 28, 33, 79, 81):
            plan = plan_network(side, side).scaled(1 / 16)
            image = network(plan, side).eval().image(torch.zeros(1, 1, side, side))
            assert image.shape == (1, plan.n_features, plan.side(side), plan.side(side))

    def test_narrowing_keeps_the_form(self) -> None:
        narrow = ARCHITECTURES["stl"].scaled(0.25)
        assert [stage[0].channels for stage in narrow.stages] == [16, 32, 64]
        assert narrow.side(96) == 6
        assert ARCHITECTURES["cifar"].scaled(0.001).n_features == 4

    def test_impossible_maps_are_refused(self) -> None:
        with pytest.raises(
            InvalidInput, match=r"map_side must be one that 128 pixels can give \(10, 8, 6, 4, 2\); got 5"
        ):
            plan_network(128, 128, "stl", 5)
        with pytest.raises(InvalidInput, match="map_side must be one that 32 pixels"):
            plan_network(32, 32, "cifar", 7)
        with pytest.raises(InvalidInput, match="the image size must be large enough for arch=stl; got 40x60"):
            plan_network(40, 60, "stl")


class TestGaussian:
    @pytest.mark.parametrize(("height", "width"), [(6, 6), (4, 7), (1, 3)])
    @pytest.mark.parametrize("parameters", [(0.2, 0.9, 0.5), (0.0, 1.0, 1.0), (0.5, 0.5, 0.01)])
    def test_equals_the_definition(self, parameters: tuple[float, float, float], height: int, width: int) -> None:
        found = gaussian_map(torch.tensor([parameters], dtype=torch.float64), height, width, a0=0.1)
        np.testing.assert_allclose(found[0].numpy(), oracle.gaussian(*parameters, height, width, 0.1), rtol=1e-9)

    def test_by_hand(self) -> None:
        # One step along the width of a 3x3 grid is 1/2: exp(-(1/4) / (0.1 * 0.5 + 1e-5)).
        found = gaussian_map(torch.tensor([[0.5, 0.5, 0.5]]), 3, 3, a0=0.1)[0]
        assert found[1, 1] == 1
        assert float(found[1, 2]) == pytest.approx(np.exp(-0.25 / 0.05001), rel=1e-5)

    def test_it_peaks_at_the_grid_point_nearest_to_mu_and_stays_in_bounds(self) -> None:
        parameters = torch.rand(50, 3, generator=torch.Generator().manual_seed(0)) * 0.98 + 0.01
        maps = gaussian_map(parameters, 5, 7)
        assert (maps >= 0).all()
        assert (maps <= 1).all()
        peak = maps.flatten(1).argmax(dim=1)
        assert torch.equal(peak % 7, (parameters[:, 0] * 6).round().long())
        assert torch.equal(peak // 7, (parameters[:, 1] * 4).round().long())

    def test_it_is_positive_where_the_bump_is_wide(self) -> None:
        assert (gaussian_map(torch.tensor([[0.0, 0.0, 1.0]]), 6, 6) > 0).all()

    def test_tied_parameters_are_those_of_the_released_code(self) -> None:
        free = gaussian_map(torch.tensor([[0.3, 0.8, 0.8]]), 6, 6)
        tied = gaussian_map(torch.tensor([[0.3, 0.1, 0.8]]), 6, 6, tied=True)
        torch.testing.assert_close(free, tied)
        assert not torch.allclose(free, gaussian_map(torch.tensor([[0.3, 0.1, 0.8]]), 6, 6))

    def test_all_three_parameters_learn(self) -> None:
        parameters = torch.tensor([[0.3, 0.6, 0.4]], dtype=torch.float64, requires_grad=True)
        assert torch.autograd.gradcheck(lambda p: gaussian_map(p, 4, 5), (parameters,))
        gaussian_map(parameters, 4, 5)[0, 1, 3].backward()  # type: ignore[no-untyped-call]
        assert parameters.grad is not None
        assert (parameters.grad != 0).all()
        parameters.grad = None
        gaussian_map(parameters, 4, 5, tied=True)[0, 1, 3].backward()  # type: ignore[no-untyped-call]
        assert parameters.grad is not None
        assert parameters.grad[0, 1] == 0


class TestNetwork:
    def test_modules_have_the_published_sizes(self) -> None:
        # CIFAR: 3/1-64 x3, pool, 3/0-128 x3, pool, 1x1-k. Each convolution is followed by 2 numbers per channel.
        convs = 9 * (1 * 64 + 64 * 64 * 2 + 64 * 128 + 128 * 128 * 2) + 2 * 3 * (64 + 128)
        to_clusters = 128 * 10 + 20
        label = 10 * 10 + 20 + 2 * 110
        attention = 10 * 10 + 20 + (5 * 5 * 10 * 3 + 3) + 2 * 110
        net = network(plan_network(32, 32), 32)
        assert n_parameters(net) == convs + to_clusters + label + attention
        assert n_parameters(network(plan_network(32, 32), 32, has_attention=False)) == convs + to_clusters + label
        assert net.map_size == (5, 5)

    def test_label_features_are_probabilities(self) -> None:
        net = network(plan_network(28, 28).scaled(0.1), 28)
        l, la = net(torch.rand(6, 1, 28, 28))  # noqa: E741
        assert la is not None
        for found in (l, la):
            assert found.shape == (6, 10)
            torch.testing.assert_close(found.sum(dim=1), torch.ones(6))
        net.eval()
        x = torch.rand(3, 1, 28, 28)
        l, _ = net(x)  # noqa: E741
        torch.testing.assert_close(net.label(x), l)
        again, features, maps = net.describe(x)
        torch.testing.assert_close(again, l)
        assert features.shape == (3, 13)
        assert maps.shape == (3, 10, 4, 4)

    def test_attention_masks_what_it_passes_on(self) -> None:
        torch.manual_seed(0)
        module = Attention(3, (4, 4), has_conv=False).eval()
        image, label = torch.rand(2, 3, 4, 4), torch.rand(2, 3, 4, 4)
        seen = (label * module.attention_map(image)[:, None]).sum(dim=(2, 3))
        torch.testing.assert_close(module(image, label), module.head(seen))
        assert module.parameters_of(image).shape == (2, 3)
        assert ((module.parameters_of(image) > 0) & (module.parameters_of(image) < 1)).all()

    def test_modules_as_the_tables_of_the_paper_print_them(self) -> None:
        net = network(plan_network(32, 32), 32, modules="paper").eval()
        assert net.attention is not None
        assert (net.label_conv.conv.out_channels, net.label_conv.has_relu) == (64, True)
        for head in (net.label_head, net.attention.head):
            assert isinstance(head, PrintedHead)
            layers = [layer for layer in head.layers if isinstance(layer, nn.Linear)]
            assert [(layer.in_features, layer.out_features) for layer in layers] == [(64, 10), (10, 10), (10, 10)]
        assert isinstance(net.attention.conv, nn.Identity)
        x = torch.rand(3, 1, 32, 32)
        clusters = net.to_clusters(net.image(net.prepare(x)))
        placed = net.attention.place(clusters.flatten(1))
        torch.testing.assert_close(net.attention.parameters_of(clusters), torch.relu(placed))
        seen = net.label_conv(clusters) * net.attention.attention_map(clusters)[:, None]
        torch.testing.assert_close(net(x)[1], net.attention.head(seen.mean(dim=(2, 3))))

    def test_soft_attention_is_any_map(self) -> None:
        module = Attention(3, (4, 5), kind="soft").eval()
        maps = module.attention_map(torch.rand(2, 3, 4, 5))
        assert maps.shape == (2, 4, 5)
        assert ((maps > 0) & (maps < 1)).all()

    def test_without_attention_there_is_no_second_answer(self) -> None:
        assert network(plan_network(16, 16).scaled(0.1), 16, has_attention=False)(torch.rand(2, 1, 16, 16))[1] is None

    def test_relu_of_the_label_module(self) -> None:
        x = torch.rand(8, 1, 16, 16)
        for has_relu in (True, False):
            net = network(plan_network(16, 16).scaled(0.1), 16, label_relu=has_relu)
            found = net.label_conv(net.to_clusters(net.image(x)))
            assert bool((found < 0).any()) != has_relu

    def test_oblong_images(self) -> None:
        net = GATNet((30, 44, 1), plan_network(30, 44).scaled(0.1), 4, prepare=PLAIN)
        assert net.map_size == (4, 8)
        assert net(torch.rand(2, 1, 30, 44))[0].shape == (2, 4)


class TestPrepare:
    def x(self) -> Tensor:
        return torch.rand(2, 3, 4, 4, generator=torch.Generator().manual_seed(0))

    def test_gray_is_luma(self) -> None:
        x = self.x()
        found = PLAIN(x)
        assert found.shape == (2, 1, 4, 4)
        torch.testing.assert_close(found[:, 0], 0.299 * x[:, 0] + 0.587 * x[:, 1] + 0.114 * x[:, 2])
        assert PLAIN(x[:, :1]) is not None
        torch.testing.assert_close(PLAIN(x[:, :1]), x[:, :1])

    def test_colour_stays_colour(self) -> None:
        mean, std = (0.1, 0.2, 0.3), (0.5, 1.0, 2.0)
        found = Prepare(False, mean, std)(self.x())
        torch.testing.assert_close(found[:, 2], (self.x()[:, 2] - 0.3) / 2)

    def test_nothing_of_it_is_saved(self) -> None:
        assert not PLAIN.state_dict()
