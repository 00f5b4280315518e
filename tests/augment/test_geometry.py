"""Moves and cuts against Pillow's, or against a number made by hand."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import pytest
import torch
from PIL import Image
from tests.augment.pillow import assert_like_pillow, batch, seeded

from selfsort.augment import geometry as _geometry
from selfsort.augment import primitive as _primitive
from selfsort.augment.policy import (
    Affine,
    CutOut,
    Flip,
    RandomCrop,
    ResizedCrop,
    Zoom,
)


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

    def test_a_square_may_have_a_colour(self) -> None:
        cut = CutOut(size=5, fill=(0.0, 0.5, 1.0))(torch.full((2, 3, 8, 8), 0.25), seeded())
        for channel, level in enumerate((0.0, 0.5, 1.0)):
            assert set(cut[:, channel].flatten().tolist()) == {0.25, level}
