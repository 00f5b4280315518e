"""Charts as inline SVG: no plotting bundle in the page, colours by CSS class, text that can be read out."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from selfsort.report.render.html import Attributes, Child, Html, element
from selfsort.report.sections.trees import Branch
from selfsort.text import short, shorten
from selfsort.types import F64, I64

N_COLOURS = 20
"""Colours of clusters; report.css names as many. Further clusters begin again."""

_LEFT, _RIGHT, _TOP, _BOTTOM = 46, 12, 12, 26
"""Room for the axes, in the chart's own units."""

Scale = Callable[[float], float]


@dataclass(frozen=True, eq=False)
class Line:
    """One curve of a line chart; None leaves a gap."""

    name: str
    x: Sequence[float]
    y: Sequence[float | None]
    is_bound: bool = False
    """Drawn dashed: a limit, not a measurement."""


def colour(number: int) -> str:
    """Return the CSS class that carries the colour of a cluster or class."""
    return f"k{number % N_COLOURS}"


def figure(title: str, drawing: Child, *, css: str = "", legend: Child = None, caption: str | None = None) -> Html:
    """Frame a drawing with its title."""
    key = element("span", {"class": "legend"}, legend) if legend else None
    note = element("p", {"class": "note"}, caption) if caption else None
    return element("figure", {"class": f"chart {css}".strip()}, element("figcaption", {}, title, key), drawing, note)


def line_chart(
    title: str, lines: Sequence[Line], *, x_title: str = "", is_share: bool = False, caption: str | None = None
) -> Html:
    """Draw curves over a common x; `is_share` fixes y to 0..1."""
    width, height = 360, 210 if x_title else 200
    foot = height - 10 if x_title else height
    xs = [x for line in lines for x in line.x]
    ys = [y for line in lines for y in line.y if y is not None]
    x_low, x_high = min(xs), max(xs)
    y_low, y_high = (0.0, 1.0) if is_share else _padded(min(ys), max(ys))
    scale_x = linear(x_low, x_high, _LEFT, width - _RIGHT)
    scale_y = linear(y_low, y_high, foot - _BOTTOM, _TOP)
    shapes = [_y_axis(y_low, y_high, scale_y, width), _x_axis(x_low, x_high, scale_x, foot)]
    for i, line in enumerate(lines):
        css = f"line s{i % 8}" + (" bound" if line.is_bound else "")
        tip = element("title", {}, line.name)
        shapes.append(element("path", {"class": css, "d": _curve(line, scale_x, scale_y)}, tip))
    if x_title:
        shapes.append(_text(x_title, (width + _LEFT - _RIGHT) / 2, height - 4, "middle", css="axis-title"))
    alt = f"{title}: " + "; ".join(f"{line.name} from {_ends(line)}" for line in lines)
    keys = [element("span", {}, element("i", {"class": f"s{i % 8}"}), line.name) for i, line in enumerate(lines)]
    return figure(title, svg(width, height, alt, shapes), legend=keys if len(lines) > 1 else None, caption=caption)


def bar_chart(
    title: str,
    values: Sequence[float],
    labels: Sequence[str],
    *,
    alt: str,
    colours: Sequence[str] | None = None,
    x_title: str = "",
    is_wide: bool = False,
    caption: str | None = None,
) -> Html:
    """Draw upright bars; labels are thinned out when they would not fit. The tips begin with `x_title`."""
    width, height = (744, 210) if is_wide else (360, 200)
    high = max([*values, 0]) or 1.0
    scale_y = linear(0, high * 1.04, height - _BOTTOM, _TOP)
    slot = (width - _LEFT - _RIGHT) / max(len(values), 1)
    every = max(1, math.ceil((max((len(label) for label in labels), default=1) * 6.5 + 6) / slot))
    shapes = [_y_axis(0, high * 1.04, scale_y, width)]
    for i, (value, label) in enumerate(zip(values, labels, strict=True)):
        top = scale_y(value)
        box: Attributes = {
            "class": f"box {colours[i]}" if colours else "box",
            "x": num(_LEFT + i * slot + slot * 0.08),
            "y": num(top),
            "width": num(slot * 0.84),
            "height": num(height - _BOTTOM - top),
            "rx": num(min(3, slot * 0.2)),
        }
        shapes.append(element("rect", box, element("title", {}, f"{x_title} {label}: {value:,.6g}".strip())))
        if i % every == 0:
            shapes.append(_text(label, _LEFT + (i + 0.5) * slot, height - 9, "middle"))
    drawing = svg(width, height, f"{title}: {alt}", shapes)
    return figure(title, drawing, css="wide" if is_wide else "", caption=caption)


def histogram(
    title: str, values: npt.NDArray[Any], *, low: float, high: float, alt: str, x_title: str = "", is_wide: bool = False
) -> Html:
    """Count values in twenty equal bins."""
    counts, edges = np.histogram(values, bins=20, range=(low, high))
    labels = [short(round(float(edge), 6)) for edge in edges[:-1]]
    return bar_chart(title, counts.tolist(), labels, alt=alt, x_title=x_title, is_wide=is_wide)


def count_histogram(
    title: str, values: npt.NDArray[Any], *, alt: str, x_title: str = "", is_wide: bool = False
) -> Html:
    """Count whole numbers in at most about twenty bins whose edges are whole and round."""
    largest = int(values.max())
    width = max(1, round(ticks(0, max(largest, 1), 20)[1]))
    edges = np.arange(largest // width + 2) * width
    counts, _ = np.histogram(values, bins=edges)
    labels = [short(edge) for edge in edges[:-1].tolist()]
    return bar_chart(title, counts.tolist(), labels, alt=alt, x_title=x_title, is_wide=is_wide)


def matrix_chart(
    title: str,
    strength: F64,
    texts: Sequence[Sequence[str]],
    rows: Sequence[str],
    columns: Sequence[str],
    *,
    alt: str,
    row_title: str,
    column_title: str,
) -> Html:
    """Draw a heat map of cells between 0 and 1; small tables show their texts, large ones keep them as tips."""
    n_rows, n_columns = strength.shape
    has_texts = max(n_rows, n_columns) <= 20
    side = 38 if has_texts else max(9, min(22, 700 // max(n_rows, n_columns)))
    is_turned = max(len(name) for name in columns) > 5 or not has_texts
    left = 24 + min(130, 7 * max(len(name) for name in rows))
    top = 24 + (min(130, 7 * max(len(name) for name in columns)) if is_turned else 14)
    shapes = [_text(shorten(name, 18), left - 6, top + (i + 0.5) * side + 4, "end") for i, name in enumerate(rows)]
    for j, name in enumerate(columns):
        x = left + (j + 0.5) * side
        turned = _text(shorten(name, 18), x + 4, top - 6, "start", turn=-90)
        shapes.append(turned if is_turned else _text(name, x, top - 6, "middle"))
    for i, j in np.argwhere(strength > 0).tolist():
        share, x, y = min(float(strength[i, j]), 1.0), left + j * side, top + i * side
        box: Attributes = {"x": num(x), "y": num(y), "width": side - 1, "height": side - 1, "rx": 3 if has_texts else 0}
        tip = element("title", {}, f"{row_title} {rows[i]}, {column_title} {columns[j]}: {texts[i][j]}".strip())
        shapes.append(element("rect", {"class": "cell", **box, "fill-opacity": num(0.06 + 0.94 * share)}, tip))
        if has_texts:
            css = "cell-text strong" if share > 0.55 else "cell-text"
            shapes.append(_text(texts[i][j], x + (side - 1) / 2, y + side / 2 + 3.5, "middle", css=css))
    if row_title:
        shapes.append(_text(row_title, 12, top + n_rows * side, "start", turn=-90, css="axis-title"))
    if column_title:
        shapes.append(_text(column_title, left, 12, "start", css="axis-title"))
    width, height = left + n_columns * side + 8, top + n_rows * side + 8
    return figure(title, svg(width, height, f"{title}: {alt}", shapes, is_fixed=True), css="matrix")


def scatter_panel(
    title: str,
    place: F64,
    groups: I64,
    *,
    alt: str,
    caption: str | None = None,
    ring: bool = False,
    frame: bool = False,
) -> Html:
    """Draw dots in the plane, coloured by group; `ring` draws the unit circle, `frame` the square from 0 to 1."""
    side, margin = 240, 10
    low, high = (np.full(2, -1.1), np.full(2, 1.1)) if ring else (place.min(axis=0), place.max(axis=0))
    if frame:
        low, high = np.zeros(2), np.ones(2)
    reach = float((high - low).max()) or 1.0
    middle = (low + high) / 2
    spot = (place - middle) * np.array([1, -1]) * ((side - 2 * margin) / reach) + side / 2
    shapes = []
    if ring:
        radius = (side - 2 * margin) / reach
        shapes.append(element("circle", {"class": "grid", "cx": side / 2, "cy": side / 2, "r": num(radius)}))
    if frame:
        inner = side - 2 * margin
        shapes.append(element("path", {"class": "grid", "d": f"M{margin} {margin}h{inner}v{inner}h-{inner}z"}))
    # A stroke of no length with round ends is a dot: one path per colour keeps thousands of them small.
    for number in range(N_COLOURS):
        dots = spot[groups % N_COLOURS == number]
        if len(dots):
            path = "".join(f"M{x:.0f} {y:.0f}h0" for x, y in dots.tolist())
            shapes.append(element("path", {"class": f"dots {colour(number)}", "d": path}))
    return figure(title, svg(side, side, f"{title}: {alt}", shapes), css="panel", caption=caption)


def tree_chart(title: str, branches: Sequence[Branch], *, y_title: str) -> Html:
    """Draw merges as brackets, coloured by the final cluster where there is one."""
    width, height = 1000, 300
    bottom = min(min(branch.left[1], branch.right[1]) for branch in branches)
    top = max(branch.height for branch in branches)
    widest = max(branch.right[0] for branch in branches)
    scale_x, scale_y = linear(0, widest, _LEFT + 8, width - _RIGHT), linear(bottom, top, height - 12, _TOP)
    shapes = [_y_axis(bottom, top, scale_y, width)]
    for branch in branches:
        left, right, beam = num(scale_x(branch.left[0])), num(scale_x(branch.right[0])), num(scale_y(branch.height))
        path = f"M{left} {num(scale_y(branch.left[1]))}V{beam}H{right}V{num(scale_y(branch.right[1]))}"
        css = f"branch {colour(branch.cluster)}" if branch.cluster >= 0 else "branch"
        tip = f"{y_title} {short(branch.height)}" + (f", cluster {branch.cluster}" if branch.cluster >= 0 else "")
        shapes.append(element("path", {"class": css, "d": path}, element("title", {}, tip)))
    shapes.append(_text(y_title, _LEFT - 6, _TOP - 2, "end", css="axis-title"))
    return figure(title, svg(width, height, f"{title}: {len(branches)} merges", shapes), css="tree")


def svg(width: float, height: float, alt: str, shapes: Sequence[Html], *, is_fixed: bool = False) -> Html:
    """Write a drawing; a fixed one keeps its size and may be scrolled."""
    box: dict[str, str | int | float] = {"viewBox": f"0 0 {num(width)} {num(height)}", "role": "img", "aria-label": alt}
    if is_fixed:
        box |= {"width": num(width), "height": num(height)}
    return element("svg", box, shapes)


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


def num(value: float) -> str:
    """Write a coordinate with at most two decimals.

    >>> num(3.0), num(0.126), num(-0.001)
    ('3', '0.13', '0')
    """
    text = f"{value:.2f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


def linear(low: float, high: float, start: float, end: float) -> Scale:
    """Return the straight line from data to page units; a range of no width maps to the middle.

    >>> linear(0, 10, 100, 200)(5)
    150.0
    """
    if not high > low:
        return lambda value: (start + end) / 2
    return lambda value: start + (value - low) * (end - start) / (high - low)


def _curve(line: Line, scale_x: Scale, scale_y: Scale) -> str:
    path, pen = [], "M"
    for x, y in zip(line.x, line.y, strict=True):
        if y is None:
            pen = "M"
            continue
        path.append(f"{pen}{num(scale_x(x))} {num(scale_y(y))}")
        pen = "L"
    return "".join(path)


def _padded(low: float, high: float) -> tuple[float, float]:
    if 0 <= low < 0.5 * high:
        low = 0.0
    margin = (high - low) * 0.05 or abs(high) * 0.1 or 1.0
    return (low if low == 0 else low - margin), high + margin


def _y_axis(low: float, high: float, scale: Scale, width: int) -> Html:
    marks = []
    for value in ticks(low, high, most=4):
        y = scale(value)
        marks.append(element("path", {"class": "grid", "d": f"M{_LEFT} {num(y)}H{width - _RIGHT}"}))
        marks.append(_text(short(value), _LEFT - 6, y + 3.5, "end"))
    return element("g", {}, marks)


def _x_axis(low: float, high: float, scale: Scale, height: int) -> Html:
    return element("g", {}, [_text(short(value), scale(value), height - 9, "middle") for value in ticks(low, high)])


def _text(text: str, x: float, y: float, anchor: str, *, turn: int | None = None, css: str = "tick") -> Html:
    where: dict[str, str] = {"class": css, "x": num(x), "y": num(y), "text-anchor": anchor}
    if turn is not None:
        where["transform"] = f"rotate({turn} {num(x)} {num(y)})"
    return element("text", where, text)


def _ends(line: Line) -> str:
    known = [y for y in line.y if y is not None]
    return f"{known[0]:.4g} to {known[-1]:.4g}" if known else "nothing"
