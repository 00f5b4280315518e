"""The run folder: everything about one run on disk, written whole or not at all, nothing pickled.

    config.json      method, every setting, seed, versions, fingerprint of the data; format version. Settings
                     written under older names are read under those of today
    events.jsonl     one line per epoch or merge round, then one line with how it ended
    labels.csv       name, cluster (-1 for outliers), confidence: written last, so its presence means "finished"
    features.npy  model.safetensors  extras.safetensors  ingest.json  metrics.json
    soft.npy         how strongly each image belongs to each cluster; very many as soft.safetensors (runs/soft.py)
    tree.safetensors how clusters join and fall apart, for other numbers of them
    truth.npy        the labels given for scoring, if any; only scores and reports read it
    thumbnails.npz   small copies of some images for the report
    names.json  words.json  suggested names, and what an encoder takes images for
    history/         arrays of single stages, for figures
    resume/          what is needed to go on, the labels so far, and the names of the images until labels.csv has them
    .starting        names of the files so far, until there is a config.json

A folder from a stranger can be opened safely: every read checks form and size and ends in an
`InvalidInput`, never in executed code; links are refused, so nothing outside the folder is read or written.
"""

from __future__ import annotations

import csv
import errno
import json
import math
import os
import re
import secrets
import warnings
import zipfile
from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from types import ModuleType
from typing import IO, Any, TypeVar

import numpy as np
import numpy.typing as npt
from safetensors import safe_open

from selfsort.data.store import allocate_floats
from selfsort.errors import CannotWrite, InvalidInput, MissingData
from selfsort.pages import forget, passes
from selfsort.runs.outliers import OUTLIERS, marked, numbered, written
from selfsort.runs.renamed import update_config
from selfsort.runs.soft import read_soft, write_soft
from selfsort.runs.table import HEADER, read_columns
from selfsort.types import F32, I64, U8, Arrays, Clustering, Json, State

fcntl: ModuleType | None
try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

FORMAT = 2
"""Raised when an older reader could misread a folder of today; older formats stay readable."""
_WITHOUT_OUTLIERS = 1
"""What has no cluster -1 is written in the format that all readers know."""

# A JSON text can take up twenty times its size in memory. labels.csv, which grows with the images, has no limit.
_TEXT_LIMIT = 48 * 2**20
_THUMBNAILS_LIMIT = 512 * 2**20
"""What is kept in memory at a time; further pictures are not shown."""
_BLOCK = 2**24
_TENSOR_NAMES = {"u8": "U64", "i8": "I64", "f8": "F64", "f4": "F32", "u4": "U32", "i4": "I32"} | {
    "f2": "F16",
    "u2": "U16",
    "i2": "I16",
    "i1": "I8",
    "u1": "U8",
    "b1": "BOOL",
}
"""Number formats by the names that NumPy and safetensors have for them, in the order that safetensors writes them."""
_FULL_PRECISION_BYTES = 2**28
"""Larger tables of features are kept at half precision: they are for looking and comparing, and make no model."""
_LARGE_BYTES = 2**26
"""From this size on an array of a model counts in the budget of the process, or goes to a mapped file."""
_LONGEST_WHOLE = 2**63
_LONGEST_STATE = 2**128
"""The generators of NumPy count in 128 bits."""
_EVENT_FORM: dict[str, type | tuple[type, ...]] = {
    "step": int,
    "total": int,
    "elapsed": (int, float),
    "seconds": (int, float),
    "warnings": list,
    "collapse": list,
}

T = TypeVar("T")


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


@dataclass(frozen=True, eq=False)
class Thumbnails:
    """Small copies of some of the images, for looking at clusters without the source."""

    rows: I64
    """(M,) which image each one shows."""
    pixels: U8
    """(M, h, w, C)."""


class RunFolder:
    """One run on disk. `creating` and `create` start a new one, `open` reads any."""

    def __init__(self, path: Path, config: Json) -> None:
        self.path = path
        self.config = config
        self._made: dict[Path, None] | None = None
        """Files and folders that this process has made, in order; None for a run that was there before."""
        self._journal: IO[bytes] | None = None
        """Where their names are kept until there is a config.json, so that a killed start can be begun again."""

    @classmethod
    @contextmanager
    def creating(cls, path: str | Path, config: Json) -> Iterator[RunFolder]:
        """Make a new run folder whose first files are written by the block; config.json comes after them.

        So whatever has a config.json is complete enough to be resumed. A failure takes back what was written.
        A folder with anything in it is refused, never overwritten; only what a killed start has left is replaced.
        """
        path = Path(path)
        cls.refuse_occupied(path)
        was_there = path.is_dir()
        try:
            _make_folder(path, exist_ok=was_there)
        except OSError as error:
            raise _cannot_write(path, error) from error
        run = cls(path, {"format": format_of(config), **config})
        with _locked(path, _STARTING) as run._journal:
            run._made = {} if was_there else {path: None}
            run._made[path / _STARTING] = None
            try:
                cls.refuse_occupied(path)  # again: another process may have been quicker
                for left in _left_by_killed_start(path) or ():
                    _remove(left)
                _sync(path)
                yield run
                run.write_json("config.json", run.config)
            except BaseException:
                run.discard()
                raise
            run._journal = None
            _remove(path / _STARTING)

    def discard(self) -> None:
        """Take back a new run: the files that this process has made, and no others. An opened run stays as it is."""
        for path in reversed(self._made or {}):
            _remove(path)

    @classmethod
    def create(cls, path: str | Path, config: Json) -> RunFolder:
        """Make a new run folder that holds config.json and nothing else yet."""
        with cls.creating(path, config) as run:
            pass
        return run

    @staticmethod
    def refuse_occupied(path: Path) -> None:
        """Raise unless the path is free or an empty folder."""
        try:
            is_folder, is_there = path.is_dir(), path.exists()
            is_occupied = is_folder and any(path.iterdir()) and _left_by_killed_start(path) is None
        except OSError as error:
            raise _cannot_write(path, error) from error
        if is_occupied:
            held = "a run already" if (path / "config.json").exists() else "files that are not a run"
            raise InvalidInput(
                f"the output folder {path} holds {held}. It must be new or empty. "
                "Choose another --out, or continue an unfinished run with --resume."
            )
        if is_there and not is_folder:
            raise InvalidInput(f"the output {path} is a file. It must be a folder. Choose another --out.")

    @classmethod
    def open(cls, path: str | Path) -> RunFolder:
        """Open an existing run folder."""
        path = Path(path)
        try:
            is_run = (path / "config.json").is_file()
        except OSError:  # no permission to look, or a name too long to exist
            is_run = False
        if not is_run:
            is_begun = _left_by_killed_start(path) is None
            raise MissingData(
                f"{path} is not a run folder (it has no config.json). Expected a folder written by selfsort fit. "
                + ("Check the path." if is_begun else "It was stopped before it began: start it again as before.")
            )
        _refuse_links(path)
        run = cls(path, cls(path, {}).read_json("config.json"))
        version = run.config.get("format")
        if not _is(version, int) or not 1 <= run.config["format"] <= FORMAT:
            raise InvalidInput(
                f"the run {path} has format {version!r}. This selfsort reads formats 1 to {FORMAT}. Update selfsort."
            )
        for key, kind in (("method", str), ("settings", dict), ("seed", int), ("image", dict)):
            run.field(key, kind)
        if run.has_outliers and run.config["format"] < FORMAT:
            raise _damaged(path / "config.json", "a run of its format has no outliers")
        run.config = update_config(run.config)
        for inner in ("features_from", "started_from"):
            if inner in run.config and not (path / inner).is_dir():
                raise _damaged(path / inner, "it is missing")
        return run

    def field(self, name: str, kind: type[T]) -> T:
        """Return an entry of config.json, or say that the file was changed."""
        value: Any = self.config.get(name)
        if not _is(value, kind):
            raise _damaged(self.path / "config.json", f"{name!r} is missing or of the wrong type")
        found: T = value
        return found

    @property
    def n_clusters(self) -> int:
        """Clusters asked for."""
        asked = self.field("settings", dict).get("n_clusters")
        if not isinstance(asked, int) or isinstance(asked, bool) or asked < 1:
            raise _damaged(self.path / "config.json", "'n_clusters' is not a whole number of at least 1")
        return asked

    @property
    def has_outliers(self) -> bool:
        """True if images that belong nowhere are a group of their own."""
        asked = self.config.get("outliers", False)
        if not isinstance(asked, bool):
            raise _damaged(self.path / "config.json", "'outliers' is neither true nor false")
        return asked

    @property
    def train_on(self) -> int | None:
        """How many images the method was to learn from; None: all."""
        return self.field("train_on", int) if "train_on" in self.config else None

    def look_for_images_in(self, source: str | Path) -> None:
        """Read images from another place than where they were; config.json stays as it is."""
        self.config = {**self.config, "source": {**self.field("source", dict), "path": str(Path(source).absolute())}}

    def holds(self, path: Path) -> bool:
        """True if a file of this name lies, or would lie, among those of the run."""
        return os.path.realpath(path.parent) == os.path.realpath(self.path)

    @property
    def is_finished(self) -> bool:
        """True once the result is complete on disk."""
        return (self.path / "labels.csv").is_file()

    def refuse_finished(self) -> None:
        """Raise if there is nothing left to do."""
        if self.is_finished:
            raise InvalidInput(
                f"the run {self.path} is finished already. Expected an unfinished run. "
                f"See it with: selfsort report {self.path}."
            )

    # --- while running -------------------------------------------------------------------------------

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keep other processes from writing to this run meanwhile; a killed process lets go by itself.

        A run that another process has finished since it was opened is refused.
        """
        path = self._mine("resume/lock")
        try:
            path.parent.mkdir(exist_ok=True)
        except OSError as error:
            raise _cannot_write(path, error) from error
        _sync(self.path)
        with _locked(self.path, "resume/lock"):
            if self.is_finished:
                self._sweep()
            self.refuse_finished()
            _remove(self.path / _STARTING)  # left by a kill just after config.json
            yield

    @property
    def source_kind(self) -> str:
        """What kind of source the images came from, as far as ingest.json says."""
        kind = self.read_json("ingest.json").get("kind") if (self.path / "ingest.json").is_file() else None
        return kind if isinstance(kind, str) else "unknown"

    def save_names(self, names: Sequence[str]) -> None:
        """Keep the names of the images until labels.csv holds them: a resumed run looks for these and no others."""
        self._write("resume/names.csv", lambda file: file.write(name_csv(names)))

    def names(self) -> list[str] | None:
        """Return the names kept by `save_names`, if they were."""
        path = self.path / "resume/names.csv"
        if not path.is_file():
            return None
        return [name for (names,) in _columns_of(path, ["name"], self.config.get("n_images")) for name in names]

    def append_event(self, event: Json) -> None:
        """Add a line to events.jsonl."""
        path, line = self._mine("events.jsonl"), (json.dumps(event) + "\n").encode()
        try:
            with path.open("ab", buffering=0) as file:
                written = file.write(line)
                if written != len(line):  # the disk became full in the middle of the line
                    file.truncate(file.tell() - written)
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError as error:
            raise _cannot_write(path, error) from error

    def events(self) -> list[Json]:
        """Return the event lines; a last line torn by a kill is left out."""
        path = self.path / "events.jsonl"
        if not path.is_file():
            return []
        events = []
        for line in _read_text(path).split("\n"):
            try:
                event = _parse_json(line)
            except ValueError:
                continue
            if isinstance(event, dict):
                _check_event(path, event)
                events.append(event)
        return events

    def keep_events_until(self, step: int) -> None:
        """Forget events after a step: they belong to work that a resumed run will do again."""
        kept = [event for event in self.events() if "step" in event and event["step"] <= step]
        text = "".join(json.dumps(event) + "\n" for event in kept)
        self._write("events.jsonl", lambda file: file.write(text.encode()))

    def save_resume(self, step: int, state: State) -> None:
        """Replace the resume state. One file holds arrays and JSON, so that it is replaced as a whole."""
        _sync(self.path / "events.jsonl")  # a state must not outlive the events before it
        self.write_state("resume/state.safetensors", State(state.arrays, {"step": step, "state": state.meta}))

    def save_labels_so_far(self, labels: I64) -> None:
        """Keep what an unfinished run has found, for people who want to look at it."""
        self.write_array(_SO_FAR, labels)

    def table_so_far(self) -> LabelTable:
        """Return what an unfinished run has found; before its first state all images are one cluster.

        How sure it is of anything it cannot say yet: every confidence is 0.
        """
        if "n_images" not in self.config:  # older than the names that are kept while a run goes on
            self.require_finished()
        n_images = self.field("n_images", int)
        names = self.names()
        if not 1 <= n_images < 2**32 or (names is not None and len(names) != n_images):
            raise _damaged(self.path / "config.json", "'n_images' is not the number of its images")
        labels = np.zeros(n_images, np.int64)
        if (self.path / _SO_FAR).is_file():
            labels = np.array(self.read_array(_SO_FAR, 1, np.int64))
            if len(labels) != n_images or labels.min() < 0 or labels.max() >= n_images:
                raise _damaged(self.path / _SO_FAR, "its labels do not fit the images")
        known = tuple(map(str, range(n_images))) if names is None else tuple(names)
        return LabelTable(known, labels, np.zeros(n_images, np.float32))

    @property
    def has_labels_so_far(self) -> bool:
        """True once an unfinished run has clusters to show."""
        return (self.path / _SO_FAR).is_file()

    @property
    def is_worked_on(self) -> bool:
        """True if a process is at it now, as far as can be seen."""
        path = self.path / "resume/lock"
        if not path.is_file() or fcntl is None:
            return False
        try:
            with path.open("rb") as file:
                return not _lock(file)
        except OSError:
            return False

    def load_resume(self) -> tuple[int, State] | None:
        """Return the step reached and the state there, or None if nothing was saved yet."""
        if not (self.path / "resume/state.safetensors").is_file():
            return None
        saved = self.read_state("resume/state.safetensors")
        step, meta = saved.meta.get("step"), saved.meta.get("state")
        if not _is(step, int) or not isinstance(meta, dict):
            raise _damaged(self.path / "resume/state.safetensors", "it lacks its step or its counters")
        return int(saved.meta["step"]), State(saved.arrays, meta)

    def save_history(self, step: int, arrays: Arrays) -> None:
        """Keep arrays of one stage for figures."""
        self.write_state(f"history/step-{step:06d}.safetensors", State(arrays))

    def history(self) -> dict[int, Arrays]:
        """Return the kept stages by step."""
        stages = {}
        for path in sorted((self.path / "history").glob("step-*.safetensors")):
            if match := re.fullmatch(r"step-([0-9]+)\.safetensors", path.name):
                stages[int(match[1])] = self.read_state(f"history/{path.name}").arrays
        return stages

    # --- the result ------------------------------------------------------------------------------------

    def save_result(
        self,
        clustering: Clustering,
        names: Sequence[str],
        confidence: F32 | None = None,
        is_outlier: npt.NDArray[np.bool_] | None = None,
    ) -> None:
        """Write the result; labels.csv comes last and makes the run finished.

        Args:
            clustering: what the method found.
            names: of the images.
            confidence: how likely each image is among its own kind; without it, how sure the method is of itself.
            is_outlier: which images belong nowhere, in a run that looked for them.
        """
        self.write_array("features.npy", clustering.features, _precision_for(clustering.features))
        write_soft(self, clustering.soft)
        self.write_state("model.safetensors", clustering.model)
        if clustering.extras:
            self.write_state("extras.safetensors", State(clustering.extras))
        if confidence is None:
            confidence = clustering.soft[np.arange(len(clustering.labels)), clustering.labels]
        _sync(self.path / "events.jsonl")
        self.write_labels("labels.csv", names, marked(clustering.labels, is_outlier), confidence)
        self._sweep()

    def _sweep(self) -> None:
        """Remove what a finished run no longer needs, and what kills that it has survived have left."""
        for folder in (self.path, self.path / "history", self.path / "resume"):
            for part in folder.glob(f".*{_PART}"):
                if _PART_NAME.fullmatch(part.name):
                    _remove(part)
        for name in ("resume/state.safetensors", _SO_FAR, "resume/names.csv", "resume/lock", "resume"):
            _remove(self.path / name)

    def result(self) -> Clustering:
        """Read the result back, checking that its parts belong together; the label of outliers is -1."""
        table = self.label_table()
        features, soft = self.features(), read_soft(self)
        if not len(table.labels) == len(features) == len(soft) or not features.size:
            raise _damaged(self.path, f"labels.csv, features.npy and {soft.path.name} have different lengths")
        if int(table.written.max()) >= soft.shape[1]:
            raise _damaged(self.path / "labels.csv", f"it names a cluster that {soft.path.name} does not have")
        extras = self.read_state("extras.safetensors").arrays if (self.path / "extras.safetensors").is_file() else {}
        return Clustering(
            table.written,
            soft.rows(slice(None)),
            np.array(features, np.float32),
            self.read_state("model.safetensors"),
            extras,
        )

    def features(self) -> npt.NDArray[Any]:
        """Map the features of the images, (N, D): float32, or half of that precision where they are many."""
        try:
            return self.read_array("features.npy", 2, np.float16)
        except InvalidInput:
            return self.read_array("features.npy", 2, np.float32)

    def require_finished(self) -> None:
        """Raise unless the run has a result, without reading it."""
        if not self.is_finished:
            raise MissingData(
                f"the run {self.path} is not finished (it has no labels.csv). "
                f"Expected a finished run. Continue it with: selfsort fit --resume {self.path}."
            )

    def label_table(self) -> LabelTable:
        """Read labels.csv."""
        self.require_finished()
        path = self.path / "labels.csv"
        names, labels, confidence = self._columns_of(path)
        # There are never more clusters than images; a larger number could make a reader allocate the machine away.
        lowest = OUTLIERS if self.has_outliers else 0
        if not len(labels) or labels.min() < lowest or labels.max() >= len(labels):
            raise _damaged(path, "it has no rows, or a cluster number that is negative or too large")
        if not (np.abs(confidence) < 2).all():
            raise _damaged(path, "a confidence is not between 0 and 1")
        if not self.has_outliers:
            return LabelTable(names, labels, confidence)
        labels, outliers = numbered(labels, self.n_clusters)
        return LabelTable(names, labels, confidence, outliers)

    def _columns_of(self, path: Path) -> tuple[Sequence[str], I64, F32]:
        """Read a label table, quickly if it is as we write it, and else with all that csv files can hold."""
        most = self.config.get("n_images")
        try:
            found = read_columns(path)
        except OSError as error:
            raise _damaged(path, error.strerror or str(error)) from error
        if found is not None and not (isinstance(most, int) and len(found.names) > most):
            return found.names, found.labels, found.confidence
        names: list[str] = []
        clusters, sureness = array("q"), array("f")
        try:
            for some in _columns_of(path, list(HEADER), most):
                names.extend(some[0])
                clusters.extend(map(int, some[1]))
                sureness.extend(map(float, some[2]))
        except (ValueError, OverflowError) as error:
            if isinstance(error, InvalidInput):
                raise
            raise _damaged(path, "it is not a table of name, whole number, number") from error
        return tuple(names), np.frombuffer(clusters, np.int64), np.frombuffer(sureness, np.float32)

    def write_labels(self, name: str, names: Sequence[str], labels: I64, confidence: F32) -> None:
        """Write a label table into the folder."""
        self._write(name, lambda file: file.writelines(label_lines(names, labels, confidence)))

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
        if not (self.path / "truth.json").is_file():
            return None
        names: Any = self.read_json("truth.json").get("names")
        if not _is_texts(names):
            raise _damaged(self.path / "truth.json", "its names are not a list of texts")
        found: list[str] = names
        return found

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
            with zipfile.ZipFile(path) as archive:
                pixels = _first_rows(archive, "pixels.npy", np.uint8, 4)
                rows = _first_rows(archive, "rows.npy", np.int64, 1)[: len(pixels)]
        except Exception as error:  # zipfile and NumPy raise many kinds on a damaged archive
            raise _damaged(path, str(error)) from error
        if pixels.shape[3] not in (1, 3) or rows.shape != pixels.shape[:1] or (rows < 0).any():
            raise _damaged(path, "its arrays do not fit together")
        return Thumbnails(rows, pixels)

    # --- files -------------------------------------------------------------------------------------------

    def write_json(self, name: str, value: Json) -> None:
        """Write a JSON file whole."""
        text = json.dumps(value, indent=2, sort_keys=False) + "\n"
        self._write(name, lambda file: file.write(text.encode()))

    def read_json(self, name: str) -> Json:
        """Read a JSON object."""
        text = _read_text(self.path / name)
        try:
            value = _parse_json(text)
        except ValueError as error:
            raise _damaged(self.path / name, str(error)) from error
        if not isinstance(value, dict):
            raise _damaged(self.path / name, "it is not a JSON object")
        return value

    def write_text(self, name: str, text: str) -> None:
        """Write a text file whole."""
        self._write(name, lambda file: file.write(text.encode("utf-8", "backslashreplace")))

    def write_array(self, name: str, array: np.ndarray[Any, Any], dtype: npt.DTypeLike | None = None) -> None:
        """Write a .npy file whole, in blocks, with another precision if one is given."""
        self._write(name, lambda file: _save_array(file, array, array.dtype if dtype is None else np.dtype(dtype)))

    def read_array(self, name: str, ndim: int, dtype: type[np.generic]) -> np.ndarray[Any, Any]:
        """Map a .npy file of the expected form; nothing is read before it is used."""
        path = self.path / name
        if not path.is_file():
            raise _damaged(path, "it is missing")
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")  # NumPy only warns of a shape whose size overflows
                # Mapping lets NumPy compare the header with the file's size before any memory is taken.
                mapped: np.ndarray[Any, Any] = np.lib.format.open_memmap(path, mode="r")
        except Exception as error:  # a damaged header can raise almost anything, tokenize.TokenError among them
            raise _damaged(path, str(error)) from error
        if mapped.ndim != ndim or mapped.dtype != dtype:
            raise _damaged(path, f"it holds {mapped.dtype} of {mapped.ndim} dimensions")
        return mapped

    def write_state(self, name: str, state: State) -> None:
        """Write arrays and JSON as one safetensors file."""
        # np.ascontiguousarray would turn a single number into a list of one.
        arrays = {key: np.asarray(value, order="C") for key, value in state.arrays.items()}
        self._write(name, lambda file: _save_tensors(file, arrays, {"json": json.dumps(state.meta)}))

    def read_state(self, name: str) -> State:
        """Read what `write_state` wrote."""
        path = self.path / name
        if not path.is_file():
            raise _damaged(path, "it is missing")
        try:
            with safe_open(path, framework="numpy") as file:
                large = _large_tensors(path)
                small = [key for key in file.keys() if key not in large]  # noqa: SIM118 (not a dict)
                arrays = {key: file.get_tensor(key) for key in small} | large
                meta = _parse_json((file.metadata() or {}).get("json", "{}"), _LONGEST_STATE)
        except Exception as error:  # number formats that NumPy lacks raise other kinds than damaged headers
            raise _damaged(path, str(error)) from error
        if not isinstance(meta, dict):
            raise _damaged(path, "its description is not a JSON object")
        # With ml_dtypes installed, formats that NumPy itself lacks (bf16, float8) come back as foreign types.
        if foreign := [key for key, array in arrays.items() if array.dtype.kind not in "biuf"]:
            raise _damaged(path, f"{foreign[0]!r} has a number format we never write")
        return State(arrays, meta)

    def _write(self, name: str, fill: Callable[[IO[bytes]], object]) -> None:
        write_whole(self._mine(name), fill)

    def _mine(self, name: str) -> Path:
        """Return the path of a file that is about to be written; a new run remembers it, to be taken back."""
        path = self.path / name
        if self._made is None or path in self._made:
            return path
        if path.parent != self.path:
            self._made[path.parent] = None
        self._made[path] = None
        if self._journal is not None:
            try:
                self._journal.write(f"{name}\n".encode())
                self._journal.flush()
                os.fsync(self._journal.fileno())
            except OSError as error:
                raise _cannot_write(path, error) from error
        return path


def _precision_for(features: F32) -> type[np.generic] | None:
    """Return half precision for features that are many, if half of it is enough for their size."""
    if features.nbytes <= _FULL_PRECISION_BYTES:
        return None
    largest = np.finfo(np.float16).max
    return np.float16 if all((np.abs(features[block]) < largest).all() for block in passes(features)) else None


def _save_array(file: IO[bytes], array: np.ndarray[Any, Any], dtype: np.dtype[Any]) -> None:
    """Write an array as NumPy does, without a second one of its size."""
    if array.ndim < 2 or not array.size or dtype.hasobject:
        np.save(file, np.asarray(array, dtype), allow_pickle=False)
        return
    described = {"descr": dtype.str, "fortran_order": False, "shape": array.shape}
    np.lib.format.write_array_header_1_0(file, described)
    for block in passes(array):
        file.write(np.ascontiguousarray(array[block], dtype).data)


def _save_tensors(file: IO[bytes], arrays: Arrays, metadata: dict[str, str]) -> None:
    """Write arrays as safetensors does, byte for byte, without a second copy of them in memory."""
    # The widest numbers come first, so that all are aligned; among equals the name decides.
    ranks = {kind: rank for rank, kind in enumerate(_TENSOR_NAMES)}
    order = sorted(arrays, key=lambda name: (ranks[arrays[name].dtype.str[1:]], name))
    header, end = dict[str, Any](__metadata__=metadata), 0
    for name in order:
        array = arrays[name]
        header[name] = {"dtype": _TENSOR_NAMES[array.dtype.str[1:]], "shape": list(array.shape)}
        header[name]["data_offsets"] = [end, end := end + array.nbytes]
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    file.write(len(text).to_bytes(8, "little") + text)
    for name in order:
        array = arrays[name]
        flat = array.reshape(-1)
        for start in range(0, flat.size, _BLOCK):
            file.write(np.ascontiguousarray(flat[start : start + _BLOCK], array.dtype.newbyteorder("<")).data)
            forget(array)


def _large_tensors(path: Path) -> Arrays:
    """Read the large arrays of a safetensors file, whose form was checked, to where all such arrays live.

    The library maps the file, and all that it has read of it stays resident.
    """
    kinds, found = {kind: name for name, kind in _TENSOR_NAMES.items()}, Arrays()
    with path.open("rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        begin = file.tell()
        for key, told in header.items():
            if key == "__metadata__" or np.diff(told["data_offsets"]) < _LARGE_BYTES or told["dtype"] not in kinds:
                continue
            found[key] = allocate_floats(tuple(told["shape"]), f"<{kinds[told['dtype']]}")
            file.seek(begin + told["data_offsets"][0])
            for block in passes(flat := found[key].reshape(-1)):
                if file.readinto(flat[block].data) != flat[block].nbytes:
                    raise ValueError("it is too short")
    return found


def format_of(config: Json) -> int:
    """Return the format that a run has to be written in."""
    return FORMAT if config.get("outliers") else _WITHOUT_OUTLIERS


_SO_FAR = "resume/labels.npy"
_STARTING = ".starting"
_PART = ".part"
_PART_NAME = re.compile(rf"\.[0-9a-f]{{16}}{re.escape(_PART)}")


def write_whole(path: Path, fill: Callable[[IO[bytes]], object]) -> None:
    """Write a file under a temporary name, then rename it: a reader sees the old one or the new one."""
    temporary = path.parent / f".{secrets.token_hex(8)}{_PART}"
    try:
        if path.exists() and not path.is_file() and not path.is_dir():
            with path.open("wb") as file:  # a pipe or a device has to be written to, never replaced
                fill(file)
            return
        _make_folder(path.parent, exist_ok=True)
        try:
            with temporary.open("xb") as file:
                fill(file)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        _sync(path.parent)
    except OSError as error:
        raise _cannot_write(path, error) from error


def _make_folder(path: Path, *, exist_ok: bool) -> None:
    """Make a folder that is still there after a loss of power, and those above it."""
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    path.mkdir(parents=True, exist_ok=exist_ok)
    for folder in missing:
        _sync(folder.parent)


def _sync(path: Path) -> None:
    """Bring a file, or the names in a folder, to the disk; where a system cannot do that, it goes on without."""
    with suppress(OSError):
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _remove(path: Path) -> None:
    """Remove a file or an empty folder, if that can be done."""
    with suppress(OSError):
        if path.is_dir() and not path.is_symlink():
            path.rmdir()
        else:
            path.unlink()


def _left_by_killed_start(path: Path) -> list[Path] | None:
    """Return what a start that was killed before its config.json has left in a folder, files before their folders.

    None if there was no such start, or if the folder holds anything else: then it is somebody's.
    """
    try:
        if not (path / _STARTING).is_file():
            return None
        files = set(_read_text(path / _STARTING).splitlines()) - {"config.json"} | {_STARTING}
        folders = {Path(name).parent.as_posix() for name in files}
        found = sorted(path.rglob("*"), reverse=True)
        for entry in found:
            name = entry.relative_to(path).as_posix()
            is_ours = name in (folders if entry.is_dir() else files) or _PART_NAME.fullmatch(entry.name)
            if not is_ours or entry.is_symlink():
                return None
    except OSError:  # no permission to look, or a name too long to exist
        return None
    return [entry for entry in found if entry.name != _STARTING]


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


_NEEDS_QUOTES = re.compile(r'[,;"\t\r\n]').search


def _quoted(field: str) -> str:
    """Quote a field of a csv file; the standard library's writer forgets carriage returns.

    Where the comma stands in numbers, spreadsheets take semicolons and tabs for the ends of cells.
    """
    return '"' + field.replace('"', '""') + '"' if _NEEDS_QUOTES(field) else field


def _refuse_links(path: Path) -> None:
    """Refuse links, pipes and devices inside a run folder."""
    for folder in (path, path / "resume", path / "history"):
        if not folder.is_dir():
            continue
        with os.scandir(folder) as entries:
            for entry in entries:
                if not (entry.is_file(follow_symlinks=False) or entry.is_dir(follow_symlinks=False)):
                    raise _damaged(Path(entry.path), "it is a link or a device, not a plain file")


def _check_event(path: Path, event: Json) -> None:
    for key, kind in _EVENT_FORM.items():
        if key in event and (not _is(event[key], kind) or (kind is list and not _is_texts(event[key]))):
            raise _damaged(path, f"{key!r} of an event is of the wrong type")


def _is(value: object, kind: type | tuple[type, ...]) -> bool:
    """Like isinstance, but true and false are no numbers."""
    return isinstance(value, kind) and not isinstance(value, bool)


def _is_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _columns_of(path: Path, header: list[str], most: object) -> Iterator[list[tuple[str, ...]]]:
    """Yield the columns of a csv file, some rows at a time: a table of millions of rows takes no memory by itself."""
    try:
        with path.open(encoding="utf-8", errors="surrogateescape", newline="") as file:
            rows = csv.reader(file)
            if next(rows, None) != header:
                raise _damaged(path, f"its header is not {','.join(header)}")
            n_read = 0
            while some := list(islice(rows, 512)):  # few enough not to keep the garbage collector busy
                n_read += len(some)
                if isinstance(most, int) and n_read > most:
                    raise _damaged(path, f"it has more rows than the {most} images of config.json")
                if set(map(len, some)) != {len(header)}:
                    raise _damaged(path, f"not every row has {len(header)} fields")
                yield list(zip(*some, strict=True))
    except csv.Error as error:
        raise _damaged(path, str(error)) from error
    except OSError as error:
        raise _damaged(path, error.strerror or str(error)) from error


def _parse_json(text: str, longest: int = _LONGEST_WHOLE) -> Any:
    """Parse JSON; what no program of ours could go on with is a ValueError."""

    def whole(digits: str) -> int:
        value = int(digits) if len(digits) < 50 else longest
        if abs(value) >= longest:
            raise ValueError("it holds a whole number that is too large")
        return value

    try:
        value = json.loads(text, parse_int=whole)
        if "\\u" in text:  # half a character is no text; bytes of names that are not UTF-8 are kept as halves, too
            json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        raise ValueError("it holds half a character") from error
    except json.JSONDecodeError as error:
        raise ValueError("it is not JSON") from error
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    return value


def _first_rows(archive: zipfile.ZipFile, name: str, dtype: type[np.generic], ndim: int) -> np.ndarray[Any, Any]:
    """Read as many rows of an array in an archive as may be kept, and no byte more than they take."""
    with archive.open(name) as file:
        if np.lib.format.read_magic(file) != (1, 0):
            raise ValueError("its header has another form than ours")
        shape, is_fortran, found = np.lib.format.read_array_header_1_0(file)
        if found != dtype or len(shape) != ndim or is_fortran or 0 in shape[1:]:
            raise ValueError(f"{name} holds {found} of the shape {shape}")
        row_bytes = found.itemsize * math.prod(shape[1:])
        if row_bytes > _THUMBNAILS_LIMIT:
            raise ValueError("it is larger than such a file can be")
        n_rows = min(shape[0], _THUMBNAILS_LIMIT // row_bytes)
        data = np.empty(n_rows * row_bytes, np.uint8)
        for start in range(0, len(data), _BLOCK):
            piece = file.read(min(_BLOCK, len(data) - start))
            data[start : start + _BLOCK] = np.frombuffer(piece, np.uint8)  # of another length: too short a file
        return data.view(found).reshape(n_rows, *shape[1:])


def _read_text(path: Path) -> str:
    try:
        if path.stat().st_size > _TEXT_LIMIT:
            raise _damaged(path, "it is larger than such a file can be")
        return path.read_bytes().decode("utf-8", "surrogateescape")
    except OSError as error:
        raise _damaged(path, error.strerror or str(error)) from error


def _damaged(path: Path, reason: str) -> InvalidInput:
    short = (reason.splitlines() or ["it cannot be read"])[0][:120]
    return InvalidInput(
        f"{path} cannot be used ({short}). Expected a run folder as selfsort wrote it. "
        "It was changed or damaged: restore it, or run selfsort fit again."
    )


@contextmanager
def _locked(run: Path, name: str) -> Iterator[IO[bytes]]:
    """Keep a run folder for this process while a block runs, by a file in it that everybody asks for."""
    path = run / name
    try:
        file = path.open("ab")
    except OSError as error:
        raise _cannot_write(path, error) from error
    with file:
        # One that was removed since it was opened keeps nobody else out.
        if not _lock(file) or not path.exists() or not os.path.samestat(os.fstat(file.fileno()), path.stat()):
            raise InvalidInput(
                f"another process is working on the run {run}. Only one can at a time. "
                "Wait for it to end, or stop it and resume."
            )
        yield file


def _lock(file: IO[bytes]) -> bool:
    """Take a file for this process until it is closed; False if another process has it."""
    if fcntl is None:
        return True  # on Windows, a file that somebody writes to cannot be replaced in the first place
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True  # a file system without locks
    return True


def _cannot_write(path: Path, error: OSError) -> CannotWrite:
    return CannotWrite(
        f"{path} could not be written ({error.strerror or error}). Expected a writable folder with enough space. "
        "Free some space or choose another --out; nothing half-written was left."
    )
