from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.data.samples import save_many

from selfsort.data import read_labels, read_source
from selfsort.data.labels import encode
from selfsort.errors import InvalidInput, MissingData


def labels_of(source: Path, labels: Path, **options: Any) -> tuple[list[int], tuple[str, ...] | None]:
    data = read_source(source, labels=labels, **options)
    assert data.labels is not None
    assert data.labels.dtype == np.int64
    assert data.ingest["settings"]["labels"] == str(labels)
    return data.labels.tolist(), data.label_names


def test_csv_names_its_images(tmp_path: Path) -> None:
    save_many(tmp_path / "s", 3)
    (tmp_path / "s" / "002.png").rename(tmp_path / "s" / "a,\nb.png")
    csv = tmp_path / "labels.csv"
    csv.write_text('"a,\nb.png",dog\n001.png, cat\n000.png,dog\nunused.png,cow\n')
    assert labels_of(tmp_path / "s", csv) == ([1, 0, 1], ("cat", "dog"))


def test_csv_with_a_header_and_further_columns(tmp_path: Path) -> None:
    save_many(tmp_path / "s", 2)
    csv = tmp_path / "labels.csv"
    csv.write_text("file,confidence,Label\n000.png,0.5,1\n001.png,0.6,0\n")
    assert labels_of(tmp_path / "s", csv) == ([1, 0], None)


def test_csv_for_arrays_names_rows(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.zeros((3, 4, 4), np.uint8))
    (tmp_path / "labels.csv").write_text("2,x\n1,y\n0,y\n")
    assert labels_of(tmp_path / "a.npy", tmp_path / "labels.csv") == ([1, 1, 0], ("x", "y"))


def test_a_list_counts_all_images_found_or_those_read(tmp_path: Path) -> None:
    save_many(tmp_path / "s", 4)
    (tmp_path / "s" / "001.png").write_text("broken")
    path = tmp_path / "labels.txt"
    path.write_text("0\n1\n2\n2\n")
    assert labels_of(tmp_path / "s", path, max_bad=0.5) == ([0, 1, 1], ("0", "2"))
    path.write_text("a\nb\nc\n")
    assert labels_of(tmp_path / "s", path, max_bad=0.5) == ([0, 1, 2], ("a", "b", "c"))
    path.write_text("a\nb\n")
    with pytest.raises(
        InvalidInput, match=r"labels must have one entry per image \(4 found or 3 kept\); got 2 in labels.txt"
    ):
        read_source(tmp_path / "s", labels=path, max_bad=0.5)


def test_npy_npz_and_idx_files(tmp_path: Path) -> None:
    save_many(tmp_path / "s", 3)
    np.save(tmp_path / "l.npy", np.array([1, 0, 1], np.int32))
    np.savez(tmp_path / "l.npz", labels=np.array([1.0, 0.0, 1.0]))
    (tmp_path / "l-idx1-ubyte").write_bytes(struct.pack(">II", 0x0801, 3) + bytes([1, 0, 1]))
    for name in ("l.npy", "l.npz", "l-idx1-ubyte"):
        assert labels_of(tmp_path / "s", tmp_path / name) == ([1, 0, 1], None)


def test_labels_given_win_over_labels_brought_along(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", images=np.zeros((3, 4, 4), np.uint8), labels=[0, 0, 0])
    np.save(tmp_path / "l.npy", np.array([1, 0, 1]))
    assert labels_of(tmp_path / "a.npz", tmp_path / "l.npy") == ([1, 0, 1], None)


def test_labels_follow_where(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", images=np.zeros((4, 4, 4), np.uint8), split=[0, 1, 1, 0])
    np.save(tmp_path / "all.npy", np.array([5, 6, 7, 8]))
    np.save(tmp_path / "kept.npy", np.array([6, 7]))
    for name in ("all.npy", "kept.npy"):
        assert labels_of(tmp_path / "a.npz", tmp_path / name, where="split=1") == ([0, 1], ("6", "7"))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (
            "l.csv",
            "000.png,cat\n",
            r"must name every image \(2\); got none for 1 of them \('001.png'\). Write each name",
        ),
        ("l.csv", "000.png\n001.png\n", r"every line of l.csv must be name,label; got \['000.png'\]"),
        ("l.txt", "1\n2\n3\n", r"labels must have one entry per image \(2\); got 3 in l.txt"),
        ("l.txt", b"\xff\xfe\x00", "labels file l.txt must be a csv, text, npy, npz or idx file"),
        ("l.npy", b"nonsense", "l.npy must be a whole, undamaged file"),
        ("l.npz", b"nonsense", r"l.npz \(labels.npy\) must be a whole, undamaged file"),
    ],
)
def test_wrong_files(tmp_path: Path, name: str, content: str | bytes, message: str) -> None:
    save_many(tmp_path / "s", 2)
    (tmp_path / name).write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(InvalidInput, match=message):
        read_source(tmp_path / "s", labels=tmp_path / name)


def test_npz_without_labels(tmp_path: Path) -> None:
    save_many(tmp_path / "s", 2)
    np.savez(tmp_path / "l.npz", other=np.zeros(2))
    with pytest.raises(InvalidInput, match=r"l.npz must hold an array called labels; got other"):
        read_source(tmp_path / "s", labels=tmp_path / "l.npz")


def test_labels_for_a_finished_run(tmp_path: Path) -> None:
    np.save(tmp_path / "l.npy", np.array([7, 8, 9, 7]))
    (tmp_path / "l.csv").write_text("a.png,x\n3,y\n1,x\n")
    assert read_labels(tmp_path / "l.npy", ["0", "1", "2", "3"]).tolist() == [0, 1, 2, 0]
    assert read_labels(tmp_path / "l.npy", ["1", "3"]).tolist() == [1, 0]  # rows 1 and 3 of the source
    assert read_labels(tmp_path / "l.npy", ["10", "11", "12", "13"]).tolist() == [0, 1, 2, 0]
    assert read_labels(tmp_path / "l.csv", ["3", "1"]).tolist() == [1, 0]
    assert read_labels(tmp_path / "l.csv", ["a.png"]).tolist() == [0]
    for names in (["0", "1", "2"], ["a", "b", "c"], ["0", "9"]):
        with pytest.raises(InvalidInput, match=r"labels must have one entry per image"):
            read_labels(tmp_path / "l.npy", names)
    with pytest.raises(MissingData, match="is not there"):
        read_labels(tmp_path / "gone.npy", ["1", "3"])


def test_missing_file_and_two_places(tmp_path: Path) -> None:
    save_many(tmp_path / "s", 2)
    with pytest.raises(MissingData, match=r"The labels file .*l.csv is not there. Expected a file. Check the path"):
        read_source(tmp_path / "s", labels=tmp_path / "l.csv")
    with pytest.raises(InvalidInput, match="must come from one place; got --labels and --labels-from-folders"):
        read_source(tmp_path / "s", labels=tmp_path / "l.csv", labels_from_folders=True)


@pytest.mark.parametrize("values", [np.array([0.5, 1]), np.array([np.nan, 1]), np.zeros((2, 2), int), np.array([1j])])
def test_values_that_are_no_labels(values: np.ndarray[Any, Any]) -> None:
    with pytest.raises(InvalidInput, match="labels must be a list of whole numbers or texts"):
        encode(values)


def test_names_come_along_when_they_fit() -> None:
    labels, names = encode(np.array([2, 0]), ("a", "b", "c"))
    assert (labels.tolist(), names) == ([1, 0], ("a", "c"))
    assert encode(np.array([5, 0]), ("a", "b", "c"))[1] == ("0", "5")
    assert encode(np.array([b"x", b"y"]))[1] == ("x", "y")
    assert encode(np.array([True, False]))[0].tolist() == [1, 0]
