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

import errno
import json
import os
import re
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, TypeVar

import numpy as np
import numpy.typing as npt

from selfsort.errors import InvalidInput, MissingData
from selfsort.pages import passes
from selfsort.runs.files import (
    PART_NAME,
    cannot_write,
    damaged,
    first_rows,
    is_kind,
    is_locked,
    is_texts,
    locked,
    make_folder,
    parse_json,
    read_array,
    read_json,
    read_state,
    read_text,
    refuse_links,
    remove,
    save_array,
    save_tensors,
    sync,
    write_whole,
)
from selfsort.runs.outliers import OUTLIERS, marked, numbered
from selfsort.runs.renamed import update_config
from selfsort.runs.soft import read_soft, write_soft
from selfsort.runs.table import LabelTable, columns_of, label_lines, name_csv, read_table
from selfsort.types import F32, I64, U8, Arrays, Clustering, Json, State

FORMAT = 2
"""Raised when an older reader could misread a folder of today; older formats stay readable."""
_WITHOUT_OUTLIERS = 1
"""What has no cluster -1 is written in the format that all readers know."""

_THUMBNAILS_LIMIT = 512 * 2**20
"""What is kept in memory at a time; further pictures are not shown."""
_FULL_PRECISION_BYTES = 2**28
"""Larger tables of features are kept at half precision: they are for looking and comparing, and make no model."""
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
            make_folder(path, exist_ok=was_there)
        except OSError as error:
            raise cannot_write(path, error) from error
        run = cls(path, {"format": format_of(config), **config})
        with locked(path, _STARTING) as run._journal:
            run._made = {} if was_there else {path: None}
            run._made[path / _STARTING] = None
            try:
                cls.refuse_occupied(path)  # again: another process may have been quicker
                for left in _left_by_killed_start(path) or ():
                    remove(left)
                sync(path)
                yield run
                run.write_json("config.json", run.config)
            except BaseException:
                run.discard()
                raise
            run._journal = None
            remove(path / _STARTING)

    def discard(self) -> None:
        """Take back a new run: the files that this process has made, and no others. An opened run stays as it is."""
        for path in reversed(self._made or {}):
            remove(path)

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
            raise cannot_write(path, error) from error
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
        refuse_links(path)
        run = cls(path, cls(path, {}).read_json("config.json"))
        version = run.config.get("format")
        if not is_kind(version, int) or not 1 <= run.config["format"] <= FORMAT:
            raise InvalidInput(
                f"the run {path} has format {version!r}. This selfsort reads formats 1 to {FORMAT}. Update selfsort."
            )
        for key, kind in (("method", str), ("settings", dict), ("seed", int), ("image", dict)):
            run.field(key, kind)
        if run.has_outliers and run.config["format"] < FORMAT:
            raise damaged(path / "config.json", "a run of its format has no outliers")
        run.config = update_config(run.config)
        for inner in ("features_from", "started_from"):
            if inner in run.config and not (path / inner).is_dir():
                raise damaged(path / inner, "it is missing")
        return run

    def field(self, name: str, kind: type[T]) -> T:
        """Return an entry of config.json, or say that the file was changed."""
        value: Any = self.config.get(name)
        if not is_kind(value, kind):
            raise damaged(self.path / "config.json", f"{name!r} is missing or of the wrong type")
        found: T = value
        return found

    @property
    def n_clusters(self) -> int:
        """Clusters asked for."""
        asked = self.field("settings", dict).get("n_clusters")
        if not isinstance(asked, int) or isinstance(asked, bool) or asked < 1:
            raise damaged(self.path / "config.json", "'n_clusters' is not a whole number of at least 1")
        return asked

    @property
    def has_outliers(self) -> bool:
        """True if images that belong nowhere are a group of their own."""
        asked = self.config.get("outliers", False)
        if not isinstance(asked, bool):
            raise damaged(self.path / "config.json", "'outliers' is neither true nor false")
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
            raise cannot_write(path, error) from error
        sync(self.path)
        with locked(self.path, "resume/lock"):
            if self.is_finished:
                self._sweep()
            self.refuse_finished()
            remove(self.path / _STARTING)  # left by a kill just after config.json
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
        return [name for (names,) in columns_of(path, ["name"], self.config.get("n_images")) for name in names]

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
            raise cannot_write(path, error) from error

    def events(self) -> list[Json]:
        """Return the event lines; a last line torn by a kill is left out."""
        path = self.path / "events.jsonl"
        if not path.is_file():
            return []
        events = []
        for line in read_text(path).split("\n"):
            try:
                event = parse_json(line)
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
        sync(self.path / "events.jsonl")  # a state must not outlive the events before it
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
            raise damaged(self.path / "config.json", "'n_images' is not the number of its images")
        labels = np.zeros(n_images, np.int64)
        if (self.path / _SO_FAR).is_file():
            labels = np.array(self.read_array(_SO_FAR, 1, np.int64))
            if len(labels) != n_images or labels.min() < 0 or labels.max() >= n_images:
                raise damaged(self.path / _SO_FAR, "its labels do not fit the images")
        known = tuple(map(str, range(n_images))) if names is None else tuple(names)
        return LabelTable(known, labels, np.zeros(n_images, np.float32))

    @property
    def has_labels_so_far(self) -> bool:
        """True once an unfinished run has clusters to show."""
        return (self.path / _SO_FAR).is_file()

    @property
    def is_worked_on(self) -> bool:
        """True if a process is at it now, as far as can be seen."""
        return is_locked(self.path / "resume/lock")

    def load_resume(self) -> tuple[int, State] | None:
        """Return the step reached and the state there, or None if nothing was saved yet."""
        if not (self.path / "resume/state.safetensors").is_file():
            return None
        saved = self.read_state("resume/state.safetensors")
        step, meta = saved.meta.get("step"), saved.meta.get("state")
        if not is_kind(step, int) or not isinstance(meta, dict):
            raise damaged(self.path / "resume/state.safetensors", "it lacks its step or its counters")
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
        sync(self.path / "events.jsonl")
        self.write_labels("labels.csv", names, marked(clustering.labels, is_outlier), confidence)
        self._sweep()

    def _sweep(self) -> None:
        """Remove what a finished run no longer needs, and what kills that it has survived have left."""
        for folder in (self.path, self.path / "history", self.path / "resume"):
            for part in filter(lambda entry: PART_NAME.fullmatch(entry.name), folder.glob(".*")):
                remove(part)
        for name in ("resume/state.safetensors", _SO_FAR, "resume/names.csv", "resume/lock", "resume"):
            remove(self.path / name)

    def result(self) -> Clustering:
        """Read the result back, checking that its parts belong together; the label of outliers is -1."""
        table = self.label_table()
        features, soft = self.features(), read_soft(self)
        if not len(table.labels) == len(features) == len(soft) or not features.size:
            raise damaged(self.path, f"labels.csv, features.npy and {soft.path.name} have different lengths")
        if int(table.written.max()) >= soft.shape[1]:
            raise damaged(self.path / "labels.csv", f"it names a cluster that {soft.path.name} does not have")
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
        names, labels, confidence = read_table(path, self.config.get("n_images"))
        # There are never more clusters than images; a larger number could make a reader allocate the machine away.
        lowest = OUTLIERS if self.has_outliers else 0
        if not len(labels) or labels.min() < lowest or labels.max() >= len(labels):
            raise damaged(path, "it has no rows, or a cluster number that is negative or too large")
        if not (np.abs(confidence) < 2).all():
            raise damaged(path, "a confidence is not between 0 and 1")
        if not self.has_outliers:
            return LabelTable(names, labels, confidence)
        labels, outliers = numbered(labels, self.n_clusters)
        return LabelTable(names, labels, confidence, outliers)

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
        if not is_texts(names):
            raise damaged(self.path / "truth.json", "its names are not a list of texts")
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
                pixels = first_rows(archive, "pixels.npy", np.uint8, 4, _THUMBNAILS_LIMIT)
                rows = first_rows(archive, "rows.npy", np.int64, 1, _THUMBNAILS_LIMIT)[: len(pixels)]
        except Exception as error:  # zipfile and NumPy raise many kinds on a damaged archive
            raise damaged(path, str(error)) from error
        if pixels.shape[3] not in (1, 3) or rows.shape != pixels.shape[:1] or (rows < 0).any():
            raise damaged(path, "its arrays do not fit together")
        return Thumbnails(rows, pixels)

    # --- files -------------------------------------------------------------------------------------------

    def write_json(self, name: str, value: Json) -> None:
        """Write a JSON file whole."""
        text = json.dumps(value, indent=2, sort_keys=False) + "\n"
        self._write(name, lambda file: file.write(text.encode()))

    def read_json(self, name: str) -> Json:
        """Read a JSON object."""
        return read_json(self.path / name)

    def write_text(self, name: str, text: str) -> None:
        """Write a text file whole."""
        self._write(name, lambda file: file.write(text.encode("utf-8", "backslashreplace")))

    def write_array(self, name: str, array: np.ndarray[Any, Any], dtype: npt.DTypeLike | None = None) -> None:
        """Write a .npy file whole, in blocks, with another precision if one is given."""
        self._write(name, lambda file: save_array(file, array, array.dtype if dtype is None else np.dtype(dtype)))

    def read_array(self, name: str, ndim: int, dtype: type[np.generic]) -> np.ndarray[Any, Any]:
        """Map a .npy file of the expected form; nothing is read before it is used."""
        return read_array(self.path / name, ndim, dtype)

    def write_state(self, name: str, state: State) -> None:
        """Write arrays and JSON as one safetensors file."""
        # np.ascontiguousarray would turn a single number into a list of one.
        arrays = {key: np.asarray(value, order="C") for key, value in state.arrays.items()}
        self._write(name, lambda file: save_tensors(file, arrays, {"json": json.dumps(state.meta)}))

    def read_state(self, name: str) -> State:
        """Read what `write_state` wrote."""
        return read_state(self.path / name)

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
                raise cannot_write(path, error) from error
        return path


def _precision_for(features: F32) -> type[np.generic] | None:
    """Return half precision for features that are many, if half of it is enough for their size."""
    if features.nbytes <= _FULL_PRECISION_BYTES:
        return None
    largest = np.finfo(np.float16).max
    return np.float16 if all((np.abs(features[block]) < largest).all() for block in passes(features)) else None


def format_of(config: Json) -> int:
    """Return the format that a run has to be written in."""
    return FORMAT if config.get("outliers") else _WITHOUT_OUTLIERS


_SO_FAR = "resume/labels.npy"
_STARTING = ".starting"


def _left_by_killed_start(path: Path) -> list[Path] | None:
    """Return what a start that was killed before its config.json has left in a folder, files before their folders.

    None if there was no such start, or if the folder holds anything else: then it is somebody's.
    """
    try:
        if not (path / _STARTING).is_file():
            return None
        files = set(read_text(path / _STARTING).splitlines()) - {"config.json"} | {_STARTING}
        folders = {Path(name).parent.as_posix() for name in files}
        found = sorted(path.rglob("*"), reverse=True)
        for entry in found:
            name = entry.relative_to(path).as_posix()
            is_ours = name in (folders if entry.is_dir() else files) or PART_NAME.fullmatch(entry.name)
            if not is_ours or entry.is_symlink():
                return None
    except OSError:  # no permission to look, or a name too long to exist
        return None
    return [entry for entry in found if entry.name != _STARTING]


def _check_event(path: Path, event: Json) -> None:
    for key, kind in _EVENT_FORM.items():
        if key in event and (not is_kind(event[key], kind) or (kind is list and not is_texts(event[key]))):
            raise damaged(path, f"{key!r} of an event is of the wrong type")
