from __future__ import annotations

import struct
import zipfile
from pathlib import Path

import numpy as np
import pytest
from tests.data.samples import noise
from tests.data.test_shards import encoded

from selfsort.data import read_source, zipped
from selfsort.errors import InvalidInput


def save(path: Path, members: dict[str, bytes], packing: int = zipfile.ZIP_DEFLATED) -> Path:
    with zipfile.ZipFile(path, "w", packing) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


def pictures(n: int) -> dict[str, bytes]:
    return {f"{'ab'[i % 2]}/{i:02d}.png": encoded(noise(seed=i)) for i in range(n)}


def reasons(path: Path) -> dict[str, str]:
    return {one["name"]: one["reason"] for one in read_source(path, max_bad=1.0).ingest["skipped"]}


@pytest.mark.parametrize("packing", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_a_zip_is_read_as_the_folder_would_be(tmp_path: Path, packing: int) -> None:
    held = pictures(6)
    for name, content in held.items():
        (tmp_path / "photos" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "photos" / name).write_bytes(content)
    others = {"__MACOSX/a/._00.png": b"x", ".hidden.png": b"x", "notes.txt": b"x", "empty/": b""}
    found = read_source(save(tmp_path / "photos.zip", held | others, packing), labels_from_folders=True)
    folder = read_source(tmp_path / "photos", labels_from_folders=True)
    assert found.names == folder.names
    np.testing.assert_array_equal(found.images.pixels, folder.images.pixels)
    assert found.labels is not None
    assert folder.labels is not None
    np.testing.assert_array_equal(found.labels, folder.labels)
    assert (found.ingest["kind"], found.paths) == ("zip", None)
    assert found.ingest["ignored"][".txt"] == 1


@pytest.mark.parametrize("name", ["../../out.png", "/etc/out.png", "C:out.png", "a/../../out.png"])
def test_names_that_lead_out_are_skipped(tmp_path: Path, name: str) -> None:
    path = save(tmp_path / "a.zip", {**pictures(3), name: encoded(noise(seed=9))})
    assert reasons(path) == {name: "its name leads out of the archive"}


def test_a_name_that_is_there_twice_is_one_picture(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        for i, name in enumerate(["a.png", "b.png", "c.png"]):
            archive.writestr(name, encoded(noise(seed=i)))
    (tmp_path / "a.zip").write_bytes((tmp_path / "a.zip").read_bytes().replace(b"c.png", b"a.png"))
    assert reasons(tmp_path / "a.zip") == {"a.png": "its name is there twice"}


def test_a_member_that_is_damaged_or_lies_about_its_size(tmp_path: Path) -> None:
    path = save(tmp_path / "a.zip", pictures(4), zipfile.ZIP_STORED)
    content = bytearray(path.read_bytes())
    with zipfile.ZipFile(path) as archive:
        first, second = archive.infolist()[:2]
    content[first.header_offset + 60] ^= 0xFF
    index = content.index(second.filename.encode(), content.index(b"PK\x01\x02")) - 46
    content[index + 24 : index + 28] = struct.pack("<I", second.file_size - 5)
    path.write_bytes(content)
    assert set(reasons(path)) == {first.filename, second.filename}


def test_a_link_and_a_strange_packing(tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in pictures(3).items():
            archive.writestr(name, content)
        link = zipfile.ZipInfo("link.png")
        link.external_attr = 0o120777 << 16
        archive.writestr(link, "/etc/passwd")
        archive.writestr("packed.png", encoded(noise(seed=8)), zipfile.ZIP_LZMA)
    assert reasons(path) == {
        "link.png": "not a regular file",
        "packed.png": "it is packed in a way that only its own program reads",
    }


def test_a_bomb_is_not_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zipped, "LARGEST_PICTURE", 1 << 20)
    path = save(tmp_path / "a.zip", {**pictures(3), "bomb.png": bytes(4 << 20)})
    assert reasons(path) == {"bomb.png": "it is larger than 1 MiB"}
    monkeypatch.setattr(zipped, "MOST_BYTES", 1 << 20)
    with pytest.raises(InvalidInput, match="unpack to at most"):
        read_source(path)
    monkeypatch.setattr(zipped, "MOST_MEMBERS", 2)
    with pytest.raises(InvalidInput, match="hold at most 2 files"):
        read_source(path)


def test_an_index_that_promises_less_than_is_packed_unpacks_no_more(tmp_path: Path) -> None:
    path = save(tmp_path / "a.zip", {**pictures(3), "bomb.png": bytes(8 << 20)})
    content = bytearray(path.read_bytes())
    index = content.index(b"bomb.png", content.index(b"PK\x01\x02")) - 46
    content[index + 24 : index + 28] = struct.pack("<I", 100)
    path.write_bytes(content)
    assert reasons(path) == {"bomb.png": "damaged inside the zip: not what its index says"}


def test_an_archive_of_arrays_stays_one(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", images=np.zeros((3, 4, 4), np.uint8))
    assert read_source(tmp_path / "a.npz").ingest["kind"] == "npz"
