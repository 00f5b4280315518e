"""The run folder: everything about one run on disk, written whole or not at all, nothing pickled.

    config.json      method, every setting, seed, versions, fingerprint of the data; format version
    events.jsonl     one line per epoch or merge round, then one line with how it ended
    labels.csv       name, cluster, confidence: written last, so its presence means "finished"
    features.npy  soft.npy  model.safetensors  extras.safetensors  ingest.json  metrics.json
    truth.npy        the labels given for scoring, if any; only scores and reports read it
    thumbnails.npz   small copies of some images for the report
    history/         arrays of single stages, for figures
    resume/          what is needed to go on

A folder from a stranger can be opened safely: every read checks form and size and ends in an
`InvalidInput`, never in executed code.
"""

from __future__ import annotations

import csv
import io
import json
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as to_safetensors

from selfsort.errors import CannotWrite, InvalidInput, MissingData
from selfsort.types import F32, I64, U8, Arrays, Clustering, Json, State

FORMAT = 1
"""Raised when a reader of today could misread a folder of yesterday; older formats stay readable."""

_JSON_LIMIT = 256 * 2**20


@dataclass(frozen=True, eq=False)
class LabelTable:
    """The rows of labels.csv."""

    names: tuple[str, ...]
    labels: I64
    confidence: F32


@dataclass(frozen=True, eq=False)
class Thumbnails:
    """Small copies of some of the images, for looking at clusters without the source."""

    rows: I64
    """(M,) which image each one shows."""
    pixels: U8
    """(M, h, w, C)."""


class RunFolder:
    """One run on disk. `create` starts a new one, `open` reads any."""

    def __init__(self, path: Path, config: Json) -> None:
        self.path = path
        self.config = config

    @classmethod
    def create(cls, path: str | Path, config: Json) -> RunFolder:
        """Make a new run folder; an existing non-empty folder is refused, never overwritten."""
        path = Path(path)
        cls.refuse_occupied(path)
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise _cannot_write(path, error) from error
        run = cls(path, {"format": FORMAT, **config})
        run.write_json("config.json", run.config)
        return run

    @staticmethod
    def refuse_occupied(path: Path) -> None:
        """Raise unless the path is free or an empty folder."""
        if path.is_dir() and any(path.iterdir()):
            held = "a run already" if (path / "config.json").exists() else "files that are not a run"
            raise InvalidInput(
                f"the output folder {path} holds {held}. It must be new or empty. "
                "Choose another --out, or continue an unfinished run with --resume."
            )
        if path.exists() and not path.is_dir():
            raise InvalidInput(f"the output {path} is a file. It must be a folder. Choose another --out.")

    @classmethod
    def open(cls, path: str | Path) -> RunFolder:
        """Open an existing run folder."""
        path = Path(path)
        if not (path / "config.json").is_file():
            raise MissingData(
                f"{path} is not a run folder (it has no config.json). "
                "Expected a folder written by selfsort fit. Check the path."
            )
        config = cls(path, {}).read_json("config.json")
        version = config.get("format")
        if not isinstance(version, int) or not 1 <= version <= FORMAT:
            raise InvalidInput(
                f"the run {path} has format {version!r}. This selfsort reads formats 1 to {FORMAT}. Update selfsort."
            )
        for key, kind in (("method", str), ("settings", dict), ("seed", int), ("image", dict)):
            if not isinstance(config.get(key), kind):
                raise _damaged(path / "config.json", f"{key!r} is missing or of the wrong type")
        return cls(path, config)

    @property
    def is_finished(self) -> bool:
        """True once the result is complete on disk."""
        return (self.path / "labels.csv").is_file()

    # --- while running -------------------------------------------------------------------------------

    def append_event(self, event: Json) -> None:
        """Add a line to events.jsonl."""
        line = json.dumps(event, allow_nan=True) + "\n"
        try:
            with (self.path / "events.jsonl").open("a", encoding="utf-8") as file:
                file.write(line)
        except OSError as error:
            raise _cannot_write(self.path / "events.jsonl", error) from error

    def events(self) -> list[Json]:
        """Return the event lines; a last line torn by a kill is left out."""
        path = self.path / "events.jsonl"
        if not path.is_file():
            return []
        events = []
        for line in _read_text(path).splitlines():
            try:
                event = json.loads(line)
            except json.JSONDecodeError:
                continue
            if isinstance(event, dict):
                events.append(event)
        return events

    def keep_events_until(self, step: int) -> None:
        """Forget events after a step: they belong to work that a resumed run will do again."""
        kept = [event for event in self.events() if isinstance(event.get("step"), int) and event["step"] <= step]
        text = "".join(json.dumps(event) + "\n" for event in kept)
        self._write("events.jsonl", lambda file: file.write(text.encode()))

    def save_resume(self, step: int, state: State) -> None:
        """Replace the resume state. One file holds arrays and JSON, so that it is replaced as a whole."""
        self.write_state("resume/state.safetensors", State(state.arrays, {"step": step, "state": state.meta}))

    def load_resume(self) -> tuple[int, State] | None:
        """Return the step reached and the state there, or None if nothing was saved yet."""
        if not (self.path / "resume/state.safetensors").is_file():
            return None
        saved = self.read_state("resume/state.safetensors")
        step, meta = saved.meta.get("step"), saved.meta.get("state")
        if not isinstance(step, int) or not isinstance(meta, dict):
            raise _damaged(self.path / "resume/state.safetensors", "it lacks its step or its counters")
        return step, State(saved.arrays, meta)

    def save_history(self, step: int, arrays: Arrays) -> None:
        """Keep arrays of one stage for figures."""
        self.write_state(f"history/step-{step:06d}.safetensors", State(arrays))

    def history(self) -> dict[int, Arrays]:
        """Return the kept stages by step."""
        stages = {}
        for path in sorted((self.path / "history").glob("step-*.safetensors")):
            if match := re.fullmatch(r"step-(\d+)\.safetensors", path.name):
                stages[int(match[1])] = self.read_state(f"history/{path.name}").arrays
        return stages

    # --- the result ------------------------------------------------------------------------------------

    def save_result(self, clustering: Clustering, names: Sequence[str]) -> None:
        """Write the result; labels.csv comes last and makes the run finished."""
        self.write_array("features.npy", clustering.features)
        self.write_array("soft.npy", clustering.soft)
        self.write_state("model.safetensors", clustering.model)
        if clustering.extras:
            self.write_state("extras.safetensors", State(clustering.extras))
        confidence = clustering.soft[np.arange(len(clustering.labels)), clustering.labels]
        self.write_labels("labels.csv", names, clustering.labels, confidence)
        shutil.rmtree(self.path / "resume", ignore_errors=True)

    def result(self) -> Clustering:
        """Read the result back, checking that its parts belong together."""
        table = self.label_table()
        features, soft = self.read_array("features.npy", 2, np.float32), self.read_array("soft.npy", 2, np.float32)
        if not len(table.labels) == len(features) == len(soft):
            raise _damaged(self.path, "labels.csv, features.npy and soft.npy have different lengths")
        if len(table.labels) and int(table.labels.max()) >= soft.shape[1]:
            raise _damaged(self.path / "labels.csv", "it names a cluster that soft.npy does not have")
        extras = self.read_state("extras.safetensors").arrays if (self.path / "extras.safetensors").is_file() else {}
        return Clustering(table.labels, soft, features, self.read_state("model.safetensors"), extras)

    def label_table(self) -> LabelTable:
        """Read labels.csv."""
        path = self.path / "labels.csv"
        if not path.is_file():
            raise MissingData(
                f"the run {self.path} is not finished (it has no labels.csv). "
                f"Expected a finished run. Continue it with: selfsort fit --resume {self.path}."
            )
        rows = list(csv.reader(io.StringIO(_read_text(path), newline="")))
        if not rows or rows[0] != ["name", "cluster", "confidence"]:
            raise _damaged(path, "its header is not name,cluster,confidence")
        try:
            names = tuple(row[0] for row in rows[1:])
            labels = np.array([int(row[1]) for row in rows[1:]], dtype=np.int64)
            confidence = np.array([float(row[2]) for row in rows[1:]], dtype=np.float32)
        except (ValueError, IndexError, OverflowError) as error:
            raise _damaged(path, "a row is not name, whole number, number") from error
        if len(labels) and labels.min() < 0:
            raise _damaged(path, "a cluster number is negative")
        return LabelTable(names, labels, confidence)

    def write_labels(self, name: str, names: Sequence[str], labels: I64, confidence: F32) -> None:
        """Write a label table into the folder."""
        self._write(name, lambda file: file.write(label_csv(names, labels, confidence)))

    def save_truth(self, truth: I64, names: Sequence[str] | None) -> None:
        """Keep the labels given for scoring."""
        self.write_array("truth.npy", truth)
        if names is not None:
            self.write_json("truth.json", {"names": list(names)})

    def truth(self) -> I64 | None:
        """Return the labels given for scoring, if there were any."""
        return self.read_array("truth.npy", 1, np.int64) if (self.path / "truth.npy").is_file() else None

    def truth_names(self) -> list[str] | None:
        """Return the class names that go with `truth`."""
        return self.read_json("truth.json")["names"] if (self.path / "truth.json").is_file() else None

    def save_thumbnails(self, thumbnails: Thumbnails) -> None:
        """Keep small copies of some images."""
        self._write(
            "thumbnails.npz",
            lambda file: np.savez_compressed(file, rows=thumbnails.rows, pixels=thumbnails.pixels),
        )

    def thumbnails(self) -> Thumbnails | None:
        """Return the kept small copies."""
        path = self.path / "thumbnails.npz"
        if not path.is_file():
            return None
        try:
            with np.load(path, allow_pickle=False) as archive:
                rows, pixels = archive["rows"], archive["pixels"]
        except Exception as error:  # zipfile and NumPy raise many kinds on a damaged archive
            raise _damaged(path, str(error)) from error
        if pixels.dtype != np.uint8 or pixels.ndim != 4 or rows.shape != pixels.shape[:1]:
            raise _damaged(path, "its arrays do not fit together")
        return Thumbnails(rows.astype(np.int64), pixels)

    # --- files -------------------------------------------------------------------------------------------

    def write_json(self, name: str, value: Json) -> None:
        """Write a JSON file whole."""
        text = json.dumps(value, indent=2, sort_keys=False) + "\n"
        self._write(name, lambda file: file.write(text.encode()))

    def read_json(self, name: str) -> Json:
        """Read a JSON object."""
        try:
            value = json.loads(_read_text(self.path / name))
        except (json.JSONDecodeError, RecursionError) as error:
            raise _damaged(self.path / name, "it is not JSON") from error
        if not isinstance(value, dict):
            raise _damaged(self.path / name, "it is not a JSON object")
        return value

    def write_text(self, name: str, text: str) -> None:
        """Write a text file whole."""
        self._write(name, lambda file: file.write(text.encode()))

    def write_array(self, name: str, array: np.ndarray[Any, Any]) -> None:
        """Write a .npy file whole."""
        self._write(name, lambda file: np.save(file, array, allow_pickle=False))

    def read_array(self, name: str, ndim: int, dtype: type[np.generic]) -> np.ndarray[Any, Any]:
        """Read a .npy file of the expected form."""
        path = self.path / name
        if not path.is_file():
            raise _damaged(path, "it is missing")
        try:
            # Mapping first lets NumPy compare the header with the file's size before any memory is taken.
            array = np.array(np.load(path, mmap_mode="r", allow_pickle=False))
        except (ValueError, OSError, EOFError, SyntaxError, MemoryError, OverflowError) as error:
            raise _damaged(path, str(error)) from error
        if array.ndim != ndim or array.dtype != dtype:
            raise _damaged(path, f"it holds {array.dtype} of {array.ndim} dimensions")
        return array

    def write_state(self, name: str, state: State) -> None:
        """Write arrays and JSON as one safetensors file."""
        arrays = {key: np.ascontiguousarray(value) for key, value in state.arrays.items()}
        payload = to_safetensors(arrays, metadata={"json": json.dumps(state.meta)})
        self._write(name, lambda file: file.write(payload))

    def read_state(self, name: str) -> State:
        """Read what `write_state` wrote."""
        path = self.path / name
        if not path.is_file():
            raise _damaged(path, "it is missing")
        try:
            with safe_open(path, framework="numpy") as file:
                arrays = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118 (not a dict)
                meta = json.loads((file.metadata() or {}).get("json", "{}"))
        except (SafetensorError, OSError, ValueError, TypeError, RecursionError) as error:
            raise _damaged(path, str(error)) from error
        if not isinstance(meta, dict):
            raise _damaged(path, "its description is not a JSON object")
        return State(arrays, meta)

    def _write(self, name: str, fill: Callable[[IO[bytes]], object]) -> None:
        write_whole(self.path / name, fill)


def write_whole(path: Path, fill: Callable[[IO[bytes]], object]) -> None:
    """Write a file under a temporary name, then rename it: a reader sees the old one or the new one."""
    temporary: str | None = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        with os.fdopen(handle, "wb") as file:
            fill(file)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).chmod(0o666 & ~_umask())
        Path(temporary).replace(path)
    except BaseException as error:
        if temporary is not None:
            Path(temporary).unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise _cannot_write(path, error) from error
        raise


def label_csv(names: Sequence[str], labels: I64, confidence: F32) -> bytes:
    """Format a label table; names keep bytes that are not UTF-8 as they are on disk."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["name", "cluster", "confidence"])
    writer.writerows(
        (name, int(label), f"{float(sure):.6f}") for name, label, sure in zip(names, labels, confidence, strict=True)
    )
    return text.getvalue().encode("utf-8", "surrogateescape")


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current


def _read_text(path: Path) -> str:
    try:
        if path.stat().st_size > _JSON_LIMIT:
            raise _damaged(path, "it is larger than such a file can be")
        return path.read_bytes().decode("utf-8", "surrogateescape")
    except OSError as error:
        raise _damaged(path, error.strerror or str(error)) from error


def _damaged(path: Path, reason: str) -> InvalidInput:
    return InvalidInput(
        f"{path} cannot be used ({reason}). Expected a run folder as selfsort wrote it. "
        "It was changed or damaged: restore it, or run selfsort fit again."
    )


def _cannot_write(path: Path, error: OSError) -> CannotWrite:
    return CannotWrite(
        f"{path} could not be written ({error.strerror or error}). Expected a writable folder with enough space. "
        "Free some space or choose another --out; nothing half-written was left."
    )
