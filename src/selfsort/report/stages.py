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

from selfsort.runs.arrays import as_counts, as_rows, as_table
from selfsort.types import F32, I64, Arrays, Json

MAX_POINTS = 1200
"""Points of a panel."""


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


def spread_out(stages: Sequence[Stage], most: int = 6) -> list[Stage]:
    """Pick evenly spaced stages, the first and the last among them."""
    return [stages[i] for i in np.unique(np.linspace(0, len(stages) - 1, min(most, len(stages))).astype(int)).tolist()]


def check_stage(step: int, arrays: Arrays, n_images: int, event: Json) -> Stage:
    """Take from the arrays of a step what has the documented form."""
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
        neighbours=_neighbours(arrays.get("neighbours"), rows, n_images),
        bumps=_bumps(arrays.get("attention_parameters"), len(rows)),
        event=event,
    )


def _bumps(array: npt.NDArray[Any] | None, n_rows: int) -> F32 | None:
    found = as_table(array, n_rows)
    return found.clip(0, 1) if found is not None and found.shape[1] == 3 else None


def _neighbours(array: npt.NDArray[Any] | None, rows: I64, n_images: int) -> I64 | None:
    if array is None or array.ndim != 2 or len(array) != len(rows) or as_rows(array.ravel(), n_images) is None:
        return None
    return None if (array == rows[:, None]).any() else array.astype(np.int64)
