"""The parts that every SVG chart shares: frame, scales, axes, text, colours."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from selfsort.report.drawings import N_COLOURS, ticks
from selfsort.report.render.html import Child, Html, element
from selfsort.text import short

LEFT, RIGHT, TOP, BOTTOM = 46, 12, 12, 26
"""Room for the axes, in the chart's own units."""

Scale = Callable[[float], float]


def colour(number: int) -> str:
    """Return the CSS class that carries the colour of a cluster or class."""
    return f"k{number % N_COLOURS}"


def figure(title: str, drawing: Child, *, css: str = "", legend: Child = None, caption: str | None = None) -> Html:
    """Frame a drawing with its title."""
    key = element("span", {"class": "legend"}, legend) if legend else None
    note = element("p", {"class": "note"}, caption) if caption else None
    return element("figure", {"class": f"chart {css}".strip()}, element("figcaption", {}, title, key), drawing, note)


def svg(width: float, height: float, alt: str, shapes: Sequence[Html], *, is_fixed: bool = False) -> Html:
    """Write a drawing; a fixed one keeps its size and may be scrolled."""
    box: dict[str, str | int | float] = {"viewBox": f"0 0 {num(width)} {num(height)}", "role": "img", "aria-label": alt}
    if is_fixed:
        box |= {"width": num(width), "height": num(height)}
    return element("svg", box, shapes)


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


def y_axis(low: float, high: float, scale: Scale, width: int) -> Html:
    """Write the numbers at the left and a line across the chart for each."""
    marks = []
    for value in ticks(low, high, most=4):
        y = scale(value)
        marks.append(element("path", {"class": "grid", "d": f"M{LEFT} {num(y)}H{width - RIGHT}"}))
        marks.append(label(short(value), LEFT - 6, y + 3.5, "end"))
    return element("g", {}, marks)


def x_axis(low: float, high: float, scale: Scale, height: int) -> Html:
    """Write the numbers below."""
    return element("g", {}, [label(short(value), scale(value), height - 9, "middle") for value in ticks(low, high)])


def label(text: str, x: float, y: float, anchor: str, *, turn: int | None = None, css: str = "tick") -> Html:
    """Write some words at a place, turned if need be."""
    where: dict[str, str] = {"class": css, "x": num(x), "y": num(y), "text-anchor": anchor}
    if turn is not None:
        where["transform"] = f"rotate({turn} {num(x)} {num(y)})"
    return element("text", where, text)
