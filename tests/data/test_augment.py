"""Each primitive against Pillow's operation of its name, or against a number made by hand."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
import scipy.ndimage
import torch
from PIL import Image, ImageEnhance, ImageOps
from tests.data.samples import noise, picture
from torch import Tensor

from selfsort.data import _colour, _geometry, _primitive, augment
from selfsort.data.augment import (
    Affine,
    AutoContrast,
    Blur,
    ChannelShift,
    ColourJitter,
    CutOut,
    Equalise,
    Flip,
    Greyscale,
    Posterise,
    Primitive,
    RandomCrop,
    RandomOps,
    ResizedCrop,
    Sharpness,
    Solarise,
    Zoom,
)
from selfsort.errors import InvalidInput
from selfsort.types import U8

EVERY: list[Primitive] = [
    Flip(),
    Affine(rotate=20, translate=0.1, scale=(0.8, 1.2), shear=10),
    Affine(rotate=20, fill="zero"),
    Affine(translate=0.3, fill=0.5),
    Zoom(range=(0.8, 1.2)),
    ResizedCrop(size=9),
    RandomCrop(padding=2),
    RandomCrop(padding=0, size=8),
    CutOut(size=6),
    ColourJitter(brightness=0.4, contrast=0.4, saturation=0.4, hue=0.2),
    ColourJitter(contrast=0.4, p=0.5),
    Greyscale(p=0.5),
    ChannelShift(amount=0.1),
    Blur(p=0.5),
    Sharpness(factor=(0.1, 1.9)),
    Solarise(threshold=0.5, p=0.5),
    Posterise(bits=3),
    Equalise(),
    AutoContrast(),
    RandomOps(),
]
every_primitive = pytest.mark.parametrize("primitive", EVERY, ids=repr)


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def batch(n: int = 6, height: int = 12, width: int = 16, channels: int = 3) -> Tensor:
    pixels = np.stack([noise(height, width, channels, seed) for seed in range(n)])
    return torch.from_numpy(pixels).permute(0, 3, 1, 2)


def pixels_of(image: Image.Image) -> U8:
    array = np.asarray(image)
    return array[:, :, None] if array.ndim == 2 else array


def assert_like_pillow(changed: Tensor, original: Tensor, do: Callable[[Image.Image], Image.Image], atol: int) -> None:
    """Compare with Pillow on every picture of a batch of bytes."""
    for new, old in zip(changed, original, strict=True):
        expected = pixels_of(do(picture(old.permute(1, 2, 0).contiguous().numpy())))
        np.testing.assert_allclose(new.permute(1, 2, 0).numpy().astype(int), expected.astype(int), atol=atol)


class TestEveryPrimitive:
    @every_primitive
    @pytest.mark.parametrize("channels", [1, 3])
    def test_bytes_stay_bytes_and_floats_stay_in_range(self, primitive: Primitive, channels: int) -> None:
        given = batch(channels=channels)
        before = given.clone()
        as_bytes = primitive(given, seeded())
        as_floats = primitive(given.double() / 255, seeded())
        assert (as_bytes.dtype, as_floats.dtype) == (torch.uint8, torch.float64)
        assert as_bytes.shape[:2] == (6, channels)
        assert torch.equal(given, before)
        assert as_floats.min() >= 0
        assert as_floats.max() <= 1 + 1e-9
        np.testing.assert_allclose(as_floats.numpy() * 255, as_bytes.numpy(), atol=1.01)

    @every_primitive
    def test_the_generator_decides(self, primitive: Primitive) -> None:
        given = batch(n=20)
        assert torch.equal(primitive(given, seeded(1)), primitive(given, seeded(1)))
        if not isinstance(primitive, Posterise | Equalise | AutoContrast):
            assert not torch.equal(primitive(given, seeded(1)), primitive(given, seeded(2)))

    @every_primitive
    def test_a_layout_with_channels_last_makes_no_difference(self, primitive: Primitive) -> None:
        given = batch().float() / 255
        last = primitive(given.contiguous(memory_format=torch.channels_last), seeded())
        torch.testing.assert_close(last, primitive(given.contiguous(), seeded()))

    @every_primitive
    def test_probability_zero_changes_nothing(self, primitive: Primitive) -> None:
        given = batch()
        if not (isinstance(primitive, ResizedCrop | RandomCrop) and primitive.size is not None):
            assert torch.equal(dataclasses.replace(primitive, p=0.0)(given, seeded()), given)

    @every_primitive
    def test_flat_pictures_are_harmless(self, primitive: Primitive) -> None:
        for value in (0.0, 0.3, 1.0):
            assert torch.isfinite(primitive(torch.full((5, 3, 10, 10), value), seeded())).all()

    def test_samples_differ(self) -> None:
        same = batch(1).expand(8, -1, -1, -1)
        for primitive in (
            Affine(rotate=20),
            ColourJitter(brightness=0.5),
            ResizedCrop(size=12),
            Blur(),
            CutOut(size=6),
        ):
            changed = primitive(same, seeded()).flatten(1)
            assert len({tuple(one) for one in changed.tolist()}) >= 6, primitive

    def test_probability_is_per_sample(self) -> None:
        black = torch.zeros(1000, 1, 2, 2)
        hits = Solarise(threshold=0.0, p=0.2)(black, seeded()).mean(dim=(1, 2, 3))
        assert set(hits.tolist()) == {0.0, 1.0}
        assert 0.15 < float(hits.mean()) < 0.25

    def test_a_policy_is_applied_in_order(self) -> None:
        given = batch()
        policy = (Solarise(threshold=0.5), Posterise(bits=1))
        expected = Posterise(bits=1)(Solarise(threshold=0.5)(given, seeded()), seeded())
        assert torch.equal(augment.augment(given, policy, seeded()), expected)
        assert not torch.equal(augment.augment(given, policy[::-1], seeded()), expected)

    @pytest.mark.parametrize(
        ("given", "words"),
        [
            (torch.zeros(2, 2, 4, 4), r"shape \(2, 2, 4, 4\)"),
            (torch.zeros(3, 4, 4), r"shape \(3, 4, 4\)"),
            (torch.zeros(2, 3, 4, 4, dtype=torch.int64), "torch.int64"),
        ],
    )
    def test_other_batches_are_refused(self, given: Tensor, words: str) -> None:
        with pytest.raises(InvalidInput, match=f"{words}.*It must be uint8, or floats.*Permute or convert"):
            Flip()(given, seeded())

    @pytest.mark.parametrize(
        ("make", "words"),
        [
            (lambda: Flip(p=1.5), "p of Flip must be between 0 and 1; got 1.5"),
            (lambda: Affine(scale=(1.2, 0.8)), "scale of Affine must be an ordered pair"),
            (lambda: Affine(shear=90), "shear of Affine must be at least 0 and below 90"),
            (lambda: ColourJitter(hue=0.6), "hue of ColourJitter must be between 0 and 0.5"),
            (lambda: ResizedCrop(size=8, p=0.5), "p of ResizedCrop must be 1"),
            (lambda: Posterise(bits=9), "bits of Posterise must be between 1 and 8"),
            (lambda: RandomCrop(padding=0, size=40)(batch(), seeded()), "size of RandomCrop must fit"),
        ],
    )
    def test_parameters_are_checked(self, make: Callable[[], object], words: str) -> None:
        with pytest.raises(InvalidInput, match=words):
            make()


class TestGeometry:
    def test_flip(self) -> None:
        given = batch()
        assert torch.equal(Flip(p=1)(given, seeded()), given.flip(3))

    @pytest.mark.parametrize("angle", [-30.0, 12.0, 90.0])
    @pytest.mark.parametrize(("height", "width"), [(21, 21), (15, 24)])
    def test_rotation_is_pillows(self, angle: float, height: int, width: int) -> None:
        # Pillow does not blend with what lies outside, so the border is left out by rotating a frame in.
        given = torch.nn.functional.pad(batch(2, height, width), (12, 12, 12, 12))
        turn = torch.full((2,), math.radians(angle))
        one, zero = torch.ones(2), torch.zeros(2)
        forward = _geometry.linear_map(turn, zero, one, one)
        changed = _primitive.to_bytes(_geometry.warp(given.float() / 255, forward, torch.zeros(2, 2), "zero"))
        assert_like_pillow(changed, given, lambda image: image.rotate(angle, Image.Resampling.BILINEAR), atol=1)

    def test_scale_lean_and_shift_are_pillows_affine(self) -> None:
        given = torch.nn.functional.pad(batch(1, 15, 20), (12, 12, 12, 12))
        lean, x_factor, y_factor, move = 0.2, 1.3, 0.8, (2.5, -1.25)
        forward = _geometry.linear_map(
            torch.zeros(1), torch.tensor([lean]), torch.tensor([x_factor]), torch.tensor([y_factor])
        )
        changed = _primitive.to_bytes(_geometry.warp(given.float() / 255, forward, torch.tensor([move]), "zero"))
        # Pillow wants the way back, in corner coordinates: x = (x' - lean * y') / factor about the centre.
        back = np.linalg.inv(np.array([[x_factor, lean * y_factor], [0, y_factor]]))
        centre = np.array([given.shape[3], given.shape[2]]) / 2
        offset = centre - back @ (centre + move)
        data = (back[0, 0], back[0, 1], offset[0], back[1, 0], back[1, 1], offset[1])
        method, filter_ = Image.Transform.AFFINE, Image.Resampling.BILINEAR
        assert_like_pillow(changed, given, lambda image: image.transform(image.size, method, data, filter_), atol=1)

    @pytest.mark.parametrize(
        ("fill", "expected"), [("nearest", [1.0, 1, 1, 2]), ("zero", [0, 0, 1, 2]), (7.0, [7, 7, 1, 2])]
    )
    def test_what_comes_in_from_outside(self, fill: _geometry.Fill, expected: list[float]) -> None:
        line = torch.tensor([1.0, 2, 3, 4]).view(1, 1, 1, 4).expand(1, 1, 4, 4)
        moved = _geometry.warp(line, torch.eye(2).unsqueeze(0), torch.tensor([[2.0, 0.0]]), fill)
        assert moved[0, 0, 1].tolist() == pytest.approx(expected)

    def test_affine_draws_what_it_is_told(self) -> None:
        """The centre of mass of a bright disc tells how far it was moved."""
        y, x = torch.meshgrid(torch.arange(41.0), torch.arange(41.0), indexing="ij")
        disc = (((y - 20).square() + (x - 20).square()) < 16).float().expand(400, 1, 41, 41)
        moved = Affine(translate=0.2, fill="zero")(disc, seeded())
        centres = torch.stack([(moved * axis).sum(dim=(1, 2, 3)) / moved.sum(dim=(1, 2, 3)) - 20 for axis in (x, y)])
        assert 7.8 < float(centres.abs().max()) <= 8.21
        assert abs(float(centres.mean())) < 0.6
        areas = Affine(scale=(0.5, 1.5), fill="zero")(disc, seeded()).sum(dim=(1, 2, 3)) / disc[0].sum()
        assert 0.2 < float(areas.min()) < 0.3
        assert 2.1 < float(areas.max()) < 2.3

    def test_zoom_has_a_factor_per_axis(self) -> None:
        square = torch.nn.functional.pad(torch.ones(50, 1, 11, 11), (15,) * 4)
        zoomed = Zoom(range=(0.5, 2.0))(square, seeded())
        widths, heights = zoomed.sum(dim=(1, 3)).amax(dim=1), zoomed.sum(dim=(1, 2)).amax(dim=1)
        assert float((widths - heights).abs().max()) > 5
        for sides in (widths, heights):
            assert 5 < float(sides.min()) < 8
            assert 20 < float(sides.max()) < 23

    @pytest.mark.parametrize("size", [7, 12, 30])
    def test_resized_crop_is_pillows_crop_and_resize(self, size: int) -> None:
        given, crop = batch(8, 18, 24), ResizedCrop(size=size)
        boxes = crop.boxes(8, 18, 24, seeded(3), given.device).T.int().tolist()
        changed = crop(given, seeded(3))
        for i, (top, left, height, width) in enumerate(boxes):
            resize = partial(Image.Image.resize, size=(size, size), resample=Image.Resampling.BILINEAR)
            cut = given[i : i + 1, :, top : top + height, left : left + width]
            assert_like_pillow(changed[i : i + 1], cut, resize, atol=1)

    def test_crops_have_the_area_and_shape_asked_for(self) -> None:
        crop = ResizedCrop(size=8, scale=(0.2, 0.5), ratio=(0.5, 2.0))
        top, left, height, width = crop.boxes(2000, 60, 60, seeded(), torch.device("cpu"))
        area = height * width / 3600
        assert 0.19 < float(area.min()) < 0.22
        assert 0.48 < float(area.max()) < 0.51
        assert 0.48 < float((width / height).min()) < 0.55
        assert 1.8 < float((width / height).max()) < 2.1
        assert float(top.min()) == float(left.min()) == 0
        assert float((top + height).max()) == float((left + width).max()) == 60

    def test_a_crop_that_never_fits_takes_the_largest_allowed(self) -> None:
        crop = ResizedCrop(size=8, scale=(1.0, 1.0), ratio=(1.0, 1.0))
        top, left, height, width = crop.boxes(5, 10, 30, seeded(), torch.device("cpu"))
        assert set(height.tolist()) == set(width.tolist()) == {10.0}
        assert float(top.max()) == 0
        assert float(left.max()) <= 20

    def test_random_crop_shifts_by_whole_pixels_and_brings_in_black(self) -> None:
        given = batch(200, 6, 8)
        changed = RandomCrop(padding=1)(given, seeded())
        padded = torch.nn.functional.pad(given, (1,) * 4)
        found = set()
        for new, old in zip(changed, padded, strict=True):
            places = [(y, x) for y in range(3) for x in range(3) if torch.equal(old[:, y : y + 6, x : x + 8], new)]
            assert len(places) == 1
            found.update(places)
        assert len(found) == 9

    def test_cut_out_is_one_square(self) -> None:
        white = torch.full((500, 3, 20, 20), 255, dtype=torch.uint8)
        cut = CutOut(size=5)(white, seeded()) == 0
        assert torch.equal(cut[:, 0], cut[:, 2])
        heights, widths = cut[:, 0].any(dim=2).sum(dim=1), cut[:, 0].any(dim=1).sum(dim=1)
        assert torch.equal(heights * widths, cut[:, 0].sum(dim=(1, 2)))
        assert set(heights.tolist()) == {1, 2, 3, 4, 5}
        inner = cut[:, 0, 4:-4, 4:-4].sum(dim=(1, 2)) == cut[:, 0].sum(dim=(1, 2))
        assert torch.equal(heights[inner], widths[inner])  # away from the border nothing is cut off
        assert set(CutOut(size=5, fill=0.5)(white, seeded()).flatten().tolist()) == {128, 255}


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
        assert_like_pillow(Greyscale()(given, seeded()), given, lambda image: image.convert("L").convert(mode), atol=1)

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


class TestRandomOps:
    @pytest.mark.parametrize("channels", [1, 3])
    def test_each_operation_occurs(self, channels: int) -> None:
        """One picture, one operation each: the results fall into the operations of the list."""
        given = (batch(1, 16, 16, channels) // 2 + 40).expand(600, -1, -1, -1)
        changed = RandomOps(n=1)(given, seeded())
        is_same = (changed == given).all(dim=(1, 2, 3))
        share = float(is_same.float().mean())  # identity, 8 bits, solarising at the top; for gray also colour
        assert (0.05 if channels == 3 else 0.1) < share < 0.35
        assert any(torch.equal(one, Equalise()(given[:1], seeded())[0]) for one in changed)
        assert any(torch.equal(one, AutoContrast()(given[:1], seeded())[0]) for one in changed)
        assert any(torch.equal(one, Posterise(bits=4)(given[:1], seeded())[0]) for one in changed)
        black_column = (changed[:, :, :, 0] == 0).all(dim=(1, 2))
        assert bool(black_column.any())  # moved to the right by more than a pixel

    def test_samples_do_not_mix(self) -> None:
        values = torch.linspace(0.2, 0.8, 30)
        changed = RandomOps(n=1)(_primitive.per_sample(values).expand(30, 3, 9, 9), seeded())
        for one, value in zip(changed[:, :, 4, 4], values, strict=True):
            assert torch.allclose(one, one[0])  # gray stays gray
            is_known = any(abs(float(one[0]) - known) < 0.04 for known in (float(value), 1 - float(value)))
            assert is_known or float(one[0]) < float(value)

    def test_none_is_the_identity(self) -> None:
        given = batch()
        assert torch.equal(RandomOps(n=0)(given, seeded()), given)
