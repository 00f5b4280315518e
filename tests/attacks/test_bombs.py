"""Small files that claim, or unpack to, gigabytes: read in a process of its own, with its peak memory measured."""

from __future__ import annotations

import io
import json
import os
import struct
import subprocess
import sys
import tarfile
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tests.data.samples import noise, picture, save_many

PEAK_MB = 1000
"""Less than the 1,500 MB of the whole program, as the networks are not loaded here."""

CPU_SECONDS = 15
SPARSE_BYTES = 3_000_000_000

READER = """
import json, sys
from selfsort.data import read_source
from selfsort.errors import SelfsortError
try:
    read = read_source(sys.argv[1], max_bad=1.0, labels=sys.argv[2] or None)
    print(json.dumps([len(read), [skipped["reason"] for skipped in read.ingest["skipped"]]]))
except SelfsortError as error:
    print(json.dumps([0, [str(error)]]))
"""


def read_within_bounds(source: Path, labels: Path | None = None) -> tuple[int, str]:
    """Read a source and return how many images there are and what was refused; assert what it took."""
    command = [sys.executable, "-c", READER, str(source), str(labels or "")]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        said = child.stdout.read()
        _, status, used = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    assert child.returncode == 0
    peak_mb = used.ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10)
    assert peak_mb < PEAK_MB
    # Processor time, as the clock on the wall also measures what else the machine does.
    assert used.ru_utime + used.ru_stime < CPU_SECONDS
    n_read, refused = json.loads(said)
    return n_read, "; ".join(refused)


def sparse(path: Path, head: bytes) -> None:
    """Write a file that is gigabytes long and takes no room on the disk."""
    with path.open("wb") as file:
        file.write(head)
        file.truncate(SPARSE_BYTES)


def encoded(kind: str, **options: Any) -> bytes:
    stream = io.BytesIO()
    picture(noise()).save(stream, kind, **options)
    return stream.getvalue()


def write_column(archive: zipfile.ZipFile, name: str, descr: str, n_values: int) -> None:
    """Write an array of zeros that is far larger than what it is packed to."""
    with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
        header = io.BytesIO()
        np.lib.format.write_array_header_1_0(header, {"descr": descr, "fortran_order": False, "shape": (n_values,)})
        file.write(header.getvalue())
        left = n_values * np.dtype(descr).itemsize
        while left:
            left -= file.write(bytes(min(left, 1 << 24)))


def write_npz(path: Path, name: str, descr: str, n_values: int) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        images = io.BytesIO()
        np.save(images, np.zeros((10, 8, 8), np.uint8))
        archive.writestr("images.npy", images.getvalue())
        write_column(archive, name, descr, n_values)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "descr", "n_values", "message"),
    [
        ("labels", "|u1", 3_000_000_000, r"one entry per image (10); got shape (3000000000,)"),
        ("labels", "<U60000000", 10, "texts of at most 4096 bytes each; got 240000000 bytes"),
        ("names", "<U1", 700_000_000, "name at most 65536 classes; got 700000000"),
        ("names", "<U70000000", 10, "texts of at most 4096 bytes each; got 280000000 bytes"),
    ],
)
def test_an_archive_with_gigabytes_of_labels(
    tmp_path: Path, name: str, descr: str, n_values: int, message: str
) -> None:
    write_npz(tmp_path / "a.npz", name, descr, n_values)
    n_read, refused = read_within_bounds(tmp_path / "a.npz")
    assert n_read == 0
    assert message in refused


def test_a_sparse_file_of_labels(tmp_path: Path) -> None:
    np.save(tmp_path / "images.npy", np.zeros((10, 8, 8), np.uint8))
    header = io.BytesIO()
    shape = (SPARSE_BYTES - 128,)
    np.lib.format.write_array_header_1_0(header, {"descr": "|u1", "fortran_order": False, "shape": shape})
    sparse(tmp_path / "labels.npy", header.getvalue())
    assert (
        "must have one entry per image (10)" in read_within_bounds(tmp_path / "images.npy", tmp_path / "labels.npy")[1]
    )
    for name in ("labels.txt", "labels.csv"):
        sparse(tmp_path / name, b"name,label\n0,1\n")
        assert "must be a csv, text" in read_within_bounds(tmp_path / "images.npy", tmp_path / name)[1]


def test_a_sparse_list_file(tmp_path: Path) -> None:
    sparse(tmp_path / "list.txt", b"a.png\n" * 1000)
    assert "must be text, one path a line" in read_within_bounds(tmp_path / "list.txt")[1]


def test_a_sparse_archive_with_an_endless_index(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    sparse(path, b"PK\x03\x04")
    n_bytes = SPARSE_BYTES - 22
    with path.open("r+b") as file:
        file.seek(n_bytes)
        file.write(struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, 1, 1, n_bytes, 0, 0))
    assert "must be a whole, undamaged file" in read_within_bounds(path)[1]


PNG = encoded("PNG")
SPARSE_HEADS = {
    "zeros.png": b"",
    "trailing.jpg": encoded("JPEG"),
    "searched.jpg": b"\xff\xd8\xff",
    "text.png": PNG[:33] + struct.pack(">I", 2**31 - 1) + b"tEXta\0",
    "late-text.png": PNG[:-12] + struct.pack(">I", 2**31 - 1) + b"tEXta\0",
    "trailing.webp": encoded("WEBP"),
    "trailing.avif": encoded("AVIF"),
    "ftyp.heic": b"\0\0\0\x18ftypheic\0\0\0\0heicmif1",
    "blocks.gif": encoded("GIF")[:13],
    "tag.tif": b"II*\0\x08\0\0\0\x02\0"
    + struct.pack("<HHII", 256, 4, 1, 16)
    + struct.pack("<HHII", 700, 1, 2_900_000_000, 400),
}


def test_sparse_pictures(tmp_path: Path) -> None:
    folder = tmp_path / "pictures"
    save_many(folder, 3)
    for name, head in SPARSE_HEADS.items():
        sparse(folder / name, head)
    n_read, _ = read_within_bounds(folder)
    assert n_read == 3 + 1  # what follows a whole JPEG is not looked at


def test_a_sparse_shard(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        for number in range(3):
            member = tarfile.TarInfo(f"{number}.png")
            member.size = len(PNG)
            archive.addfile(member, io.BytesIO(PNG))
        start = archive.offset
    member = tarfile.TarInfo("bomb.webp")
    member.size = 2_900_000_000 // 512 * 512
    with (tmp_path / "a.tar").open("r+b") as file:
        file.seek(start)
        file.write(member.tobuf())
        file.write(encoded("WEBP"))
        file.truncate(start + 512 + member.size + 10_240)
    n_read, refused = read_within_bounds(tmp_path / "a.tar")
    assert n_read == 3
    assert "too large" in refused


@pytest.mark.parametrize("start", [b"Exif\0\0MM\0*\0\0\0\x08", b"http://ns.adobe.com/xap/1.0/\0", b""])
def test_a_jpeg_with_fifty_megabytes_of_segments(tmp_path: Path, start: bytes) -> None:
    save_many(tmp_path, 3)
    jpeg, body = encoded("JPEG"), start.ljust(65_533, b"\1")
    segment = b"\xff\xe1" + struct.pack(">H", len(body) + 2) + body
    (tmp_path / "a.jpg").write_bytes(jpeg[:2] + 800 * segment + jpeg[2:])
    n_read, refused = read_within_bounds(tmp_path)
    assert n_read == 3
    assert "too large: it holds far more than the pixels it promises" in refused


def png_of_zeros(side: int, color_type: int, depth: int, *chunks: tuple[bytes, bytes]) -> bytes:
    """A sound PNG, small on the disk, with as many pixels as wanted."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    n_channels = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}[color_type]
    row, packer = bytes(1 + side * n_channels * depth // 8), zlib.compressobj(1)
    rows = b"".join(packer.compress(row) for _ in range(side)) + packer.flush()
    header = struct.pack(">IIBBBBB", side, side, depth, color_type, 0, 0, 0)
    parts = [(b"IHDR", header), *chunks, (b"IDAT", rows), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunk(*part) for part in parts)


def turned() -> bytes:
    exif = Image.Exif()
    exif[0x0112] = 6
    return exif.tobytes().removeprefix(b"Exif\0\0")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("color_type", "depth", "chunks"),
    [
        (2, 8, [(b"eXIf", turned())]),
        (6, 8, []),
        (0, 16, []),
        (3, 8, [(b"PLTE", bytes(768)), (b"tRNS", b"\0\x80")]),
    ],
    ids=["turned", "transparent", "16 bit", "palette"],
)
def test_a_png_of_178_megapixels_is_read(
    tmp_path: Path, color_type: int, depth: int, chunks: list[tuple[bytes, bytes]]
) -> None:
    save_many(tmp_path, 3)
    (tmp_path / "a.png").write_bytes(png_of_zeros(13_377, color_type, depth, *chunks))
    assert read_within_bounds(tmp_path) == (4, "")


def test_a_row_of_a_hundred_million_pixels_is_refused(tmp_path: Path) -> None:
    save_many(tmp_path, 3)
    content = bytearray(png_of_zeros(1, 6, 8))
    content[16:24] = struct.pack(">II", 100_000_000, 1)
    content[29:33] = struct.pack(">I", zlib.crc32(bytes(content[12:29])))
    (tmp_path / "a.png").write_bytes(content)
    n_read, refused = read_within_bounds(tmp_path)
    assert n_read == 3
    assert "too large: decoding it would fill" in refused
