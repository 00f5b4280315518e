"""Drawings as inline SVG: no plotting bundle in the page, colours by CSS class, text that can be read out."""

from __future__ import annotations

import math

import numpy as np

from selfsort.report.drawings import (
    N_COLOURS,
    BarChart,
    Drawing,
    Line,
    LineChart,
    Matrix,
    Panels,
    Scatter,
    Sheet,
    TreeChart,
)
from selfsort.report.render.axes import (
    BOTTOM,
    LEFT,
    RIGHT,
    TOP,
    Scale,
    colour,
    figure,
    label,
    linear,
    num,
    svg,
    x_axis,
    y_axis,
)
from selfsort.report.render.html import Attributes, Html, element, join
from selfsort.report.render.images import data_uri
from selfsort.report.render.layout import seen_from_corner
from selfsort.text import short, shorten

_ARRANGED = {LineChart: "charts", BarChart: "charts", Scatter: "panels", Sheet: "sheets"}
"""CSS class of what holds several of a kind; the others stand alone."""


def draw_panels(panels: Panels) -> Html:
    """Write the drawings of a section with what is said about them."""
    drawn = [draw(drawing) for drawing in panels.drawings]
    css = _ARRANGED.get(type(panels.drawings[0]))
    note, remark = (element("p", {"class": "note"}, said) if said else None for said in (panels.note, panels.remark))
    return join([note, element("div", {"class": css}, drawn) if css else drawn, remark])


def draw(drawing: Drawing) -> Html:
    """Write one drawing with its frame."""
    match drawing:
        case LineChart():
            return _line_chart(drawing)
        case BarChart():
            return _bar_chart(drawing)
        case Matrix():
            return _matrix(drawing)
        case Scatter():
            return _scatter(drawing)
        case TreeChart():
            return _tree(drawing)
        case Sheet():
            return _sheet(drawing)


def _line_chart(chart: LineChart) -> Html:
    lines, width, height = chart.lines, 360, 210 if chart.x_title else 200
    foot = height - 10 if chart.x_title else height
    xs = [x for line in lines for x in line.x]
    ys = [y for line in lines for y in line.y if y is not None]
    x_low, x_high = min(xs), max(xs)
    y_low, y_high = (0.0, 1.0) if chart.is_share else _padded(min(ys), max(ys))
    scale_x = linear(x_low, x_high, LEFT, width - RIGHT)
    scale_y = linear(y_low, y_high, foot - BOTTOM, TOP)
    shapes = [y_axis(y_low, y_high, scale_y, width), x_axis(x_low, x_high, scale_x, foot)]
    for i, line in enumerate(lines):
        css = f"line s{i % 8}" + (" bound" if line.is_bound else "")
        tip = element("title", {}, line.name)
        shapes.append(element("path", {"class": css, "d": _curve(line, scale_x, scale_y)}, tip))
    if chart.x_title:
        shapes.append(label(chart.x_title, (width + LEFT - RIGHT) / 2, height - 4, "middle", css="axis-title"))
    alt = f"{chart.title}: " + "; ".join(f"{line.name} from {_ends(line)}" for line in lines)
    keys = [element("span", {}, element("i", {"class": f"s{i % 8}"}), line.name) for i, line in enumerate(lines)]
    drawing = svg(width, height, alt, shapes)
    return figure(chart.title, drawing, legend=keys if len(lines) > 1 else None, caption=chart.caption)


def _bar_chart(chart: BarChart) -> Html:
    """Draw bars; labels are thinned out when they would not fit. The tips begin with the title of the x axis."""
    width, height = (744, 210) if chart.is_wide else (360, 200)
    high = max([*chart.values, 0]) or 1.0
    scale_y = linear(0, high * 1.04, height - BOTTOM, TOP)
    slot = (width - LEFT - RIGHT) / max(len(chart.values), 1)
    every = max(1, math.ceil((max((len(name) for name in chart.labels), default=1) * 6.5 + 6) / slot))
    shapes = [y_axis(0, high * 1.04, scale_y, width)]
    for i, (value, name) in enumerate(zip(chart.values, chart.labels, strict=True)):
        top = scale_y(value)
        box: Attributes = {
            "class": f"box {colour(chart.groups[i])}" if chart.groups else "box",
            "x": num(LEFT + i * slot + slot * 0.08),
            "y": num(top),
            "width": num(slot * 0.84),
            "height": num(height - BOTTOM - top),
            "rx": num(min(3, slot * 0.2)),
        }
        shapes.append(element("rect", box, element("title", {}, f"{chart.x_title} {name}: {value:,.6g}".strip())))
        if i % every == 0:
            shapes.append(label(name, LEFT + (i + 0.5) * slot, height - 9, "middle"))
    drawing = svg(width, height, f"{chart.title}: {chart.alt}", shapes)
    return figure(chart.title, drawing, css="wide" if chart.is_wide else "", caption=chart.caption)


def _matrix(chart: Matrix) -> Html:
    """Draw a heat map; small tables show their texts, large ones keep them as tips."""
    n_rows, n_columns = chart.strength.shape
    side = 38 if chart.has_texts else max(9, min(22, 700 // max(n_rows, n_columns)))
    is_turned = max(len(name) for name in chart.columns) > 5 or not chart.has_texts
    left = 24 + min(130, 7 * max(len(name) for name in chart.rows))
    top = 24 + (min(130, 7 * max(len(name) for name in chart.columns)) if is_turned else 14)
    shapes = [
        label(shorten(name, 18), left - 6, top + (i + 0.5) * side + 4, "end") for i, name in enumerate(chart.rows)
    ]
    for j, name in enumerate(chart.columns):
        x = left + (j + 0.5) * side
        upright = label(shorten(name, 18), x + 4, top - 6, "start", turn=-90)
        shapes.append(upright if is_turned else label(name, x, top - 6, "middle"))
    for i, j in np.argwhere(chart.strength > 0).tolist():
        share, x, y, said = min(float(chart.strength[i, j]), 1.0), left + j * side, top + i * side, chart.texts[i][j]
        box: Attributes = {
            "x": num(x),
            "y": num(y),
            "width": side - 1,
            "height": side - 1,
            "rx": 3 if chart.has_texts else 0,
        }
        where = f"{chart.row_title} {chart.rows[i]}, {chart.column_title} {chart.columns[j]}: {said}"
        tip = element("title", {}, where.strip())
        shapes.append(element("rect", {"class": "cell", **box, "fill-opacity": num(0.06 + 0.94 * share)}, tip))
        if chart.has_texts:
            css = "cell-text strong" if share > 0.55 else "cell-text"
            shapes.append(label(said, x + (side - 1) / 2, y + side / 2 + 3.5, "middle", css=css))
    if chart.row_title:
        shapes.append(label(chart.row_title, 12, top + n_rows * side, "start", turn=-90, css="axis-title"))
    if chart.column_title:
        shapes.append(label(chart.column_title, left, 12, "start", css="axis-title"))
    width, height = left + n_columns * side + 8, top + n_rows * side + 8
    return figure(chart.title, svg(width, height, f"{chart.title}: {chart.alt}", shapes, is_fixed=True), css="matrix")


def _scatter(chart: Scatter) -> Html:
    side, margin = 240, 10
    place = seen_from_corner(chart.place) if chart.place.shape[1] == 3 else chart.place
    low, high = place.min(axis=0), place.max(axis=0)
    if chart.outline != "none":
        low, high = (np.full(2, -1.1), np.full(2, 1.1)) if chart.outline == "circle" else (np.zeros(2), np.ones(2))
    reach = float((high - low).max()) or 1.0
    middle = (low + high) / 2
    spot = (place - middle) * np.array([1, -1]) * ((side - 2 * margin) / reach) + side / 2
    shapes = []
    if chart.outline == "circle":
        radius = (side - 2 * margin) / reach
        shapes.append(element("circle", {"class": "grid", "cx": side / 2, "cy": side / 2, "r": num(radius)}))
    if chart.outline == "square":
        inner = side - 2 * margin
        shapes.append(element("path", {"class": "grid", "d": f"M{margin} {margin}h{inner}v{inner}h-{inner}z"}))
    # A stroke of no length with round ends is a dot: one path per colour keeps thousands of them small.
    for number in range(N_COLOURS):
        dots = spot[chart.groups % N_COLOURS == number]
        if len(dots):
            path = "".join(f"M{x:.0f} {y:.0f}h0" for x, y in dots.tolist())
            shapes.append(element("path", {"class": f"dots {colour(number)}", "d": path}))
    drawing = svg(side, side, f"{chart.title}: {chart.alt}", shapes)
    return figure(chart.title, drawing, css="panel", caption=chart.caption)


def _tree(chart: TreeChart) -> Html:
    """Draw merges as brackets, coloured by the final cluster where there is one."""
    width, height, branches, name = 1000, 300, chart.branches, chart.y_title
    bottom = min(min(branch.left[1], branch.right[1]) for branch in branches)
    top = max(branch.height for branch in branches)
    widest = max(branch.right[0] for branch in branches)
    scale_x, scale_y = linear(0, widest, LEFT + 8, width - RIGHT), linear(bottom, top, height - 12, TOP)
    shapes = [y_axis(bottom, top, scale_y, width)]
    for branch in branches:
        left, right, beam = num(scale_x(branch.left[0])), num(scale_x(branch.right[0])), num(scale_y(branch.height))
        path = f"M{left} {num(scale_y(branch.left[1]))}V{beam}H{right}V{num(scale_y(branch.right[1]))}"
        css = f"branch {colour(branch.cluster)}" if branch.cluster >= 0 else "branch"
        tip = f"{name} {short(branch.height)}" + (f", cluster {branch.cluster}" if branch.cluster >= 0 else "")
        shapes.append(element("path", {"class": css, "d": path}, element("title", {}, tip)))
    shapes.append(label(name, LEFT - 6, TOP - 2, "end", css="axis-title"))
    return figure(chart.title, svg(width, height, f"{chart.title}: {len(branches)} merges", shapes), css="tree")


def _sheet(sheet: Sheet) -> Html:
    uri = data_uri(sheet.pixels.repeat(sheet.scale, axis=0).repeat(sheet.scale, axis=1))
    return figure(sheet.title, element("img", {"src": uri, "alt": f"{sheet.title}: {sheet.alt}"}))


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


def _ends(line: Line) -> str:
    known = [y for y in line.y if y is not None]
    return f"{known[0]:.4g} to {known[-1]:.4g}" if known else "nothing"
