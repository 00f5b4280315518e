from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.data.samples import save_many

from selfsort.data import read_source
from selfsort.data.tables import block_rows, read_block, select
from selfsort.errors import InvalidInput


def test_where_is_refused_for_plain_pictures(tmp_path: Path) -> None:
    save_many(tmp_path, 2)
    with pytest.raises(InvalidInput, match=r"--where must name one of the source's arrays \(class\); got 'split'"):
        read_source(tmp_path, where="split=1")
    np.save(tmp_path / "a.npy", np.zeros((2, 5, 5), np.uint8))
    with pytest.raises(InvalidInput, match="--where must be used with a source that has named arrays; got 'split'"):
        read_source(tmp_path / "a.npy", where="split=1")


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("split=0,1", [0, 1, 2]),
        ("split=0, 2", [0, 1, 3, 4]),
        ("split!=2", [0, 1, 2]),
        ("split!=0,1", [3, 4]),
        ("split=2", [3, 4]),
    ],
)
def test_several_values_and_all_but_some(where: str, expected: list[int]) -> None:
    column = np.array([0, 0, 1, 2, 2])
    assert np.flatnonzero(select(where, column, ["split"], 5)).tolist() == expected


def test_a_value_with_a_comma_in_it_is_one_value() -> None:
    column = np.array(["a,b", "a", "b"])
    assert select("word=a,b", column, ["word"], 3).tolist() == [True, False, False]
    assert select("word=b,a", column, ["word"], 3).tolist() == [False, True, True]


def test_excluding_everything_is_refused() -> None:
    with pytest.raises(InvalidInput, match=r"--where must match some rows \(split holds 0, 1\); got 'split!=0,1'"):
        select("split!=0,1", np.array([0, 1]), ["split"], 2)


def test_a_folder_of_imagenet_gives_the_classes_of_a_paper(tmp_path: Path) -> None:
    for name in ("n02056570", "n07747607", "n01440764"):
        save_many(tmp_path / name, 2)
    save_many(tmp_path / "n04285008" / "images", 2)  # as Tiny ImageNet has them
    found = read_source(tmp_path, where="class=imagenet-10", labels_from_folders=True)
    assert found.label_names == ("n02056570", "n04285008", "n07747607")
    assert len(found) == 6
    two = read_source(tmp_path, where="class=n01440764,n07747607")
    assert len(two) == 4
    assert len(read_source(tmp_path, where="class!=n01440764")) == 6


@pytest.mark.parametrize("where", ["split", "=1", "split=", ""])
def test_where_has_a_form(tmp_path: Path, where: str) -> None:
    with pytest.raises(InvalidInput, match="--where must have the form NAME=VALUE"):
        read_source(tmp_path, where=where)


@pytest.mark.parametrize(
    ("column", "value", "expected"),
    [
        (np.array([0, 1, 1]), "1", [1, 2]),
        (np.array([0.5, 1.5, 0.5]), "0.5", [0, 2]),
        (np.array([True, False, True]), "false", [1]),
        (np.array([True, False, True]), "1", [0, 2]),
        (np.array(["a", "b=c", "a"]), "b=c", [1]),
        (np.array([b"a", b"b", b"a"]), "a", [0, 2]),
    ],
)
def test_values_are_read_as_the_column_holds_them(
    column: np.ndarray[Any, Any], value: str, expected: list[int]
) -> None:
    assert np.flatnonzero(select(f"x={value}", column, ["x"], 3)).tolist() == expected


class Drops(io.BytesIO):
    """A stream that gives less than asked, as packed files do."""

    def read(self, size: int | None = -1, /) -> bytes:
        return super().read(min(3, size or 0))


def test_blocks_are_whole_or_refused() -> None:
    assert read_block(Drops(b"0123456789"), 10, "a file") == b"0123456789"
    with pytest.raises(InvalidInput, match="a file must be a whole, undamaged file; got it ends 2 bytes too early"):
        read_block(Drops(b"0123456789"), 12, "a file")


def test_a_block_has_at_least_one_row() -> None:
    assert block_rows(10**12) == 1
    assert block_rows(0) > 1
