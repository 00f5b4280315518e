"""A table of one's own features: one row per picture, matched by name or by order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import numpy.typing as npt

from selfsort.encoders._files import first_line
from selfsort.encoders.pictures import Pictures
from selfsort.errors import InvalidInput, MissingData, SelfsortError, invalid, missing_extra
from selfsort.text import plural, shorten
from selfsort.types import F32

SUFFIXES = (".npy", ".npz", ".parquet")

_N_TRIED = 16
"""Names that are looked for in a table made from above the pictures."""

_NAME_KEYS = ("names", "name", "paths", "path", "files", "file", "filename", "image")
_VECTOR_KEYS = ("features", "vectors", "embeddings", "embedding", "X", "x", "arr_0")


@dataclass(frozen=True, eq=False)
class VectorTable:
    """Feature rows, and the names of the pictures they belong to, if it has them."""

    path: Path
    vectors: F32
    names: tuple[str, ...] | None

    @property
    def name(self) -> str:
        """What a person calls it."""
        return self.path.name

    @property
    def dim(self) -> int:
        """How many features a row has."""
        return int(self.vectors.shape[1])

    @cached_property
    def digest(self) -> str:
        """What stands for an encoder here is how many features there are: every table of them has other rows."""
        return sha256(f"table of {self.dim} features".encode()).hexdigest()

    def rows_for(self, pictures: Pictures) -> F32:
        """Return the rows of these pictures, in their order."""
        names = pictures.names
        if self.names is None:
            if len(self.vectors) != len(pictures.images):
                raise InvalidInput(
                    f"{self.path} has {len(self.vectors)} rows for {len(pictures.images)} pictures, and no names to "
                    "match them by. Expected one row per picture, in their order. Save names beside the features, in "
                    "an .npz."
                )
            return self.vectors
        places = self._places()
        prefix = self._prefix(places, names)
        found = [places.get(prefix + name) for name in names]
        missing = [name for name, place in zip(names, found, strict=True) if place is None]
        if missing or not names:
            such = f", such as {shorten(missing[0])!r}" if missing else ""
            raise InvalidInput(
                f"{self.path} has no row for {len(missing) or len(pictures.images)} of {len(pictures.images)} "
                f"pictures{such}. Expected a row for every picture that can be read. Add them, or name the table of "
                "these pictures with --encoder."
            )
        rows: F32 = self.vectors[[place for place in found if place is not None]]
        return rows

    def unused(self, names: Sequence[str]) -> str:
        """Say which rows belong to none of the pictures; empty if all of them do."""
        places = {} if self.names is None else self._places()
        prefix = self._prefix(places, names)
        without = sorted(places.keys() - {prefix + name for name in names})
        if not without:
            return ""
        rows = f"{plural(len(without), 'row')} of {self.name} {'belongs' if len(without) == 1 else 'belong'}"
        return f"{rows} to no picture, such as {shorten(without[0])!r}: left out."

    def _places(self) -> dict[str, int]:
        """Return the row of each name."""
        places: dict[str, int] = {}
        for place, name in enumerate(self.names or ()):
            if name in places:
                raise InvalidInput(
                    f"{self.path} has more than one row for {shorten(name)!r}. Expected each picture once. "
                    "Remove the repeated rows."
                )
            places[name] = place
        return places

    def _prefix(self, places: Mapping[str, int], names: Sequence[str]) -> str:
        """Return the folder that stands before all names in the table, if it was made from above the pictures."""
        few = names[:_N_TRIED]
        if any(name in places for name in few):
            return ""
        ends = tuple(f"/{name}" for name in few)
        found = {key[: -len(end) + 1] for key in places if key.endswith(ends) for end in ends if key.endswith(end)}
        fitting = sorted(prefix for prefix in found if all(prefix + name in places for name in names))
        if len(fitting) > 1:
            raise InvalidInput(
                f"{self.path} has rows for these pictures in {fitting[0]!r} and in {fitting[1]!r}. Expected them once. "
                "Write the names as they are inside the folder of the pictures."
            )
        return fitting[0] if fitting else ""


def open_table(path: Path) -> VectorTable:
    """Read a table of features: .npy, .npz (an array of rows, and names) or .parquet."""
    if not path.is_file():
        raise MissingData(f"{path} does not exist. Expected a table of features. Check the path.")
    read = {".npy": _read_npy, ".npz": _read_npz, ".parquet": _read_parquet}.get(path.suffix.lower())
    if read is None:
        raise invalid("a table of features", f"be one of {', '.join(SUFFIXES)}", path.name, "Save it as .npz.")
    try:
        vectors, listed = read(path)
    except SelfsortError:
        raise
    except Exception as error:  # NumPy, zipfile, zlib and pyarrow raise almost anything on a damaged file
        raise InvalidInput(
            f"{path} cannot be read as a table of features ({first_line(error)}). Expected "
            "one row of numbers per picture. Save it anew, for example with numpy.save."
        ) from error
    return VectorTable(path, _checked(path, vectors), None if listed is None else _names(path, listed, len(vectors)))


def _names(path: Path, listed: list[Any], n: int) -> tuple[str, ...]:
    if len(listed) != n or any(isinstance(name, list | dict | None) for name in listed):
        raise InvalidInput(
            f"{path} has {len(listed)} names for {n} rows, or names that are no texts. Expected one name for each row. "
            "Save both anew."
        )
    texts = (name.decode("utf-8", "surrogateescape") if isinstance(name, bytes) else str(name) for name in listed)
    return tuple(PurePosixPath(text).as_posix() for text in texts)


def _checked(path: Path, vectors: npt.NDArray[Any]) -> F32:
    if vectors.ndim != 2 or vectors.dtype.kind not in "fiu" or 0 in vectors.shape:
        raise invalid(
            f"{path}",
            "hold one row of numbers per picture",
            f"{vectors.dtype} of shape {vectors.shape}",
            "Flatten each picture's features.",
        )
    with np.errstate(over="ignore"):  # what is too large becomes infinite
        rows: F32 = np.ascontiguousarray(vectors, dtype=np.float32)
    broken = np.flatnonzero(~np.isfinite(rows).all(axis=1))
    if len(broken):
        raise InvalidInput(
            f"{path} has NaN or infinity in {len(broken)} rows, first in row {broken[0]}. Expected finite numbers. "
            "Look for pictures that the features could not be computed for."
        )
    return rows


Table = tuple[npt.NDArray[Any], list[Any] | None]


def _read_npy(path: Path) -> Table:
    # Mapping lets NumPy compare the header with the file's size before any memory is taken.
    return np.array(np.lib.format.open_memmap(path, mode="r")), None


def _read_npz(path: Path) -> Table:
    with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
        tables = [key for key in archive.files if archive[key].ndim == 2]
        key = next((key for key in _VECTOR_KEYS if key in tables), tables[0] if len(tables) == 1 else None)
        if key is None:
            raise ValueError(f"no array called features among {', '.join(archive.files) or 'none'}")
        listed = next((archive[name] for name in _NAME_KEYS if name in archive.files), None)
        return archive[key], None if listed is None else list(np.atleast_1d(listed).tolist())


def _read_parquet(path: Path) -> Table:
    try:
        import pyarrow
        from pyarrow import compute, parquet
    except ImportError:
        raise missing_extra("pyarrow", "a .parquet table", "datasets") from None
    table = parquet.read_table(path)
    # What pandas calls the rows is no feature.
    columns = [name for name in table.column_names if not name.startswith("__index_level_")]
    listed = next((name for name in _NAME_KEYS if name in columns), None)
    names = None if listed is None else table[listed].to_pylist()
    nested = next((name for name in _VECTOR_KEYS if name in columns and _holds_lists(pyarrow, table[name])), None)
    if nested is None:
        return np.column_stack([table[name].to_numpy() for name in columns if name != listed]), names
    lengths = compute.unique(compute.list_value_length(table[nested])).to_pylist()
    if len(lengths) != 1 or not lengths[0]:
        raise ValueError(f"the rows of {nested} have different lengths")
    return compute.list_flatten(table[nested]).to_numpy().reshape(table.num_rows, lengths[0]), names


def _holds_lists(pyarrow: Any, column: Any) -> bool:
    kinds = (pyarrow.types.is_list, pyarrow.types.is_large_list, pyarrow.types.is_fixed_size_list)
    return any(is_kind(column.type) for is_kind in kinds)
