from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image
from tests.stacks.scenes import SIZE, album, brightened, save, scene
from tests.stacks.test_traits import traits_in

from selfsort.stacks.traits import traits_of_arrays
from selfsort.stacks.versions import equal_files, find_versions
from selfsort.types import Images


def pairs_in(folder: Path) -> set[frozenset[str]]:
    traits = traits_in(folder)
    return {frozenset(traits.names[row] for row in pair) for pair in find_versions(traits).tolist()}


def test_versions_are_found_and_nothing_else(tmp_path: Path) -> None:
    versions = {"00.jpg", "again/packed.jpg", "again/small.png", "again/bright.jpg"}
    found = {pair for pair in pairs_in(album(tmp_path)) if not any("frame" in name for name in pair)}
    assert {name for pair in found for name in pair} == versions  # of two equal files one is compared
    assert len(found) == 6


def test_equal_files_are_joined(tmp_path: Path) -> None:
    traits = traits_in(album(tmp_path, 3))
    (pair,) = equal_files(traits).tolist()
    assert {traits.names[row] for row in pair} == {"00.jpg", "again/copy.jpg"}


def test_the_same_cut_in_another_colour_is_another_picture(tmp_path: Path) -> None:
    picture = np.asarray(scene(3)).astype(np.float64)
    save(scene(3), tmp_path / "a.png")
    save(Image.fromarray(np.clip(picture * (1.3, 1.0, 0.5), 0, 255).astype(np.uint8)), tmp_path / "b.png")
    assert pairs_in(tmp_path) == set()


def test_the_same_outlines_in_another_shape_are_another_picture(tmp_path: Path) -> None:
    save(scene(3), tmp_path / "a.png")
    save(scene(3).resize((SIZE[0], SIZE[0])), tmp_path / "b.png")
    assert pairs_in(tmp_path) == set()


def test_pages_without_anything_on_them_are_not_compared(tmp_path: Path) -> None:
    for value in (250, 251):
        save(Image.new("RGB", SIZE, (value, value, value)), tmp_path / f"{value}.png")
    save(brightened(scene(1)), tmp_path / "c.png")
    assert pairs_in(tmp_path) == set()


def test_tiny_pictures_are_compared_by_their_bytes_alone() -> None:
    pixels = np.zeros((3, 16, 16, 1), np.uint8)
    pixels[:, 4:12, 7:9] = 255
    pixels[1] //= 2  # what would be a darker version
    traits = traits_of_arrays(Images(pixels), ("0", "1", "2"))
    assert not len(find_versions(traits))
    assert equal_files(traits).tolist() == [[0, 2]]
