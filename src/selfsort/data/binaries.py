"""The binary layouts of three well-known datasets: idx (MNIST), CIFAR-10/100 batches, STL-10.

In a folder all image files are read, training images first. `--where split=0` keeps the training images,
1 the test images, 2 the unlabelled ones of STL-10. Labels count if every image that is kept has one.
"""

from __future__ import annotations

import gzip
import struct
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from selfsort.data.folder import printable
from selfsort.data.tables import Part, Readable, Table, block_rows, damaged, read_block
from selfsort.errors import invalid
from selfsort.types import I64, U8

NO_LABEL = -1
_IDX_IMAGES, _IDX_LABELS = 0x0803, 0x0801
_GZIP_MAX_RATIO = 1032  # deflate cannot pack tighter; a header that promises more is a lie
_N_COARSE = 20
_CIFAR_PIXELS, _STL_PIXELS = 3 * 32 * 32, 3 * 96 * 96


@dataclass(frozen=True, eq=False)
class _File:
    """One image file of a dataset, with the labels that go with it."""

    name: str
    part: Part
    labels: I64 | None
    coarse: I64 | None = None
    """Superclasses, of CIFAR-100."""


def _split(name: str) -> int:
    lower = name.lower()
    return 2 if "unlabel" in lower else 1 if lower.startswith(("test", "t10k")) else 0


def _train_first(path: Path) -> tuple[int, str]:
    return _split(path.name), path.name


def _join(
    kind: str,
    files: Sequence[_File],
    label_names: tuple[str, ...] | None = None,
    coarse_names: tuple[str, ...] | None = None,
) -> Table:
    """Make one table of several files."""
    splits = np.concatenate([np.full(file.part.rows, _split(file.name)) for file in files])
    unknown = [np.full(file.part.rows, NO_LABEL, np.int64) for file in files]
    labels = np.concatenate([u if file.labels is None else file.labels for u, file in zip(unknown, files, strict=True)])
    columns = {"split": splits, "labels": labels}
    coarse = [file.coarse for file in files if file.coarse is not None]
    if coarse:
        columns["coarse"] = np.concatenate(coarse)
    return Table(
        kind,
        tuple(file.part for file in files),
        columns=columns.get,
        column_names=tuple(columns),
        labels=labels,
        unknown_label=NO_LABEL,
        label_names=label_names,
        other_labels={"coarse": (columns["coarse"], coarse_names)} if coarse else {},
    )


def _read_names(folder: Path, file: str) -> tuple[str, ...] | None:
    """Read the class names that come beside the data, one a line."""
    path = folder / file
    if not path.is_file():
        return None
    text = printable(path.read_text("utf-8", "surrogateescape"))
    return tuple(line.strip() for line in text.splitlines() if line.strip())


# ---- idx: the layout of MNIST, Fashion-MNIST, EMNIST --------------------------------------------------------


@contextmanager
def _unpacked(path: Path) -> Iterator[Readable]:
    """Open a file, unpacking gzip by content, and word its damage."""
    with path.open("rb") as file:
        is_packed = file.read(2) == b"\x1f\x8b"
    try:
        with gzip.open(path, "rb") if is_packed else path.open("rb") as stream:
            yield stream
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise damaged(printable(path.name), error) from error


def idx_kind(path: Path) -> int | None:
    """Return how many dimensions an idx file of bytes has (3 images, 1 labels); None if it is no such file."""
    try:
        with _unpacked(path) as stream:
            magic = int.from_bytes(stream.read(4), "big")
    except (OSError, ValueError):
        return None
    return {_IDX_IMAGES: 3, _IDX_LABELS: 1}.get(magic)


def idx_length(path: Path) -> int:
    """Return how many labels an idx file promises."""
    what = printable(path.name)
    with _unpacked(path) as stream:
        magic, count = struct.unpack(">II", read_block(stream, 8, what))
    if magic != _IDX_LABELS:
        raise damaged(what, f"magic number {magic:#06x}, which is not that of labels")
    return int(count)


def read_idx_labels(path: Path, n_images: int) -> I64:
    """Read an idx file of labels; what is not one for each image is not read."""
    what, count = printable(path.name), idx_length(path)
    if count != n_images:
        wanted = f"have one entry per image ({n_images})"
        raise invalid(f"the labels in {what}", wanted, count, "Get the matching file.")
    with _unpacked(path) as stream:
        read_block(stream, 8, what)
        data = stream.read(count + 1)
    if len(data) != count:
        raise damaged(what, f"{count} labels promised, {'more' if len(data) > count else len(data)} found")
    return np.frombuffer(data, np.uint8).astype(np.int64)


def open_idx(paths: Sequence[Path]) -> Table:
    """Open idx files of images, each with the labels that lie beside it."""
    files = []
    for path in sorted(paths, key=_train_first):
        part = _idx_part(path)
        beside = _idx_labels_of(path)
        labels = None if beside is None else read_idx_labels(beside, part.rows)
        files.append(_File(path.name, part, labels))
    return _join("idx", files)


def _idx_labels_of(path: Path) -> Path | None:
    """Find train-labels-idx1-ubyte beside train-images-idx3-ubyte, packed or not."""
    if "images" not in path.name:
        return None
    twin = path.name.replace("images", "labels").replace("idx3", "idx1").removesuffix(".gz")
    candidates = (path.with_name(twin), path.with_name(twin + ".gz"))
    return next((candidate for candidate in candidates if candidate.is_file()), None)


def _require_length(labels: I64, rows: int, path: Path) -> I64:
    if len(labels) != rows:
        wanted = f"have one entry per image ({rows})"
        raise invalid(f"the labels in {printable(path.name)}", wanted, len(labels), "Get the matching file.")
    return labels


def _idx_part(path: Path) -> Part:
    what = printable(path.name)
    with _unpacked(path) as stream:
        magic, count, height, width = struct.unpack(">IIII", read_block(stream, 16, what))
        is_packed = isinstance(stream, gzip.GzipFile)
    size = path.stat().st_size
    promised = 16 + count * height * width
    is_possible = promised <= size * _GZIP_MAX_RATIO if is_packed else promised == size
    if magic != _IDX_IMAGES or not count * height * width or not is_possible:
        raise damaged(what, f"{count} images of {height}x{width} promised in a file of {size} bytes")

    def blocks() -> Iterator[U8]:
        rows = block_rows(height * width)
        with _unpacked(path) as stream:
            read_block(stream, 16, what)
            for start in range(0, count, rows):
                n = min(rows, count - start)
                data = read_block(stream, n * height * width, what)
                yield np.frombuffer(data, np.uint8).reshape(n, height, width, 1)
            if stream.read(1):
                raise damaged(what, f"more than the {count} images it promises")

    return Part(count, (height, width, 1), blocks)


# ---- CIFAR and STL-10: records of fixed length, no header --------------------------------------------------


def _record_part(path: Path, record: int, shape: tuple[int, int, int], to_nhwc: Callable[[U8], U8]) -> Part:
    """Describe a file of equal records."""
    what, size = printable(path.name), path.stat().st_size
    if size == 0 or size % record:
        raise damaged(what, f"{size} bytes, which is not a whole number of {record}-byte images")

    def blocks() -> Iterator[U8]:
        rows = block_rows(record)
        with path.open("rb") as stream:
            for start in range(0, size // record, rows):
                n = min(rows, size // record - start)
                yield to_nhwc(np.frombuffer(read_block(stream, n * record, what), np.uint8).reshape(n, record))

    return Part(size // record, shape, blocks)


def is_cifar(path: Path) -> bool:
    """Say whether a .bin file has the size of CIFAR records."""
    size = path.stat().st_size
    return size > 0 and (size % (_CIFAR_PIXELS + 1) == 0 or size % (_CIFAR_PIXELS + 2) == 0)


def open_cifar(paths: Sequence[Path]) -> Table:
    """Open binary batches of CIFAR-10 (one label byte) or CIFAR-100 (coarse, fine; the fine one counts by itself)."""
    # Only one length fits any real file; a name that says "batch" settles what arithmetic leaves open.
    is_ten = any("batch" in path.name for path in paths) or all(
        path.stat().st_size % (_CIFAR_PIXELS + 1) == 0 for path in paths
    )
    n_labels, n_classes = (1, 10) if is_ten else (2, 100)
    files = []
    for path in sorted(paths, key=_train_first):
        record = n_labels + _CIFAR_PIXELS
        part = _record_part(path, record, (32, 32, 3), lambda rows: _planes(rows[:, n_labels:], 32))
        both = np.fromfile(path, np.uint8).reshape(-1, record)[:, :n_labels].astype(np.int64)
        labels, coarse = both[:, -1], None if is_ten else both[:, 0]
        for found, n in ((labels, n_classes), (coarse, _N_COARSE)):
            if found is not None and found.max() >= n:
                raise damaged(printable(path.name), f"the label {found.max()} among {n} classes")
        files.append(_File(path.name, part, labels, coarse))
    names = _read_names(paths[0].parent, "batches.meta.txt" if is_ten else "fine_label_names.txt")
    coarse_names = None if is_ten else _read_names(paths[0].parent, "coarse_label_names.txt")
    return _join("cifar-10" if is_ten else "cifar-100", files, names, coarse_names)


def _planes(rows: U8, side: int) -> U8:
    """Red, green and blue planes to pixels."""
    return np.ascontiguousarray(rows.reshape(-1, 3, side, side).transpose(0, 2, 3, 1))


def _columns(rows: U8) -> U8:
    """STL-10 stores each plane column by column: (c, x, y), not (c, y, x)."""
    return np.ascontiguousarray(rows.reshape(-1, 3, 96, 96).transpose(0, 3, 2, 1))


def open_stl10(paths: Sequence[Path]) -> Table:
    """Open train_X.bin, test_X.bin, unlabeled_X.bin with their labels (1..10 on disk, 0..9 here)."""
    files = []
    for path in sorted(paths, key=_train_first):
        part = _record_part(path, _STL_PIXELS, (96, 96, 3), _columns)
        beside = path.with_name(path.name.replace("_X", "_y"))
        labels = None
        if beside != path and beside.is_file():
            labels = np.fromfile(beside, np.uint8).astype(np.int64) - 1
            labels = _require_length(labels, part.rows, beside)
        files.append(_File(path.name, part, labels))
    return _join("stl-10", files, _read_names(paths[0].parent, "class_names.txt"))


def find_binaries(folder: Path) -> Table | None:
    """Recognise a folder that holds one of these datasets; None if it does not."""
    files = sorted(path for path in folder.iterdir() if path.is_file() and not path.name.startswith("."))
    stl = [path for path in files if path.name.endswith("_X.bin")]
    if stl:
        return open_stl10(stl)
    cifar = [path for path in files if path.suffix == ".bin" and is_cifar(path)]
    if cifar and {path.name for path in cifar} & {"test_batch.bin", "data_batch_1.bin", "train.bin", "test.bin"}:
        return open_cifar(cifar)
    idx = [path for path in files if "idx" in path.name and idx_kind(path) == 3]
    return open_idx(idx) if idx else None
