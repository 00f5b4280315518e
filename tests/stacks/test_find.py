from __future__ import annotations

from pathlib import Path

from PIL import ImageFilter
from tests.stacks.scenes import album, save, scene
from tests.stacks.test_traits import traits_in

from selfsort.stacks.find import find_stacks
from selfsort.stacks.stack import representatives


def test_stacks_with_the_best_and_how_the_others_differ(tmp_path: Path) -> None:
    traits = traits_in(album(tmp_path))
    stacks = find_stacks(traits)
    assert len(stacks) == 2
    versions, burst = stacks
    assert traits.names[versions.best] == "00.jpg"  # neither the packed nor the small one
    kinds = {traits.names[one.row]: one.kind for one in versions.others}
    assert kinds == {
        "again/copy.jpg": "copy",
        "again/packed.jpg": "re-encoded",
        "again/small.png": "resized",
        "again/bright.jpg": "other light",
    }
    assert [one.kind for one in burst.others] == ["burst"] * 3


def test_of_equal_size_the_sharpest_is_best(tmp_path: Path) -> None:
    save(scene(3).filter(ImageFilter.GaussianBlur(2)), tmp_path / "a.png", taken="2024:01:01 10:00:00")
    save(scene(3), tmp_path / "b.png", taken="2024:01:01 10:00:01")
    traits = traits_in(tmp_path)
    (stack,) = find_stacks(traits)
    assert traits.names[stack.best] == "b.png"


def test_a_copy_of_a_frame_is_a_copy(tmp_path: Path) -> None:
    album(tmp_path, 3)
    (tmp_path / "frame-2 (1).jpg").write_bytes((tmp_path / "frame-2.jpg").read_bytes())
    traits = traits_in(tmp_path)
    burst = next(stack for stack in find_stacks(traits) if "01.jpg" in {traits.names[row] for row in stack.rows})
    assert sorted(one.kind for one in burst.others) == ["burst", "burst", "burst", "copy"]


def test_every_picture_has_one_that_stands_for_it(tmp_path: Path) -> None:
    traits = traits_in(album(tmp_path, 5))
    stacks = find_stacks(traits)
    stands_for = representatives(stacks, len(traits))
    assert len(set(stands_for.tolist())) == 5
    assert (stands_for[stands_for] == stands_for).all()
