from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from tests.data.samples import noise

from selfsort.data import ImageSpec, conform, from_array, range_of
from selfsort.data.arrays import match_channels
from selfsort.errors import InvalidInput
from selfsort.types import Images


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ((5, 8, 9), (5, 8, 9, 1)),
        ((5, 8, 9, 1), (5, 8, 9, 1)),
        ((5, 8, 9, 3), (5, 8, 9, 3)),
        ((5, 3, 8, 9), (5, 8, 9, 3)),
        ((5, 1, 8, 9), (5, 8, 9, 1)),
        ((1, 8, 9), (1, 8, 9, 1)),
    ],
)
def test_layouts(shape: tuple[int, ...], expected: tuple[int, ...]) -> None:
    array = np.arange(np.prod(shape), dtype=np.uint8).reshape(shape)
    assert from_array(array).pixels.shape == expected


def test_channels_first_keeps_each_pixel() -> None:
    array = np.random.default_rng(0).integers(0, 256, (2, 3, 4, 5), dtype=np.uint8)
    pixels = from_array(array).pixels
    assert pixels[1, 2, 4].tolist() == array[1, :, 2, 4].tolist()


@pytest.mark.parametrize(
    ("image_shape", "expected"),
    [((4, 6), (4, 6, 1)), ((1, -1), (1, 24, 1)), ((-1, 6), (4, 6, 1)), ((2, 4, 3), (2, 4, 3)), ((3, 2, 4), (2, 4, 3))],
)
def test_flat_images_with_their_shape(image_shape: tuple[int, ...], expected: tuple[int, ...]) -> None:
    flat = np.arange(48, dtype=np.uint8).reshape(2, 24)
    assert from_array(flat, image_shape=image_shape).shape == expected


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.zeros((4, 24), np.uint8), r"flat images must come with image_shape; got shape \(4, 24\).*Pass image_shape"),
        (np.zeros(4, np.uint8), r"must have shape \(n, h, w\).*got shape \(4,\). Reshape your data"),
        (np.zeros((0, 4, 4), np.uint8), r"at least one image.*got shape \(0, 4, 4\)"),
        (np.zeros((4, 5, 5, 2), np.uint8), r"with 1 or 3 channels; got shape \(4, 5, 5, 2\)"),
        (np.zeros((4, 5, 5, 4), np.uint8), r"with 1 or 3 channels.*alpha"),
        (np.zeros((4, 3, 5, 3), np.uint8), r"layout that can be told; got shape \(4, 3, 5, 3\)"),
        (np.zeros((2, 2, 2, 2, 2), np.uint8), r"with 1 or 3 channels; got shape \(2, 2, 2, 2, 2\)"),
        (np.full((2, 4, 4), np.nan), "images must be finite numbers; got NaN"),
        (np.full((2, 4, 4), np.inf), "images must be finite numbers; got inf"),
        (np.full((2, 4, 4), 1.5), r"float64 images must lie in 0..1; got values from 1.5 to 1.5. Pass the true range"),
        (np.full((2, 4, 4), -0.5), "must lie in 0..1; got values from -0.5"),
        (np.full((2, 4, 4), 300), "whole-number images must lie in 0..255; got values from 300"),
        (np.full((2, 4, 4), -1), "whole-number images must lie in 0..255; got values from -1"),
        (np.full((2, 4, 4), 1j), "Complex data not supported"),
        (np.full((2, 4, 4), "a"), "images must be numbers .* got dtype <U1"),
        (np.full((2, 4, 4), None), "images must be numbers .* got dtype object"),
    ],
    ids=str,
)
def test_wrong_arrays_are_refused_in_words(array: np.ndarray[Any, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        from_array(array)


@pytest.mark.parametrize("image_shape", [(5, 5), (5, -1), (-1, -1), (24,), (0, -1), (-2, 12)])
def test_wrong_image_shape(image_shape: tuple[int, ...]) -> None:
    with pytest.raises(InvalidInput, match=r"image_shape must be .* with 24 values in all"):
        from_array(np.zeros((2, 24)), image_shape=image_shape)


def test_values_of_every_type() -> None:
    ramp = np.array([[[0, 128, 255]]])
    assert from_array(ramp.astype(np.int64)).pixels.ravel().tolist() == [0, 128, 255]
    assert from_array(ramp.astype(np.uint16)).pixels.ravel().tolist() == [0, 128, 255]
    assert from_array((ramp / 255).astype(np.float16)).pixels.ravel().tolist() == [0, 128, 255]
    assert from_array(ramp > 100).pixels.ravel().tolist() == [0, 255, 255]


def test_value_range() -> None:
    digits = np.array([[[0.0, 8.0, 16.0]]])
    assert from_array(digits, value_range=(0, 16)).pixels.ravel().tolist() == [0, 128, 255]
    assert from_array(digits.astype(int), value_range=(0, 16)).pixels.ravel().tolist() == [0, 128, 255]
    assert from_array(digits - 8, value_range="auto").pixels.ravel().tolist() == [0, 128, 255]
    assert range_of(digits - 8) == (-8.0, 8.0)
    assert from_array(digits + 8, value_range=(0, 16), clip=True).pixels.ravel().tolist() == [128, 255, 255]
    with pytest.raises(InvalidInput, match="value_range must be two finite numbers"):
        from_array(digits, value_range=(16, 0))


def test_constant_array_under_auto_is_black_not_nan() -> None:
    assert (from_array(np.full((2, 3, 3), 7.0), value_range="auto").pixels == 0).all()


def test_uint8_is_never_rescaled() -> None:
    array = np.array([[[3, 7]]], np.uint8)
    assert (from_array(array, value_range="auto").pixels[..., 0] == array).all()


@given(st.lists(st.floats(0, 1, width=32), min_size=4, max_size=4))
@settings(derandomize=True, deadline=None, max_examples=50)
def test_scaling_keeps_the_order_and_ends_within_half_a_step(values: list[float]) -> None:
    array = np.array(values, np.float32).reshape(1, 2, 2)
    pixels = from_array(array).pixels.ravel().astype(float)
    assert np.abs(pixels - array.ravel() * 255).max() <= 0.5 + 1e-9
    assert (np.diff(pixels[np.argsort(values)]) >= 0).all()


def test_the_input_is_not_changed_and_not_needed_writable() -> None:
    array = np.random.default_rng(0).random((3, 5, 5))
    array.flags.writeable = False
    before = array.copy()
    images = from_array(array)
    conform(images, ImageSpec(4, 4, 3))
    assert (array == before).all()


def test_large_arrays_are_scaled_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    array = np.random.default_rng(0).random((7, 5, 5))
    whole = from_array(array).pixels
    monkeypatch.setattr("selfsort.data.arrays._BLOCK_BYTES", 1)
    assert (from_array(array).pixels == whole).all()


def test_luma_is_pillows() -> None:
    pixels = noise(64, 64)
    expected = np.asarray(Image.fromarray(pixels).convert("L"))
    assert (match_channels(pixels[None], 1)[0, :, :, 0] == expected).all()


def test_gray_is_repeated() -> None:
    pixels = noise(4, 4, 1)[None]
    assert (match_channels(pixels, 3) == pixels).all()
    assert match_channels(pixels, 3).shape == (1, 4, 4, 3)


def test_conform_leaves_what_fits_alone() -> None:
    images = Images(noise()[None])
    assert conform(images, ImageSpec(12, 16, 3)) is images


@pytest.mark.parametrize("fit", ["crop", "stretch", "pad"])
@pytest.mark.parametrize("channels", [1, 3])
def test_conform_works_picture_by_picture(fit: Any, channels: int, monkeypatch: pytest.MonkeyPatch) -> None:
    images = Images(np.stack([noise(seed=seed) for seed in range(5)]))
    spec = ImageSpec(10, 9, channels, fit)
    together = conform(images, spec).pixels
    assert together.shape == (5, 10, 9, channels)
    monkeypatch.setattr("selfsort.data.arrays._BLOCK_BYTES", 1)
    assert (conform(images, spec).pixels == together).all()
    assert (conform(images.subset(slice(2, 3)), spec).pixels == together[2:3]).all()
