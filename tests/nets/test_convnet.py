from __future__ import annotations

import pytest
import torch

from selfsort.errors import InvalidInput
from selfsort.nets.convnet import ARCHITECTURES, LAYERS, Block, ConvBlock, ConvNet, plan_blocks

# As published: image, network, flattened size in front of the linear layer.
TABLE = [
    ((128, 128, 1), "coil", 1250),
    ((128, 128, 3), "coil", 1250),
    ((16, 16, 1), "usps", 1800),
    ((28, 28, 1), "mnist", 3200),
    ((112, 92, 1), "umist", 8400),
    ((32, 32, 3), "faces", 1250),
    ((32, 32, 1), "faces", 1250),
    ((55, 55, 3), "faces", 50 * 11 * 11),
]


def net_for(shape: tuple[int, int, int], blocks: tuple[Block, ...]) -> ConvNet:
    torch.manual_seed(0)
    return ConvNet(shape, blocks)


class TestTable:
    @pytest.mark.parametrize(("shape", "arch", "n_flat"), TABLE)
    def test_flattened_size(self, shape: tuple[int, int, int], arch: str, n_flat: int) -> None:
        net = net_for(shape, ARCHITECTURES[arch])
        assert net.ip.in_features == n_flat
        assert net(torch.rand(2, shape[2], *shape[:2])).shape == (2, 160)

    @pytest.mark.parametrize(
        ("arch", "shape", "sides"),
        [
            ("coil", (128, 128, 1), [(62, 62), (29, 29), (13, 13), (5, 5)]),
            ("mnist", (28, 28, 1), [(12, 12), (8, 8)]),
            ("umist", (112, 92, 1), [(56, 46), (28, 23), (14, 12)]),
            ("faces", (32, 32, 3), [(14, 14), (5, 5)]),
        ],
    )
    def test_map_sizes(self, arch: str, shape: tuple[int, int, int], sides: list[tuple[int, int]]) -> None:
        maps = net_for(shape, ARCHITECTURES[arch]).maps(torch.rand(1, shape[2], *shape[:2]))
        assert [tuple(found.shape[2:]) for found in maps] == sides
        assert {found.shape[1] for found in maps} == {50}

    def test_weights_start_small_and_biases_at_zero(self) -> None:
        net = net_for((28, 28, 1), ARCHITECTURES["mnist"])
        assert net.ip.weight.std().item() == pytest.approx(0.01, rel=0.02)
        assert not net.ip.bias.any()


class TestRule:
    @pytest.mark.parametrize(
        ("side", "arch"),
        [(16, "usps"), (28, "mnist"), (32, "faces"), (55, "faces"), (128, "coil")],
        ids=lambda value: str(value),
    )
    def test_published_networks_come_out(self, side: int, arch: str) -> None:
        assert plan_blocks(side, side) == ARCHITECTURES[arch]

    def test_64_pixels(self) -> None:
        assert [block.is_pooled for block in plan_blocks(64, 64)] == [True, True, True]

    @pytest.mark.parametrize("shape", [(1, 1), (4, 4), (8, 8), (9, 9), (11, 40), (40, 11), (96, 96), (200, 150)])
    def test_any_size_gives_a_network(self, shape: tuple[int, int]) -> None:
        net = net_for((*shape, 1), plan_blocks(*shape))
        assert net(torch.rand(2, 1, *shape)).shape == (2, 160)

    def test_a_published_network_that_does_not_fit_is_refused(self) -> None:
        with pytest.raises(InvalidInput, match=r"image size must be large enough .* got 16x16\. Use --set arch=auto"):
            net_for((16, 16, 1), ARCHITECTURES["coil"])


class TestLayers:
    def test_widths(self) -> None:
        net = net_for((28, 28, 1), ARCHITECTURES["mnist"])
        x = torch.rand(2, 1, 28, 28)
        assert [net.layer(x, name).shape[1] for name in LAYERS] == [160, 3200, 50 * 12 * 12]

    def test_top_is_a_linear_function_of_the_layer_below(self) -> None:
        net = net_for((28, 28, 1), ARCHITECTURES["mnist"]).eval()
        x = torch.rand(2, 1, 28, 28)
        torch.testing.assert_close(net.ip(net.layer(x, "top-1")), net.layer(x, "top"))

    def test_single_block_gives_its_map_before_pooling(self) -> None:
        net = net_for((16, 16, 1), ARCHITECTURES["usps"]).eval()
        x = torch.rand(2, 1, 16, 16)
        full = net.layer(x, "top-2").reshape(2, 50, 12, 12)
        pooled = torch.nn.functional.max_pool2d(full, 2, ceil_mode=True)
        torch.testing.assert_close(pooled.flatten(1), net.layer(x, "top-1"))

    def test_unknown_layer(self) -> None:
        net = net_for((16, 16, 1), ARCHITECTURES["usps"])
        with pytest.raises(InvalidInput, match="layer must be one of top, top-1, top-2; got 'conv1'"):
            net.layer(torch.rand(2, 1, 16, 16), "conv1")

    def test_pooling_before_relu_changes_nothing(self) -> None:
        net = net_for((32, 32, 1), ARCHITECTURES["faces"])
        block = net.blocks[0]
        assert isinstance(block, ConvBlock)
        x = torch.rand(3, 1, 32, 32)
        expected = torch.nn.functional.max_pool2d(torch.relu(block.norm(block.conv(x))), 2, ceil_mode=True)
        torch.testing.assert_close(block(x), expected)

    @pytest.mark.parametrize("layer", LAYERS)
    @pytest.mark.parametrize("side", [16, 28])
    def test_standardised_images_lose_brightness_and_contrast(self, layer: str, side: int) -> None:
        torch.manual_seed(0)
        net = ConvNet((side, side, 3), plan_blocks(side, side), standardise=True).eval()
        x = torch.rand(2, 3, side, side)
        torch.testing.assert_close(net.layer(x * 0.3 + 0.2, layer), net.layer(x, layer), rtol=0.03, atol=0.01)

    def test_low_dimensional_embedding(self) -> None:
        torch.manual_seed(0)
        net = ConvNet((28, 28, 1), ARCHITECTURES["mnist"], embedding_dim=2)
        assert net.is_embedding
        assert net(torch.rand(3, 1, 28, 28)).shape == (3, 2)
