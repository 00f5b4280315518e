"""Changes of colour against Pillow's, or against a number made by hand."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import scipy.ndimage
import torch
from PIL import Image, ImageEnhance, ImageOps
from tests.augment.pillow import assert_like_pillow, batch, seeded
from torch import Tensor

from selfsort.augment import colour as _colour
from selfsort.augment import primitive as _primitive
from selfsort.augment.policy import (
    AutoContrast,
    Blur,
    ChannelShift,
    ColourJitter,
    Equalise,
    Grayscale,
    Posterise,
    Sharpness,
    Solarise,
)


class TestColour:
    @pytest.mark.parametrize("channels", [1, 3])
    @pytest.mark.parametrize("factor", [0.3, 1.0, 1.7])
    @pytest.mark.parametrize(
        ("op", "enhance"), [(0, ImageEnhance.Brightness), (1, ImageEnhance.Contrast), (2, ImageEnhance.Color)]
    )
    def test_adjusting_is_pillows_enhancing(
        self, op: int, enhance: Callable[[Image.Image], ImageEnhance.Brightness], factor: float, channels: int
    ) -> None:
        given = batch(channels=channels)
        changed = _colour.adjust(given.float() / 255, torch.full((6, 1), op), torch.full((6, 1), factor))
        assert_like_pillow(_primitive.to_bytes(changed), given, lambda image: enhance(image).enhance(factor), atol=2)

    @pytest.mark.parametrize("turn", [-0.4, 0.1, 1 / 3])
    def test_hue(self, turn: float) -> None:
        import colorsys

        given = batch(2).double() / 255
        turned = _colour.turn_hue(given, torch.full((2,), turn, dtype=torch.float64)).permute(0, 2, 3, 1)
        for new, old in zip(
            turned.reshape(-1, 3).tolist(), given.permute(0, 2, 3, 1).reshape(-1, 3).tolist(), strict=True
        ):
            hue, saturation, value = colorsys.rgb_to_hsv(*old)
            assert new == pytest.approx(colorsys.hsv_to_rgb((hue + turn) % 1, saturation, value), abs=1e-9)

    def test_a_third_of_the_circle_makes_red_green(self) -> None:
        red = torch.tensor([1.0, 0, 0]).view(1, 3, 1, 1)
        torch.testing.assert_close(_colour.turn_hue(red, torch.tensor([1 / 3])).flatten(), torch.tensor([0.0, 1, 0]))

    def test_each_sample_gets_its_own_operations_in_its_own_order(self) -> None:
        given = batch(4).float() / 255
        ops = torch.tensor([[0, 1, 2, 3], [3, 2, 1, 0], [1, 3, 0, 2], [2, 0, 3, 1]])
        factors = torch.tensor([0.5, 1.4, 0.3, 0.2])[ops]
        together = _colour.adjust(given, ops, factors)
        for i in range(4):
            alone = given[i : i + 1]
            for slot in range(4):
                alone = _colour.adjust(alone, ops[i : i + 1, slot : slot + 1], factors[i : i + 1, slot : slot + 1])
            torch.testing.assert_close(together[i : i + 1], alone)

    def test_the_order_is_random_per_sample(self, monkeypatch: pytest.MonkeyPatch) -> None:
        seen: list[Tensor] = []

        def record(x_BCHW: Tensor, op_BS: Tensor, factor_BS: Tensor) -> Tensor:
            seen.append(op_BS)
            return x_BCHW

        monkeypatch.setattr(_colour, "adjust", record)
        ColourJitter(brightness=0.5, contrast=0.5, saturation=0.5, hue=0.1)(torch.zeros(500, 3, 2, 2), seeded())
        (orders,) = seen
        assert torch.equal(orders.sort(dim=1).values, torch.arange(4).expand(500, 4))
        assert len({tuple(order) for order in orders.tolist()}) == 24

    def test_jitter_keeps_to_its_range(self) -> None:
        gray = torch.full((2000, 1, 1, 1), 0.5)
        changed = ColourJitter(brightness=0.4)(gray, seeded()).flatten()
        assert 0.3 <= float(changed.min()) < 0.302
        assert 0.698 < float(changed.max()) <= 0.7
        assert torch.equal(ColourJitter()(gray, seeded()), gray)

    @pytest.mark.parametrize("channels", [1, 3])
    def test_gray_is_pillows(self, channels: int) -> None:
        given = batch(channels=channels)
        mode = "RGB" if channels == 3 else "L"
        assert_like_pillow(Grayscale()(given, seeded()), given, lambda image: image.convert("L").convert(mode), atol=1)

    @pytest.mark.parametrize("channels", [1, 3])
    def test_channel_shift(self, channels: int) -> None:
        given = torch.rand(300, channels, 4, 4, generator=seeded()) * 0.5 + 0.25
        changed = ChannelShift(amount=0.1)(given, seeded(1))
        low, high = given.amin(dim=(1, 2, 3)), given.amax(dim=(1, 2, 3))
        assert bool((changed.amin(dim=(1, 2, 3)) >= low).all())
        assert bool((changed.amax(dim=(1, 2, 3)) <= high).all())
        # Pixels that were not clipped all moved alike, each channel by its own amount.
        moved = (changed - given)[0]
        middle = (changed[0] > low[0]) & (changed[0] < high[0])
        amounts = [moved[c][middle[c]] for c in range(channels)]
        assert all(float(amount.max() - amount.min()) < 1e-6 for amount in amounts)
        assert len({round(float(amount[0]), 4) for amount in amounts}) == channels
        assert 0.09 < float((changed - given).abs().max()) <= 0.1 + 1e-6

    @pytest.mark.parametrize("sigma", [0.3, 1.0, 2.5])
    def test_blur_is_the_gaussian_filter(self, sigma: float) -> None:
        given = batch(2, 20, 14).double() / 255
        blurred = Blur(sigma=(sigma, sigma))(given, seeded()).numpy()
        expected = scipy.ndimage.gaussian_filter(
            given.numpy(), (0, 0, sigma, sigma), mode="nearest", radius=math.ceil(4 * sigma)
        )
        np.testing.assert_allclose(blurred, expected, atol=1e-6)

    @pytest.mark.parametrize("channels", [1, 3])
    @pytest.mark.parametrize("factor", [0.0, 0.6, 2.0])
    def test_sharpness_is_pillows(self, factor: float, channels: int) -> None:
        given = batch(channels=channels)
        changed = Sharpness(factor=(factor, factor))(given, seeded())
        assert_like_pillow(changed, given, lambda image: ImageEnhance.Sharpness(image).enhance(factor), atol=2)

    @pytest.mark.parametrize("channels", [1, 3])
    @pytest.mark.parametrize("level", [0, 1, 100, 128, 255, 256])
    def test_solarising_is_pillows(self, level: int, channels: int) -> None:
        given = batch(channels=channels)
        changed = Solarise(threshold=level / 256)(given, seeded())
        assert_like_pillow(changed, given, lambda image: ImageOps.solarize(image, level), atol=0)

    @pytest.mark.parametrize("channels", [1, 3])
    @pytest.mark.parametrize("bits", [1, 4, 8])
    def test_posterising_is_pillows(self, bits: int, channels: int) -> None:
        given = batch(channels=channels)
        changed = Posterise(bits=bits)(given, seeded())
        assert_like_pillow(changed, given, lambda image: ImageOps.posterize(image, bits), atol=0)

    @pytest.mark.parametrize("channels", [1, 3])
    @pytest.mark.parametrize("side", [5, 40])
    def test_equalising_is_pillows(self, side: int, channels: int) -> None:
        given = batch(4, side, side, channels) // 3 + 20
        given[0] = given[0] // 64 * 64  # few levels
        given[1] = 77  # a single one
        assert_like_pillow(Equalise()(given, seeded()), given, ImageOps.equalize, atol=0)

    @pytest.mark.parametrize("channels", [1, 3])
    def test_auto_contrast_is_pillows(self, channels: int) -> None:
        given = batch(4, channels=channels) // 3 + 20
        given[1] = 77
        assert_like_pillow(AutoContrast()(given, seeded()), given, ImageOps.autocontrast, atol=1)
