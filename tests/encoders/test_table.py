"""Tables of one's own features."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from selfsort.encoders.pictures import Pictures
from selfsort.encoders.table import open_table
from selfsort.errors import InvalidInput, MissingData
from selfsort.types import Images

VECTORS = np.arange(12, dtype=np.float64).reshape(4, 3)


def pictures(*names: str) -> Pictures:
    return Pictures(Images(np.zeros((len(names), 2, 2, 1), np.uint8)), names, None)


def saved(path: Path, **arrays: npt.NDArray[Any]) -> Path:
    np.savez(path, **arrays)  # type: ignore[arg-type]
    return path


def test_rows_without_names_are_in_the_order_of_the_pictures(tmp_path: Path) -> None:
    np.save(tmp_path / "v.npy", VECTORS)
    table = open_table(tmp_path / "v.npy")
    np.testing.assert_array_equal(table.rows_for(pictures("a", "b", "c", "d")), VECTORS)
    with pytest.raises(InvalidInput, match="has 4 rows for 2 pictures"):
        table.rows_for(pictures("a", "b"))


def test_rows_with_names_are_matched_by_them(tmp_path: Path) -> None:
    names = np.array(["d.jpg", "x/c.jpg", "b.jpg", "a.jpg"])
    table = open_table(saved(tmp_path / "v.npz", features=VECTORS, names=names))
    found = table.rows_for(pictures("b.jpg", "x/c.jpg"))
    np.testing.assert_array_equal(found, VECTORS[[2, 1]])


def test_missing_and_repeated_names_are_said(tmp_path: Path) -> None:
    table = open_table(saved(tmp_path / "v.npz", features=VECTORS, names=np.array(["a", "b", "c", "d"])))
    with pytest.raises(InvalidInput, match=r"no row for 1 of 2 pictures, such as 'nobody.jpg'"):
        table.rows_for(pictures("a", "nobody.jpg"))
    table = open_table(saved(tmp_path / "w.npz", features=VECTORS, names=np.array(["a", "b", "a", "d"])))
    with pytest.raises(InvalidInput, match="more than one row for 'a'"):
        table.rows_for(pictures("a"))


@pytest.mark.parametrize("listed", [["a", "b", "c"], ["a", "b", "c", "d", "e"], "abcd"])
def test_as_many_names_as_rows(tmp_path: Path, listed: object) -> None:
    with pytest.raises(InvalidInput, match="names for 4 rows"):
        open_table(saved(tmp_path / "v.npz", features=VECTORS, names=np.array(listed)))


def test_names_as_bytes_and_with_dots(tmp_path: Path) -> None:
    table = open_table(saved(tmp_path / "v.npz", features=VECTORS, names=np.array([b"./a", b"x//b", b"c", b"d"])))
    np.testing.assert_array_equal(table.rows_for(pictures("x/b", "a")), VECTORS[[1, 0]])


def test_names_written_from_above_the_pictures(tmp_path: Path) -> None:
    names = np.array(["/data/mine/a.jpg", "/data/mine/x/a.jpg", "/data/mine/b.jpg", "/data/else/c.jpg"])
    table = open_table(saved(tmp_path / "v.npz", features=VECTORS, names=names))
    np.testing.assert_array_equal(table.rows_for(pictures("a.jpg", "b.jpg", "x/a.jpg")), VECTORS[[0, 2, 1]])
    assert table.unused(("a.jpg", "b.jpg", "x/a.jpg")) == (
        "1 row of v.npz belongs to no picture, such as '/data/else/c.jpg': left out."
    )
    with pytest.raises(InvalidInput, match="no row for 2 of 2 pictures"):
        table.rows_for(pictures("a.jpg", "c.jpg"))


def test_names_that_fit_twice_are_not_guessed(tmp_path: Path) -> None:
    names = np.array(["train/a", "train/b", "test/a", "test/b"])
    table = open_table(saved(tmp_path / "v.npz", features=VECTORS, names=names))
    with pytest.raises(InvalidInput, match="in 'test/' and in 'train/'"):
        table.rows_for(pictures("a", "b"))
    np.testing.assert_array_equal(table.rows_for(pictures("test/b", "train/a")), VECTORS[[3, 0]])


def test_rows_without_a_picture_are_said(tmp_path: Path) -> None:
    table = open_table(saved(tmp_path / "v.npz", features=VECTORS, names=np.array(["a", "b", "c", "d"])))
    assert table.unused(("a", "c")) == "2 rows of v.npz belong to no picture, such as 'b': left out."
    assert table.unused(("a", "b", "c", "d")) == ""
    np.save(tmp_path / "w.npy", VECTORS)
    assert open_table(tmp_path / "w.npy").unused(("a", "b", "c", "d")) == ""


def test_pictures_without_names_have_no_rows(tmp_path: Path) -> None:
    table = open_table(saved(tmp_path / "v.npz", features=VECTORS, names=np.array(["a", "b", "c", "d"])))
    with pytest.raises(InvalidInput, match="no row for 4 of 4 pictures"):
        table.rows_for(Pictures(Images(np.zeros((4, 2, 2, 1), np.uint8)), (), None))


def test_parquet_has_a_column_of_lists_or_columns_of_numbers(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    names = ["a", "b", "c", "d"]
    parquet.write_table(pa.table({"name": names, "embedding": VECTORS.tolist()}), tmp_path / "l.parquet")
    parquet.write_table(pa.table({"name": names, "x1": VECTORS[:, 0], "x2": VECTORS[:, 1]}), tmp_path / "c.parquet")
    np.testing.assert_array_equal(open_table(tmp_path / "l.parquet").rows_for(pictures("c")), VECTORS[[2]])
    np.testing.assert_array_equal(open_table(tmp_path / "c.parquet").rows_for(pictures("c")), VECTORS[[2], :2])


def test_parquet_of_two_numbers_of_pandas_and_of_ragged_lists(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    columns = {"x": VECTORS[:, 0], "y": VECTORS[:, 1], "__index_level_0__": [7, 8, 9, 10]}
    parquet.write_table(pa.table(columns), tmp_path / "xy.parquet")
    np.testing.assert_array_equal(open_table(tmp_path / "xy.parquet").vectors, VECTORS[:, :2])
    tables: list[list[list[float] | None]] = [[[1.0], [1.0, 2.0]], [[1.0], None], [[], []]]
    for ragged in tables:
        parquet.write_table(pa.table({"name": ["a", "b"], "embedding": ragged}), tmp_path / "r.parquet")
        with pytest.raises(InvalidInput, match="different lengths"):
            open_table(tmp_path / "r.parquet")
    parquet.write_table(pa.table({"name": ["a", None], "embedding": [[1.0], [2.0]]}), tmp_path / "n.parquet")
    with pytest.raises(InvalidInput, match="names that are no texts"):
        open_table(tmp_path / "n.parquet")


@pytest.mark.parametrize(
    ("vectors", "reason"),
    [
        (np.array([[1.0, np.nan], [1.0, 2.0]]), "NaN or infinity in 1 rows, first in row 0"),
        (np.zeros((2, 3, 4)), "one row of numbers per picture"),
        (np.zeros((0, 3)), "one row of numbers per picture"),
        (np.array([["a"]]), "one row of numbers per picture"),
        (np.array([[1.0, 1e300]]), "NaN or infinity in 1 rows"),
    ],
)
def test_what_is_no_table_of_numbers_is_refused(tmp_path: Path, vectors: npt.NDArray[Any], reason: str) -> None:
    np.save(tmp_path / "v.npy", vectors)
    with pytest.raises(InvalidInput, match=reason):
        open_table(tmp_path / "v.npy")


@pytest.mark.parametrize("name", ["v.npy", "v.npz", "v.parquet"])
def test_garbage_is_refused_and_never_unpickled(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"PK\x03\x04 nothing of the kind")
    with pytest.raises(InvalidInput, match="cannot be read as a table of features"):
        open_table(tmp_path / name)
    np.save(tmp_path / "p.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    with pytest.raises(InvalidInput, match="cannot be read"):
        open_table(tmp_path / "p.npy")


def test_a_missing_file_is_said(tmp_path: Path) -> None:
    with pytest.raises(MissingData, match="does not exist"):
        open_table(tmp_path / "v.npy")


def test_a_table_that_claims_terabytes_and_one_that_is_packed_badly(tmp_path: Path) -> None:
    with (tmp_path / "v.npy").open("wb") as file:
        header = {"descr": "<f4", "fortran_order": False, "shape": (2**40, 4)}
        np.lib.format.write_array_header_1_0(file, header)
    with pytest.raises(InvalidInput, match="cannot be read as a table of features"):
        open_table(tmp_path / "v.npy")
    np.savez_compressed(tmp_path / "v.npz", features=np.random.default_rng(0).random((50, 20)))
    content = bytearray((tmp_path / "v.npz").read_bytes())
    content[200:300] = bytes(100)
    (tmp_path / "v.npz").write_bytes(content)
    with pytest.raises(InvalidInput, match="cannot be read as a table of features"):
        open_table(tmp_path / "v.npz")
