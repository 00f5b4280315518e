"""Sources whose pixels are stored plainly: blocks of rows, read in order, straight into the result."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from selfsort.data.arrays import conform_into
from selfsort.data.class_lists import CLASS_LISTS
from selfsort.data.datasets import ImageSpec
from selfsort.errors import InvalidInput, invalid
from selfsort.pages import forget
from selfsort.progress import track
from selfsort.types import U8

Array = npt.NDArray[Any]
Bools = npt.NDArray[np.bool_]

BLOCK_BYTES = 1 << 24
CLASS = "class"
"""The column of a folder of pictures: the folder that each lies in."""
OTHER_LABELS = ("coarse",)
"""Words that --labels knows beside the names of files."""


@dataclass(frozen=True, eq=False)
class Part:
    """The images of one file (or one member of it)."""

    rows: int
    shape: tuple[int, int, int]
    """Height, width, channels as stored."""
    blocks: Callable[[], Iterator[U8]]
    """Consecutive images, (rows, H, W, C); all of them, in order."""


@dataclass(frozen=True, eq=False)
class Table:
    """A source made of decoded images."""

    kind: str
    parts: tuple[Part, ...]
    columns: Callable[[str], Array | None] = lambda _name: None
    """A value per image by name, for --where; None if there is no such column."""
    column_names: tuple[str, ...] = ()
    labels: Array | None = None
    unknown_label: int | None = None
    """Marks images without a label; labels count only if none of the images kept has it."""
    label_names: tuple[str, ...] | None = None
    other_labels: Mapping[str, tuple[Array, tuple[str, ...] | None]] = field(default_factory=dict)
    """Further labels by the name that --labels knows, and what their classes are called."""

    def __len__(self) -> int:
        return sum(part.rows for part in self.parts)


class Readable(Protocol):
    """As much of a stream as reading in order needs."""

    def read(self, size: int, /) -> bytes:
        """Return at most this many bytes; none at the end."""
        ...


def read_block(stream: Readable, n_bytes: int, what: str) -> bytes:
    """Read exactly this many bytes."""
    chunks: list[bytes] = []
    missing = n_bytes
    while missing:
        chunk = stream.read(missing)
        if not chunk:
            raise damaged(what, f"it ends {missing} bytes too early")
        chunks.append(chunk)
        missing -= len(chunk)
    return chunks[0] if len(chunks) == 1 else b"".join(chunks)


def damaged(what: str, detail: object) -> InvalidInput:
    """Word the error for a file that breaks its own format."""
    return invalid(what, "be a whole, undamaged file", detail, "Get the file again.")


def block_rows(row_bytes: int) -> int:
    """Return how many rows make a block of a comfortable size."""
    return max(1, BLOCK_BYTES // max(1, row_bytes))


@dataclass(frozen=True)
class Where:
    """Rows to keep: those with one of some values in a column, or with none of them."""

    name: str
    text: str
    is_excluding: bool = False


def parse_where(where: str) -> Where:
    """Read NAME=VALUE, NAME=VALUE,VALUE or NAME!=VALUE.

    >>> parse_where("split=0,1"), parse_where("split!=2")
    (Where(name='split', text='0,1', is_excluding=False), Where(name='split', text='2', is_excluding=True))
    """
    name, separator, text = where.partition("=")
    is_excluding = name.endswith("!")
    name = name.removesuffix("!")
    if not separator or not name or not text:
        remedy = "Write for example --where split=1, split=0,1 or split!=2."
        raise invalid("--where", "have the form NAME=VALUE", repr(where), remedy)
    return Where(name, text, is_excluding)


def require_column(name: str, shape: tuple[int, ...], n_rows: int) -> None:
    """Refuse an array that --where cannot compare row by row."""
    if shape != (n_rows,):
        wanted = f"name an array with one value per image ({n_rows})"
        raise invalid("--where", wanted, f"{name!r} of shape {shape}", "Choose another array.")


def select(where: str, column: Array | None, known: Iterable[str], n_rows: int) -> Bools:
    """Return which rows have a wanted value in the named column."""
    wish = parse_where(where)
    name = wish.name
    if column is None:
        names = ", ".join(known)
        raise invalid(
            "--where",
            f"name one of the source's arrays ({names})" if names else "be used with a source that has named arrays",
            repr(name),
            "Change the name." if names else "Leave --where out, or use an .npz file.",
        )
    require_column(name, column.shape, n_rows)
    chosen: Bools = np.isin(column, _values(wish, column))
    if wish.is_excluding:
        chosen = ~chosen
    if not chosen.any():
        values = ", ".join(map(str, np.unique(column)[:8].tolist()))
        raise invalid("--where", f"match some rows ({name} holds {values})", repr(where), "Choose another value.")
    return chosen


def _values(wish: Where, column: Array) -> list[Any]:
    """Return the values named: a list of classes, one value with a comma in it if there is such a one, or several."""
    texts = list(CLASS_LISTS.get(wish.text, ())) if wish.name == CLASS else []
    if not texts:
        is_one = column.dtype.kind in "US" and bool((column == _parse(wish.text, column, wish.name)).any())
        texts = [wish.text] if is_one else wish.text.split(",")
    return [_parse(text.strip(), column, wish.name) for text in texts]


def _parse(text: str, column: Array, name: str) -> Any:
    kinds: Mapping[str, Callable[[str], Any]] = {"i": int, "u": int, "f": float, "U": str, "S": str.encode}
    if column.dtype.kind == "b" and text.lower() in ("0", "1", "true", "false"):
        return text.lower() in ("1", "true")
    try:
        return kinds[column.dtype.kind](text)
    except (KeyError, ValueError):
        remedy = f"Give a value of the type that {name!r} holds."
        raise invalid("--where", f"give a value for {name!r} ({column.dtype})", repr(text), remedy) from None


def table_shape(table: Table) -> tuple[int, int, int]:
    """Return the one shape of all images of a table."""
    shapes = {part.shape for part in table.parts}
    if len(shapes) != 1:
        seen = ", ".join(f"{height}x{width}x{channels}" for height, width, channels in sorted(shapes))
        raise invalid("the files of one source", "hold images of one size", seen, "Read them one at a time.")
    return shapes.pop()


def fill(table: Table, chosen: Bools | None, spec: ImageSpec, out: U8) -> None:
    """Copy the chosen images into `out`, made to fit."""
    row, target = 0, 0
    blocks = (block for part in table.parts for block in part.blocks())
    for block in track(blocks, "reading images", len(table), weigh=len):
        kept = block if chosen is None else block[chosen[row : row + len(block)]]
        if len(kept):
            conform_into(kept, spec, out[target : target + len(kept)])
            forget(out)
        row += len(block)
        target += len(kept)
