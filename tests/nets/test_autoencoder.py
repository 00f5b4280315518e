from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from tests.oracles import dbc as oracle
from torch import Tensor, nn

from selfsort.errors import InvalidInput
from selfsort.nets.autoencoder import ARCHITECTURES, FCAE, ConvEncoder, DenseAE, Plan, Reading, Stage, plan_stages
from selfsort.nets.whitening import Whitening

Shape = tuple[int, int, int]


def net_for(shape: Shape, plan: Plan | None = None) -> FCAE:
    torch.manual_seed(0)
    return FCAE(shape, plan or plan_stages(*shape[:2]))


def batch(shape: Shape, n: int = 2) -> Tensor:
    height, width, channels = shape
    return torch.rand(n, channels, height, width, generator=torch.Generator().manual_seed(1))


# As published: image, network, sides of the maps after convolution and after pooling, features.
TABLE = [
    ((28, 28, 1), "mnist", [(24, 12), (8, 4)], 120),
    ((16, 16, 1), "usps", [(16, 8), (8, 4)], 160),
    ((128, 128, 1), "coil", [(120, 60), (56, 28), (24, 12), (8, 4)], 320),
    ((128, 128, 3), "coil", [(120, 60), (56, 28), (24, 12), (8, 4)], 320),
]


class TestTable:
    @pytest.mark.parametrize(("shape", "arch", "sides", "n_features"), TABLE)
    def test_shapes(self, shape: Shape, arch: str, sides: list[tuple[int, int]], n_features: int) -> None:
        assert plan_stages(*shape[:2]) == ARCHITECTURES[arch]
        net, x = net_for(shape), batch(shape)
        assert [tuple(maps.shape[2:]) for maps in net.encoder.maps(x)] == [(full, full) for full, _ in sides]
        z, switches = net.encoder.with_switches(x)
        assert [tuple(switch.idx.shape[2:]) for switch in switches] == [(pooled, pooled) for _, pooled in sides]
        assert z.shape == (2, n_features)
        back = net.decoder.maps(z, switches)
        assert [tuple(maps.shape[2:]) for maps in back] == [*((p, p) for _, p in reversed(sides)), shape[:2]]

    def test_every_layer_has_its_mirror(self) -> None:
        net = net_for((128, 128, 3))
        there = [conv for conv in net.modules() if isinstance(conv, nn.Conv2d)]
        back = [deconv for deconv in net.modules() if isinstance(deconv, nn.ConvTranspose2d)]
        assert len(there) == len(back) == 5
        by_shape = sorted(tuple(conv.weight.shape) for conv in there)
        assert sorted(tuple(deconv.weight.shape) for deconv in back) == by_shape
        assert not any(isinstance(module, nn.Linear) for module in net.modules())

    def test_only_the_last_deconvolution_is_linear(self) -> None:
        net, x = net_for((28, 28, 1)), batch((28, 28, 1), 16)
        top, switches = net.encoder.with_switches(x)
        *hidden, image = net.decoder.maps(F.relu(top), switches)
        assert net(x)[0].min() == 0
        assert all(maps.min() == 0 for maps in hidden)
        assert image.min() < 0


class TestRule:
    def test_every_side_ends_in_a_small_map(self) -> None:
        last = {side: plan_stages(side, side).sides(side)[-1] for side in range(8, 513)}
        assert not {side: found for side, found in last.items() if not 4 <= found <= 7}

    @pytest.mark.parametrize("channels", [1, 3])
    @pytest.mark.parametrize("side", [4, 8, 16, 17, 23, 24, 31, 32, 45, 64, 96, 150, 256])
    def test_reconstruction_has_the_shape_of_the_image(self, side: int, channels: int) -> None:
        shape = (side, side, channels)
        z, again = net_for(shape)(batch(shape))
        assert z.ndim == 2
        assert again.shape == (2, channels, side, side)

    @pytest.mark.parametrize("shape", [(112, 92, 1), (20, 60, 3), (92, 112, 1), (5, 30, 1)])
    def test_oblong_images(self, shape: Shape) -> None:
        assert net_for(shape)(batch(shape))[1].shape == batch(shape).shape

    def test_a_published_network_that_does_not_fit_is_refused(self) -> None:
        with pytest.raises(InvalidInput, match=r"image size must be large enough .* got 16x16\. Use --set arch=auto"):
            net_for((16, 16, 1), ARCHITECTURES["coil"])


class TestSwitches:
    def test_values_return_to_where_the_maximum_was(self) -> None:
        net, x = net_for((28, 28, 1)), batch((28, 28, 1))
        full = net.encoder.maps(x)[0]
        switch = net.encoder.with_switches(x)[1][0]
        small = torch.rand(switch.idx.shape)
        placed = F.max_unpool2d(small, switch.idx, [2, 2], output_size=list(switch.size))
        for i in range(2):
            for channel in range(6):
                expected = oracle.unpooled(full[i, channel].detach().double().numpy(), small[i, channel].numpy())
                np.testing.assert_allclose(placed[i, channel].numpy(), expected)

    def test_by_hand(self) -> None:
        x = torch.tensor([[[[1.0, 2.0, 0.0, 0.0], [3.0, 0.0, 0.0, 9.0]]]])
        pooled, idx = F.max_pool2d(x, 2, return_indices=True)
        assert idx.flatten().tolist() == [4, 7]
        placed = F.max_unpool2d(pooled * 10, idx, [2, 2], output_size=[2, 4])
        assert placed.flatten().tolist() == [0, 0, 0, 0, 30, 0, 0, 90]

    def test_pooling_before_relu_gives_the_same_features(self) -> None:
        net, x = net_for((32, 32, 3)).eval(), batch((32, 32, 3))
        torch.testing.assert_close(net.encoder(x), F.relu(net.encoder.with_switches(x)[0]))

    def test_an_odd_last_row_comes_back_as_zeros(self) -> None:
        plan = Plan((Stage(2, 3, 1),), 5)
        net = net_for((9, 9, 1), plan)
        z, switches = net.encoder.with_switches(batch((9, 9, 1)))
        assert switches[0].size == (9, 9)
        assert switches[0].idx.shape[2:] == (4, 4)
        assert net.decoder(z, switches).shape == (2, 1, 9, 9)


class TestShortcuts:
    """The feature layer is computed as a matrix product; it has to be the convolution it stands for."""

    def test_encoder(self) -> None:
        net, x = net_for((28, 28, 1)).eval(), batch((28, 28, 1))
        below = F.max_pool2d(net.encoder.maps(x)[-1], 2)
        expected = F.relu(net.encoder.top_norm(net.encoder.top(below).flatten(1)))
        assert net.encoder.top(below).shape[2:] == (1, 1)
        torch.testing.assert_close(net.encoder(x), expected)

    @pytest.mark.parametrize("shape", [(28, 28, 1), (4, 6, 1)])
    def test_decoder(self, shape: Shape) -> None:
        net, x = net_for(shape).eval(), batch(shape)
        z, switches = net.encoder.with_switches(x)
        expected = net.decoder.top(z[:, :, None, None])
        if switches:
            expected = F.relu(net.decoder.norms[0](expected))
        torch.testing.assert_close(net.decoder.maps(z, switches)[0], expected)


class TestReading:
    SHAPE = (16, 16, 1)

    def net(self, reading: Reading) -> FCAE:
        torch.manual_seed(0)
        return FCAE(self.SHAPE, plan_stages(16, 16), reading).eval()

    def test_before_the_relu(self) -> None:
        x = batch(self.SHAPE, 8)
        before, after = self.net(Reading(before_relu=True)), self.net(Reading())
        assert before.encoder(x).min() < 0
        torch.testing.assert_close(F.relu(before.encoder(x)), after.encoder(x))

    @pytest.mark.parametrize("whiten", [False, True])
    def test_the_decoder_sees_the_same(self, whiten: bool) -> None:
        """Features are read off the network; what it rebuilds does not depend on how."""
        x = batch(self.SHAPE, 8)
        net = self.net(Reading(before_relu=True, whiten=whiten))
        if isinstance(net.encoder.whitening, Whitening):
            net.encoder.whitening.fit(net.encoder(x).detach().numpy())
        z, again = net(x)
        torch.testing.assert_close(z, net.encoder(x))
        assert torch.equal(again, self.net(Reading())(x)[1])
        assert torch.equal(net.activations(x)["deconv1"], again)

    @pytest.mark.parametrize("before_relu", [False, True])
    def test_whitened_features_are_the_plain_ones_through_the_layer(self, before_relu: bool) -> None:
        x = batch(self.SHAPE, 40)
        plain, net = self.net(Reading(before_relu=before_relu)), self.net(Reading(before_relu, whiten=True))
        expected = plain.encoder(x).detach()
        assert isinstance(net.encoder.whitening, Whitening)
        assert torch.equal(net.encoder(x), expected)
        n_kept = net.encoder.whitening.fit(expected.numpy())
        found = net.encoder(x).detach().double().numpy()
        identity = np.diag([1.0] * n_kept + [0.0] * (160 - n_kept))
        np.testing.assert_allclose(np.cov(found, rowvar=False, bias=True), identity, atol=1e-3)

    def test_a_plain_network_saves_nothing_more(self) -> None:
        names = ConvEncoder(self.SHAPE, plan_stages(16, 16)).state_dict().keys()
        assert not [name for name in names if "whitening" in name]

    def test_the_fully_connected_network(self) -> None:
        torch.manual_seed(0)
        net, x = DenseAE((4, 4, 1), (9, 3), Reading(whiten=True)), batch((4, 4, 1), 30)
        plain, again = (part.detach() for part in net(x))
        assert isinstance(net.encoder.whitening, Whitening)
        net.encoder.whitening.fit(plain.numpy())
        assert torch.equal(net(x)[1], again)
        torch.testing.assert_close(net.encoder(x), net.encoder.whitening(plain))


class TestLearning:
    def test_it_learns_to_reproduce_images(self) -> None:
        net, x = net_for((16, 16, 1)), batch((16, 16, 1), 8)
        optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
        for _ in range(150):
            loss = F.mse_loss(net(x)[1], x)
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
        # Uniform noise has a variance of 1/12, which is what predicting the mean would leave.
        assert loss.item() < 0.25 / 12


class TestFigures:
    def test_activations_of_every_layer(self) -> None:
        found = net_for((28, 28, 1)).activations(batch((28, 28, 1)))
        assert {name: tuple(maps.shape[1:]) for name, maps in found.items()} == {
            "conv1": (6, 24, 24),
            "conv2": (16, 8, 8),
            "deconv3": (16, 4, 4),
            "deconv2": (6, 12, 12),
            "deconv1": (1, 28, 28),
        }

    @pytest.mark.parametrize(("side", "expected"), [(28, (6, 1, 5, 5)), (5, (160, 1, 5, 5))])
    def test_filters_next_to_the_image(self, side: int, expected: tuple[int, ...]) -> None:
        found = net_for((side, side, 1)).filters()
        assert {name: tuple(weight.shape) for name, weight in found.items()} == {"conv1": expected, "deconv1": expected}


class TestDense:
    def test_shapes(self) -> None:
        net, x = DenseAE((12, 12, 3)), batch((12, 12, 3))
        z, again = net(x)
        assert z.shape == (2, 10)
        assert again.shape == x.shape
        widths = [layer.out_features for layer in net.encoder.layers if isinstance(layer, nn.Linear)]
        assert widths == [500, 500, 2000, 10]

    def test_features_and_output_are_linear_and_the_rest_is_not(self) -> None:
        torch.manual_seed(0)
        net = DenseAE((2, 2, 1), widths=(3, 2))
        x = batch((2, 2, 1))
        first, second = (layer for layer in net.encoder.layers if isinstance(layer, nn.Linear))
        expected = second(torch.relu(first(x.flatten(1))))
        torch.testing.assert_close(net.encoder(x), expected)
        assert net(x)[0].min() < 0
