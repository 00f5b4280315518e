"""Encoders as one run uses them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from tests.encoders.small import SmallEncoder, blobs

from selfsort.encoders.fitted import FittedEncoder, Part, fit_encoder
from selfsort.encoders.options import EncodeConfig
from selfsort.encoders.pictures import Pictures
from selfsort.encoders.table import open_table
from selfsort.types import Encoded

CPU = torch.device("cpu")
IMAGES = blobs()
PICTURES = Pictures(IMAGES, tuple(f"{i}.png" for i in range(len(IMAGES))), "a")


def fitted(*parts: Part, config: EncodeConfig | None = None, with_views: bool = False) -> tuple[FittedEncoder, Encoded]:
    return fit_encoder(
        parts,
        PICTURES,
        config or EncodeConfig(views=2),
        on="features",
        with_views=with_views,
        device=CPU,
        folder=None,
    )


def test_features_are_centred_and_of_unit_length() -> None:
    encoder, encoded = fitted(Part(SmallEncoder(), is_general=True))
    raw = encoded.features
    np.testing.assert_allclose(np.linalg.norm(raw, axis=1), 1, atol=1e-5)
    again = encoder.encode(Pictures(IMAGES.subset(slice(0, 5)), (), None))
    np.testing.assert_allclose(again.features, raw[:5], atol=1e-6)


def test_several_stand_side_by_side_with_equal_weight() -> None:
    parts = Part(SmallEncoder(), is_general=True), Part(SmallEncoder("other"), is_general=False)
    _, encoded = fitted(*parts)
    assert encoded.shape == (24,)
    halves = encoded.features[:, :12], encoded.features[:, 12:]
    for half in halves:
        np.testing.assert_allclose(np.linalg.norm(half, axis=1), 0.5**0.5, atol=1e-5)


def test_views_are_brought_to_the_same_centre() -> None:
    _, encoded = fitted(Part(SmallEncoder(), is_general=True), with_views=True)
    assert encoded.views is not None
    assert encoded.views.shape == (60, 2, 12)
    np.testing.assert_allclose(np.linalg.norm(encoded.views.astype(np.float32), axis=2), 1, atol=1e-2)


def test_a_table_is_taken_as_it_is(tmp_path: Path) -> None:
    vectors = np.random.default_rng(0).normal(3, 1, (60, 5)).astype(np.float32)
    np.save(tmp_path / "v.npy", vectors)
    _, encoded = fitted(Part(open_table(tmp_path / "v.npy"), is_general=False))
    np.testing.assert_array_equal(encoded.features, vectors)


def test_the_network_of_an_encoder_gives_the_same_features() -> None:
    encoder, encoded = fitted(Part(SmallEncoder(), is_general=True), Part(SmallEncoder("other"), is_general=True))
    x_BCHW = torch.from_numpy(IMAGES.pixels[:7]).permute(0, 3, 1, 2).float() / 255
    found = encoder.network(IMAGES.shape).eval()(x_BCHW)
    np.testing.assert_allclose(found.numpy(), encoded.features[:7], atol=1e-5)


def test_maps_are_given_to_new_images_alike() -> None:
    parts = (Part(SmallEncoder(), is_general=True),)
    config = EncodeConfig(views=2, map_channels=4)
    encoder, encoded = fit_encoder(parts, PICTURES, config, on="maps", with_views=True, device=CPU, folder=None)
    assert encoded.shape == (2, 2, 4)
    again = encoder.encode(Pictures(IMAGES.subset(slice(0, 5)), (), None))
    np.testing.assert_allclose(again.features, encoded.features[:5], atol=1e-5)
    x_BCHW = torch.from_numpy(IMAGES.pixels[:5]).permute(0, 3, 1, 2).float() / 255
    np.testing.assert_allclose(encoder.network(IMAGES.shape)(x_BCHW).numpy(), encoded.features[:5], atol=1e-5)
