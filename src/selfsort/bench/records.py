"""What was measured: one JSON line a cell, in one file a table, kept in the repository and shipped with the package.

A line is written whole, or taken away again when the next one is written. The newest line of a key counts.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from selfsort.bench.cells import as_of_today
from selfsort.errors import CannotWrite, InvalidInput
from selfsort.types import Json

SHIPPED = Path(__file__).parent / "records"

_FIELDS: dict[str, type | tuple[type, ...]] = {
    "key": str,
    "dataset": str,
    "method": str,
    "settings_digest": str,
    "seed": int,
}


def read_records(folders: Iterable[Path]) -> dict[str, Json]:
    """Return the records of all tables by key, as if they were of today; those of later folders win."""
    found: dict[str, Json] = {}
    for path in (path for folder in folders for path in sorted(folder.glob("*.jsonl"))):
        for record in map(as_of_today, _lines(path)):
            # The newest stands last, also in the order of the mapping.
            found.pop(record["key"], None)
            found[record["key"]] = record
    return found


def _lines(path: Path) -> list[Json]:
    records = []
    lines = path.read_bytes().split(b"\n")
    for number, line in enumerate(lines, start=1):
        is_torn = number == len(lines)  # a whole line ends with a line break
        if not line or is_torn:
            continue
        record = _parse(line)
        if record is None:
            raise InvalidInput(
                f"line {number} of {path} is no record of a measurement. Expected what selfsort bench wrote. "
                "Restore the file, or delete that line."
            )
        records.append(record)
    return records


def _parse(line: bytes) -> Json | None:
    try:
        record: Any = json.loads(line)
    except ValueError:
        return None
    is_right = isinstance(record, dict) and all(isinstance(record.get(name), kind) for name, kind in _FIELDS.items())
    return record if is_right and ("scores" in record) != ("refused" in record) else None


def was_stopped_before(record: Json, cell_seconds: int) -> bool:
    """Tell whether a fit was given up although it may take longer now.

    >>> was_stopped_before({"refused": "stopped", "cpu_limit": 60}, 120), was_stopped_before({"refused": "no"}, 120)
    (True, False)
    """
    return "refused" in record and int(record.get("cpu_limit", cell_seconds)) < cell_seconds


def append_record(folder: Path, table: str, record: Json) -> None:
    """Add a line to the file of a table; it is on the disk when this returns."""
    path = folder / f"{table}.jsonl"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with path.open("a+b") as file:
            file.seek(0)
            file.truncate(_whole(file.read()))
            file.write((json.dumps(record, sort_keys=True) + "\n").encode())
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise CannotWrite(
            f"{path} could not be written ({error.strerror or error}). Expected a writable folder with enough space. "
            "Name another folder with --records."
        ) from error


def keep_record(known: dict[str, Json], folder: Path, table: str, record: Json) -> None:
    """Add a line to the file of a table, and the record to those that are known: as the newest."""
    append_record(folder, table, record)
    known.pop(record["key"], None)
    known[record["key"]] = record


def _whole(content: bytes) -> int:
    r"""Return how many bytes are whole lines: a kill may have torn the last one.

    >>> _whole(b"one\ntw"), _whole(b"one"), _whole(b"")
    (4, 0, 0)
    """
    return content.rfind(b"\n") + 1
