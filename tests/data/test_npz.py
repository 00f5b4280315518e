from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from selfsort.data import read_source
from selfsort.errors import InvalidInput
from selfsort.types import U8


def pixels(n: int = 10, *shape: int) -> U8:
    return np.random.default_rng(0).integers(0, 256, (n, *(shape or (6, 5))), dtype=np.uint8)


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_images_and_labels_come_back(tmp_path: Path, save: Any) -> None:
    labels = np.arange(10, dtype=np.uint8) % 3
    save(tmp_path / "a.npz", images=pixels(), labels=labels)
    data = read_source(tmp_path / "a.npz")
    assert (data.images.pixels[..., 0] == pixels()).all()
    assert data.names[3] == "3"
    assert data.paths is None
    assert data.labels is not None
    assert data.labels.tolist() == labels.tolist()
    assert data.label_names is None
    assert data.ingest["labels"] == "the source"


def test_npy(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", pixels(4, 6, 5, 3))
    assert (read_source(tmp_path / "a.npy").images.pixels == pixels(4, 6, 5, 3)).all()


def test_blocks_fortran_order_and_channels_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("selfsort.data.tables.BLOCK_BYTES", 100)
    array = pixels(10, 3, 6, 5)
    np.save(tmp_path / "c.npy", array)
    np.save(tmp_path / "f.npy", np.asfortranarray(array))
    expected = array.transpose(0, 2, 3, 1)
    for name in ("c.npy", "f.npy"):
        assert (read_source(tmp_path / name).images.pixels == expected).all()
    mapped = read_source(tmp_path / "c.npy", memory_bytes=0)
    assert (mapped.images.pixels == expected).all()
    assert mapped.ingest["stored"] == "memory-mapped"


def test_floats_are_scaled(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", images=pixels() / 255)
    assert (read_source(tmp_path / "a.npz").images.pixels[..., 0] == pixels()).all()


def test_where_keeps_rows_their_numbers_and_their_labels(tmp_path: Path) -> None:
    split = np.array([0, 1] * 5)
    np.savez(tmp_path / "a.npz", images=pixels(), labels=np.arange(10) // 2, split=split, part=split.astype(str))
    data = read_source(tmp_path / "a.npz", where="split=1")
    assert data.names == ("1", "3", "5", "7", "9")
    assert (data.images.pixels[..., 0] == pixels()[1::2]).all()
    assert data.labels is not None
    assert data.labels.tolist() == [0, 1, 2, 3, 4]
    assert data.ingest["found"] == 5
    again = read_source(tmp_path / "a.npz", where="part=1")
    assert again.fingerprint == data.fingerprint


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("spilt=1", r"name one of the source's arrays \(labels, split, other\); got 'spilt'"),
        ("split=7", r"match some rows \(split holds 0, 1\); got 'split=7'"),
        ("split=x", r"give a value for 'split' \(int64\); got 'x'"),
        ("other=1", r"name an array with one value per image \(10\); got 'other' of shape \(3,\)"),
    ],
)
def test_where_that_cannot_be(tmp_path: Path, where: str, message: str) -> None:
    np.savez(tmp_path / "a.npz", images=pixels(), labels=np.zeros(10), split=np.array([0, 1] * 5), other=np.ones(3))
    with pytest.raises(InvalidInput, match="--where must " + message):
        read_source(tmp_path / "a.npz", where=where)


def test_class_names_travel_with_labels(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", images=pixels(4), labels=[2, 0, 2, 0], names=np.array(["ant", "bee", "cat"]))
    data = read_source(tmp_path / "a.npz")
    assert data.label_names == ("ant", "cat")
    assert data.labels is not None
    assert data.labels.tolist() == [1, 0, 1, 0]


def test_size_and_channels_apply_to_arrays(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", images=pixels())
    data = read_source(tmp_path / "a.npz", size=12, channels=3)
    assert data.images.pixels.shape == (10, 12, 12, 3)
    assert data.ingest["size_reason"] == "asked for"


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        (
            {"images": pixels(), "labels": np.zeros(9)},
            r"labels in a.npz must have one entry per image \(10\); got shape",
        ),
        (
            {"images": pixels(), "labels": np.full(10, 0.5)},
            "labels must be a list of whole numbers or texts; got float64",
        ),
        ({"x": pixels(), "y": pixels()}, "a.npz must hold an array called images; got x, y"),
        ({"images": np.zeros((10, 4))}, r"In a.npz \(images.npy\): flat images must come with image_shape"),
        ({"images": np.full((4, 3, 3), np.nan)}, r"In a.npz \(images.npy\): images must be finite numbers; got NaN"),
        ({"images": np.full((4, 3, 3), 9.0)}, "float64 images must lie in 0..1; got values from 9 to 9"),
        ({"images": np.array([["a"]])}, "In a.npz .*images must be numbers"),
        ({"images": pixels(1)}, "hold at least 2 readable images; got 1"),
    ],
)
def test_wrong_contents(tmp_path: Path, arrays: dict[str, Any], message: str) -> None:
    np.savez(tmp_path / "a.npz", **arrays)
    with pytest.raises(InvalidInput, match=message):
        read_source(tmp_path / "a.npz")


def test_pickles_are_not_opened(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", images=np.array([{"a": 1}, None], dtype=object))
    with pytest.raises(InvalidInput, match="must hold numbers; got pickled Python objects, which are not opened"):
        read_source(tmp_path / "a.npz")
    np.savez(tmp_path / "b.npz", images=pixels(), labels=np.array([{}] * 10, dtype=object))
    with pytest.raises(InvalidInput, match=r"b.npz \(labels.npy\) must hold numbers; got pickled"):
        read_source(tmp_path / "b.npz")


def header(shape: str, extra: bytes = b"") -> bytes:
    text = f"{{'descr': '|u1', 'fortran_order': False, 'shape': {shape}, }}".encode() + extra
    return b"\x93NUMPY\x01\x00" + (len(text) + 1).to_bytes(2, "little") + text + b"\n"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (header("(10, 6, 5)") + bytes(100), "a header that promises 300 bytes, and 100 bytes of data"),
        (header("(999999999999, 999, 999)") + bytes(100), "a header that promises 998000"),
        (header("(-10, 6, 5)") + bytes(300), "a header that promises -300 bytes"),
        (header("(10, 6, 5)") + bytes(301), "a header that promises 300 bytes, and 301"),
        (header("(10, 6, 5)", b" " * 20_000) + bytes(300), "a header that cannot be read"),
        (header("__import__('os')") + bytes(300), "a header that cannot be read"),
        (b"\x93NUMPY\x01\x00", "a header that cannot be read"),
        (b"\x93NUMPY\x09\x00" + bytes(100), "a header that cannot be read"),
        (b"\x93NUMPY\x02\x00\xff\xff\xff\xff" + bytes(100), "a header that cannot be read"),
    ],
)
def test_headers_that_lie(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "a.npy").write_bytes(content)
    with pytest.raises(InvalidInput, match="a.npy must be a whole, undamaged file; got " + message):
        read_source(tmp_path / "a.npy")
    with zipfile.ZipFile(tmp_path / "a.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("images.npy", content)
    with pytest.raises(InvalidInput, match=r"a.npz \(images.npy\) must be a whole, undamaged file; got " + message):
        read_source(tmp_path / "a.npz")


def test_a_damaged_archive(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    np.savez(buffer, images=pixels())
    whole = bytearray(buffer.getvalue())
    (tmp_path / "cut.npz").write_bytes(whole[:200])
    with pytest.raises(InvalidInput, match=r"cut.npz must be a whole, undamaged file"):
        read_source(tmp_path / "cut.npz")
    whole[250] ^= 255  # inside the pixels: only the checksum can tell
    (tmp_path / "flip.npz").write_bytes(whole)
    with pytest.raises(InvalidInput, match=r"flip.npz \(images.npy\) must be a whole, undamaged file; got Bad CRC"):
        read_source(tmp_path / "flip.npz")
