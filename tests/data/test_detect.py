"""What a source is, found by looking inside."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from selfsort.data import read_source
from selfsort.errors import InvalidInput, MissingData


def test_a_source_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(MissingData, match=r"nowhere is not there. Expected a folder or a zip of pictures, .*Check"):
        read_source(tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.bin", bytes(1000), "1000 bytes, which is no whole number of CIFAR or STL-10 images"),
        ("a", b"", "an empty file"),
        ("a.gz", b"\x1f\x8b" + bytes(30), "a gzip file that is no idx file. Unpack it first"),
        ("a.dat", bytes(range(40)), "bytes of no known format"),
        ("a.npz", b"this is text", "bytes of no known format"),
        ("a.jpg", b"\xff\xd8\xff\xe0" + bytes(40), "the single picture .*Name the folder"),
    ],
)
def test_files_of_no_use(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InvalidInput, match=message):
        read_source(tmp_path / name)


def test_folders_of_no_use(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="must hold pictures; got nothing"):
        read_source(tmp_path)
    np.savez(tmp_path / "a.npz", images=np.zeros((2, 2, 2), np.uint8))
    with pytest.raises(InvalidInput, match=r"must hold pictures; got a.npz. Name that file as the source"):
        read_source(tmp_path)
    (tmp_path / "batches.meta").touch()
    with pytest.raises(InvalidInput, match=r'be in the binary version; got pickled files. Get the "binary version"'):
        read_source(tmp_path)
