from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from selfsort.data.store import limit_memory
from selfsort.errors import InvalidInput
from selfsort.learning.batches import PixelTensor
from selfsort.learning.encode import check_request, encode, encode_several, rows_of_all
from selfsort.progress import listening
from selfsort.types import Images

IMAGES = Images(np.zeros((2, 4, 5, 1), dtype=np.uint8))


def test_a_request_that_fits_is_let_through() -> None:
    check_request(IMAGES, (4, 5, 1))
    check_request(IMAGES, (4, 5, 1), "middle", ("top", "middle"))


def test_images_of_another_shape_are_refused() -> None:
    with pytest.raises(InvalidInput, match=r"This model was trained on \(8, 8, 1\)"):
        check_request(IMAGES, (8, 8, 1))


def test_a_layer_that_is_not_there_is_refused() -> None:
    with pytest.raises(InvalidInput, match="the only one this network gives"):
        check_request(IMAGES, (4, 5, 1), "middle")
    with pytest.raises(InvalidInput, match="be one of top, middle"):
        check_request(IMAGES, (4, 5, 1), "bottom", ("top", "middle"))


class Brightness(nn.Module):
    """The brightness of each image; notes in which mode and with how many it was asked."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[tuple[bool, int]] = []

    def forward(self, x_BCHW: Tensor) -> Tensor:
        self.asked.append((self.training, len(x_BCHW)))
        return x_BCHW.mean(dim=(2, 3))


class TestEncode:
    PIXELS = PixelTensor(Images((np.arange(5, dtype=np.uint8) * 51)[:, None, None, None]), torch.device("cpu"))

    @pytest.mark.parametrize("is_training", [True, False])
    def test_rows_come_in_order_from_a_network_in_evaluation_mode(self, is_training: bool) -> None:
        net = Brightness().train(is_training)
        found = encode(net, self.PIXELS, self.PIXELS.chunks(2), net)
        np.testing.assert_allclose(found, np.arange(5)[:, None] / 5, rtol=1e-6)
        assert net.asked == [(False, 2), (False, 2), (False, 1)]
        assert net.training is is_training

    def test_several_arrays_at_once(self) -> None:
        net = Brightness()
        rows, maps, none = encode_several(
            net, self.PIXELS, self.PIXELS.chunks(3), lambda x: (net(x), x[:, 0], x.new_zeros(len(x), 0))
        )
        assert (rows.shape, maps.shape, none.shape) == ((5, 1), (5, 1, 1), (5, 0))
        np.testing.assert_array_equal(maps[:, 0], rows)

    def test_progress_is_told_image_by_image(self) -> None:
        class Told:
            amounts: tuple[int, ...] = ()

            def start(self, what: str, total: int) -> int:
                self.amounts += (total,)
                return 0

            def advance(self, task: int, amount: int) -> None:
                self.amounts += (amount,)

            def finish(self, task: int) -> None:
                pass

            def stage(self, what: str, done: int, total: int) -> None:
                pass

        net, told = Brightness(), Told()
        with listening(told):
            encode(net, self.PIXELS, self.PIXELS.chunks(2), net)
        assert told.amounts == (5, 2, 2, 1)


def test_rows_that_do_not_fit_the_memory_go_to_a_file() -> None:
    images = Images(np.random.default_rng(0).integers(0, 256, (50, 6, 6, 1), dtype=np.uint8))
    pixels, net = PixelTensor(images, torch.device("cpu")), nn.Flatten()
    held = encode(net, pixels, pixels.chunks(7), net)
    limit_memory(100)
    try:
        mapped = encode(net, pixels, pixels.chunks(7), net)
    finally:
        limit_memory(None)
    assert not isinstance(held, np.memmap)
    assert isinstance(mapped, np.memmap)
    np.testing.assert_array_equal(mapped, held)
    with pytest.raises(InvalidInput, match="images must be at least one"):
        rows_of_all([], 0, lambda idx: [idx])
