from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import ImageFilter
from tests.stacks.scenes import album, save, scene

from selfsort.data.detect import open_source
from selfsort.data.gallery import Gallery
from selfsort.stacks.traits import SIDE, Traits, traits_of, traits_of_arrays
from selfsort.types import Images


def traits_in(folder: Path) -> Traits:
    gallery = open_source(folder)
    assert isinstance(gallery, Gallery)
    return traits_of(gallery.items)[0]


def test_files_are_looked_at_and_unreadable_ones_named(tmp_path: Path) -> None:
    album(tmp_path, 4)
    (tmp_path / "torn.jpg").write_bytes((tmp_path / "00.jpg").read_bytes()[:500])
    gallery = open_source(tmp_path)
    assert isinstance(gallery, Gallery)
    traits, skipped = traits_of(gallery.items)
    assert len(traits) == len(gallery.items) - 1
    assert [one.name for one in skipped] == ["torn.jpg"]
    at = {name: row for row, name in enumerate(traits.names)}
    assert traits.sizes[at["again/small.png"]].tolist() == [90, 60]
    assert traits.digests[at["00.jpg"]] == traits.digests[at["again/copy.jpg"]]
    assert traits.taken[at["frame-3.jpg"]] - traits.taken[at["01.jpg"]] == 3
    assert np.isnan(traits.taken[at["again/small.png"]])


def test_a_blurred_version_is_less_sharp_and_a_brighter_one_is_not_sharper(tmp_path: Path) -> None:
    picture = scene(5)
    save(picture, tmp_path / "a.png")
    save(picture.filter(ImageFilter.GaussianBlur(3)), tmp_path / "b.png")
    save(picture.point(lambda value: round(1.2 * value)), tmp_path / "c.png")
    sharp, blurred, bright = traits_in(tmp_path).sharpness
    assert blurred < 0.7 * sharp
    assert abs(bright / sharp - 1) < 0.1


def test_arrays_have_pixels_only() -> None:
    pixels = np.random.default_rng(0).integers(0, 255, (3, 70, 50, 3), dtype=np.uint8)
    pixels[2] = pixels[0]
    traits = traits_of_arrays(Images(pixels), ("0", "1", "2"))
    assert traits.digests[0] == traits.digests[2] != traits.digests[1]
    assert traits.gray.shape == (3, SIDE, SIDE)
    assert traits.sizes[0].tolist() == [50, 70]
