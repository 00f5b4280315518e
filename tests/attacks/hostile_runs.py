"""Run folders as a stranger might send them: small sound runs of several methods, then damage made at random.

Each generator draws from the given stream alone, so a seed names a folder that can be made again.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import sqlite3
import struct
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from tests.attacks.hostile_sources import damage

VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 2, 3, 0.5, -0.0, 1e-320, 1e308, 2**31, 2**53, 2**63 - 1, 2**63, 2**64, 10**40),
    *(
        10**320,
        -(10**400),
        100_000,
        "",
        "a",
        "0",
        "\0",
        "\ud800",
        "\udcff",
        "\U0001f984",
        "\u202e",
        "..",
        "/",
        "~nobody",
    ),
    *("x" * 300, "x" * 70_000, "<b>&amp;</b>", "\x1b[31m\n", [], {}, [[]], [0], [1, 2, 3], ["a"], [None], {"a": 1}),
    *({"": []}, [[[[1]]]], [1] * 1000, "cpu", "cuda:7", "meta", "kmeans", "self-label", "jule", "/proc", "nan"),
)
RAW_JSON = ("1e400", "-1e400", "NaN", "Infinity", "9" * 5000, "[" * 60 + "]" * 60, "[" * 3000, '"\\ud800"', "01", "'a'")
_RAW = "\u2603raw\u2603"


def mutated_run(rng: np.random.Generator, sound: Path, folder: Path) -> Path:
    """Copy a sound run into the folder, change a little of it, and return its path."""
    run = folder / "run"
    shutil.copytree(sound, run)
    for _ in range(int(rng.integers(1, 3))):
        files = [path for path in sorted(run.rglob("*")) if path.is_file() and path.name != "lock"]
        if files:
            _draw(rng, _WAYS)(rng, run, _draw(rng, files))
    return run


def _draw(rng: np.random.Generator, choices: Any) -> Any:
    return choices[int(rng.integers(len(choices)))]


# ---- ways to change a run ----------------------------------------------------------------------------------


def _flip(rng: np.random.Generator, run: Path, file: Path) -> None:
    file.write_bytes(damage(rng, file.read_bytes()))


def _cut(rng: np.random.Generator, run: Path, file: Path) -> None:
    file.write_bytes(file.read_bytes()[: int(rng.integers(0, file.stat().st_size + 1))])


def _remove(rng: np.random.Generator, run: Path, file: Path) -> None:
    file.unlink()


def _swap(rng: np.random.Generator, run: Path, file: Path) -> None:
    other = _draw(rng, [path for path in sorted(run.rglob("*")) if path.is_file()])
    mine, others = file.read_bytes(), other.read_bytes()
    file.write_bytes(others)
    other.write_bytes(mine)


def _replace_by_oddity(rng: np.random.Generator, run: Path, file: Path) -> None:
    file.unlink()
    match int(rng.integers(4)):
        case 0:
            (elsewhere := run.with_name("elsewhere")).write_text("nothing of the run's")
            file.symlink_to(elsewhere)
        case 1:
            file.symlink_to(file.name)
        case 2:
            file.mkdir()
        case _:
            os.mkfifo(file)


def _change_json(rng: np.random.Generator, run: Path, file: Path) -> None:
    """Put a hostile value somewhere into a JSON file, or take an entry away."""
    found = [path for path in (file, run / "config.json") if path.suffix == ".json" and path.is_file()]
    if not found:
        return
    try:
        value = json.loads(found[0].read_bytes())
    except (ValueError, RecursionError):
        return
    found[0].write_text(_hostile(rng, value), encoding="utf-8", errors="surrogateescape")


def _change_event(rng: np.random.Generator, run: Path, file: Path) -> None:
    path = run / "events.jsonl"
    if not path.is_file():
        return
    lines = path.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    try:
        place = int(rng.integers(len(lines)))
        lines[place] = _hostile(rng, json.loads(lines[place]))
    except (ValueError, RecursionError):
        return
    path.write_text("\n".join([*lines, ""]), encoding="utf-8", errors="surrogateescape")


def _change_row(rng: np.random.Generator, run: Path, file: Path) -> None:
    path = run / "labels.csv"
    if not path.is_file():
        return
    rows = [line.split(",") for line in path.read_text(encoding="utf-8", errors="surrogateescape").splitlines()]
    row = _draw(rng, rows or [[""]])
    odd = ["", "0", "-1", "17", "1e3", "9" * 30, "nan", "inf", '"', "\0", "../../x", "/etc/hostname", "x" * 300, "0.5"]
    row[int(rng.integers(len(row)))] = _draw(rng, odd)
    path.write_text("\n".join(",".join(row) for row in rows) + "\n", encoding="utf-8", errors="surrogateescape")


def _change_tensors(rng: np.random.Generator, run: Path, file: Path) -> None:
    """Rewrite a safetensors file: other values, shapes, types or names, fewer entries, another description."""
    found = sorted(run.rglob("*.safetensors"))
    if not found:
        return
    path = _draw(rng, found)
    try:
        arrays, meta = _unpack(path.read_bytes())
        described = json.loads(meta)
    except (ValueError, KeyError, struct.error, TypeError, AttributeError, RecursionError):
        return
    if rng.random() < 0.4:
        meta = _hostile(rng, described)
    elif arrays:
        name = _draw(rng, sorted(arrays))
        changed = _odd_array(rng, arrays.pop(name))
        if changed is not None:
            arrays[name if rng.random() < 0.9 else name + "x"] = changed
    path.write_bytes(_pack(arrays, meta))


def _change_array(rng: np.random.Generator, run: Path, file: Path) -> None:
    found = [path for path in sorted(run.glob("*.np[yz]")) if path.is_file()]
    if not found:
        return
    path = _draw(rng, found)
    try:
        loaded = np.load(path, allow_pickle=False)
        arrays = {"": loaded} if path.suffix == ".npy" else dict(loaded)
        name = _draw(rng, sorted(arrays))
        changed = _odd_array(rng, arrays.pop(name))
    except (ValueError, OSError, zipfile.BadZipFile, EOFError, KeyError, AttributeError, MemoryError):
        return
    if changed is not None:
        arrays[name] = changed
    stream = io.BytesIO()
    if path.suffix == ".npy":
        np.save(stream, arrays.get("", np.zeros(0)))
    else:
        np.savez_compressed(stream, **arrays)
    path.write_bytes(stream.getvalue())


def _add_edits(rng: np.random.Generator, run: Path, file: Path) -> None:
    """Put a journal of edits beside the labels, sound, hostile or damaged."""
    import hashlib

    path = run / "edits.sqlite"
    if path.exists() or not (run / "labels.csv").is_file():
        return
    labels = hashlib.sha256((run / "labels.csv").read_bytes()).hexdigest()
    with sqlite3.connect(path, isolation_level=None) as connection:
        connection.execute("CREATE TABLE origin (labels_sha256 TEXT NOT NULL)")
        connection.execute(
            "CREATE TABLE edit (id INTEGER PRIMARY KEY, kind TEXT NOT NULL, detail TEXT NOT NULL,"
            " made_at TEXT NOT NULL, is_undone INTEGER NOT NULL DEFAULT 0)"
        )
        connection.execute("INSERT INTO origin VALUES (?)", (labels,))
        edits: list[tuple[str, Any]] = [
            ("rename", {"cluster": 0, "name": "cats"}),
            ("move", {"rows": [0, 1], "to": 1}),
            ("mark", {"rows": [2], "is_wrong": True}),
            ("merge", {"clusters": [0, 1], "into": 0}),
        ]
        for kind, detail in edits[: int(rng.integers(5))]:
            text = _hostile(rng, detail) if rng.random() < 0.3 else json.dumps(detail)
            values: Any = (
                kind if rng.random() < 0.9 else _draw(rng, ["", "split", b"\xff"]),
                text,
                "2020-01-01T00:00:00Z",
            )
            connection.execute(
                "INSERT INTO edit (kind, detail, made_at) VALUES (?, ?, ?)",
                [value.encode("utf-8", "replace").decode() if isinstance(value, str) else value for value in values],
            )
        connection.execute(f"PRAGMA user_version = {_draw(rng, [1, 1, 1, 0, 2**31 - 1])}")
    connection.close()
    if rng.random() < 0.6:
        content = bytearray(path.read_bytes())
        for _ in range(int(rng.integers(1, 40))):
            content[int(rng.integers(len(content)))] = int(rng.integers(256))
        path.write_bytes(content)


_WAYS: tuple[Callable[[np.random.Generator, Path, Path], None], ...] = (
    *(_flip, _cut, _remove, _swap, _replace_by_oddity, _change_row, _add_edits),
    *(_change_json,) * 5,
    *(_change_event,) * 2,
    *(_change_tensors,) * 4,
    *(_change_array,) * 3,
)


# ---- hostile values ----------------------------------------------------------------------------------------


def _hostile(rng: np.random.Generator, value: Any) -> str:
    """Return the JSON text of a value of which one entry was changed or taken away."""
    places = list(_places(value))
    raw = None
    if not places:
        value = _draw(rng, VALUES)
    else:
        holder, key = _draw(rng, places)
        if isinstance(holder, dict) and rng.random() < 0.2:
            del holder[key]
        elif rng.random() < 0.25:
            holder[key], raw = _RAW, _draw(rng, RAW_JSON)
        else:
            holder[key] = _draw(rng, VALUES)
    text = json.dumps(value)
    return text if raw is None else text.replace(json.dumps(_RAW), raw)


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """List every entry inside a JSON value as its holder and its key."""
    keys = list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for key in keys:
        yield value, key
        yield from _places(value[key])


def _odd_array(rng: np.random.Generator, array: Any) -> Any:
    """Return the array with other values, another shape or another type; None stands for no array at all."""
    array = np.array(array)
    match int(rng.integers(10)):
        case 0:
            return None
        case 1:
            return array[..., :0] if array.ndim else array.reshape(1)
        case 2:
            return array[:0] if array.ndim else np.zeros((0, 0), array.dtype)
        case 3:
            return array[None]
        case 4:
            return array.reshape(-1)
        case 5:
            return array.astype(
                _draw(rng, [np.float64, np.float32, np.int64, np.uint8, np.bool_, np.float16, np.int32])
            )
        case 6:
            return array[: int(rng.integers(len(array) + 1))] if array.ndim else array
        case 7:
            return np.concatenate([array, array]) if array.ndim else np.array([array, array])
        case _:
            odd = np.atleast_1d(array.copy())
            kind = odd.dtype.kind
            values = [np.nan, np.inf, -np.inf, 1e38, -1.0, 0.0] if kind == "f" else [0, 1, 17, 100, 127]
            values += [-1, -(2**31), 2**31 - 1] if kind == "i" and odd.itemsize >= 4 else []
            with np.errstate(all="ignore"):
                value = np.array(_draw(rng, values)).astype(odd.dtype)
            if rng.random() < 0.5 or not odd.size:
                odd[...] = value
            else:
                odd.flat[int(rng.integers(odd.size))] = value
            return odd.reshape(array.shape)


def _unpack(content: bytes) -> tuple[dict[str, Any], str]:
    from safetensors.numpy import load

    (length,) = struct.unpack("<Q", content[:8])
    header = json.loads(content[8 : 8 + length])
    try:
        return dict(load(content)), str(header.get("__metadata__", {}).get("json", "{}"))
    except Exception as error:
        raise ValueError("damaged already") from error


def _pack(arrays: dict[str, Any], meta: str) -> bytes:
    from safetensors.numpy import save

    kept = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    return save(kept, metadata={"json": meta.encode("utf-8", "replace").decode()})
