from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from tests.data.samples import noise, smooth

from selfsort.data.datasets import Fit, ImageSpec
from selfsort.data.resize import fit_picture, needed_size
from selfsort.types import U8


def fitted(pixels: U8, height: int, width: int, fit: Fit) -> U8:
    return np.asarray(fit_picture(Image.fromarray(pixels), ImageSpec(height, width, 3, fit)))


def test_same_size_is_untouched() -> None:
    assert (fitted(noise(), 12, 16, "crop") == noise()).all()


def test_crop_without_scaling_takes_the_middle_exactly() -> None:
    assert (fitted(noise(12, 16), 12, 12, "crop") == noise(12, 16)[:, 2:14]).all()
    assert (fitted(noise(12, 15), 12, 12, "crop") == noise(12, 15)[:, 1:13]).all()  # odd surplus: no blur


def test_crop_is_resize_of_the_shorter_side_then_centre_crop() -> None:
    large = smooth(60, 100)
    plain = np.asarray(large.resize((40, 24), Image.Resampling.BILINEAR))[:, 8:32]
    assert np.abs(fitted(np.asarray(large), 24, 24, "crop").astype(int) - plain.astype(int)).max() <= 1


def test_pad_is_white_around_the_whole_picture() -> None:
    result = fitted(np.zeros((10, 20, 3), np.uint8), 20, 20, "pad")
    assert (result[:5] == 255).all()
    assert (result[15:] == 255).all()
    assert (result[5:15] == 0).all()
    gray = np.asarray(fit_picture(Image.new("L", (20, 10)), ImageSpec(20, 20, 1, "pad")))
    assert gray[0, 0] == 255


def test_stretch_uses_everything() -> None:
    pixels = np.zeros((10, 20, 3), np.uint8)
    pixels[:, 10:] = 255
    result = fitted(pixels, 10, 10, "stretch")
    assert (result[:, :4] == 0).all()
    assert (result[:, 6:] == 255).all()


def test_shrinking_averages_instead_of_picking() -> None:
    board = (np.indices((64, 64)).sum(axis=0) % 2 * 255).astype(np.uint8)
    result = np.asarray(fit_picture(Image.fromarray(board), ImageSpec(8, 8, 1)))
    assert np.abs(result.astype(int) - 128).max() <= 8


@given(
    st.integers(1, 60),
    st.integers(1, 60),
    st.integers(1, 40),
    st.integers(1, 40),
    st.sampled_from(["crop", "pad", "stretch"]),
)
@settings(derandomize=True, deadline=None, max_examples=80)
def test_any_size_fits_any_size(width: int, height: int, target_w: int, target_h: int, fit: Fit) -> None:
    spec = ImageSpec(target_h, target_w, 1, fit)
    assert fit_picture(Image.new("L", (width, height), 7), spec).size == (target_w, target_h)
    across, down = needed_size(width, height, spec)
    assert across >= 1
    assert down >= 1
    if fit == "crop":
        assert across >= target_w
        assert down >= target_h


@pytest.mark.parametrize("turn", [Image.Transpose.ROTATE_90, Image.Transpose.FLIP_LEFT_RIGHT])
def test_fitting_commutes_with_turning(turn: Image.Transpose) -> None:
    made, spec = smooth(50, 70), ImageSpec(24, 24, 3)
    turned = np.asarray(fit_picture(made.transpose(turn), spec))
    assert np.abs(turned.astype(int) - np.asarray(fit_picture(made, spec).transpose(turn)).astype(int)).max() <= 1
