"""Drawings as figure files, by matplotlib without a display: no date, no random names, the same bytes every time."""

from __future__ import annotations

import io
import math
import warnings
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from selfsort.report.drawings import (
    N_COLOURS,
    BarChart,
    Drawing,
    LineChart,
    Matrix,
    Panels,
    PictureTable,
    Scatter,
    Sheet,
    TreeChart,
)
from selfsort.report.render.images import gray_or_color
from selfsort.runs.files import write_whole
from selfsort.text import printable, shorten

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MAX_BAR_LABELS = 12

_GRAY: dict[str, Any] = {"cmap": "gray", "vmin": 0, "vmax": 255}


def draw_figure(shown: Panels | PictureTable) -> Figure:
    """Draw what belongs together on one canvas."""
    with _style():
        return _panels(shown) if isinstance(shown, Panels) else _pictures(shown)


def save(figure: Figure, stem: Path) -> list[Path]:
    """Write a figure as PNG and SVG."""
    written = []
    for kind, metadata in (("png", {"Software": None}), ("svg", {"Date": None, "Creator": None})):
        stream = io.BytesIO()
        with warnings.catch_warnings(), _style():
            # Names may be in a script the default font lacks; boxes in their place are no reason to stop.
            warnings.filterwarnings("ignore", message="Glyph .* missing from")
            figure.savefig(stream, format=kind, metadata=metadata)
        written.append(stem.with_name(f"{stem.name}.{kind}"))
        _write(written[-1], stream.getvalue())
    return written


def plain(text: str, limit: int = 24) -> str:
    r"""Make a name safe to draw: a dollar sign would start a formula.

    >>> print(plain("5 $ or 6 $"))
    5 \$ or 6 \$
    """
    return printable(shorten(text, limit)).replace("$", "\\$")


def _panels(shown: Panels) -> Figure:
    """Draw panels in rows, arranged so that nothing overlaps."""
    sizes = [_size(drawing, is_alone=len(shown.drawings) <= 2) for drawing in shown.drawings]
    width, height = (max(side) for side in zip(*sizes, strict=True))
    columns = 1 if isinstance(shown.drawings[0], Sheet) else 3
    figure, axes = _blank(len(shown.drawings), columns, width, height, "constrained")
    for place, drawing in zip(axes, shown.drawings, strict=True):
        draw(place, drawing)
    return figure


def _pictures(shown: PictureTable) -> Figure:
    """Draw small cells in rows; arranging hundreds of them by their contents would take minutes."""
    figure, axes = _blank(len(shown.cells), shown.columns, shown.side, shown.side + 0.1, None)
    figure.subplots_adjust(
        left=0.01, right=0.99, bottom=0.01, top=1 - 0.25 / figure.get_figheight(), wspace=0.08, hspace=0.3
    )
    for place, cell in zip(axes, shown.cells, strict=True):
        if isinstance(cell, BarChart):
            place.bar(np.arange(len(cell.values)), cell.values)
            place.set_ylim(0, 1)
            place.set_yticks([])
            continue
        place.axis("off")
        if cell is not None:
            place.imshow(gray_or_color(cell.pixels), **_GRAY)
            place.set_title(plain(cell.title, 10), fontsize=7)
    return figure


def _blank(
    count: int, columns: int, width: float, height: float, layout: Literal["constrained"] | None
) -> tuple[Figure, list[Axes]]:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    columns = min(columns, count)
    rows = math.ceil(count / columns)
    figure = Figure(figsize=(columns * width, rows * height), layout=layout)
    FigureCanvasAgg(figure)
    return figure, [figure.add_subplot(rows, columns, i + 1) for i in range(count)]


def _size(drawing: Drawing, *, is_alone: bool) -> tuple[float, float]:
    """Return width and height in inches; what has few beside it may be larger."""
    match drawing:
        case Matrix():
            side = max(3.0, 0.3 * max(drawing.strength.shape)) + 1
            return side, side
        case Scatter():
            return (4.5, 4.5) if is_alone else (2.8, 2.8)
        case TreeChart():
            return 9, 3.2
        case Sheet():
            return 6, 1.8
        case BarChart(is_wide=True):
            return 5, 2.6
    return (4, 3) if is_alone else (3.2, 2.4)


def draw(axes: Axes, drawing: Drawing) -> None:
    """Draw one panel."""
    caption = drawing.caption if isinstance(drawing, Scatter) else None
    match drawing:
        case LineChart():
            _line_chart(axes, drawing)
        case BarChart():
            _bar_chart(axes, drawing)
        case Matrix():
            _matrix(axes, drawing)
        case Scatter():
            axes = _scatter(axes, drawing)
        case TreeChart():
            _tree(axes, drawing)
        case Sheet():
            axes.imshow(gray_or_color(drawing.pixels), **_GRAY)
            axes.axis("off")
    axes.set_title(plain(", ".join(filter(None, (drawing.title, caption))), 60))


def _line_chart(axes: Axes, chart: LineChart) -> None:
    """Draw curves; a missing value leaves a gap."""
    for line in chart.lines:
        y = [math.nan if value is None else value for value in line.y]
        axes.plot(line.x, y, "--" if line.is_bound else "-", label=plain(line.name, 40), linewidth=1.4)
    axes.set_xlabel(plain(chart.x_title))
    axes.grid(alpha=0.3)
    if chart.is_share:
        axes.set_ylim(0, 1.02)
    if len(chart.lines) > 1:
        axes.legend(fontsize="small")


def _bar_chart(axes: Axes, chart: BarChart) -> None:
    colours = None if chart.groups is None else [_palette()[group % N_COLOURS] for group in chart.groups]
    axes.bar(np.arange(len(chart.values)), chart.values, color=colours)
    shown = np.arange(0, len(chart.values), math.ceil(len(chart.values) / _MAX_BAR_LABELS))
    axes.set_xticks(shown, [plain(chart.labels[i]) for i in shown.tolist()])
    axes.set_xlabel(plain(chart.x_title))


def _matrix(axes: Axes, chart: Matrix) -> None:
    axes.imshow(chart.strength, cmap="Blues", vmin=0, vmax=1)
    axes.set_xticks(range(len(chart.columns)), [plain(name) for name in chart.columns], rotation=90)
    axes.set_yticks(range(len(chart.rows)), [plain(name) for name in chart.rows])
    axes.set_xlabel(chart.column_title)
    axes.set_ylabel(chart.row_title)
    if chart.has_texts:
        for i, j in np.argwhere(chart.strength > 0).tolist():
            colour = "w" if chart.strength[i, j] > 0.5 else "k"
            axes.text(j, i, chart.texts[i][j], ha="center", va="center", color=colour, fontsize=7)


def _scatter(axes: Axes, chart: Scatter) -> Axes:
    """Draw dots without scales, which would mean nothing; those in space get axes of three dimensions."""
    figure, cell = axes.get_figure(), axes.get_subplotspec()
    style: dict[str, Any] = {"c": chart.groups % N_COLOURS, "cmap": "tab20", "vmin": 0, "vmax": N_COLOURS - 1}
    if chart.place.shape[1] == 3 and figure is not None:
        axes.remove()
        space: Any = figure.add_subplot(cell, projection="3d")
        space.scatter(*chart.place.T, s=3, linewidths=0, **style)
        space.set(xticklabels=[], yticklabels=[], zticklabels=[])
        found: Axes = space
        return found
    axes.scatter(chart.place[:, 0], chart.place[:, 1], s=4, linewidths=0, **style)
    axes.set(xticks=[], yticks=[])
    axes.set_aspect("equal", adjustable="datalim" if chart.outline == "none" else "box")
    if chart.outline == "square":
        axes.set(xlim=(0, 1), ylim=(0, 1))
    elif chart.outline == "circle":
        turn = np.linspace(0, 2 * np.pi, 200)
        axes.plot(np.cos(turn), np.sin(turn), color="0.8", linewidth=0.8, zorder=0)
    return axes


def _tree(axes: Axes, chart: TreeChart) -> None:
    for branch in chart.branches:
        x = [branch.left[0], branch.left[0], branch.right[0], branch.right[0]]
        y = [branch.left[1], branch.height, branch.height, branch.right[1]]
        axes.plot(x, y, color="0.4" if branch.cluster < 0 else _palette()[branch.cluster % N_COLOURS], linewidth=1)
    axes.set_xticks([])
    axes.set_ylabel(chart.y_title)


def _style() -> AbstractContextManager[None]:
    import matplotlib

    return matplotlib.rc_context({"svg.hashsalt": "selfsort", "font.size": 9, "savefig.dpi": 150})


def _palette() -> list[tuple[float, ...]]:
    import matplotlib

    colours: list[tuple[float, ...]] = matplotlib.colormaps["tab20"].colors  # type: ignore[attr-defined]
    return colours


def _write(path: Path, content: bytes) -> None:
    write_whole(path, lambda file: file.write(content))
