"""Encoded pictures in Parquet files, as Hugging Face stores its sets: `data/train-00000-of-00010.parquet` and so on.

A cell holds the bytes of a picture (and the name it had). Files are read by row groups, of which a few are held: no
more than the pictures that are being decoded need. Labels and columns for --where are read when they are asked for.
"""

from __future__ import annotations

import importlib
import json
import re
import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from selfsort.data.decode import Unreadable
from selfsort.data.folder import printable
from selfsort.data.gallery import Gallery
from selfsort.data.shards import Rows, identity_of, stream_of
from selfsort.data.tables import damaged
from selfsort.errors import invalid, missing_extra
from selfsort.types import Json

MAGIC = b"PAR1"
_SPLIT = re.compile(r"(.+?)-[0-9]+(-of-[0-9]+)?$")
_GROUPS_HELD = 4
_SIMPLE = ("int", "uint", "float", "double", "bool", "string", "large_string")


def find_parquet(folder: Path) -> list[Path]:
    """Return the Parquet files of a folder, and of the folders in it, as Hugging Face lays them out."""
    return sorted([*folder.glob("*.parquet"), *folder.glob("*/*.parquet")])


def open_parquet(paths: Sequence[Path], root: Path) -> Gallery:
    """List the pictures of Parquet files, in the order of the files and of their rows."""
    try:
        library = importlib.import_module("pyarrow.parquet")
    except ImportError:
        raise missing_extra("pyarrow", "Reading Parquet files", "datasets") from None
    groups = _Groups(library)
    described = [_described(library, path) for path in paths]
    schema, features = described[0].schema_arrow, _features(described[0].schema_arrow)
    image, label = _image_column(schema, features), _label_column(schema, features)
    if image is None:
        held = ", ".join(schema.names)
        raise invalid(printable(paths[0].name), "have a column of images", held, "Name the files that hold pictures.")
    parts = []
    for path, about in zip(paths, described, strict=True):
        if about.schema_arrow.names != schema.names:
            raise invalid(printable(path.name), f"have the columns of {paths[0].name}", "others", "Read it by itself.")
        counts = [about.metadata.row_group(i).num_rows for i in range(about.num_row_groups)]
        name = printable(path.relative_to(root).as_posix())
        parts.append((name, sum(counts), partial(groups.picture, path, np.cumsum(counts), image)))
    simple = [field.name for field in schema if str(field.type).startswith(_SIMPLE) and field.name != "split"]
    columns = _Columns(library, paths, [n_rows for _, n_rows, _ in parts], simple)
    names = None if label is None else features.get(label, {}).get("names")
    return Gallery(
        "parquet",
        Rows(parts),
        columns=columns,
        labels=None if label is None else columns[label].tolist(),
        unknown_label=-1,
        label_names=tuple(map(str, names)) if isinstance(names, list) else None,
        identity=partial(identity_of, paths),
    )


def _described(library: Any, path: Path) -> Any:
    try:
        with library.ParquetFile(path) as file:
            about = file
            assert about.schema_arrow is not None
            return about
    except PermissionError:
        raise
    except Exception as error:  # a foreign reader on foreign files
        raise damaged(printable(path.name), error) from error


def _features(schema: Any) -> Json:
    """Return what Hugging Face has noted about the columns."""
    try:
        told = json.loads((schema.metadata or {}).get(b"huggingface", b"{}"))["info"]["features"]
        return {name: about for name, about in told.items() if isinstance(about, dict)}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return {}


def _image_column(schema: Any, features: Json) -> str | None:
    """Find the pictures: what is noted as such, else a pair of bytes and path, else bytes."""
    pairs, plain = [], []
    for field in schema:
        fields = {field.type.field(i).name for i in range(field.type.num_fields)}
        if "bytes" in fields:
            pairs.append(field.name)
        elif str(field.type) in ("binary", "large_binary"):
            plain.append(field.name)
    noted = [name for name in (*pairs, *plain) if features.get(name, {}).get("_type") == "Image"]
    return next(iter((*noted, *pairs, *plain)), None)


def _label_column(schema: Any, features: Json) -> str | None:
    noted = (name for name in schema.names if features.get(name, {}).get("_type") == "ClassLabel")
    if (found := next(noted, None)) is not None:
        return str(found)
    return next((name for name in ("label", "labels") if name in schema.names and _is_whole(schema, name)), None)


def _is_whole(schema: Any, name: str) -> bool:
    return str(schema.field(name).type).startswith(("int", "uint"))


class _Groups:
    """The row groups that were read last."""

    def __init__(self, library: Any) -> None:
        self._library = library
        self._held: OrderedDict[tuple[Path, int], Any] = OrderedDict()
        self._lock = threading.Lock()

    def picture(self, path: Path, ends: npt.NDArray[Any], column: str, row: int) -> IO[bytes]:
        """Open the picture in a row of a file."""
        group = int(np.searchsorted(ends, row, side="right"))
        cell = self._group(path, group, column)[row - (int(ends[group - 1]) if group else 0)].as_py()
        if isinstance(cell, bytes):
            cell = {"bytes": cell}
        place = cell.get("path") if isinstance(cell, dict) else None
        if isinstance(place, str) and cell.get("bytes") is None and (Path(place).is_absolute() or ".." in place):
            raise Unreadable("its file lies outside the folder")
        return stream_of(cell, path.parent)

    def _group(self, path: Path, group: int, column: str) -> Any:
        with self._lock:
            if (path, group) not in self._held:
                try:
                    with self._library.ParquetFile(path) as file:
                        found = file.read_row_group(group, columns=[column]).column(0)
                except OSError:
                    raise
                except Exception as error:  # a foreign reader on foreign bytes
                    raise Unreadable(f"damaged: {error}") from error
                self._held[path, group] = found
                while len(self._held) > _GROUPS_HELD:
                    self._held.popitem(last=False)
            self._held.move_to_end((path, group))
            return self._held[path, group]


class _Columns(Mapping[str, npt.NDArray[Any]]):
    """Values per picture, read when they are asked for."""

    def __init__(self, library: Any, paths: Sequence[Path], n_rows: Sequence[int], names: Sequence[str]) -> None:
        self._library, self._paths, self._n_rows, self._names = library, paths, n_rows, names

    def __iter__(self) -> Iterator[str]:
        return iter(("split", *self._names))

    def __len__(self) -> int:
        return 1 + len(self._names)

    def __getitem__(self, name: str) -> npt.NDArray[Any]:
        if name == "split":
            return np.repeat([_split_of(path) for path in self._paths], self._n_rows)
        if name not in self._names:
            raise KeyError(name)
        try:
            parts = [self._library.read_table(path, columns=[name]).column(0).to_numpy() for path in self._paths]
        except Exception as error:  # a foreign reader on foreign files
            raise damaged(printable(self._paths[0].name), error) from error
        values = np.concatenate(parts)
        return values.astype(str) if values.dtype == object else values


def _split_of(path: Path) -> str:
    """Return what a file belongs to by its name.

    >>> _split_of(Path("data/train-00001-of-00004.parquet")), _split_of(Path("test.parquet"))
    ('train', 'test')
    """
    found = _SPLIT.match(path.stem)
    return printable(found[1] if found else path.stem)
