"""Images through an encoder."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
import torch
from PIL import Image
from tests.encoders.small import SmallEncoder, blobs
from torch import Tensor

from selfsort.data import Fit, ImageSpec
from selfsort.data.resize import fit_picture
from selfsort.encoders.encode import (
    Fitting,
    feature_maps,
    fitted_batch,
    map_basis,
    maps_of,
    plain_features,
    view_features,
)
from selfsort.encoders.options import EncodeConfig
from selfsort.errors import InvalidInput
from selfsort.learning.batches import from_bytes
from selfsort.types import Images

CPU = torch.device("cpu")


def test_gray_images_become_three_equal_channels_and_colour_becomes_gray() -> None:
    x_BCHW = torch.rand(2, 1, 8, 8)
    assert torch.equal(fitted_batch(x_BCHW, (8, 8, 3)), x_BCHW.expand(-1, 3, -1, -1))
    white = torch.ones(1, 3, 8, 8)
    assert torch.allclose(fitted_batch(white, (8, 8, 1)), torch.ones(1, 1, 8, 8))


@pytest.mark.parametrize("size", [(4, 4), (16, 16), (5, 9), (30, 8), (1, 1)])
def test_any_size_becomes_the_encoders(size: tuple[int, int]) -> None:
    x_BCHW = torch.full((2, 3, *size), 0.25)
    found = fitted_batch(x_BCHW, (8, 8, 3))
    assert found.shape == (2, 3, 8, 8)
    assert torch.allclose(found, torch.full_like(found, 0.25))


def test_surplus_is_cut_evenly() -> None:
    x_BCHW = torch.zeros(1, 3, 8, 16)
    x_BCHW[..., 4:12] = 1
    assert torch.equal(fitted_batch(x_BCHW, (8, 8, 3)), torch.ones(1, 3, 8, 8))


@pytest.mark.parametrize("size", [(8, 8), (4, 4), (16, 16), (5, 9), (30, 8), (13, 29), (1, 1)])
@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("fit", ["crop", "stretch"])
def test_for_one_size_the_same_is_done_by_matrices(
    size: tuple[int, int], channels: int, fit: Literal["crop", "stretch"]
) -> None:
    x_BCHW = torch.rand(2, channels, *size)
    found = Fitting((*size, channels), (8, 8, 3), fit)(x_BCHW)
    torch.testing.assert_close(found, fitted_batch(x_BCHW, (8, 8, 3), fit), atol=1e-5, rtol=0)


@pytest.mark.parametrize("size", [(4, 4), (16, 16), (5, 9), (30, 8), (13, 29), (40, 7)])
@pytest.mark.parametrize("fit", ["stretch", "pad"])
def test_other_aspect_ratios_become_what_reading_makes_of_them(size: tuple[int, int], fit: Fit) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (*size, 3), dtype=np.uint8)
    expected = np.asarray(fit_picture(Image.fromarray(pixels), ImageSpec(12, 12, 3, fit)))
    found = fitted_batch(torch.from_numpy(pixels).permute(2, 0, 1)[None] / 255, (12, 12, 3), fit)
    np.testing.assert_allclose(found[0].permute(1, 2, 0).numpy() * 255, expected, atol=1.5)


def test_an_encoder_says_what_it_wants() -> None:
    class Stretching(SmallEncoder):
        fit = "stretch"

    images = Images(np.zeros((2, 8, 24, 3), np.uint8))
    images.pixels[:, :, :8] = 255  # cut away by the one, a third of what the other sees
    cut, stretched = (
        plain_features(encoder, images, "a", is_mirrored=False, folder=None, device=CPU)
        for encoder in (SmallEncoder(), Stretching())
    )
    assert not cut.any()
    assert stretched.max() > 0.5


def test_mirrored_features_are_the_mean_of_both(tmp_path: Path) -> None:
    images, encoder = blobs(), SmallEncoder()
    flipped = Images(np.ascontiguousarray(images.pixels[:, :, ::-1]))
    one, other, both = (
        plain_features(encoder, found, name, is_mirrored=mirror, folder=tmp_path, device=CPU)
        for found, name, mirror in ((images, "a", False), (flipped, "b", False), (images, "a", True))
    )
    np.testing.assert_allclose(both, (one + other) / 2, atol=1e-6)


@dataclass
class BytesEncoder(SmallEncoder):
    """One that turns bytes into floats itself."""

    takes_bytes = True
    dtypes: list[torch.dtype] = field(default_factory=list)

    def features(self, x_BCHW: torch.Tensor) -> torch.Tensor:
        self.dtypes.append(x_BCHW.dtype)
        return super().features(from_bytes(x_BCHW) if x_BCHW.dtype == torch.uint8 else x_BCHW)


@pytest.mark.parametrize(("side", "dtype"), [(8, torch.uint8), (12, torch.float32)])
@pytest.mark.parametrize("mirror", [False, True])
def test_bytes_go_to_an_encoder_that_takes_them_unless_they_must_be_resized(
    side: int, dtype: torch.dtype, mirror: bool
) -> None:
    images, encoder = blobs(40, side=side), BytesEncoder()
    found, expected = (
        plain_features(one, images, "a", is_mirrored=mirror, folder=None, device=CPU)
        for one in (encoder, SmallEncoder())
    )
    assert set(encoder.dtypes) == {dtype}
    np.testing.assert_array_equal(found, expected)


def test_views_are_the_same_again_and_differ_from_each_other(tmp_path: Path) -> None:
    images, config = blobs(40), EncodeConfig(views=3)
    first = view_features(SmallEncoder(), images, "a", config, folder=tmp_path, device=CPU)
    again = view_features(SmallEncoder(), images, "a", config, folder=None, device=CPU)
    assert first.shape == (40, 3, 12)
    assert first.dtype == np.float16
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first[:, 0], first[:, 1])


def test_encoding_goes_on_where_it_was_killed(tmp_path: Path) -> None:
    images = blobs(400)
    with pytest.raises(KeyboardInterrupt):
        plain_features(SmallEncoder(fails_after=300), images, "a", is_mirrored=False, folder=tmp_path, device=CPU)
    encoder = SmallEncoder()
    found = plain_features(encoder, images, "a", is_mirrored=False, folder=tmp_path, device=CPU)
    assert encoder.seen == 400 - 256
    whole = plain_features(SmallEncoder(), images, "a", is_mirrored=False, folder=None, device=CPU)
    np.testing.assert_array_equal(found, whole)


def test_maps_are_reduced_to_their_principal_directions(tmp_path: Path) -> None:
    images, encoder = blobs(), SmallEncoder()
    mean_D, basis_DC = map_basis(encoder, images, 4, CPU)
    assert basis_DC.shape == (12, 4)
    plain, views = feature_maps(
        encoder, images, "a", EncodeConfig(views=2), (mean_D, basis_DC), folder=tmp_path, device=CPU
    )
    assert plain.shape == (60, 4, 2, 2)
    assert views is not None
    assert views.shape == (60, 2, 4, 2, 2)
    # All of the variance of so few numbers fits into a few directions, and is scaled to one.
    assert abs(float((plain**2).sum(axis=1).mean()) - 1) < 0.05


def test_an_encoder_without_maps_says_so() -> None:
    class Bare(SmallEncoder):
        network = None  # type: ignore[assignment]

    bare = Bare()
    with pytest.raises(InvalidInput, match="small gives no feature maps"):
        maps_of(bare)


def test_features_beyond_half_precision_are_refused_for_views() -> None:
    class Loud(SmallEncoder):
        def features(self, x_BCHW: torch.Tensor) -> torch.Tensor:
            return super().features(x_BCHW) * 1e6

    with pytest.raises(InvalidInput, match="half precision"):
        view_features(Loud(), blobs(), "a", EncodeConfig(views=2), folder=None, device=CPU)


def test_features_that_are_no_numbers_are_refused() -> None:
    class Broken(SmallEncoder):
        def features(self, x_BCHW: Tensor) -> Tensor:
            return super().features(x_BCHW) * float("nan")

    with pytest.raises(InvalidInput, match="no finite numbers, for images 0 to 59"):
        plain_features(Broken(), blobs(), "a", is_mirrored=False, folder=None, device=CPU)
