"""What a section has to draw, as data: the page draws it as SVG, and figure files are drawn from the very same."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from selfsort.text import short
from selfsort.types import F64, I64, U8

N_COLOURS = 20
"""Colours of clusters; report.css names as many. Further clusters begin again."""


@dataclass(frozen=True, eq=False)
class Line:
    """One curve of a line chart; None leaves a gap."""

    name: str
    x: Sequence[float]
    y: Sequence[float | None]
    is_bound: bool = False
    """Drawn dashed: a limit, not a measurement."""


@dataclass(frozen=True, eq=False)
class LineChart:
    """Curves over a common x."""

    title: str
    lines: Sequence[Line]
    x_title: str = ""
    is_share: bool = False
    """Whether y goes from 0 to 1."""
    caption: str | None = None


@dataclass(frozen=True, eq=False)
class BarChart:
    """Upright bars, each with its label."""

    title: str
    values: Sequence[float]
    labels: Sequence[str]
    alt: str
    groups: Sequence[int] | None = None
    """Cluster whose colour each bar has."""
    x_title: str = ""
    is_wide: bool = False
    caption: str | None = None


@dataclass(frozen=True, eq=False)
class Matrix:
    """Cells between 0 and 1 with their texts; those of 0 stay empty."""

    title: str
    strength: F64
    texts: Sequence[Sequence[str]]
    rows: Sequence[str]
    columns: Sequence[str]
    alt: str
    row_title: str = ""
    column_title: str = ""

    @property
    def has_texts(self) -> bool:
        """Whether the cells are large enough for their texts."""
        return max(len(self.rows), len(self.columns)) <= 20


@dataclass(frozen=True, eq=False)
class Scatter:
    """Dots coloured by group: (N, 2) in the plane, or (N, 3) in space, which the page sees from a corner."""

    title: str
    place: F64
    groups: I64
    alt: str
    caption: str | None = None
    outline: Literal["none", "circle", "square"] = "none"
    """The unit circle, or the square from 0 to 1."""


@dataclass(frozen=True, eq=False)
class Branch:
    """One merge: two legs and the beam between them."""

    left: tuple[float, float]
    """x of the left leg and the height it starts from."""
    right: tuple[float, float]
    height: float
    cluster: int
    """Final cluster everything below belongs to; -1 if there are several."""


@dataclass(frozen=True, eq=False)
class TreeChart:
    """Merges as brackets."""

    title: str
    branches: Sequence[Branch]
    y_title: str


@dataclass(frozen=True, eq=False)
class Sheet:
    """Small pictures side by side as one (h, w, C) picture."""

    title: str
    pixels: U8
    alt: str
    scale: int = 1
    """How many times the page enlarges each pixel."""


Drawing: TypeAlias = LineChart | BarChart | Matrix | Scatter | TreeChart | Sheet


@dataclass(frozen=True, eq=False)
class Panels:
    """Drawings that belong together: one section of the page, one figure file."""

    drawings: Sequence[Drawing]
    note: str = ""
    """Said before them on the page."""
    remark: str = ""
    """Said after them."""


@dataclass(frozen=True, eq=False)
class Picture:
    """One (h, w, C) picture of a table of pictures."""

    pixels: U8
    title: str = ""


@dataclass(frozen=True, eq=False)
class PictureTable:
    """Pictures in rows and columns as figure files have them; the page has elements of its own for them."""

    cells: Sequence[Picture | BarChart | None]
    """Row by row."""
    columns: int
    side: float
    """Of a cell, in inches."""


def histogram(
    title: str, values: npt.NDArray[Any], *, low: float, high: float, alt: str, x_title: str = "", is_wide: bool = False
) -> BarChart:
    """Count values in twenty equal bins."""
    counts, edges = np.histogram(values, bins=20, range=(low, high))
    labels = [short(round(float(edge), 6)) for edge in edges[:-1]]
    return BarChart(title, counts.tolist(), labels, alt, x_title=x_title, is_wide=is_wide)


def count_histogram(
    title: str, values: npt.NDArray[Any], *, alt: str, x_title: str = "", is_wide: bool = False
) -> BarChart:
    """Count whole numbers in at most about twenty bins whose edges are whole and round."""
    largest = int(values.max())
    width = max(1, round(ticks(0, max(largest, 1), 20)[1]))
    edges = np.arange(largest // width + 2) * width
    counts, _ = np.histogram(values, bins=edges)
    labels = [short(edge) for edge in edges[:-1].tolist()]
    return BarChart(title, counts.tolist(), labels, alt, x_title=x_title, is_wide=is_wide)


def ticks(low: float, high: float, most: int = 5) -> list[float]:
    """Return round numbers inside a range.

    >>> ticks(0, 1)
    [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
    """
    if not high > low:
        return [low]
    raw = (high - low) / most
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(power * factor for factor in (1, 2, 2.5, 5, 10, 20) if power * factor >= raw * 0.999)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(i * step, 12) for i in range(first, last + 1)]
