from __future__ import annotations

import io
import shutil
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tests.conftest import write_photos
from tests.explore.runs import fitted

from selfsort.data.folder import recorded_item
from selfsort.data.gallery import Item
from selfsort.explore import pictures as module
from selfsort.explore.pictures import Encoded, Pictures
from selfsort.runs.folder import RunFolder


def opened(folder: RunFolder) -> Pictures:
    return Pictures.open(folder, folder.label_table().names)


def pixels_of(encoded: Encoded | None) -> np.ndarray:
    assert encoded is not None
    with Image.open(io.BytesIO(encoded.content)) as picture:
        assert picture.get_format_mimetype() == encoded.media_type
        return np.asarray(picture.convert("RGB"))


@pytest.fixture
def photo_run(tmp_path: Path) -> RunFolder:
    return fitted(write_photos(tmp_path / "photos"), tmp_path / "run")


class TestFolder:
    def test_pictures_come_from_the_source(self, photo_run: RunFolder, tmp_path: Path) -> None:
        found = opened(photo_run)
        assert (found.origin, found.note, found.is_quick) == ("source", None, False)
        names = photo_run.label_table().names
        with Image.open(tmp_path / "photos" / names[4]) as picture:
            assert (pixels_of(found.large(4)) == np.asarray(picture.convert("RGB"))).all()

    def test_a_sheet_has_the_tiles_in_their_order(self, photo_run: RunFolder) -> None:
        found = opened(photo_run)
        side = found.tile.width
        sheet = pixels_of(found.sheet(list(range(10))))
        assert sheet.shape == (2 * side, 8 * side, 3)
        alone = pixels_of(found.sheet([9]))
        cut = sheet[side:, side : 2 * side]
        assert np.abs(cut.astype(int) - alone).mean() < 4, "the same picture, give or take what JPEG loses"
        assert np.abs(sheet[side:, 2 * side :].astype(int) - 127).max() <= 2, "empty places stay gray"

    def test_tiles_are_kept_and_forgotten(self, photo_run: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
        found = opened(photo_run)
        monkeypatch.setattr(module, "_CACHE_BYTES", 3 * found.tile.width * found.tile.height * 3)
        before = found.sheet([0, 1, 2, 3, 4, 5])
        source = found._sources[0]
        assert isinstance(source, module.FileSource)
        assert len(source._tiles) == 3
        assert found.sheet([0, 1, 2, 3, 4, 5]) == before

    def test_a_large_picture_is_shown_whole(self, tmp_path: Path) -> None:
        photos = write_photos(tmp_path / "photos")
        Image.new("RGB", (3000, 1000), "red").save(photos / "a" / "wide.png")
        found = opened(fitted(photos, tmp_path / "run", size=12))
        row = RunFolder.open(tmp_path / "run").label_table().names.index("a/wide.png")
        assert pixels_of(found.large(row)).shape == (427, 1280, 3)
        assert pixels_of(found.large(row, is_full=True)).shape == (1000, 3000, 3)
        assert (found.tile.width, found.tile.height) == (160, 160), "larger than what the method saw"

    def test_a_picture_too_large_for_its_full_size_is_made_smaller(self, tmp_path: Path) -> None:
        photos = write_photos(tmp_path / "photos")
        Image.new("L", (20_000, 40)).save(photos / "a" / "strip.png")
        found = opened(fitted(photos, tmp_path / "run", size=12))
        row = RunFolder.open(tmp_path / "run").label_table().names.index("a/strip.png")
        assert pixels_of(found.large(row, is_full=True)).shape == (3, 1280, 3)

    def test_a_picture_that_is_gone_or_broken_comes_from_the_run(self, photo_run: RunFolder, tmp_path: Path) -> None:
        names = photo_run.label_table().names
        (tmp_path / "photos" / names[0]).unlink()
        (tmp_path / "photos" / names[1]).write_bytes(b"no picture any more")
        found = opened(photo_run)
        assert found.note == "1 image of the run cannot be found in the source any more."
        assert found.sheet([0, 1, 2]).missing == ()
        thumbnails = photo_run.thumbnails()
        assert thumbnails is not None
        for row in (0, 1):
            assert (pixels_of(found.large(row)) == thumbnails.pixels[row]).all()

    def test_of_very_many_pictures_only_some_are_looked_for_on_opening(
        self, photo_run: RunFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(module, "_PROBED", 3)
        asked = []

        def counted(root: Path, name: str, moved: Mapping[str, Path]) -> Item | None:
            asked.append(name)
            return recorded_item(root, name, moved)

        monkeypatch.setattr(module, "recorded_item", counted)
        names = photo_run.label_table().names
        for name in (names[0], names[1]):
            (tmp_path / "photos" / name).unlink()
        found = opened(photo_run)
        assert asked == [names[0], names[8], names[17]], "evenly spread"
        assert found.note == "1 image of the 3 that were looked for cannot be found in the source any more."
        found.large(5)
        assert asked[3:] == [names[5]]
        assert found.sheet([1, 2]).missing == (), "the run has a copy of what is gone"

    def test_other_pictures_are_not_shown(self, photo_run: RunFolder, tmp_path: Path) -> None:
        shutil.rmtree(tmp_path / "photos")
        write_photos(tmp_path / "photos" / "elsewhere")
        found = opened(photo_run)
        assert found.origin == "thumbnails"
        assert found.note is not None
        assert "are not those of the run" in found.note

    def test_a_list_of_files(self, tmp_path: Path) -> None:
        photos = write_photos(tmp_path / "photos")
        listed = sorted(photos.rglob("*.png"))
        (tmp_path / "list.txt").write_text("\n".join(map(str, listed)))
        found = opened(fitted(tmp_path / "list.txt", tmp_path / "run"))
        assert found.origin == "source"
        with Image.open(listed[7]) as picture:
            assert (pixels_of(found.large(7)) == np.asarray(picture.convert("RGB"))).all()


class TestLinks:
    """A link that leads out of the source must not be read, whenever it was put there."""

    def outside(self, tmp_path: Path) -> Path:
        secret = tmp_path / "outside" / "secret.png"
        secret.parent.mkdir()
        Image.new("RGB", (12, 12), (255, 0, 255)).save(secret)
        return secret

    @pytest.mark.parametrize("is_folder", [False, True])
    def test_a_link_that_was_there_from_the_start(self, tmp_path: Path, is_folder: bool) -> None:
        photos, secret = write_photos(tmp_path / "photos"), self.outside(tmp_path)
        link = photos / "link" if is_folder else photos / "link.png"
        link.symlink_to(secret.parent if is_folder else secret, target_is_directory=is_folder)
        folder = fitted(photos, tmp_path / "run")
        row = next(i for i, name in enumerate(folder.label_table().names) if name.startswith("link"))
        (folder.path / "thumbnails.npz").unlink()
        found = opened(folder)
        assert found.large(row) is None
        assert found.sheet([row, 0]).missing == (0,)

    @pytest.mark.parametrize("when", ["before", "after"])
    def test_a_picture_that_became_a_link(self, photo_run: RunFolder, tmp_path: Path, when: str) -> None:
        names, secret = photo_run.label_table().names, self.outside(tmp_path)
        (photo_run.path / "thumbnails.npz").unlink()
        found = opened(photo_run)
        target = tmp_path / "photos" / names[3]
        target.unlink()
        target.symlink_to(secret)
        if when == "before":
            found = opened(photo_run)
        assert found.large(3) is None
        assert found.sheet([3]).missing == (0,)

    def test_a_link_inside_the_source_is_fine(self, tmp_path: Path) -> None:
        photos = write_photos(tmp_path / "photos")
        first = next(photos.rglob("*.png"))
        (photos / "again.png").symlink_to(first)
        folder = fitted(photos, tmp_path / "run")
        (folder.path / "thumbnails.npz").unlink()
        found = opened(folder)
        assert found.large(folder.label_table().names.index("again.png")) is not None

    @pytest.mark.parametrize("name", ["../outside/secret.png", "..%2foutside%2fsecret.png", "/etc/passwd", "a/../../x"])
    def test_a_name_that_climbs_finds_nothing(self, photo_run: RunFolder, tmp_path: Path, name: str) -> None:
        self.outside(tmp_path)
        table = photo_run.label_table()
        names = (name, *table.names[1:])
        (photo_run.path / "thumbnails.npz").unlink()
        found = Pictures.open(photo_run, names)
        assert found.large(0) is None
        assert found.large(1) is not None


class TestArrays:
    def test_rows_of_an_npz(self, npz: Path, tmp_path: Path) -> None:
        folder = fitted(npz, tmp_path / "run", where="split=1")
        found = opened(folder)
        assert (found.origin, found.is_quick, found.note) == ("source", True, None)
        with np.load(npz) as arrays:
            expected = arrays["images"][arrays["split"] == 1]
        assert (pixels_of(found.large(2)) == expected[2]).all()
        sheet = pixels_of(found.sheet([0, 2]))
        assert (sheet[:, 12:] == expected[2]).all()

    def test_an_array_that_changed_is_not_shown(self, npz: Path, tmp_path: Path) -> None:
        folder = fitted(npz, tmp_path / "run")
        with np.load(npz) as arrays:
            np.savez(npz, images=255 - arrays["images"])
        found = opened(folder)
        assert found.origin == "thumbnails"

    def test_large_ones_are_made_smaller_for_the_gallery(self, tmp_path: Path) -> None:
        values = np.random.default_rng(0).integers(0, 255, (6, 400, 200), dtype=np.uint8)
        np.save(tmp_path / "a.npy", values)
        found = opened(fitted(tmp_path / "a.npy", tmp_path / "run", clusters=2))
        assert (found.tile.width, found.tile.height) == (80, 160)
        assert pixels_of(found.sheet([0])).shape == (160, 80, 3)
        assert pixels_of(found.large(0)).shape == (400, 200, 3)


def remove_source(folder: RunFolder, tmp_path: Path) -> None:
    shutil.rmtree(tmp_path / "photos")


def forget_source(folder: RunFolder, tmp_path: Path) -> None:
    del folder.config["source"]


def name_a_device(folder: RunFolder, tmp_path: Path) -> None:
    folder.config["source"]["path"] = "/dev/zero"


@pytest.mark.parametrize("lose", [remove_source, forget_source, name_a_device])
def test_without_the_source(photo_run: RunFolder, tmp_path: Path, lose: Callable[[RunFolder, Path], None]) -> None:
    lose(photo_run, tmp_path)
    found = opened(photo_run)
    assert found.origin == "thumbnails"
    assert found.note is not None
    assert found.note.startswith("Only the small copies in the run folder can be shown. ")
    assert found.note.endswith(". Restore the source to see all.")
    assert found.sheet([0, 1]).missing == ()
    (photo_run.path / "thumbnails.npz").unlink()
    found = opened(photo_run)
    assert found.origin == "none"
    assert found.sheet([0, 1]).missing == (0, 1)
    assert found.large(0) is None


def test_a_picture_is_found_among_others(monkeypatch: pytest.MonkeyPatch) -> None:
    items = [Item(name, io.BytesIO) for name in "abcdefg"]
    find = module._Finder(items, ("a", "c", "d", "x", "g", "b"))
    found = [find(row) for row in range(6)]
    assert [None if item is None else item.name for item in found] == ["a", "c", "d", None, "g", "b"]


def test_a_source_that_takes_long_is_awaited_elsewhere(photo_run: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    quick, may_open = opened(photo_run), threading.Event()
    kept = photo_run.thumbnails()
    assert kept is not None
    open_source = module._open_source

    def slow(*given: Any) -> Any:
        may_open.wait(20)
        return open_source(*given)

    monkeypatch.setattr(module, "_open_source", slow)
    monkeypatch.setattr(module, "_MANY", 1)
    monkeypatch.setattr(module, "_PATIENCE", 0.01)
    pictures = opened(photo_run)
    assert not pictures.is_whole
    assert pictures.origin == "source"
    assert pictures.note is not None
    assert "still being opened" in pictures.note
    assert pictures.tile == quick.tile
    assert pictures.sheet([int(kept.rows[0])]).missing == ()
    may_open.set()
    (later,) = (source for source in pictures._sources if isinstance(source, module.LaterSource))
    assert later.is_there(20)
    assert pictures.is_whole
    assert pictures.note == quick.note
    assert pictures.sheet([0, 1]).content == quick.sheet([0, 1]).content
