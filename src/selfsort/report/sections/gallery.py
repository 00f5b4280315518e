"""Each cluster by its pictures: the most typical, the borderline and others, with size and confidence."""

from __future__ import annotations

import numpy as np

from selfsort.report.drawings import BarChart, Panels, Picture, PictureTable, count_histogram, histogram
from selfsort.report.read import RunData
from selfsort.report.render.axes import colour
from selfsort.report.render.html import Html, element
from selfsort.report.sections.pictures import Pictures, Strips, choose_strips, fit_strips
from selfsort.text import percent, plural, shorten

MAX_CARDS = 2000

SAMPLES = 6
MAX_COLUMNS = 20
"""Rows and columns of the figure of samples."""

MAX_BARS = 80
"""Most clusters that get a bar each; more are counted by size."""


def gallery(run: RunData, pictures: Pictures, *, budget: int, anchor: str = "") -> Html:
    """Show every cluster, largest first."""
    strips = fit_strips(run, pictures, budget)
    sums = np.bincount(run.table.labels, run.table.confidence, minlength=run.n_clusters)
    cards = [
        _card(run, pictures, cluster, float(sums[cluster] / run.sizes[cluster]), strips[cluster], anchor)
        for cluster in np.argsort(-run.sizes, kind="stable")[:MAX_CARDS].tolist()
        if run.sizes[cluster]
    ]
    note = (
        "The largest cluster comes first. Typical images are the likeliest to be among their own kind, borderline ones "
        "the least likely."
    )
    if not run.is_finished:
        note = "The largest cluster comes first, with some of its images."
    if not len(pictures.rows()):
        note = "The largest cluster comes first. This run kept no pictures, so only numbers can be shown."
    n_used = int((run.sizes > 0).sum())
    if n_used > len(cards):
        note += f" The {n_used - len(cards):,} smallest clusters are not shown."
    empty = [cluster for cluster in np.flatnonzero(run.sizes == 0).tolist() if cluster != run.table.outliers]
    if empty:
        note += f" Without any image: {shorten(', '.join(map(str, empty)), 200)}."
    return element("div", {}, element("p", {"class": "note"}, note), element("div", {"class": "cards"}, cards))


def samples(run: RunData) -> PictureTable | None:
    """Lay the surest images of each cluster out in columns, the prototype on top."""
    pictures = Pictures(run)
    if not len(pictures.rows()):
        return None
    strips = choose_strips(run, pictures, SAMPLES)
    clusters = np.flatnonzero(run.sizes)[:MAX_COLUMNS].tolist()
    cells = [
        Picture(pictures.pixels(strips[cluster].typical[place]), run.short_name(cluster) if place == 0 else "")
        if place < len(strips[cluster].typical)
        else None
        for place in range(SAMPLES)
        for cluster in clusters
    ]
    return PictureTable(cells, len(clusters), side=0.7)


def sizes(run: RunData) -> Panels:
    """Show how many images each cluster holds, and how sure the method is of them."""
    order = np.argsort(-run.sizes, kind="stable").tolist()
    counts = [int(run.sizes[cluster]) for cluster in order]
    alt = f"{plural(len(counts), 'cluster')}, from {counts[0]:,} down to {counts[-1]:,} images"
    if len(order) <= MAX_BARS:
        names = [run.short_name(cluster) for cluster in order]
        chart = BarChart("Images per cluster", counts, names, alt, order, x_title="cluster", is_wide=True)
    else:
        chart = count_histogram("Clusters by size", np.array(counts), alt=alt, x_title="images", is_wide=True)
    sure = run.table.confidence.astype(np.float64)
    alt = f"half of the images are above {float(np.median(sure)):.2f}"
    return Panels([chart, histogram("Images by confidence", sure, low=0, high=1, alt=alt, x_title="confidence")])


def _card(run: RunData, pictures: Pictures, cluster: int, confidence: float, strips: Strips, anchor: str) -> Html:
    size = int(run.sizes[cluster])
    title = element("h3", {}, element("i", {"class": f"dot {colour(cluster)}"}), run.labels.name(cluster))
    facts = f"{plural(size, 'image')} \u00b7 {percent(size / run.n_images)}"
    if run.is_finished:
        facts += f" \u00b7 confidence {confidence:.2f}"
        shown = [("Typical", strips.typical), ("Borderline", strips.borderline), ("Others", strips.others)]
    else:  # nothing is typical yet
        shown = [("Images", [*strips.typical, *strips.borderline, *strips.others])]
    if other := _other_kind(run, pictures, cluster):
        facts += " \u00b7 likely two kinds"
        shown.insert(1, ("Perhaps another kind", other))
    rows = [
        element(
            "div",
            {"class": "strip"},
            element("h4", {}, name),
            element("div", {"class": "thumbs"}, [pictures.image(row) for row in chosen]),
        )
        for name, chosen in shown
        if chosen
    ]
    return element(
        "article",
        {"class": "card", "id": f"{anchor}cluster-{cluster}"},
        element("header", {}, title, _mostly(run, cluster)),
        element("p", {"class": "note"}, facts),
        rows,
    )


def _other_kind(run: RunData, pictures: Pictures, cluster: int) -> list[int]:
    """Return pictures of the smaller half of a cluster that is likely two kinds."""
    if run.verdict is None or cluster not in run.verdict.two_kinds:
        return []
    kept = set(pictures.rows().tolist())
    return [row for row in run.verdict.two_kinds[cluster] if row in kept]


def _mostly(run: RunData, cluster: int) -> Html | None:
    """Say which true class a cluster holds most of."""
    if run.truth is None:
        return None
    classes, counts = np.unique(run.truth[run.table.labels == cluster], return_counts=True)
    best = int(np.argmax(counts))
    name = element("b", {}, shorten(run.class_name(int(classes[best])), 40))
    share = percent(int(counts[best]) / int(counts.sum()))
    return element("span", {"class": "mostly"}, "mostly ", name, f" ({share})")
