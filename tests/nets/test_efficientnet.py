"""EfficientNet-Lite against its numbers as published and the definition of its padding.

With the published weights it is compared with another implementation in tests/encoders/test_weights.py.
"""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from selfsort.nets.efficientnet import (
    PLANS,
    Block,
    EfficientNetLite,
    Layer,
    Plan,
    folded,
    renamed,
    same_padding,
)

TINY = Plan(0.25, 0.5, 33)


def tiny(seed: int = 0) -> EfficientNetLite:
    """A network whose batch normalisation is not what it starts with."""
    torch.manual_seed(seed)
    net = EfficientNetLite(TINY)
    for module in net.modules():
        if isinstance(module, nn.BatchNorm2d):
            nn.init.uniform_(module.weight, 0.5, 1.5)
            nn.init.normal_(module.bias)
            nn.init.normal_(module.get_buffer("running_mean"))
            nn.init.uniform_(module.get_buffer("running_var"), 0.5, 1.5)
    return net.eval()


def count(module: nn.Module) -> int:
    return sum(weight.numel() for weight in module.parameters())


class TestPlans:
    @pytest.mark.parametrize(("plan", "millions"), [("lite0", 4.652), ("lite2", 6.092)])
    def test_published_sizes(self, plan: str, millions: float) -> None:
        with torch.device("meta"):
            assert count(EfficientNetLite(PLANS[plan])) == pytest.approx(millions * 1e6, rel=1e-3)

    @pytest.mark.parametrize(("plan", "blocks", "side"), [("lite0", 16, 7), ("lite2", 21, 9)])
    def test_shapes(self, plan: str, blocks: int, side: int) -> None:
        with torch.device("meta"):
            net = EfficientNetLite(PLANS[plan])
            maps = net.maps(torch.zeros(2, 3, PLANS[plan].side, PLANS[plan].side))
        assert len(net.blocks) == blocks
        assert maps.shape == (2, 1280, side, side)


class TestPadding:
    @pytest.mark.parametrize("side", range(1, 12))
    @pytest.mark.parametrize("kernel", [3, 5])
    def test_a_stride_halves_rounding_up_and_the_odd_zero_is_behind(self, side: int, kernel: int) -> None:
        before, behind = same_padding(side, kernel, 2)
        assert (before + side + behind - kernel) // 2 + 1 == -(-side // 2)
        assert behind - before in (0, 1)

    def test_by_hand(self) -> None:
        """Windows of an even side begin at its first pixel, those of an odd one at the zero before it."""
        layer = Layer(1, 1, 3, 2, is_linear=True).eval()
        nn.init.ones_(layer.conv.weight)
        layer.norm = nn.Identity()
        row = torch.tensor([1.0, 2, 4, 8])
        assert layer(row.view(1, 1, 1, 4)).flatten().tolist() == [7, 12]
        assert layer(row[:3].view(1, 1, 1, 3)).flatten().tolist() == [3, 6]


class TestLayers:
    def test_relu6_unless_linear(self) -> None:
        for is_linear in (False, True):
            layer = Layer(1, 1, is_linear=is_linear).eval()
            nn.init.ones_(layer.conv.weight)
            layer.norm = nn.Identity()
            x = torch.tensor([-3.0, 3, 9]).view(1, 1, 1, 3)
            assert layer(x).flatten().tolist() == ([-3, 3, 9] if is_linear else [0, 3, 6])

    def test_with_a_dead_inner_way_only_the_shortcut_is_left(self) -> None:
        x = torch.rand(2, 4, 5, 5)
        for block, expected in ((Block(4, 4, 3, 1, 6), x), (Block(4, 4, 3, 2, 6), torch.zeros(2, 4, 3, 3))):
            nn.init.zeros_(block.project.conv.weight)
            torch.testing.assert_close(block.eval()(x), expected)

    def test_channels_are_filtered_apart(self) -> None:
        assert Block(4, 8, 5, 1, 6).depthwise.conv.weight.shape == (24, 1, 5, 5)


class TestNetwork:
    def test_features_are_the_mean_over_the_map_and_logits_come_from_them(self) -> None:
        net, x = tiny(), torch.rand(2, 3, 33, 40)
        with torch.inference_mode():
            torch.testing.assert_close(net(x), net.maps(x).flatten(2).mean(dim=2))
            torch.testing.assert_close(net.logits(x), F.linear(net(x), net.classifier.weight, net.classifier.bias))

    def test_images_are_scaled_as_the_weights_expect(self) -> None:
        net = tiny()
        seen: list[Tensor] = []
        net.stem.register_forward_pre_hook(lambda _, given: seen.append(given[0]))
        with torch.inference_mode():
            net(torch.tensor([0.0, 127 / 255, 1]).view(1, 3, 1, 1).expand(1, 3, 33, 33))
        torch.testing.assert_close(seen[0][0, :, 0, 0], torch.tensor([-127 / 128, 0, 1]), atol=1e-6, rtol=0)

    def test_folded_is_unfolded(self) -> None:
        net, x = tiny(), torch.rand(2, 3, 33, 33)
        copied = folded(net)
        assert not any(isinstance(module, nn.BatchNorm2d) for module in copied.modules())
        assert any(isinstance(module, nn.BatchNorm2d) for module in net.modules())
        with torch.inference_mode():
            torch.testing.assert_close(copied.logits(x), net.logits(x), atol=1e-4, rtol=1e-4)

    def test_it_can_be_trained(self) -> None:
        net = tiny().train()
        net(torch.rand(2, 3, 33, 33)).sum().backward()
        assert all(w.grad is not None for name, w in net.named_parameters() if not name.startswith("classifier"))


def test_published_names_become_ours() -> None:
    names = ["_conv_stem.weight", "_bn0.bias", "_blocks.1._bn0.bias", "_blocks.10._project_conv.weight", "_fc.bias"]
    assert list(renamed(dict.fromkeys(names, torch.zeros(1)))) == [
        "stem.conv.weight",
        "stem.norm.bias",
        "blocks.1.expand.norm.bias",
        "blocks.10.project.conv.weight",
        "classifier.bias",
    ]


def test_the_last_weights_are_those_of_the_last_stage_and_the_head() -> None:
    net = tiny()
    last = {id(weight) for weight in net.last_weights()}
    names = {".".join(name.split(".")[:2]) for name, weight in net.named_parameters() if id(weight) in last}
    assert names == {f"blocks.{len(net.blocks) - 1}", "head.conv", "head.norm"}
