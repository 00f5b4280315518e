"""The rows of labels.csv, a million of them in a second: found by their commas, named when somebody asks.

Only for tables in the form that we write where no name needs quotes; any other is left to the reader that knows all.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from selfsort.data.lazy import Lazy
from selfsort.types import F32, I64, U8

HEADER = ("name", "cluster", "confidence")
_DIGITS = 6
"""Behind the point of a confidence."""
_WIDEST = 18
"""Digits of a number that surely fits."""
_LINE, _COMMA, _POINT, _ZERO, _MINUS = b"\n,.0-"

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
