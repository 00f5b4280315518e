"""With labels: scores, the confusion matrix after Hungarian matching, and the mistakes the method was surest of."""

from __future__ import annotations

import numpy as np

from selfsort.metrics.external import contingency
from selfsort.report.charts import matrix_chart
from selfsort.report.html import Html, element, join
from selfsort.report.pictures import Pictures
from selfsort.report.read import SCORE_NAMES, RunData
from selfsort.report.words import percent, plural, shorten
from selfsort.types import I64

MAX_MATRIX = 60
"""Most clusters or classes for which the confusion matrix is drawn."""

MAX_MISTAKES = 48


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
    table = element("table", {}, element("thead", {}, head), element("tbody", {}, body))
    return element(
        "div", {"class": "beside"}, element("div", {}, table, element("p", {"class": "note"}, note)), _matrix(run)
    )


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
    css = "mistakes tiny" if pictures.is_tiny else "mistakes"
    return join([element("p", {"class": "note"}, note), element("div", {"class": css}, items)])


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
    cluster, true = int(run.table.labels[row]), run.class_name(int(run.truth[row]))
    matched = run.matching.get(cluster)
    said = "no class" if matched is None else run.class_name(matched)
    sure = f"{float(run.table.confidence[row]):.2f}"
    caption = element(
        "figcaption",
        {},
        element("b", {}, shorten(said, 18)),
        element("span", {}, f"is {shorten(true, 18)} \u00b7 {sure}"),
    )
    alt = f"{shorten(run.table.names[row])}: sorted as {said}, is {true}"
    return element("figure", {}, pictures.image(row, alt), caption)


def _matrix(run: RunData) -> Html:
    assert run.truth is not None
    table = contingency(run.table.labels, run.truth)
    if max(table.shape) > MAX_MATRIX:
        text = f"A matrix of {table.shape[0]:,} clusters and {table.shape[1]:,} classes would be too large to read."
        return element("p", {"class": "note"}, text)
    # A cluster stands in the row of its class, so that what is right lies on the diagonal; surplus ones come last.
    column_of = {name: i for i, name in enumerate(table.truth_names.tolist())}
    matched = [run.matching.get(cluster) for cluster in table.predicted_names.tolist()]
    place = [len(column_of) if name is None else column_of[name] for name in matched]
    order = np.argsort(place, kind="stable")
    cells = table.dense()[order]
    return matrix_chart(
        "Confusion matrix after Hungarian matching",
        cells / cells.sum(axis=1, keepdims=True),
        [[f"{count:,}" for count in line] for line in cells.tolist()],
        [str(name) for name in table.predicted_names[order].tolist()],
        [run.class_name(name) for name in table.truth_names.tolist()],
        alt=f"{percent(run.scores['acc'])} of the images lie on the diagonal",
        row_title="cluster",
        column_title="true class",
    )
