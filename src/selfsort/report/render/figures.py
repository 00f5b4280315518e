"""What the figure files share: a canvas without a display, dots and lines, and files without a date."""

from __future__ import annotations

import io
import math
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from selfsort.report.render.svg import N_COLOURS, Line
from selfsort.runs.folder import write_whole
from selfsort.text import printable, shorten
from selfsort.types import F64, I64

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PALETTE = "tab20"


def panels(count: int, *, columns: int = 3, width: float = 2.6, height: float = 2.6) -> tuple[Figure, list[Axes]]:
    """Return a figure with `count` axes in rows, arranged so that nothing overlaps."""
    return _blank(count, columns, width, height, "constrained")


def picture_panels(count: int, *, columns: int, width: float, height: float) -> tuple[Figure, list[Axes]]:
    """Return a figure with `count` small axes for pictures; arranging hundreds of them would take minutes."""
    figure, axes = _blank(count, columns, width, height, None)
    figure.subplots_adjust(
        left=0.01, right=0.99, bottom=0.01, top=1 - 0.25 / figure.get_figheight(), wspace=0.08, hspace=0.3
    )
    return figure, axes


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


def plain(text: str, limit: int = 24) -> str:
    r"""Make a name safe to draw: a dollar sign would start a formula.

    >>> print(plain("5 $ or 6 $"))
    5 \$ or 6 \$
    """
    return printable(shorten(text, limit)).replace("$", "\\$")


def draw_dots(axes: Axes, place: F64, groups: I64, title: str) -> None:
    """Draw points in the plane, coloured by group, without scales: they would mean nothing."""
    axes.scatter(
        place[:, 0], place[:, 1], c=groups % N_COLOURS, cmap=PALETTE, vmin=0, vmax=N_COLOURS - 1, s=4, linewidths=0
    )
    axes.set_xticks([])
    axes.set_yticks([])
    axes.set_aspect("equal", adjustable="datalim")
    axes.set_title(plain(title, 60))


def draw_lines(axes: Axes, lines: Sequence[Line], title: str, x_title: str, *, is_share: bool = False) -> None:
    """Draw curves; a missing value leaves a gap."""
    for line in lines:
        y = [math.nan if value is None else value for value in line.y]
        axes.plot(line.x, y, "--" if line.is_bound else "-", label=plain(line.name, 40), linewidth=1.4)
    axes.set_title(plain(title, 60))
    axes.set_xlabel(plain(x_title))
    axes.grid(alpha=0.3)
    if is_share:
        axes.set_ylim(0, 1.02)
    if len(lines) > 1:
        axes.legend(fontsize="small")


def save(figure: Figure, stem: Path) -> list[Path]:
    """Write a figure as PNG and SVG."""
    written = []
    for kind, metadata in (("png", {"Software": None}), ("svg", {"Date": None, "Creator": None})):
        stream = io.BytesIO()
        with warnings.catch_warnings():
            # Names may be in a script the default font lacks; boxes in their place are no reason to stop.
            warnings.filterwarnings("ignore", message="Glyph .* missing from")
            figure.savefig(stream, format=kind, metadata=metadata)
        written.append(stem.with_name(f"{stem.name}.{kind}"))
        _write(written[-1], stream.getvalue())
    return written


def _write(path: Path, content: bytes) -> None:
    write_whole(path, lambda file: file.write(content))
