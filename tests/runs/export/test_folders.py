from __future__ import annotations

import errno
import os
import shutil
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from tests.tiny_run import files_of

from selfsort.data.options import ReadOptions
from selfsort.errors import CannotWrite, InvalidInput
from selfsort.runs.export.folders import Mode, export_folders, free_place, safe_name
from selfsort.runs.folder import RunFolder
from selfsort.runs.launch import launch
from selfsort.runs.request import Request


def fitted(source: Path, tmp_path: Path, **reading: object) -> RunFolder:
    wanted = ReadOptions(path=str(source), **reading)  # type: ignore[arg-type]
    launched = launch(Request(source=wanted, clusters=3, method="kmeans", out=tmp_path / "run"))
    launched.fit.run()
    return launched.folder


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("photo.jpg", "photo.jpg"),
        ("cats/a b.jpg", "a b.jpg"),
        ("../../x", "x"),
        ("/etc/passwd", "passwd"),
        ("..\\..\\x.png", "x.png"),
        ("C:\\windows\\x.png", "x.png"),
        ("a/..", "_"),
        ("..", "_"),
        (".", "_"),
        ("", "_"),
        ("///", "_"),
        ("a\0b.png", "ab.png"),
        (".\0.", "_"),
        ("..\0/", "_"),
        ("line\nbreak.png", "line\nbreak.png"),
        ("caf\udce9.png", "caf\udce9.png"),
        ("naïve 🐈.png", "naïve 🐈.png"),
    ],
)
def test_names_are_reduced_to_one_harmless_part(name: str, expected: str) -> None:
    assert safe_name(name) == expected


@pytest.mark.parametrize(("name", "suffix"), [("é" * 300 + ".jpeg", ".jpeg"), ("x" * 300, ""), ("a." + "y" * 300, ".")])
def test_a_long_name_is_cut_before_its_suffix(name: str, suffix: str) -> None:
    short = safe_name(name)
    assert len(os.fsencode(short)) <= 240
    assert short.startswith(name[:2])
    assert suffix in short


def test_a_taken_place_gets_a_number() -> None:
    taken: set[str] = set()
    names = [Path("x", name) for name in ("a.png", "A.png", "a.png", "a-2.png")]
    assert [free_place(name, taken).name for name in names] == ["a.png", "A-2.png", "a-3.png", "a-2-2.png"]


@pytest.mark.parametrize("mode", ["copy", "hardlink", "symlink"])
def test_files_are_copied_or_linked_into_a_folder_per_cluster(photos: Path, tmp_path: Path, mode: Mode) -> None:
    shutil.copy(next(photos.rglob("*.png")), photos)  # one name twice
    folder = fitted(photos, tmp_path)
    table = folder.label_table()
    out = export_folders(folder, tmp_path / "sorted", mode=mode)
    placed = {path: path.read_bytes() for path in out.rglob("*.png")}
    assert len(placed) == len(table.names)
    assert all(path.is_symlink() == (mode == "symlink") for path in placed)
    assert all((path.stat().st_nlink > 1) == (mode == "hardlink") for path in placed)
    for name, label in zip(table.names, table.labels, strict=True):
        stem = Path(name).stem
        same = [
            path for path in placed if path.stem.split("-")[0] == stem and path.parent.name == f"cluster-{label:02d}"
        ]
        assert (photos / name).read_bytes() in [placed[path] for path in same]
    assert Counter(path.parent.name for path in placed) == Counter(f"cluster-{label:02d}" for label in table.labels)


def test_rows_of_an_array_become_png(npz: Path, tmp_path: Path) -> None:
    folder = fitted(npz, tmp_path, where="split=1")
    out = export_folders(folder, tmp_path / "sorted")
    pixels = np.load(npz)["images"]
    table = folder.label_table()
    assert sorted(table.names, key=int) == [str(row) for row in range(1, 18, 2)]
    for name, label in zip(table.names, table.labels, strict=True):
        with Image.open(out / f"cluster-{label:02d}" / f"{name}.png") as picture:
            np.testing.assert_array_equal(np.asarray(picture), pixels[int(name), :, :, 0])
    with pytest.raises(InvalidInput, match="--mode symlink needs images that are files"):
        export_folders(folder, tmp_path / "linked", mode="symlink")


def test_an_existing_place_is_refused(photos: Path, tmp_path: Path) -> None:
    folder = fitted(photos, tmp_path)
    (tmp_path / "sorted").mkdir()
    with pytest.raises(InvalidInput, match=r"exists already. Expected a new folder. Choose another --out."):
        export_folders(folder, tmp_path / "sorted")


def test_other_images_than_those_of_the_run_are_refused(npz: Path, photos: Path, tmp_path: Path) -> None:
    folder = fitted(photos, tmp_path)
    next(photos.rglob("*.png")).unlink()
    with pytest.raises(InvalidInput, match=r"are not those of the run .* Restore the source, say where they are now"):
        export_folders(folder, tmp_path / "sorted")
    shutil.rmtree(folder.path)
    folder = fitted(npz, tmp_path)
    arrays = dict(np.load(npz))
    np.savez(npz, images=arrays["images"][::-1], labels=arrays["labels"])  # as many rows, other pictures
    with pytest.raises(InvalidInput, match="are not those of the run"):
        export_folders(folder, tmp_path / "sorted")
    assert not (tmp_path / "sorted").exists()


def test_labels_that_have_gone_since_are_not_missed(photos: Path, tmp_path: Path) -> None:
    names = sorted(str(path.relative_to(photos)) for path in photos.rglob("*.png"))
    truth = tmp_path / "truth.csv"
    truth.write_text("".join(f"{name},{name[0]}\n" for name in names))
    folder = fitted(photos, tmp_path, labels=str(truth))
    truth.unlink()
    export_folders(folder, tmp_path / "sorted")


@pytest.mark.parametrize(
    "name", ["../../escaped.png", "/escaped.png", "..\\escaped.png", "a\0b.png", "\udcff.png", "x\n.png"]
)
def test_tricks_in_names_write_nothing_outside(photos: Path, tmp_path: Path, name: str) -> None:
    folder = fitted(photos, tmp_path)
    table = folder.label_table()
    folder.write_labels("labels.csv", (name, *table.names[1:]), table.labels, table.confidence)
    before = files_of(tmp_path)
    with pytest.raises(InvalidInput, match="are not those of the run"):
        export_folders(RunFolder.open(folder.path), tmp_path / "inside" / "sorted")
    assert files_of(tmp_path) == before
    assert not (tmp_path / "inside").exists()


def test_a_list_that_climbs_out_of_its_folder_still_lands_inside(photos: Path, tmp_path: Path) -> None:
    """A stranger's run may name any list of files as its source; what is copied stays under the target."""
    lists = tmp_path / "deep" / "er"
    lists.mkdir(parents=True)
    listed = [f"../../photos/{path.relative_to(photos)}" for path in sorted(photos.rglob("*.png"))]
    (lists / "list.txt").write_text("\n".join(listed))
    folder = fitted(lists / "list.txt", tmp_path)
    assert folder.label_table().names[0].startswith("../")
    out = export_folders(folder, tmp_path / "target" / "sorted")
    assert len(list(out.rglob("*.png"))) == len(listed)
    assert {path.name for path in (tmp_path / "target").iterdir()} == {"sorted"}


def test_names_that_are_not_utf8_keep_their_bytes(photos: Path, tmp_path: Path) -> None:
    odd = os.fsdecode(b"caf\xe9.png")
    next(photos.rglob("*.png")).rename(photos / odd)
    out = export_folders(fitted(photos, tmp_path), tmp_path / "sorted")
    assert odd in {path.name for path in out.rglob("*.png")}


def test_a_full_disk_leaves_nothing(photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = fitted(photos, tmp_path)
    before = files_of(tmp_path)
    copies = iter(range(5))

    def limited(source: Path, target: Path) -> None:
        target.write_bytes(b"half of it")
        if next(copies, None) is None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(shutil, "copyfile", limited)
    with pytest.raises(
        CannotWrite, match=r"No space left on device\). Expected a writable place .* nothing half-written"
    ):
        export_folders(folder, tmp_path / "new" / "sorted")
    assert files_of(tmp_path) == before
    assert not list((tmp_path / "new").iterdir())
