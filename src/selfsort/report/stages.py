"""What a method kept of its way to the result, checked and ready to draw.

Every key is optional, and an array that does not have the documented form is passed over: docs/report.md lists the
keys and the figures they make. Shape letters: N images, M of them kept at a stage, D features, K clusters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from selfsort.metrics.pairs import pair_selection_quality
from selfsort.report.read import RunData, number
from selfsort.runs.arrays import as_counts, as_rows, as_table
from selfsort.types import F32, I64, Arrays, Json

MAX_POINTS = 1200
"""Points of a panel."""

MAX_PAIRED = 800
"""Images among which pairs are judged; pairs grow with the square."""


@dataclass(frozen=True, eq=False)
class Stage:
    """One step of the history."""

    step: int
    rows: I64
    """(M,) the images kept."""
    features: F32 | None = None
    labels: I64 | None = None
    soft: F32 | None = None
    sizes: I64 | None = None
    """(K,) images in each cluster, all N counted."""
    neighbours: I64 | None = None
    """(M, P) the nearest other images of each one kept, nearest first, among all N."""
    bumps: F32 | None = None
    """(M, 3) centre (along the width, along the height) and width of attention, each between 0 and 1."""
    event: Json = field(default_factory=dict)
    """The line of events.jsonl of this step."""

    def thinned(self, most: int) -> Stage:
        """Keep evenly spaced images only."""
        if len(self.rows) <= most:
            return self
        kept = np.linspace(0, len(self.rows) - 1, most).astype(int)
        return replace(
            self,
            rows=self.rows[kept],
            features=None if self.features is None else self.features[kept],
            labels=None if self.labels is None else self.labels[kept],
            soft=None if self.soft is None else self.soft[kept],
            neighbours=None if self.neighbours is None else self.neighbours[kept],
            bumps=None if self.bumps is None else self.bumps[kept],
        )


def read_stages(run: RunData) -> list[Stage]:
    """Read the history in the order of its steps."""
    events = {event["step"]: event for event in run.events}
    history = run.folder.history()
    # A stage of a start that was given up is no stage of this network.
    kept = {step: arrays for step, arrays in history.items() if step in events or not run.starts}
    return [_stage(step, arrays, run.n_images, events.get(step, {})) for step, arrays in kept.items()]


def spread_out(stages: Sequence[Stage], most: int = 6) -> list[Stage]:
    """Pick evenly spaced stages, the first and the last among them."""
    return [stages[i] for i in np.unique(np.linspace(0, len(stages) - 1, min(most, len(stages))).astype(int)).tolist()]


def _stage(step: int, arrays: Arrays, n_images: int, event: Json) -> Stage:
    rows = as_rows(arrays.get("rows"), n_images)
    if rows is None:
        rows = np.arange(n_images)
    return Stage(
        step=step,
        rows=rows,
        features=as_table(arrays.get("features"), len(rows)),
        labels=as_counts(arrays.get("labels"), len(rows)),
        soft=as_table(arrays.get("soft"), len(rows)),
        sizes=as_counts(arrays.get("sizes")),
        neighbours=_neighbours(arrays.get("neighbours"), len(rows), n_images),
        bumps=_bumps(arrays.get("attention_parameters"), len(rows)),
        event=event,
    )


def _bumps(array: npt.NDArray[Any] | None, n_rows: int) -> F32 | None:
    found = as_table(array, n_rows)
    return found.clip(0, 1) if found is not None and found.shape[1] == 3 else None


def _neighbours(array: npt.NDArray[Any] | None, n_rows: int, n_images: int) -> I64 | None:
    if array is None or array.ndim != 2 or len(array) != n_rows or as_rows(array.ravel(), n_images) is None:
        return None
    return array.astype(np.int64)


@dataclass(frozen=True)
class Thresholds:
    """DAC at one step: its thresholds and what they select."""

    step: int
    upper: float
    lower: float
    selected: float | None = None
    positive_precision: float | None = None
    negative_precision: float | None = None


def threshold_trace(run: RunData, stages: Sequence[Stage]) -> list[Thresholds]:
    """Follow `upper` and `lower` of events.jsonl; with soft assignments and labels the pairs are judged as well.

    The method itself cannot say how right its pairs are: it never sees a label.
    """
    by_step = {stage.step: stage for stage in stages if stage.soft is not None}
    trace = []
    for event in run.events:
        upper, lower = number(event.get("upper")), number(event.get("lower"))
        if upper is None or lower is None:
            continue
        stage = by_step.get(event["step"])
        judged = None if stage is None else _judge_pairs(run, stage.thinned(MAX_PAIRED), upper, lower)
        trace.append(judged or Thresholds(event["step"], upper, lower, number(event.get("selected_fraction"))))
    return trace


def _judge_pairs(run: RunData, stage: Stage, upper: float, lower: float) -> Thresholds | None:
    if stage.soft is None or run.truth is None or len(stage.rows) < 2:
        return None
    unit = stage.soft / np.maximum(np.linalg.norm(stage.soft, axis=1, keepdims=True), 1e-8)
    similarity_BB = unit @ unit.T
    same_BB = similarity_BB >= upper
    quality = pair_selection_quality(same_BB, same_BB | (similarity_BB <= lower), run.truth[stage.rows])
    return Thresholds(
        stage.step, upper, lower, quality.selected_fraction, quality.positive_precision, quality.negative_precision
    )


@dataclass(frozen=True)
class SizeBounds:
    """SeCu at one step: the smallest and the largest cluster, and what they are held to."""

    step: int
    smallest: int
    largest: int
    lower: float | None
    upper: float | None


def size_trace(stages: Sequence[Stage]) -> list[SizeBounds]:
    """Follow the sizes against `size_lower` and `size_upper` of events.jsonl."""
    return [
        SizeBounds(
            stage.step,
            int(stage.sizes.min()),
            int(stage.sizes.max()),
            number(stage.event.get("size_lower")),
            number(stage.event.get("size_upper")),
        )
        for stage in stages
        if stage.sizes is not None and len(stage.sizes)
    ]
