"""The rows of labels.csv, written and read; a million of them in a second: found by their commas, named when asked.

That is for tables in the form that we write where no name needs quotes; any other is left to the reader of csv files.
"""

from __future__ import annotations

import csv
import re
from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
import numpy.typing as npt

from selfsort.data.lazy import Lazy
from selfsort.errors import InvalidInput
from selfsort.runs.files import damaged
from selfsort.runs.outliers import written
from selfsort.types import F32, I64, U8

HEADER = ("name", "cluster", "confidence")
_DIGITS = 6
"""Behind the point of a confidence."""
_WIDEST = 18
"""Digits of a number that surely fits."""
_LINE, _COMMA, _POINT, _ZERO, _MINUS = b"\n,.0-"

_NEEDS_QUOTES = re.compile(r'[,;"\t\r\n]').search

Bools = npt.NDArray[np.bool_]


class Names(Lazy[str]):
    """Names that are parts of one text."""

    def __init__(self, content: bytes, starts: I64, ends: I64) -> None:
        self._content, self._starts, self._ends = content, starts, ends

    def __len__(self) -> int:
        return len(self._starts)

    def _at(self, place: int) -> str:
        return self._content[self._starts[place] : self._ends[place]].decode("utf-8", "surrogateescape")


@dataclass(frozen=True, eq=False)
class Columns:
    """The three columns of a label table."""

    names: Names
    labels: I64
    confidence: F32


def read_columns(path: Path) -> Columns | None:
    """Read a label table as we write it; None if it has another form, whatever is the matter with it."""
    content = path.read_bytes()
    head = (",".join(HEADER) + "\n").encode()
    if not content.startswith(head) or not content.endswith(b"\n") or b'"' in content or b"\r" in content:
        return None
    text: U8 = np.frombuffer(content, np.uint8)
    ends = np.flatnonzero(text == _LINE)[1:]
    commas = np.flatnonzero(text == _COMMA)[len(HEADER) - 1 :]
    if len(commas) != 2 * len(ends) or not len(ends):
        return None
    starts = np.concatenate([[len(head)], ends[:-1] + 1])
    first, second = commas[0::2], commas[1::2]
    if not ((starts <= first).all() and (first < second).all() and (second < ends).all()):
        return None
    is_negative = text[first + 1] == _MINUS
    labels = _whole(text, first + 1 + is_negative, second)
    point = ends - _DIGITS - 1
    if labels is None or not (point > second + 1).all() or not (text[point] == _POINT).all():
        return None
    before, behind = _whole(text, second + 1, point), _whole(text, point + 1, ends)
    if before is None or behind is None or (before > 1).any():
        return None
    confidence = ((before * 10**_DIGITS + behind) / 10**_DIGITS).astype(np.float32)
    return Columns(Names(content, starts, first), np.where(is_negative, -labels, labels), confidence)


def _whole(text: U8, starts: I64, ends: I64) -> I64 | None:
    """Read the whole numbers between two places; None if one of them is none."""
    widths = ends - starts
    if (widths < 1).any() or (widest := int(widths.max())) > _WIDEST:
        return None
    values = np.zeros(len(starts), np.int64)
    for place in range(widest):
        is_inside: Bools = place < widths
        digits = text[np.minimum(starts + place, ends - 1)].astype(np.int64) - _ZERO
        if ((digits < 0) | (digits > 9))[is_inside].any():
            return None
        values = np.where(is_inside, values * 10 + digits, values)
    return values


@dataclass(frozen=True, eq=False)
class LabelTable:
    """The rows of labels.csv."""

    names: Sequence[str]
    labels: I64
    """(N,) clusters from 0 on, outliers among them under a number of their own."""
    confidence: F32
    outliers: int | None = None
    """The number of the outliers, in a run that looked for them."""

    @property
    def written(self) -> I64:
        """(N,) clusters as files have them, -1 for outliers."""
        return written(self.labels, self.outliers)

    @property
    def n_outliers(self) -> int | None:
        """How many images are outliers, in a run that looked for them."""
        return None if self.outliers is None else int((self.labels == self.outliers).sum())


def read_table(path: Path, most: object) -> tuple[Sequence[str], I64, F32]:
    """Read names, clusters and confidences: quickly if the table is as we write it, and else as any csv file.

    More rows than `most`, if that is a number, are refused.
    """
    try:
        found = read_columns(path)
    except OSError as error:
        raise damaged(path, error.strerror or str(error)) from error
    if found is not None and not (isinstance(most, int) and len(found.names) > most):
        return found.names, found.labels, found.confidence
    names: list[str] = []
    clusters, sureness = array("q"), array("f")
    try:
        for some in columns_of(path, list(HEADER), most):
            names.extend(some[0])
            clusters.extend(map(int, some[1]))
            sureness.extend(map(float, some[2]))
    except (ValueError, OverflowError) as error:
        if isinstance(error, InvalidInput):
            raise
        raise damaged(path, "it is not a table of name, whole number, number") from error
    return tuple(names), np.frombuffer(clusters, np.int64), np.frombuffer(sureness, np.float32)


def columns_of(path: Path, header: list[str], most: object) -> Iterator[list[tuple[str, ...]]]:
    """Yield the columns of a csv file, some rows at a time: a table of millions of rows takes no memory by itself."""
    try:
        with path.open(encoding="utf-8", errors="surrogateescape", newline="") as file:
            rows = csv.reader(file)
            if next(rows, None) != header:
                raise damaged(path, f"its header is not {','.join(header)}")
            n_read = 0
            while some := list(islice(rows, 512)):  # few enough not to keep the garbage collector busy
                n_read += len(some)
                if isinstance(most, int) and n_read > most:
                    raise damaged(path, f"it has more rows than the {most} images of config.json")
                if set(map(len, some)) != {len(header)}:
                    raise damaged(path, f"not every row has {len(header)} fields")
                yield list(zip(*some, strict=True))
    except csv.Error as error:
        raise damaged(path, str(error)) from error
    except OSError as error:
        raise damaged(path, error.strerror or str(error)) from error


def name_csv(names: Sequence[str]) -> bytes:
    """Format a table of names alone."""
    return "".join(f"{_quoted(name)}\n" for name in ("name", *names)).encode("utf-8", "surrogateescape")


def label_csv(names: Sequence[str], labels: I64, confidence: F32) -> bytes:
    """Format a label table; names keep bytes that are not UTF-8 as they are on disk."""
    return b"".join(label_lines(names, labels, confidence))


def label_lines(
    names: Sequence[str], labels: I64, confidence: F32, spell: Callable[[str], str] = str
) -> Iterator[bytes]:
    """Yield a label table in parts: millions of lines at once would take ten times their size."""
    yield b"name,cluster,confidence\n"
    for start in range(0, len(labels), 4096):
        some = slice(start, start + 4096)
        spelt = list(map(spell, names[some]))
        fields = map(_quoted, spelt) if _NEEDS_QUOTES("".join(spelt)) else spelt
        rows = zip(fields, labels[some].tolist(), confidence[some].tolist(), strict=True)
        lines = "".join([f"{name},{label},{sure:.6f}\n" for name, label, sure in rows])
        yield lines.encode("utf-8", "surrogateescape")


def _quoted(field: str) -> str:
    """Quote a field of a csv file; the standard library's writer forgets carriage returns.

    Where the comma stands in numbers, spreadsheets take semicolons and tabs for the ends of cells.
    """
    return '"' + field.replace('"', '""') + '"' if _NEEDS_QUOTES(field) else field
