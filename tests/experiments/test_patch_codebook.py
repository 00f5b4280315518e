from __future__ import annotations

from pathlib import Path
from typing import get_args

import numpy as np
import pytest
from experiments.patch_codebook import (
    Basis,
    Pipeline,
    all_patches,
    fit_whitening,
    learn_codes,
    main,
    normalise_contrast,
    pool_quadrants,
    run,
    sample_patches,
    triangle,
)

from selfsort.data.synthetic import shapes
from selfsort.errors import InvalidInput
from selfsort.types import Images

SMALL = Pipeline(codes=12, n_patches=300, n_clusters=5, kmeans_rounds=4)


def generator() -> np.random.Generator:
    return np.random.default_rng(0)


class TestPatches:
    def test_every_place_once_row_by_row(self) -> None:
        pixels = np.arange(4 * 5 * 3, dtype=np.uint8).reshape(4, 5, 3)
        patches = all_patches(pixels, 3)
        assert patches.shape == (2 * 3, 3, 3, 3)
        np.testing.assert_array_equal(patches[1], pixels[0:3, 1:4])
        np.testing.assert_array_equal(patches[3], pixels[1:4, 0:3])

    def test_a_sample_comes_from_the_images(self) -> None:
        images = Images(np.random.default_rng(1).integers(0, 256, (3, 7, 8, 3)).astype(np.uint8))
        known = {patch.tobytes() for pixels in images.pixels for patch in all_patches(pixels, 6)}
        sample = sample_patches(images, 50, 6, generator())
        assert sample.shape == (50, 6, 6, 3)
        assert {patch.tobytes() for patch in sample} <= known

    def test_too_large(self) -> None:
        with pytest.raises(InvalidInput, match=r"patch must fit into the images \(8x8\); got 9"):
            sample_patches(Images(np.zeros((1, 8, 8, 1), dtype=np.uint8)), 1, 9, generator())


class TestRows:
    def test_contrast(self) -> None:
        rows = normalise_contrast(np.array([[0, 200], [7, 7]], dtype=np.float32))
        np.testing.assert_allclose(rows[0], [-100 / np.sqrt(10_010), 100 / np.sqrt(10_010)], rtol=1e-6)
        assert not rows[1].any()

    def test_whitened_rows_are_uncorrelated(self) -> None:
        rows = (generator().normal(size=(2000, 3)) @ [[5, 2, 0], [0, 4, 1], [0, 0, 3]] + 7).astype(np.float32)
        whitened = fit_whitening(rows, eps=1e-6)(rows)
        np.testing.assert_allclose(np.cov(whitened, rowvar=False), np.eye(3), atol=1e-3)
        np.testing.assert_allclose(whitened.mean(axis=0), 0, atol=1e-4)

    def test_triangle_by_hand(self) -> None:
        codes = np.array([[0.0], [3.0], [10.0]], dtype=np.float32)
        # distances of 2: 2, 1, 8; their mean 11/3
        np.testing.assert_allclose(
            triangle(np.array([[2.0]], dtype=np.float32), codes), [[11 / 3 - 2, 11 / 3 - 1, 0]], rtol=1e-5
        )

    def test_codes_find_the_groups(self) -> None:
        centres = np.array([[0, 0], [10, 0], [0, 10]], dtype=np.float32)
        rows = np.repeat(centres, 40, axis=0) + generator().normal(0, 0.1, (120, 2)).astype(np.float32)
        codes = learn_codes(rows, 9, 15, np.random.default_rng(2))
        for centre in centres:
            assert np.linalg.norm(codes - centre, axis=1).min() < 0.5

    def test_too_many_codes(self) -> None:
        with pytest.raises(InvalidInput, match=r"at most that of patches \(4\)"):
            learn_codes(np.zeros((4, 2), dtype=np.float32), 5, 1, generator())

    def test_quadrants(self) -> None:
        coded = np.arange(9, dtype=np.float32)[:, None]  # 3 x 3 places, one code
        assert pool_quadrants(coded, 3, 3).tolist() == [0, 1 + 2, 3 + 6, 4 + 5 + 7 + 8]


@pytest.mark.parametrize("basis", get_args(Basis))
def test_the_pipeline_tells_shapes_apart(basis: Basis) -> None:
    learn, judge = shapes(12, size=16, seed=0, channels=3), shapes(6, size=16, seed=1, channels=3)
    assert run(learn[0], *learn, *judge, basis, SMALL, epochs=1) > 0.9


def test_command_line(tmp_path: Path) -> None:
    images, truth = shapes(10, size=16, seed=0)
    np.savez(tmp_path / "set.npz", images=images.pixels[:, :, :, 0], labels=truth)
    sizes = ["--train", "30", "--test", "10", "--codes", "8", "--patches", "200"]
    assert main([str(tmp_path / "set.npz"), *sizes])["accuracy"] > 0.7
    with pytest.raises(InvalidInput, match="Lower --train and --test"):
        main([str(tmp_path / "set.npz"), "--train", "100"])
