"""Binary layouts, from files written byte by byte as their descriptions say."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path

import numpy as np
import pytest

from selfsort.data import Dataset, read_source
from selfsort.data.options import ReadOptions
from selfsort.errors import InvalidInput
from selfsort.types import U8


def random(*shape: int, seed: int = 0) -> U8:
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


def true(data: Dataset) -> list[int]:
    assert data.labels is not None
    values: list[int] = data.labels.tolist()
    return values


def idx_images(pixels: U8) -> bytes:
    return struct.pack(">IIII", 0x0803, *pixels.shape) + pixels.tobytes()


def idx_labels(labels: list[int]) -> bytes:
    return struct.pack(">II", 0x0801, len(labels)) + bytes(labels)


def save_mnist(folder: Path, *, pack: bool = False) -> U8:
    """Four train and three test images, 5 high and 4 wide."""
    pixels = random(7, 5, 4)
    parts = {"train": (pixels[:4], [0, 1, 2, 0]), "t10k": (pixels[4:], [2, 1, 1])}
    for name, (images, labels) in parts.items():
        for file, content in (
            (f"{name}-images-idx3-ubyte", idx_images(images)),
            (f"{name}-labels-idx1-ubyte", idx_labels(labels)),
        ):
            (folder / (file + ".gz" * pack)).write_bytes(gzip.compress(content) if pack else content)
    return pixels


@pytest.mark.parametrize("pack", [False, True])
def test_idx_folder_train_first(tmp_path: Path, pack: bool) -> None:
    pixels = save_mnist(tmp_path, pack=pack)
    data = read_source(tmp_path)
    assert data.ingest["kind"] == "idx"
    assert (data.images.pixels[..., 0] == pixels).all()
    assert true(data) == [0, 1, 2, 0, 2, 1, 1]
    test = read_source(tmp_path, where="split=1")
    assert test.names == ("4", "5", "6")
    assert (test.images.pixels[..., 0] == pixels[4:]).all()


def test_idx_file_finds_its_labels(tmp_path: Path) -> None:
    pixels = save_mnist(tmp_path)
    data = read_source(tmp_path / "t10k-images-idx3-ubyte")
    assert (data.images.pixels[..., 0] == pixels[4:]).all()
    assert data.label_names == ("1", "2")  # no zeros among these three
    assert true(data) == [1, 0, 0]
    (tmp_path / "t10k-labels-idx1-ubyte").unlink()
    assert read_source(tmp_path / "t10k-images-idx3-ubyte").labels is None
    with pytest.raises(InvalidInput, match=r"must hold images; got idx labels. Name the images file"):
        read_source(tmp_path / "train-labels-idx1-ubyte")


def test_labels_count_only_if_every_image_has_one(tmp_path: Path) -> None:
    save_mnist(tmp_path)
    (tmp_path / "t10k-labels-idx1-ubyte").unlink()
    assert read_source(tmp_path).labels is None
    assert true(read_source(tmp_path, where="split=0")) == [0, 1, 2, 0]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (idx_images(random(4, 5, 4))[:-1], "4 images of 5x4 promised in a file of 95 bytes"),
        (idx_images(random(4, 5, 4)) + b"x", "4 images of 5x4 promised in a file of 97 bytes"),
        (struct.pack(">IIII", 0x0803, 2**31, 2**15, 2**15), "promised in a file of 16 bytes"),
        (struct.pack(">IIII", 0x0803, 0, 5, 5), "0 images of 5x5 promised"),
        (gzip.compress(idx_images(random(4, 50, 40)))[:-900], "end-of-stream"),
        (gzip.compress(idx_images(random(4, 5, 4))[:-1]), "it ends 1 bytes too early"),
        (gzip.compress(idx_images(random(4, 5, 4)) + b"x"), "more than the 4 images it promises"),
        (gzip.compress(struct.pack(">IIII", 0x0803, 2**31, 2**15, 2**15)), "promised in a file of"),
        (struct.pack(">II", 0x0803, 1), "it ends 8 bytes too early"),
    ],
    ids=["short", "long", "huge", "none", "cut gzip", "short gzip", "long gzip", "huge gzip", "header"],
)
def test_damaged_idx(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "train-images-idx3-ubyte"
    path.write_bytes(content)
    with pytest.raises(InvalidInput, match="train-images-idx3-ubyte must be a whole, undamaged file; got .*" + message):
        read_source(path)


def test_idx_labels_of_the_wrong_length(tmp_path: Path) -> None:
    save_mnist(tmp_path)
    (tmp_path / "train-labels-idx1-ubyte").write_bytes(idx_labels([1, 2]))
    with pytest.raises(InvalidInput, match=r"train-labels-idx1-ubyte must have one entry per image \(4\); got 2"):
        read_source(tmp_path)
    (tmp_path / "train-labels-idx1-ubyte").write_bytes(idx_labels([1, 2, 3, 4])[:-1])
    with pytest.raises(InvalidInput, match="4 labels promised, 3 found"):
        read_source(tmp_path)


def cifar(pixels: U8, *labels: list[int]) -> bytes:
    """Records of label bytes, then the red, green and blue planes."""
    rows = zip(*labels, pixels, strict=True)
    return b"".join(bytes(row[:-1]) + row[-1].transpose(2, 0, 1).tobytes() for row in rows)


def test_cifar_10_folder(tmp_path: Path) -> None:
    pixels = random(5, 32, 32, 3)
    (tmp_path / "data_batch_1.bin").write_bytes(cifar(pixels[:2], [3, 9]))
    (tmp_path / "data_batch_2.bin").write_bytes(cifar(pixels[2:3], [0]))
    (tmp_path / "test_batch.bin").write_bytes(cifar(pixels[3:], [9, 3]))
    (tmp_path / "batches.meta.txt").write_text("\n".join("abcdefghij") + "\n\n")
    data = read_source(tmp_path)
    assert data.ingest["kind"] == "cifar-10"
    assert (data.images.pixels == pixels).all()
    assert data.label_names == ("a", "d", "j")
    assert true(data) == [1, 2, 0, 2, 1]
    assert true(read_source(tmp_path / "test_batch.bin")) == [1, 0]
    assert read_source(tmp_path, where="split=1").names == ("3", "4")


def test_cifar_100_takes_the_fine_label(tmp_path: Path) -> None:
    pixels = random(3, 32, 32, 3)
    (tmp_path / "train.bin").write_bytes(cifar(pixels[:2], [1, 1], [99, 4]))
    (tmp_path / "test.bin").write_bytes(cifar(pixels[2:], [0], [7]))
    data = read_source(tmp_path)
    assert data.ingest["kind"] == "cifar-100"
    assert (data.images.pixels == pixels).all()
    assert data.label_names == ("4", "7", "99")
    assert true(data) == [2, 0, 1]


def test_cifar_100_coarse_labels(tmp_path: Path) -> None:
    pixels = random(3, 32, 32, 3)
    (tmp_path / "train.bin").write_bytes(cifar(pixels[:2], [19, 4], [99, 4]))
    (tmp_path / "test.bin").write_bytes(cifar(pixels[2:], [19], [7]))
    (tmp_path / "coarse_label_names.txt").write_text("\n".join(f"group {i}" for i in range(20)))
    data = read_source(tmp_path, labels="coarse")
    assert true(data) == [1, 0, 1]
    assert data.label_names == ("group 4", "group 19")
    assert data.ingest["settings"]["labels"] == "coarse"
    assert read_source(tmp_path, where="coarse=19").names == ("0", "2")
    reading = ReadOptions(path=str(tmp_path), labels="coarse")
    assert reading.to_json()["labels"] == "coarse"
    assert true(ReadOptions.from_json(reading.to_json()).read()) == [1, 0, 1]


def test_coarse_labels_are_cifar_100s_alone(tmp_path: Path) -> None:
    (tmp_path / "test_batch.bin").write_bytes(cifar(random(2, 32, 32, 3), [3, 9]))
    with pytest.raises(
        InvalidInput, match=r"--labels coarse must be asked of the CIFAR-100 binaries; got .*Name a file"
    ):
        read_source(tmp_path, labels="coarse")
    (tmp_path / "test_batch.bin").unlink()
    (tmp_path / "test.bin").write_bytes(cifar(random(2, 32, 32, 3), [3, 20], [5, 6]))
    with pytest.raises(InvalidInput, match="got the label 20 among 20 classes"):
        read_source(tmp_path)


def test_the_labelled_part_and_the_first_stage_of_stl_10(tmp_path: Path) -> None:
    for name, n in (("train", 1), ("test", 2), ("unlabeled", 3)):
        (tmp_path / f"{name}_X.bin").write_bytes(bytes(27648 * n))
    (tmp_path / "train_y.bin").write_bytes(bytes([1]))
    (tmp_path / "test_y.bin").write_bytes(bytes([1, 2]))
    for where in ("split=0,1", "split!=2"):
        assert true(read_source(tmp_path, where=where)) == [0, 0, 1]
    assert len(read_source(tmp_path, where="split=0,2")) == 4


def test_damaged_cifar(tmp_path: Path) -> None:
    pixels = random(2, 32, 32, 3)
    (tmp_path / "test_batch.bin").write_bytes(cifar(pixels, [3, 10]))
    with pytest.raises(InvalidInput, match=r"test_batch.bin must be a whole.*; got the label 10 among 10 classes"):
        read_source(tmp_path)
    (tmp_path / "test_batch.bin").write_bytes(cifar(pixels, [3, 4])[:-1])
    with pytest.raises(InvalidInput, match="6145 bytes, which is no whole number of CIFAR"):
        read_source(tmp_path / "test_batch.bin")


def test_stl_10_is_stored_column_by_column(tmp_path: Path) -> None:
    pixels = random(3, 96, 96, 3)
    # (n, y, x, c) on screen; on disk each plane runs down the columns: (n, c, x, y).
    on_disk = pixels.transpose(0, 3, 2, 1)
    (tmp_path / "train_X.bin").write_bytes(on_disk[:2].tobytes())
    (tmp_path / "train_y.bin").write_bytes(bytes([1, 10]))
    (tmp_path / "unlabeled_X.bin").write_bytes(on_disk[2:].tobytes())
    (tmp_path / "class_names.txt").write_text("\n".join("abcdefghij"))
    data = read_source(tmp_path)
    assert data.ingest["kind"] == "stl-10"
    assert (data.images.pixels == pixels).all()
    assert data.labels is None  # one image has none
    train = read_source(tmp_path, where="split=0")
    assert true(train) == [0, 1]
    assert train.label_names == ("a", "j")
    assert (read_source(tmp_path / "train_X.bin").images.pixels == pixels[:2]).all()


def test_damaged_stl_10(tmp_path: Path) -> None:
    (tmp_path / "test_X.bin").write_bytes(bytes(27648 * 2 - 1))
    with pytest.raises(InvalidInput, match="55295 bytes, which is not a whole number of 27648-byte images"):
        read_source(tmp_path)
    (tmp_path / "test_X.bin").write_bytes(bytes(27648 * 2))
    (tmp_path / "test_y.bin").write_bytes(bytes([1, 2, 3]))
    with pytest.raises(InvalidInput, match=r"labels in test_y.bin must have one entry per image \(2\); got 3"):
        read_source(tmp_path)


def test_files_of_one_folder_must_agree(tmp_path: Path) -> None:
    save_mnist(tmp_path)
    (tmp_path / "extra-images-idx3-ubyte").write_bytes(idx_images(random(2, 6, 6)))
    with pytest.raises(InvalidInput, match=r"must hold images of one size; got 5x4x1, 6x6x1"):
        read_source(tmp_path)


def test_blocks_do_not_change_the_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save_mnist(tmp_path, pack=True)
    whole = read_source(tmp_path, where="labels=1")
    monkeypatch.setattr("selfsort.data.tables.BLOCK_BYTES", 1)
    assert read_source(tmp_path, where="labels=1").fingerprint == whole.fingerprint
    assert len(whole) == 3
