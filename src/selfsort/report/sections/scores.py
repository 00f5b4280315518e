"""With labels: scores, the confusion matrix after Hungarian matching, and the mistakes the method was surest of."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from selfsort.metrics.external import contingency
from selfsort.metrics.neighbourhood import knn_purity, nearest
from selfsort.report.drawings import Line, LineChart, Matrix, Panels, Picture, PictureTable
from selfsort.report.read import SCORE_NAMES, RunData
from selfsort.report.render.html import Html, element, join
from selfsort.report.render.svg import draw, draw_panels
from selfsort.report.sections.pictures import Pictures
from selfsort.report.sections.reference import published_table
from selfsort.report.stages import Stage
from selfsort.text import percent, plural, shorten
from selfsort.types import I64

MAX_MATRIX = 60
"""Most clusters or classes for which the confusion matrix is drawn."""

MAX_MISTAKES = 44
MAX_MISTAKE_PICTURES = 100
"""Mistakes of the page and of the figure."""

PURITY_POINTS = 20_000
"""Images among which neighbours are looked for when the run did not keep them."""

PURITY_QUERIES = 1500
PURITY_QUERIES_OF_MANY = 500
"""Images whose neighbours are looked for: all of a small run, fewer where each has many to choose from."""

MAX_NEIGHBOURS = 100


def agreement(run: RunData) -> Html:
    """Score against the known classes and draw the confusion matrix."""
    columns = [("score", run.scores)]
    if run.scores_sf:
        columns = [("re-run clustering", run.scores), ("straight-forward", run.scores_sf)]
    head = element("tr", {}, element("td", {}), [element("th", {"scope": "col"}, title) for title, _ in columns])
    body = [
        element(
            "tr",
            {},
            element("th", {"scope": "row"}, name),
            [element("td", {}, f"{scores[key]:.4f}" if key in scores else "") for _, scores in columns],
        )
        for key, name in SCORE_NAMES.items()
    ]
    note = (
        "ACC is the share of images whose cluster is matched to their class, one cluster per class (Hungarian method). "
        "NMI names its normaliser because papers differ: geometric in JULE, DAC and GATCluster, arithmetic in SeCu, "
        "max in DBC."
    )
    table = element("table", {"aria-label": "Scores"}, element("thead", {}, head), element("tbody", {}, body))
    found, near = confusion(run), reliability(run)
    too_large = element("p", {"class": "note"}, "A confusion matrix of so many clusters would be too large to read.")
    matrix, purity = (
        too_large if found is None else draw_panels(found),
        None if near is None else draw(near.drawings[0]),
    )
    words = element("div", {}, table, element("p", {"class": "note"}, note), published_table(run), purity)
    return element("div", {"class": "beside"}, words, matrix)


def mistakes(run: RunData, pictures: Pictures) -> Html | None:
    """Show the images that are in the wrong cluster although the method was sure."""
    rows = confident_mistakes(run)
    shown = [row for row in rows.tolist() if row in pictures][:MAX_MISTAKES]
    if not len(rows):
        return element("p", {"class": "note"}, "Every image lies in the cluster that stands for its class.")
    note = (
        f"{plural(len(rows), 'image')} of {run.n_images:,} lie in a cluster matched to another class; the surest first."
    )
    if len(shown) < min(len(rows), MAX_MISTAKES):
        note += " Only those of which the run kept a picture are shown."
    items = [_mistake(run, pictures, row) for row in shown]
    return join([element("p", {"class": "note"}, note), element("div", {"class": "mistakes"}, items)])


def confident_mistakes(run: RunData) -> I64:
    """Return the images whose cluster is not matched to their class, the most confident first."""
    assert run.truth is not None
    taken = np.full(run.n_clusters, -1, dtype=np.int64)
    taken[list(run.matching)] = list(run.matching.values())
    is_matched = np.isin(np.arange(run.n_clusters), list(run.matching))
    is_wrong = (taken[run.table.labels] != run.truth) | ~is_matched[run.table.labels]
    wrong = np.flatnonzero(is_wrong)
    ordered: I64 = wrong[np.argsort(-run.table.confidence[wrong], kind="stable")]
    return ordered


def _mistake(run: RunData, pictures: Pictures, row: int) -> Html:
    assert run.truth is not None
    true, said = run.class_name(int(run.truth[row])), _matched_name(run, row) or "no class"
    sure = f"{float(run.table.confidence[row]):.2f}"
    caption = element(
        "figcaption",
        {},
        element("b", {}, f"as {shorten(said, 18)}"),
        element("span", {}, f"is {shorten(true, 18)} \u00b7 {sure}"),
    )
    alt = f"{shorten(run.table.names[row])}: sorted as {said}, is {true}"
    return element("figure", {}, pictures.image(row, alt), caption)


def mistake_pictures(run: RunData) -> PictureTable | None:
    """Lay the surest mistakes out, each with the class its cluster stands for."""
    pictures = Pictures(run)
    wrong = [] if run.truth is None else [row for row in confident_mistakes(run).tolist() if row in pictures]
    cells = [Picture(pictures.pixels(row), _matched_name(run, row) or "none") for row in wrong[:MAX_MISTAKE_PICTURES]]
    return PictureTable(cells, 10, side=0.75) if cells else None


def _matched_name(run: RunData, row: int) -> str | None:
    """Name the class that the cluster of an image stands for."""
    matched = run.matching.get(int(run.table.labels[row]))
    return None if matched is None else run.class_name(matched)


def confusion(run: RunData) -> Panels | None:
    """Count clusters against classes, what is right on the diagonal; None if nobody could read the table.

    The clusters stand in the order of the classes they are matched to.
    """
    if run.truth is None:
        return None
    table = contingency(run.table.labels, run.truth)
    if max(table.shape) > MAX_MATRIX:
        return None
    column_of = {name: i for i, name in enumerate(table.truth_names.tolist())}
    matched = [run.matching.get(cluster) for cluster in table.predicted_names.tolist()]
    # Clusters that stand for no class come last.
    order = np.argsort([len(column_of) if name is None else column_of[name] for name in matched], kind="stable")
    cells = table.dense()[order]
    chart = Matrix(
        "Confusion matrix after Hungarian matching",
        cells / cells.sum(axis=1, keepdims=True),
        [[f"{count:,}" for count in line] for line in cells.tolist()],
        [run.short_name(name) for name in table.predicted_names[order].tolist()],
        [run.class_name(name) for name in table.truth_names.tolist()],
        alt=f"{percent(run.scores['acc'])} of the images lie on the diagonal",
        row_title="cluster",
        column_title="true class",
    )
    return Panels([chart])


def reliability(run: RunData) -> Panels | None:
    """Draw JULE's reliability curves."""
    lines = purity_lines(run, run.stages)
    if not lines or run.truth is None:
        return None
    caption = "Among an image's K nearest ones, the share that has its class, averaged over images."
    if np.unique(run.truth, return_counts=True)[1].max() <= lines[-1].x[-1]:
        caption += " It has to fall where K exceeds the images of a class."
    return Panels([LineChart("Purity of neighbourhoods", lines, "K", is_share=True, caption=caption)])


def purity_lines(run: RunData, stages: Sequence[Stage]) -> list[Line]:
    """Return JULE's reliability curves: for the first features that were kept, and for the last."""
    if run.truth is None or run.n_images < 10:
        return []
    kept = [stage for stage in stages if stage.neighbours is not None]
    if kept:
        ends = [kept[0], kept[-1]] if len(kept) > 1 else kept
        return [_purity(f"step {stage.step}", stage.neighbours, run.truth, stage.rows) for stage in ends]
    # Neighbours among a small sample would lie further off than they do, and the curve would fall too early.
    rows = _spread(run.n_images, PURITY_POINTS)
    asking = _spread(len(rows), PURITY_QUERIES if len(rows) <= PURITY_QUERIES else PURITY_QUERIES_OF_MANY)
    near = nearest(run.features(rows), min(MAX_NEIGHBOURS, len(rows) - 1), asking)
    return [_purity("features of the result", rows[near], run.truth, rows[asking])]


def _spread(n: int, most: int) -> I64:
    """Return all places, or as many as allowed, evenly spread."""
    return np.linspace(0, n - 1, min(most, n)).astype(np.int64)


def _purity(name: str, near_MP: I64 | None, truth: I64, rows: I64) -> Line:
    assert near_MP is not None
    purity = knn_purity(near_MP[:, :MAX_NEIGHBOURS], truth, rows=rows)
    return Line(name, [float(k) for k in range(1, len(purity) + 1)], purity.tolist())
