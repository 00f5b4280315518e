"""`selfsort report --figures`: each figure of the papers that a run can make, as PNG and SVG files.

Drawn by matplotlib without a display. The files carry no date and no random names: the same run gives the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from selfsort.report.curves import event_lines
from selfsort.report.layout import neighbour_map
from selfsort.report.mapping import MAX_POINTS, sample_rows
from selfsort.report.pictures import Pictures, choose_strips
from selfsort.report.plotting import draw_dots, draw_lines, panels, picture_panels, plain, save
from selfsort.report.read import SCORE_NAMES, RunData, read_run
from selfsort.report.scores import confident_mistakes, confusion, purity_lines
from selfsort.report.stage_figures import STAGE_FIGURES
from selfsort.report.stages import read_stages

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MAX_MISTAKES = 100
MAX_COLUMNS = 20
"""Clusters in the figure of samples."""


def write_figures(run: Path, folder: Path, *, is_original: bool = False) -> list[Path]:
    """Write every figure that applies to a run as NAME.png and NAME.svg, and return their paths."""
    import matplotlib

    data = read_run(Path(run), is_original=is_original)
    written: list[Path] = []
    with matplotlib.rc_context({"svg.hashsalt": "selfsort", "font.size": 9, "savefig.dpi": 150}):
        for name, draw in FIGURES.items():
            figure = draw(data)
            if figure is not None:
                written += save(figure, Path(folder) / name)
    return written


def curves_figure(run: RunData) -> Figure | None:
    """Draw every curve of the training."""
    lines = event_lines(run)
    score_lines = [lines.pop(name) for name in SCORE_NAMES if name in lines]
    charts = [(line.name, [line]) for line in lines.values()]
    if score_lines:
        charts.insert(0, ("Scores", score_lines))
    if not charts:
        return None
    figure, axes = panels(len(charts), width=3.2, height=2.4)
    for place, (title, drawn) in zip(axes, charts, strict=True):
        draw_lines(place, drawn, title, "step", is_share=title == "Scores")
    return figure


def sizes_figure(run: RunData) -> Figure:
    """Draw the sizes of the clusters, largest first."""
    figure, (axes,) = panels(1, width=5, height=2.6)
    counts = np.sort(run.sizes)[::-1]
    axes.bar(np.arange(len(counts)), counts)
    axes.set_title("Images per cluster")
    axes.set_xlabel("clusters by size")
    return figure


def map_figure(run: RunData) -> Figure | None:
    """Draw the map, coloured by cluster and, with labels, by class."""
    rows = sample_rows(run, Pictures(run), MAX_POINTS)
    if len(rows) < 3:
        return None
    place = neighbour_map(run.features(rows))
    figure, axes = panels(1 if run.truth is None else 2, width=4.5, height=4.5)
    draw_dots(axes[0], place, run.table.labels[rows], "by cluster")
    if run.truth is not None:
        draw_dots(axes[1], place, np.unique(run.truth, return_inverse=True)[1][rows], "by true class")
    return figure


def samples_figure(run: RunData) -> Figure | None:
    """Show the surest images of each cluster in columns, the prototype on top."""
    pictures = Pictures(run)
    if not len(pictures.rows()):
        return None
    strips = choose_strips(run, pictures, 6)
    clusters = np.flatnonzero(run.sizes)[:MAX_COLUMNS].tolist()
    figure, axes = picture_panels(6 * len(clusters), columns=len(clusters), width=0.7, height=0.75)
    for i, place in enumerate(axes):
        cluster, chosen = clusters[i % len(clusters)], strips[clusters[i % len(clusters)]].typical
        place.axis("off")
        if i < len(clusters):
            place.set_title(str(cluster))
        if i // len(clusters) < len(chosen):
            place.imshow(pictures.drawable(chosen[i // len(clusters)]), cmap="gray", vmin=0, vmax=255)
    return figure


def confusion_figure(run: RunData) -> Figure | None:
    """Draw the confusion matrix after Hungarian matching."""
    found = None if run.truth is None else confusion(run)
    if found is None:
        return None
    side = max(3.0, 0.3 * max(found.cells.shape))
    figure, (axes,) = panels(1, width=side + 1, height=side + 1)
    axes.imshow(found.cells / found.cells.sum(axis=1, keepdims=True), cmap="Blues", vmin=0, vmax=1)
    axes.set_xticks(range(len(found.classes)), [plain(name) for name in found.classes], rotation=90)
    axes.set_yticks(range(len(found.clusters)), found.clusters)
    axes.set_xlabel("true class")
    axes.set_ylabel("cluster")
    if max(found.cells.shape) <= 20:
        for i, j in np.argwhere(found.cells > 0).tolist():
            is_dark = found.cells[i, j] > 0.5 * found.cells[i].sum()
            axes.text(j, i, str(found.cells[i, j]), ha="center", va="center", color="w" if is_dark else "k", fontsize=7)
    return figure


def mistakes_figure(run: RunData) -> Figure | None:
    """Show the surest mistakes, each with the class its cluster stands for."""
    pictures = Pictures(run)
    wrong = [] if run.truth is None else [row for row in confident_mistakes(run).tolist() if row in pictures]
    if not wrong:
        return None
    figure, axes = picture_panels(min(len(wrong), MAX_MISTAKES), columns=10, width=0.75, height=0.9)
    for place, row in zip(axes, wrong, strict=False):
        matched = run.matching.get(int(run.table.labels[row]))
        place.axis("off")
        place.imshow(pictures.drawable(row), cmap="gray", vmin=0, vmax=255)
        place.set_title("none" if matched is None else plain(run.class_name(matched), 10), fontsize=7)
    return figure


def reliability_figure(run: RunData) -> Figure | None:
    """Draw JULE's reliability curves."""
    lines = purity_lines(run, read_stages(run))
    if not lines:
        return None
    figure, (axes,) = panels(1, width=4, height=3)
    draw_lines(axes, lines, "Purity of neighbourhoods", "K", is_share=True)
    return figure


FIGURES: dict[str, Callable[[RunData], Figure | None]] = {
    "curves": curves_figure,
    "sizes": sizes_figure,
    "map": map_figure,
    "samples": samples_figure,
    "confusion": confusion_figure,
    "mistakes": mistakes_figure,
    "reliability": reliability_figure,
    **STAGE_FIGURES,
}
"""Every figure by the name of its files."""
