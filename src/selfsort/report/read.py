"""One run folder, read and checked once, in the form the sections of the report want it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from selfsort.errors import InvalidInput
from selfsort.metrics.external import match_clusters, scores
from selfsort.metrics.labels import number_labels
from selfsort.report.stages import Stage, check_stage
from selfsort.runs.arrays import read_rows, with_columns
from selfsort.runs.folder import RunFolder, Thumbnails
from selfsort.runs.labels import RunLabels, labels_to_show
from selfsort.runs.soft import read_soft
from selfsort.runs.table import LabelTable
from selfsort.types import F32, I64, Arrays, Json

SCORE_NAMES = {
    "acc": "ACC",
    "nmi_geometric": "NMI (geometric)",
    "nmi_arithmetic": "NMI (arithmetic)",
    "nmi_max": "NMI (max)",
    "ari": "ARI",
}

_OLD_NAMES = {
    "steadiness": "stability",
    "mending_gain": "regrouping_gain",
    "mending_moves": "regrouping_moves",
    "mended": "regrouped",
}
"""Numbers of events.jsonl that runs of earlier versions have under another name."""


@dataclass(frozen=True)
class ReadVerdict:
    """What a run says about how far to trust it."""

    level: str
    sentence: str
    expected: float
    two_kinds: dict[int, tuple[int, ...]]
    """Clusters that are likely two kinds, and some images of the smaller one."""


@dataclass(frozen=True, eq=False)
class RunData:
    """What a report knows about one run."""

    folder: RunFolder
    name: str
    labels: RunLabels
    events: list[Json]
    """One per epoch or merge round; of several starts, those of the one that went on."""
    end: Json
    """How the run ended."""
    skipped: list[Json]
    thumbnails: Thumbnails | None
    is_finished: bool = True
    """False for a run that was stopped or still goes on: then there are labels so far, and nothing else of a result."""
    starts: dict[int, float] = field(default_factory=dict)
    """Stability of each start, if there were several."""
    truth: I64 | None = None
    class_names: dict[int, str] = field(default_factory=dict)
    matching: dict[int, int] = field(default_factory=dict)
    """Class that each cluster was matched to (Hungarian)."""
    scores: dict[str, float] = field(default_factory=dict)
    scores_sf: dict[str, float] = field(default_factory=dict)
    """Scores of JULE's straight-forward labels."""

    @property
    def table(self) -> LabelTable:
        """The images with their clusters, as corrected."""
        return self.labels.table

    @property
    def config(self) -> Json:
        """What config.json says."""
        return self.folder.config

    @property
    def method(self) -> str:
        """The method's short name."""
        return str(self.config["method"])

    @property
    def source(self) -> str:
        """Last part of the path the images came from."""
        source = self.config.get("source")
        path = source.get("path") if isinstance(source, dict) else None
        return (Path(path).name or path) if isinstance(path, str) and path else "the given images"

    @property
    def n_images(self) -> int:
        """Images that were clustered."""
        return len(self.table.labels)

    @property
    def n_asked(self) -> int:
        """Clusters asked for."""
        return self.folder.n_clusters

    @property
    def n_clusters(self) -> int:
        """Numbers a cluster may have: the highest in use and those asked for, never more than images."""
        return max(int(self.table.labels.max()) + 1, min(self.n_asked, self.n_images))

    @cached_property
    def sizes(self) -> I64:
        """(K,) images in each cluster."""
        return np.bincount(self.table.labels, minlength=self.n_clusters)

    @property
    def n_used(self) -> int:
        """Clusters that hold images; outliers are none."""
        return int((self.sizes > 0).sum()) - (1 if self.table.n_outliers else 0)

    def short_name(self, cluster: int) -> str:
        """Name a cluster where there is little room."""
        return "outliers" if cluster == self.table.outliers else str(cluster)

    @cached_property
    def class_idx(self) -> I64 | None:
        """(N,) place of each image's true class among those in use."""
        return None if self.truth is None else number_labels(self.truth)[1]

    @property
    def warnings(self) -> list[str]:
        """Plain sentences recorded while the run went on."""
        found: list[str] = self.end.get("warnings", [])
        return found

    @cached_property
    def verdict(self) -> ReadVerdict | None:
        """How far to trust the run, if it says so and nobody has changed its clusters since."""
        said = self.end.get("verdict")
        if not isinstance(said, dict) or self.labels.n_edits:
            return None
        expected, kinds = number(said.get("expected")), said.get("two_kinds")
        if expected is None or not isinstance(kinds, dict):
            return None
        found = {
            int(cluster): tuple(row for row in rows if isinstance(row, int) and 0 <= row < self.n_images)
            for cluster, rows in kinds.items()
            if str(cluster).isdecimal() and isinstance(rows, list)
        }
        level = said.get("level")
        return ReadVerdict(
            level if level in ("steady", "mixed", "doubtful") else "unknown",
            str(said.get("sentence", "")),
            min(max(expected, 0.0), 1.0),
            found,
        )

    @property
    def neighbour_recall(self) -> float | None:
        """Share of the true neighbours that an approximate search found, the last time; None: it was exact."""
        said = [found for event in self.events if (found := number(event.get("neighbour_recall"))) is not None]
        return min(max(said[-1], 0.0), 1.0) if said else None

    @cached_property
    def extras(self) -> Arrays:
        """The further arrays of the result."""
        if not (self.folder.path / "extras.safetensors").is_file():
            return {}
        return self.folder.read_state("extras.safetensors").arrays

    @cached_property
    def stages(self) -> list[Stage]:
        """The history in the order of its steps."""
        events = {event["step"]: event for event in self.events}
        # A stage of a start that was given up is no stage of this network.
        kept = {step: arrays for step, arrays in self.folder.history().items() if step in events or not self.starts}
        return [check_stage(step, arrays, self.n_images, events.get(step, {})) for step, arrays in kept.items()]

    @property
    def has_clusters(self) -> bool:
        """False of a run that was stopped, or still is, before its first step: all images are in one group then."""
        return self.is_finished or self.folder.has_labels_so_far

    @property
    def so_far(self) -> str | None:
        """What to know of a run that is not finished; None of one that is."""
        if self.is_finished:
            return None
        step = f"step {self.events[-1]['step']} of {self.events[-1].get('total')}" if self.events else "its first step"
        state = "is still going on" if self.folder.is_worked_on else "was stopped"
        found = "These are the clusters so far." if self.has_clusters else "There are no clusters yet."
        return f"This run {state}, at {step}. {found} Continue it with: selfsort fit --resume {self.folder.path}"

    def features(self, rows: I64) -> F32:
        """Read the features of some images; what is not a number becomes zero."""
        found = self.folder.features()
        if len(found) != self.n_images:
            raise _mismatch(self.folder.path, "features.npy", len(found), self.n_images)
        return read_rows(with_columns(found, self.folder.path / "features.npy"), rows)

    def soft(self, rows: I64) -> F32:
        """Read the soft assignments of some images."""
        found = read_soft(self.folder)
        if len(found) != self.n_images:
            raise _mismatch(self.folder.path, found.path.name, len(found), self.n_images)
        if found.whole is None:
            return found.rows(rows)
        return read_rows(with_columns(found.whole, found.path), rows)

    @cached_property
    def method_labels(self) -> I64:
        """(N,) clusters as the method left them; those of outliers are told by the soft assignments."""
        labels = self.labels.original.copy()
        taken_out = np.flatnonzero(labels == self.table.outliers)
        if len(taken_out):
            labels[taken_out] = self.soft(taken_out).argmax(axis=1)
        return labels

    def class_name(self, number: int) -> str:
        """Name a true class."""
        return self.class_names.get(number, str(number))


def read_run(path: Path, name: str | None = None, *, is_original: bool = False) -> RunData:
    """Open a run, with the corrections made by hand or with the labels as the method wrote them.

    Of one that is not finished there is what it has found so far.
    """
    folder = RunFolder.open(path)
    is_finished = folder.is_finished  # before its labels are read: it may end meanwhile
    labels = labels_to_show(folder, is_original=is_original)
    table = labels.table
    truth = folder.truth()
    if truth is not None and len(truth) != len(table.labels):
        raise _mismatch(path, "truth.npy", len(truth), len(table.labels))
    names = folder.truth_names() if truth is not None else None
    lines = [{_OLD_NAMES.get(name, name): value for name, value in line.items()} for line in folder.events()]
    steps = [line for line in lines if "step" in line]
    sf = _read_optional(folder, "metrics.json").get("metrics_sf")
    return RunData(
        folder=folder,
        name=name or path.resolve().name,
        labels=labels,
        is_finished=is_finished,
        events=[line for line in steps if line.get("start") == steps[-1].get("start")],
        end=next((line for line in reversed(lines) if line.get("kind") == "end"), {}),
        skipped=[item for item in _items(_read_optional(folder, "ingest.json").get("skipped")) if "name" in item],
        thumbnails=_checked(folder.thumbnails(), len(table.labels), path),
        starts=_starts(steps),
        truth=truth,
        class_names={i: str(name) for i, name in enumerate(names or ())},
        matching={} if truth is None else match_clusters(table.labels, truth, outliers=table.outliers),
        # Counted afresh: metrics.json is for other programs, and a page must not contradict its own matrix.
        scores={} if truth is None else scores(table.labels, truth, outliers=table.outliers),
        scores_sf={k: float(v) for k, v in sf.items() if number(v) is not None} if isinstance(sf, dict) else {},
    )


def read_runs(paths: Sequence[Path], *, is_original: bool = False) -> list[RunData]:
    """Open several runs; those in folders of the same name are told apart by a number."""
    names = [path.resolve().name for path in paths]
    seen: dict[str, int] = {}
    runs = []
    for path, name in zip(paths, names, strict=True):
        seen[name] = seen.get(name, 0) + 1
        shown = f"{name} ({seen[name]})" if names.count(name) > 1 else name
        runs.append(read_run(path, shown, is_original=is_original))
        if len(paths) > 1:
            runs[-1].folder.require_finished()
    return runs


def number(value: Any) -> float | None:
    """Return a finite number, or None for anything else found in a JSON file."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value)


def _starts(steps: list[Json]) -> dict[int, float]:
    """Return what the last step of every start says of its stability."""
    found = ((number(step.get("start")), number(step.get("stability"))) for step in steps)
    return {int(start): stability for start, stability in found if start is not None and stability is not None}


def _read_optional(folder: RunFolder, name: str) -> Json:
    return folder.read_json(name) if (folder.path / name).is_file() else {}


def _items(value: Any) -> list[Json]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _checked(thumbnails: Thumbnails | None, n_images: int, path: Path) -> Thumbnails | None:
    if thumbnails is None or not len(thumbnails.rows):
        return None
    if thumbnails.rows.max() >= n_images:
        raise _mismatch(path, "thumbnails.npz", int(thumbnails.rows.max()) + 1, n_images)
    return thumbnails


def _mismatch(path: Path, name: str, found: int, expected: int) -> InvalidInput:
    return InvalidInput(
        f"{path / name} speaks of {found} images. Expected the {expected} of labels.csv. "
        "The folder was changed or damaged: restore it, or run selfsort fit again."
    )
