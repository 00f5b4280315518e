from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.oracles import graph_augmented as oracle
from tests.paging import mapped

from selfsort import pages
from selfsort.augment.geometry import Affine
from selfsort.errors import InvalidInput
from selfsort.graph.affinity import centre, mean_row, unit_rows
from selfsort.graph.augmented import View, augmented, augmented_neighbours, views_of
from selfsort.graph.knn import nearest_neighbours
from selfsort.types import F32, U8


def pictures(n: int = 14, height: int = 9, width: int = 7, channels: int = 1, seed: int = 0) -> U8:
    return np.random.default_rng(seed).integers(0, 256, (n, height, width, channels), dtype=np.uint8)


def rows_of(pixels: U8, mean: F32 | None = None) -> F32:
    flat = pixels.reshape(len(pixels), -1) / 255
    return unit_rows(flat if mean is None else centre(flat, mean))


def in_pixels(strength: str) -> list[dict[str, float]]:
    """Views of small pictures, whose step is one pixel, as the oracle takes them."""
    return [
        {"right": view.right, "down": view.down, "rotate": view.rotate, "zoom": view.zoom}
        for view in views_of("mild" if strength == "mild" else "strong")
    ]


@pytest.mark.parametrize("strength", ["mild", "strong"])
@pytest.mark.parametrize("full_cost", [0.0, 1e9], ids=["ranked", "full"])
@pytest.mark.parametrize("is_centred", [False, True])
def test_equals_the_slow_oracle(strength: str, full_cost: float, is_centred: bool) -> None:
    pixels = pictures(channels=3 if is_centred else 1)
    mean = mean_row(pixels / 255) if is_centred else None
    features = rows_of(pixels, mean)
    found = augmented_neighbours(
        pixels, features, 5, strength="mild" if strength == "mild" else "strong", mean=mean, full_cost=full_cost
    )
    least = oracle.least_distances(pixels, in_pixels(strength), mean)
    np.testing.assert_array_equal(found.idx, oracle.nearest(least, 5))
    np.testing.assert_allclose(found.sq_dist, np.take_along_axis(least, found.idx, axis=1), rtol=1e-4)
    assert found.idx.dtype == np.int64
    assert found.sq_dist.dtype == np.float32


def test_a_shifted_copy_is_nearer_than_a_better_match_of_the_plain_pixels() -> None:
    pixels = np.zeros((3, 12, 12, 1), np.uint8)
    pixels[0, 3:9, 5] = pixels[1, 3:9, 6] = 255  # one stroke, a pixel apart
    pixels[2, 3:6, 5] = 255  # half of the first stroke
    features = rows_of(pixels)
    assert nearest_neighbours(features, 1).idx[0] == 2
    found = augmented_neighbours(pixels, features, 1)
    assert found.idx[:2].ravel().tolist() == [1, 0]
    np.testing.assert_allclose(found.sq_dist[:2], 0, atol=1e-10)


def test_a_view_is_what_the_augmentation_of_the_same_numbers_does() -> None:
    smooth = torch.nn.functional.avg_pool2d(torch.rand(2, 1, 21, 23, generator=torch.Generator().manual_seed(0)), 9, 1)
    chance = torch.Generator().manual_seed(0)
    zoomed = Affine(scale=(1.1, 1.1)).change(smooth, chance)  # which interpolates linearly
    torch.testing.assert_close(augmented(smooth, View(zoom=1.1)), zoomed, atol=0.01, rtol=0)
    x_BCHW = torch.rand(2, 1, 11, 13, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(augmented(x_BCHW, View(right=1))[..., 1:], x_BCHW[..., :-1])
    torch.testing.assert_close(augmented(x_BCHW, View(down=-1))[:, :, :-1], x_BCHW[:, :, 1:])


def test_the_step_grows_with_the_image() -> None:
    x_BCHW = torch.rand(1, 1, 84, 84, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(augmented(x_BCHW, View(right=1))[..., 3:], x_BCHW[..., :-3])


def test_nobody_is_nearer_than_before_and_order_is_kept() -> None:
    pixels = pictures(n=60, height=10, width=10)
    features = rows_of(pixels)
    plain = nearest_neighbours(features, 8)
    for strength in ("mild", "strong"):
        found = augmented_neighbours(pixels, features, 8, strength="mild" if strength == "mild" else "strong")
        assert (found.sq_dist <= plain.sq_dist).all()
        assert (np.diff(found.sq_dist, axis=1) >= 0).all()
        assert (found.idx != np.arange(60)[:, None]).all()
        assert all(len(set(row)) == 8 for row in found.idx.tolist())


def test_many_blocks_give_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    from selfsort.graph import augmented as module

    pixels = pictures(n=40)
    features = rows_of(pixels)
    expected = [augmented_neighbours(pixels, features, 6, full_cost=cost).idx for cost in (0.0, 1e9)]
    monkeypatch.setattr(module, "_BLOCK", 7)
    monkeypatch.setattr(module, "_RANKED_BYTES", 4 * 63 * 39 * 3)
    for cost, before in zip((0.0, 1e9), expected, strict=True):
        np.testing.assert_array_equal(augmented_neighbours(pixels, features, 6, full_cost=cost).idx, before)


@pytest.mark.parametrize("full_cost", [0.0, 1e9], ids=["ranked", "full"])
def test_images_in_a_file_have_the_same_neighbours(monkeypatch: pytest.MonkeyPatch, full_cost: float) -> None:
    pixels = pictures(n=40)
    features = rows_of(pixels)
    expected = augmented_neighbours(pixels, features, 6, full_cost=full_cost)
    monkeypatch.setattr(pages, "_PASS_BYTES", 8 * features[:1].nbytes)
    found = augmented_neighbours(mapped(pixels), mapped(features), 6, full_cost=full_cost)
    np.testing.assert_array_equal(found.idx, expected.idx)
    np.testing.assert_array_equal(found.sq_dist, expected.sq_dist)


def test_ranking_sees_the_plain_neighbours_only(monkeypatch: pytest.MonkeyPatch) -> None:
    from selfsort.graph import augmented as module

    monkeypatch.setattr(module, "N_RANKED", 10)
    pixels = pictures(n=50)
    features = rows_of(pixels)
    plain = nearest_neighbours(features, 10)
    found = augmented_neighbours(pixels, features, 4, full_cost=0.0)
    assert all(set(row) <= set(near) for row, near in zip(found.idx.tolist(), plain.idx.tolist(), strict=True))


@pytest.mark.parametrize("full_cost", [0.0, 1e9])
def test_few_images_and_images_all_alike(full_cost: float) -> None:
    pixels = np.full((3, 6, 6, 1), 40, np.uint8)
    found = augmented_neighbours(pixels, rows_of(pixels), 20, full_cost=full_cost)
    assert found.is_short
    assert found.idx.tolist() == [[1, 2], [0, 2], [0, 1]]
    np.testing.assert_allclose(found.sq_dist, 0, atol=1e-10)
    black = augmented_neighbours(np.zeros((3, 6, 6, 1), np.uint8), np.zeros((3, 36), np.float32), 2)
    assert np.isfinite(black.sq_dist).all()


def test_features_of_something_else_are_refused() -> None:
    with pytest.raises(InvalidInput, match="one row of pixels per image"):
        augmented_neighbours(pictures(), np.zeros((14, 5), np.float32), 3)
