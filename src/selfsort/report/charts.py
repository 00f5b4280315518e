"""Charts as inline SVG: no plotting bundle in the page, colours by CSS class, text that can be read out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from selfsort.report.html import Attributes, Html, element
from selfsort.types import F64, I64

_LEFT, _RIGHT, _TOP, _BOTTOM = 46, 10, 12, 26
"""Room for the axes, in the chart's own units."""


@dataclass(frozen=True, eq=False)
class Line:
    """One curve of a line chart; None leaves a gap."""

    name: str
    x: Sequence[float]
    y: Sequence[float | None]


def ticks(low: float, high: float, most: int = 5) -> list[float]:
    """Return round numbers inside a range.

    >>> ticks(0, 1)
    [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
    """
    if not high > low:
        return [low]
    raw = (high - low) / most
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= raw * 0.999)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(i * step, 12) for i in range(first, last + 1)]


def short(value: float) -> str:
    """Write a number for an axis.

    >>> short(12000), short(0.25), short(3.0), short(0.00004)
    ('12k', '0.25', '3', '4e-05')
    """
    if value != 0 and abs(value) < 1e-3:
        return f"{value:.2g}"
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(value) >= size:
            return f"{value / (1e3 if unit == 'k' else size):.4g}{unit}"
    return f"{value:.4g}"


def line_chart(title: str, lines: Sequence[Line], *, unit_range: bool = False, width: int = 340) -> Html:
    """Draw curves over a common x; `unit_range` fixes y to 0..1 for scores."""
    height = 190
    xs = [x for line in lines for x in line.x]
    ys = [y for line in lines for y in line.y if y is not None]
    x_low, x_high = min(xs), max(xs)
    y_low, y_high = (0.0, 1.0) if unit_range else _padded(min(ys), max(ys))
    scale_x = _scale(x_low, x_high, _LEFT, width - _RIGHT)
    scale_y = _scale(y_low, y_high, height - _BOTTOM, _TOP)
    shapes = [_y_axis(y_low, y_high, scale_y, width), _x_axis(x_low, x_high, scale_x, height)]
    for i, line in enumerate(lines):
        path, pen = [], "M"
        for x, y in zip(line.x, line.y, strict=True):
            if y is None:
                pen = "M"
                continue
            path.append(f"{pen}{num(scale_x(x))} {num(scale_y(y))}")
            pen = "L"
        shapes.append(element("path", {"class": f"line s{i % 8}", "d": "".join(path)}, element("title", {}, line.name)))
    first_last = "; ".join(f"{line.name} from {_ends(line)}" for line in lines)
    legend = [
        element("span", {"class": "key"}, element("i", {"class": f"s{i % 8}"}), line.name)
        for i, line in enumerate(lines)
    ]
    return element(
        "figure",
        {"class": "chart"},
        element("figcaption", {}, title, element("span", {"class": "legend"}, legend) if len(lines) > 1 else None),
        _svg(width, height, f"{title}: {first_last}", shapes),
    )


def bar_chart(
    title: str,
    values: Sequence[float],
    labels: Sequence[str],
    *,
    description: str,
    classes: Sequence[str] | None = None,
    width: int = 720,
) -> Html:
    """Draw upright bars; labels are thinned out when they would not fit."""
    height = 200
    high = max([*values, 0]) or 1.0
    scale_y = _scale(0, high, height - _BOTTOM, _TOP)
    slot = (width - _LEFT - _RIGHT) / max(len(values), 1)
    shapes = [_y_axis(0, high, scale_y, width)]
    widest = max((len(label) for label in labels), default=1)
    every = max(1, math.ceil((widest * 6.5 + 6) / slot))
    for i, (value, label) in enumerate(zip(values, labels, strict=True)):
        top = scale_y(value)
        box = {
            "class": f"bar-box {classes[i] if classes else ''}".strip(),
            "x": num(_LEFT + i * slot + slot * 0.1),
            "y": num(top),
            "width": num(slot * 0.8),
            "height": num(height - _BOTTOM - top),
        }
        shapes.append(element("rect", box, element("title", {}, f"{label}: {value:,.6g}")))
        if i % every == 0:
            middle = num(_LEFT + (i + 0.5) * slot)
            shapes.append(
                element("text", {"class": "tick", "x": middle, "y": height - 9, "text-anchor": "middle"}, label)
            )
    return element(
        "figure",
        {"class": "chart wide"},
        element("figcaption", {}, title),
        _svg(width, height, f"{title}: {description}", shapes),
    )


def histogram(title: str, values: F64, *, low: float, high: float, description: str, width: int = 340) -> Html:
    """Count values in twenty equal bins."""
    counts, edges = np.histogram(values, bins=20, range=(low, high))
    labels = [short(float(edge)) for edge in edges[:-1]]
    return bar_chart(title, counts.tolist(), labels, description=description, width=width)


def matrix_chart(
    title: str,
    cells: I64 | F64,
    rows: Sequence[str],
    columns: Sequence[str],
    *,
    description: str,
    row_title: str,
    column_title: str,
    texts: Sequence[Sequence[str]] | None = None,
) -> Html:
    """Draw a heat map; each cell's strength is its share of its row. Cells of zero are left empty."""
    n_rows, n_columns = len(rows), len(columns)
    side = 34 if texts is not None else max(5, min(24, 620 // max(n_columns, 1)))
    left = min(150, 16 + 7 * max(len(name) for name in rows)) + 18
    top = 18 + (min(90, 8 + 7 * max(len(name) for name in columns)))
    width, height = left + n_columns * side + 8, top + n_rows * side + 8
    shares = (
        cells / np.maximum(np.asarray(cells).sum(axis=1, keepdims=True), 1e-12)
        if texts is None or cells.dtype.kind == "i"
        else cells
    )
    shapes: list[Html] = []
    every = max(1, math.ceil(11 / side))
    for i in range(0, n_rows, every):
        shapes.append(_matrix_label(rows[i], left - 6, top + (i + 0.5) * side + 4, "end", None))
    for j in range(0, n_columns, every):
        x, y = left + (j + 0.5) * side + 4, top - 6
        shapes.append(_matrix_label(columns[j], x, y, "start", -90 if top > 40 else None))
    for i, j in np.argwhere(np.asarray(cells) != 0).tolist():
        share = min(max(float(shares[i, j]), 0.0), 1.0)
        x, y = left + j * side, top + i * side
        box = {"class": "cell", "x": num(x), "y": num(y), "width": num(side - 1), "height": num(side - 1)}
        tip = element("title", {}, f"{row_title} {rows[i]}, {column_title} {columns[j]}: {cells[i, j]:,.4g}")
        shapes.append(element("rect", {**box, "fill-opacity": num(0.04 + 0.96 * share)}, tip))
        if texts is not None:
            word = {"class": "cell-text" + (" strong" if share > 0.5 else ""), "text-anchor": "middle"}
            spot = {"x": num(x + (side - 1) / 2), "y": num(y + side / 2 + 3.5)}
            shapes.append(element("text", {**word, **spot}, texts[i][j]))
    shapes.append(_matrix_label(column_title, left, 11, "start", None, "axis-title"))
    shapes.append(_matrix_label(row_title, 11, top + n_rows * side, "start", -90, "axis-title"))
    return element(
        "figure",
        {"class": "chart matrix"},
        element("figcaption", {}, title),
        _svg(width, height, f"{title}: {description}", shapes, is_fixed=True),
    )


def num(value: float) -> str:
    """Write a coordinate with at most two decimals.

    >>> num(3.0), num(0.126), num(-0.001)
    ('3', '0.13', '0')
    """
    text = f"{value:.2f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


class _scale:  # noqa: N801 (used as a function)
    """A straight line from data to page units; a range of no width maps to its middle."""

    def __init__(self, low: float, high: float, start: float, end: float) -> None:
        self.low, self.start = low, start
        self.factor = (end - start) / (high - low) if high > low else 0.0
        if not high > low:
            self.start = (start + end) / 2

    def __call__(self, value: float) -> float:
        return self.start + (value - self.low) * self.factor


def _padded(low: float, high: float) -> tuple[float, float]:
    if low >= 0 and low < 0.5 * high:
        low = 0.0
    margin = (high - low) * 0.04 or abs(high) * 0.1 or 1.0
    return (low if low == 0 else low - margin), high + margin


def _y_axis(low: float, high: float, scale: _scale, width: int) -> Html:
    marks = []
    for value in ticks(low, high, most=4):
        y = scale(value)
        marks.append(element("path", {"class": "grid", "d": f"M{_LEFT} {num(y)}H{width - _RIGHT}"}))
        marks.append(
            element("text", {"class": "tick", "x": _LEFT - 6, "y": num(y + 3.5), "text-anchor": "end"}, short(value))
        )
    return element("g", {}, marks)


def _x_axis(low: float, high: float, scale: _scale, height: int) -> Html:
    marks = []
    for value in ticks(low, high, most=5):
        spot: Attributes = {"x": num(scale(value)), "y": height - 9, "text-anchor": "middle"}
        marks.append(element("text", {"class": "tick", **spot}, short(value)))
    return element("g", {}, marks)


def _matrix_label(text: str, x: float, y: float, anchor: str, turn: int | None, css: str = "tick") -> Html:
    where: Attributes = {"x": num(x), "y": num(y), "text-anchor": anchor}
    turned = {} if turn is None else {"transform": f"rotate({turn} {num(x)} {num(y)})"}
    return element("text", {"class": css, **where, **turned}, text if len(text) <= 18 else text[:17] + "\u2026")


def _svg(width: float, height: float, alt: str, shapes: Sequence[Html], *, is_fixed: bool = False) -> Html:
    box: dict[str, str | int | float] = {"viewBox": f"0 0 {num(width)} {num(height)}", "role": "img", "aria-label": alt}
    if is_fixed:
        box |= {"width": num(width), "height": num(height)}
    return element("svg", box, shapes)


def _ends(line: Line) -> str:
    known = [y for y in line.y if y is not None]
    return f"{known[0]:.4g} to {known[-1]:.4g}" if known else "nothing"
