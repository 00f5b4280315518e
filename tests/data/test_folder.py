"""Folders and lists as people have them: links, odd names, other files in between."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.data.samples import noise, picture, png_of_claimed_size, save_many, smooth

from selfsort.data import Dataset, read_source
from selfsort.errors import InvalidInput, MissingData


def reasons(data: Dataset) -> dict[str, str]:
    return {entry["name"]: entry["reason"] for entry in data.ingest["skipped"]}


def test_flat_folder_in_order_of_names(tmp_path: Path) -> None:
    made = save_many(tmp_path, 5)
    data = read_source(tmp_path)
    assert data.names == ("000.png", "001.png", "002.png", "003.png", "004.png")
    assert (data.images.pixels == np.stack(made)).all()
    assert data.paths == tuple(tmp_path / name for name in data.names)
    assert data.labels is None
    assert data.ingest["kind"] == "folder"


def test_nested_folders_are_one_source(tmp_path: Path) -> None:
    for folder in ("b/deep/er", "a", "."):
        save_many(tmp_path / folder, 2)
    names = read_source(tmp_path).names
    assert names == ("000.png", "001.png", "a/000.png", "a/001.png", "b/deep/er/000.png", "b/deep/er/001.png")


def test_pictures_are_found_by_content_and_other_files_ignored(tmp_path: Path) -> None:
    save_many(tmp_path, 3)
    (tmp_path / "000.png").rename(tmp_path / "no suffix")
    (tmp_path / "001.png").rename(tmp_path / "wrong.txt")
    (tmp_path / "notes.txt").write_text("hello")
    (tmp_path / "table.csv").write_text("a,b")
    for hidden in (".DS_Store", "._002.png", ".hidden.png"):
        (tmp_path / hidden).write_bytes(b"\x89PNG\r\n\x1a\n")
    (tmp_path / ".thumbs").mkdir()
    save_many(tmp_path / ".thumbs", 1)
    save_many(tmp_path / "__MACOSX", 1)
    data = read_source(tmp_path, max_bad=0)
    assert data.names == ("002.png", "no suffix", "wrong.txt")
    assert data.ingest["ignored"] == {".csv": 1, ".txt": 1}
    assert data.ingest["skipped"] == []


def test_every_bad_file_is_skipped_with_its_own_reason(tmp_path: Path) -> None:
    save_many(tmp_path, 3)
    smooth(200, 300).save(tmp_path / "cut.jpg")
    whole = (tmp_path / "cut.jpg").read_bytes()
    (tmp_path / "cut.jpg").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "text.jpg").write_text("not a picture")
    (tmp_path / "empty.png").touch()
    (tmp_path / "bomb.png").write_bytes(png_of_claimed_size(50_000, 50_000))
    (tmp_path / "gone.png").symlink_to(tmp_path / "nowhere")
    (tmp_path / "loop.png").symlink_to(tmp_path / "loop.png")
    os.mkfifo(tmp_path / "pipe.png")
    data = read_source(tmp_path, max_bad=0.9)
    assert data.names == ("000.png", "001.png", "002.png")
    found = reasons(data)
    assert found["cut.jpg"].startswith("truncated or damaged")
    assert found["text.jpg"] == "not a picture: the content is text"
    assert found["empty.png"] == "empty file"
    assert found["bomb.png"].startswith("decompression bomb")
    assert found["gone.png"] == "broken link: the file it points to is not there"
    assert found["loop.png"] == "link loop: the link leads back to itself"
    assert found["pipe.png"] == "not a regular file"
    assert data.ingest["found"] == 10
    assert data.ingest["read"] == 3


def test_a_file_without_permission_is_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save_many(tmp_path, 3)
    plain_open = Path.open

    def guarded(self: Path, *args: Any, **kwargs: Any) -> Any:
        if self.name == "001.png":
            raise PermissionError(13, "Permission denied", str(self))
        return plain_open(self, *args, **kwargs)

    monkeypatch.setattr(Path, "open", guarded)
    data = read_source(tmp_path, max_bad=0.5)
    assert data.names == ("000.png", "002.png")
    assert reasons(data) == {"001.png": "no permission to read it"}


def test_a_folder_without_permission_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save_many(tmp_path, 3)
    (tmp_path / "locked").mkdir()
    plain_scandir = os.scandir

    def guarded(path: Any) -> Any:
        if Path(path).name == "locked":
            raise PermissionError(13, "Permission denied", str(path))
        return plain_scandir(path)

    monkeypatch.setattr(os, "scandir", guarded)
    data = read_source(tmp_path, max_bad=0.5)
    assert reasons(data) == {"locked/": "no permission to read it"}
    with pytest.raises(MissingData, match=r"cannot be listed \(no permission"):
        read_source(tmp_path / "locked")


def test_too_many_bad_files_fail_with_the_first_reasons(tmp_path: Path) -> None:
    save_many(tmp_path, 3)
    for number in range(7):
        (tmp_path / f"bad{number}.jpg").write_text("text")
    expected = (
        r"the unreadable pictures of .* must be at most 0.05 of all \(--max-bad\); got 7 of 10 "
        r"\('bad0.jpg': not a picture: the content is text; .*'bad4.jpg'.*; and 2 more\). Repair or remove"
    )
    with pytest.raises(InvalidInput, match=expected):
        read_source(tmp_path)
    assert len(read_source(tmp_path, max_bad=0.7)) == 3


def test_links_are_followed_and_folder_loops_end(tmp_path: Path) -> None:
    save_many(tmp_path / "elsewhere", 2)
    source = tmp_path / "source"
    save_many(source / "own", 1)
    (source / "linked").symlink_to(tmp_path / "elsewhere")
    (source / "own" / "back").symlink_to(source)
    (source / "file.png").symlink_to(tmp_path / "elsewhere" / "000.png")
    data = read_source(source)
    assert data.names == ("file.png", "linked/000.png", "linked/001.png", "own/000.png")
    assert data.paths is not None
    assert data.paths[0] == source / "file.png"


def test_names_with_spaces_unicode_newlines_and_other_bytes(tmp_path: Path) -> None:
    save_many(tmp_path, 2)
    (tmp_path / "000.png").rename(tmp_path / "two words\nand a line.png")
    (tmp_path / "001.png").rename(tmp_path / "смешное 画像 é.png")
    raw = os.fsencode(tmp_path) + b"/latin\xe9.png"
    try:
        Path(os.fsdecode(raw)).write_bytes((tmp_path / "смешное 画像 é.png").read_bytes())
    except OSError:
        pytest.skip("this file system insists on UTF-8 names")
    data = read_source(tmp_path)
    assert data.names == ("latin\\xe9.png", "two words\nand a line.png", "смешное 画像 é.png")
    assert "\n".join(data.names).encode("utf-8")
    assert data.paths is not None
    assert os.fsencode(data.paths[0]) == raw


def test_mixed_sizes_and_modes(tmp_path: Path) -> None:
    picture(noise(30, 40)).save(tmp_path / "a.png")
    picture(noise(50, 20, 1)).save(tmp_path / "b.png")
    picture(noise(30, 40)).convert("RGBA").save(tmp_path / "c.webp")
    picture(noise(300, 400)).convert("CMYK").save(tmp_path / "d.jpg")
    data = read_source(tmp_path)
    assert data.images.pixels.shape == (4, 96, 96, 3)
    assert data.ingest["sizes_seen"] == {"40x30": 2, "20x50": 1, "400x300": 1}
    assert data.ingest["size_reason"] == "the sizes differ ('a.png' is 40x30, 'b.png' is 20x50)"
    assert data.ingest["channels_reason"] == "'a.png' is in colour"


@pytest.mark.parametrize("n", [0, 1])
def test_too_few_pictures(tmp_path: Path, n: int) -> None:
    save_many(tmp_path, n)
    (tmp_path / "readme.md").touch()
    with pytest.raises(
        InvalidInput, match="hold pictures; got 1 document" if n == 0 else "at least 2 readable images; got 1"
    ):
        read_source(tmp_path)
    if n:
        assert len(read_source(tmp_path, min_images=1)) == 1


def test_nothing_readable(tmp_path: Path) -> None:
    (tmp_path / "a.jpg").touch()
    with pytest.raises(InvalidInput, match=r"got 1 of 1 \('a.jpg': empty file"):
        read_source(tmp_path)
    with pytest.raises(InvalidInput, match="at least 2 readable images; got 0"):
        read_source(tmp_path, max_bad=1)


def test_list_file_is_relative_to_itself_and_keeps_its_order(tmp_path: Path) -> None:
    save_many(tmp_path / "pictures", 3)
    listing = tmp_path / "list.txt"
    absolute = tmp_path / "pictures" / "000.png"
    listing.write_bytes(f"\ufeffpictures/002.png\r\n\npictures/001.png\n{absolute}\n".encode())
    data = read_source(listing)
    assert data.names == ("pictures/002.png", "pictures/001.png", absolute.as_posix())
    assert data.paths == tuple(tmp_path / "pictures" / f"00{n}.png" for n in (2, 1, 0))
    assert data.ingest["kind"] == "list"


def test_list_file_with_wrong_lines(tmp_path: Path) -> None:
    save_many(tmp_path, 2)
    (tmp_path / "folder.png").mkdir()
    (tmp_path / "list").write_text("000.png\n001.png\nmissing.png\nfolder.png\n")
    assert reasons(read_source(tmp_path / "list", max_bad=0.5)) == {
        "missing.png": "not found",
        "folder.png": "it is a folder",
    }
    with pytest.raises(InvalidInput, match=r"'missing.png': not found; 'folder.png': it is a folder"):
        read_source(tmp_path / "list")


def test_list_of_paths(tmp_path: Path) -> None:
    save_many(tmp_path, 3)
    paths: list[str | Path] = [tmp_path / "002.png", str(tmp_path / "000.png")]
    data = read_source(paths)
    assert data.paths == (tmp_path / "002.png", tmp_path / "000.png")
    assert data.ingest["source"] == [str(path) for path in paths]
    with pytest.raises(InvalidInput, match="at least 2 readable images; got 0"):
        read_source([])
