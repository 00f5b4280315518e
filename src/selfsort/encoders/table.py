"""A table of one's own features: one row per picture, matched by name or by order."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from pathlib import Path, PurePosixPath
from typing import Any
from zipfile import BadZipFile

import numpy as np
import numpy.typing as npt

from selfsort.encoders.pictures import Pictures
from selfsort.errors import InvalidInput, MissingData, invalid, missing_extra
from selfsort.types import F32

SUFFIXES = (".npy", ".npz", ".parquet")

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
            if len(self.vectors) != len(names):
                raise InvalidInput(
                    f"{self.path} has {len(self.vectors)} rows for {len(names)} pictures, and no names to match them "
                    "by. Expected one row per picture, in their order. Save names beside the features, in an .npz."
                )
            return self.vectors
        places = _places(self.path, self.names)
        # A table may be made inside the folder or above it: a name that ends in the picture's name is enough.
        found = [places.get(PurePosixPath(name).as_posix()) for name in names]
        missing = [name for name, place in zip(names, found, strict=True) if place is None]
        if missing:
            raise InvalidInput(
                f"{self.path} has no row for {len(missing)} of {len(names)} pictures, such as {missing[0]!r}. Expected "
                "a row for every picture that can be read. Add them, or take the pictures out of the source."
            )
        rows: F32 = self.vectors[[place for place in found if place is not None]]
        return rows


def _places(path: Path, names: tuple[str, ...]) -> dict[str, int]:
    places: dict[str, int] = {}
    for place, name in enumerate(names):
        if name in places:
            raise InvalidInput(
                f"{path} has more than one row for {name!r}. Expected each picture once. Remove the repeated rows."
            )
        places[name] = place
    return places


def open_table(path: Path) -> VectorTable:
    """Read a table of features: .npy, .npz (an array of rows, and names) or .parquet."""
    if not path.is_file():
        raise MissingData(f"{path} does not exist. Expected a table of features. Check the path.")
    read = {".npy": _read_npy, ".npz": _read_npz, ".parquet": _read_parquet}.get(path.suffix.lower())
    if read is None:
        raise invalid("a table of features", f"be one of {', '.join(SUFFIXES)}", path.name, "Save it as .npz.")
    try:
        vectors, names = read(path)
    except (ValueError, OSError, EOFError, KeyError, BadZipFile, TypeError, AttributeError) as error:
        raise InvalidInput(
            f"{path} cannot be read as a table of features ({(str(error).splitlines() or [''])[0][:120]}). Expected "
            "one row of numbers per picture. Save it anew, for example with numpy.save."
        ) from error
    return VectorTable(path, _checked(path, vectors), names)


def _checked(path: Path, vectors: npt.NDArray[Any]) -> F32:
    if vectors.ndim != 2 or vectors.dtype.kind not in "fiu" or 0 in vectors.shape:
        raise invalid(
            f"{path}",
            "hold one row of numbers per picture",
            f"{vectors.dtype} of shape {vectors.shape}",
            "Flatten each picture's features.",
        )
    rows: F32 = np.ascontiguousarray(vectors, dtype=np.float32)
    broken = np.flatnonzero(~np.isfinite(rows).all(axis=1))
    if len(broken):
        raise InvalidInput(
            f"{path} has NaN or infinity in {len(broken)} rows, first in row {broken[0]}. Expected finite numbers. "
            "Look for pictures that the features could not be computed for."
        )
    return rows


Table = tuple[npt.NDArray[Any], tuple[str, ...] | None]


def _read_npy(path: Path) -> Table:
    with path.open("rb") as file:  # np.load leaves a broken file open
        return np.load(file, allow_pickle=False), None


def _read_npz(path: Path) -> Table:
    with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
        tables = [key for key in archive.files if archive[key].ndim == 2]
        key = next((key for key in _VECTOR_KEYS if key in tables), tables[0] if len(tables) == 1 else None)
        if key is None:
            raise ValueError(f"no array called features among {', '.join(archive.files) or 'none'}")
        listed = next((archive[name] for name in _NAME_KEYS if name in archive.files), None)
        return archive[key], None if listed is None else tuple(map(str, listed.tolist()))


def _read_parquet(path: Path) -> Table:
    try:
        from pyarrow import parquet
    except ImportError:
        raise missing_extra("pyarrow", "a .parquet table", "datasets") from None
    try:
        table = parquet.read_table(path)
    except Exception as error:  # pyarrow's errors are its own
        raise ValueError(str(error)) from error
    columns = table.column_names
    listed = next((name for name in _NAME_KEYS if name in columns), None)
    names = None if listed is None else tuple(map(str, table[listed].to_pylist()))
    nested = next((name for name in _VECTOR_KEYS if name in columns), None)
    if nested is not None:
        return np.asarray(table[nested].to_pylist(), dtype=np.float32), names
    numbers = [name for name in columns if name != listed]
    return np.column_stack([table[name].to_numpy() for name in numbers]), names
