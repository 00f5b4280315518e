"""The parts of a report that only some methods have: stages, merge tree, pairs, bounds, attention, filters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from selfsort.metrics.external import accuracy
from selfsort.report.read import RunData
from selfsort.report.render.html import Html, element, join
from selfsort.report.render.layout import label_circle, neighbour_map, principal_components, turned
from selfsort.report.render.svg import Line, bar_chart, colour, histogram, line_chart, scatter_panel, tree_chart
from selfsort.report.sections.networks import activations, attention, filters, overlay
from selfsort.report.sections.pictures import Pictures, data_uri, tiled
from selfsort.report.sections.trees import merge_tree, top_of_tree
from selfsort.report.stages import MAX_POINTS, Stage, read_stages, size_trace, spread_out, threshold_trace
from selfsort.text import plural
from selfsort.types import I64

MAX_ATTENTION = 12
MAX_MAPPED = 700
"""Points of a neighbour map of one stage."""
MAX_FILTERS = 64
MAX_CHANNELS = 12


@dataclass(frozen=True, eq=False)
class Part:
    """One section of the page."""

    name: str
    title: str
    body: Html


def method_parts(run: RunData, pictures: Pictures) -> list[Part]:
    """Write every section for which the run kept what it needs."""
    stages = read_stages(run)
    found = [
        ("stages", "Stages", stage_panels(run, stages)),
        ("merging", "Merge tree", merging(run)),
        ("circle", "Label circle", circle_panels(run, stages)),
        ("histograms", "Score histograms", score_histograms(stages)),
        ("thresholds", "Thresholds", threshold_charts(run, stages)),
        ("bounds", "Size bounds", size_chart(stages)),
        ("attention", "Attention", attention_table(run, pictures)),
        ("centres", "Attention centres", centre_panels(run, stages)),
        ("filters", "Filters", network_pictures(run)),
    ]
    return [Part(name, title, body) for name, title, body in found if body is not None]


def stage_panels(run: RunData, stages: Sequence[Stage]) -> Html | None:
    """Show the features at successive stages: JULE's three components, or DBC's map where scores were kept too."""
    kept = spread_out([stage for stage in stages if stage.features is not None])
    panels = []
    for stage in kept:
        if stage.soft is not None:
            thin = stage.thinned(MAX_MAPPED)
            place = neighbour_map(_features(thin))
        else:
            thin = stage.thinned(MAX_POINTS)
            place = turned(principal_components(_features(thin), 3))
        groups, caption = stage_groups(run, thin), None
        if stage.labels is not None:
            caption = plural(n_clusters_at(stage), "cluster")
        panels.append(scatter_panel(f"Step {stage.step}", place, groups, alt="features of the images", caption=caption))
    if not panels:
        return None
    how = (
        "maps of neighbours" if kept[0].soft is not None else "the first three principal components, seen from a corner"
    )
    note = f"The features as {how}; the colour is the cluster at that stage."
    return join([element("p", {"class": "note"}, note), element("div", {"class": "panels"}, panels)])


def stage_groups(run: RunData, stage: Stage) -> I64:
    """Return the colours of a stage's points: its own clusters, or the final ones."""
    if stage.labels is not None:
        return stage.labels
    if stage.soft is not None:
        groups: I64 = stage.soft.argmax(axis=1).astype(np.int64)
        return groups
    return run.table.labels[stage.rows]


def n_clusters_at(stage: Stage) -> int:
    """Count the clusters of a stage; the sample kept of it may miss some that the event has counted."""
    counted = stage.event.get("clusters")
    seen = 0 if stage.labels is None else len(np.unique(stage.labels))
    return counted if isinstance(counted, int) and counted >= seen else seen


def merging(run: RunData) -> Html | None:
    """Draw the last merges."""
    tree = merge_tree(run)
    if tree is None:
        return None
    branches = top_of_tree(tree)
    note = f"The last {len(branches):,} of {plural(len(tree.merges), 'merge')}, from {plural(tree.n_start, 'start')}."
    if tree.height_name == "merge":
        note += " Higher means later. Colours are those of the final clusters."
    drawing = tree_chart("The last merges", branches, y_title=tree.height_name)
    return join([element("p", {"class": "note"}, note), drawing])


def circle_panels(run: RunData, stages: Sequence[Stage]) -> Html | None:
    """Show soft assignments on a circle: towards the rim the network is sure, between two angles it wavers."""
    panels = []
    for stage in spread_out([stage for stage in stages if stage.soft is not None and stage.soft.shape[1] >= 3]):
        thin = stage.thinned(MAX_POINTS)
        assert stage.soft is not None and thin.soft is not None  # noqa: PT018 (narrowing, not a test)
        caption = None
        groups: I64 = thin.soft.argmax(axis=1).astype(np.int64)
        if run.truth is not None:
            groups = np.unique(run.truth, return_inverse=True)[1][thin.rows]
            caption = f"ACC {accuracy(stage.soft.argmax(axis=1), run.truth[stage.rows]):.3f}"
        alt = "each image at the mean of the angles of its clusters"
        panels.append(
            scatter_panel(f"Step {stage.step}", label_circle(thin.soft), groups, alt=alt, caption=caption, ring=True)
        )
    if not panels:
        return None
    note = (
        "Each cluster has an angle. An image on the rim belongs to one cluster alone, one in the middle to all alike."
    )
    if run.truth is not None:
        note += " The colour is the true class."
    return join([element("p", {"class": "note"}, note), element("div", {"class": "panels"}, panels)])


def score_histograms(stages: Sequence[Stage]) -> Html | None:
    """Show how the scores of one cluster part into yes and no."""
    charts = [
        histogram(
            f"Step {stage.step}",
            stage.soft[:, 0],
            low=0,
            high=1,
            alt=f"{int((stage.soft[:, 0] > 0.5).sum()):,} images above one half",
            x_title="score",
        )
        for stage in spread_out([stage for stage in stages if stage.soft is not None])
        if stage.soft is not None
    ]
    if not charts:
        return None
    note = "Counts of the soft assignment to cluster 0: at first near one in the number of clusters, later near 0 or 1."
    return join([element("p", {"class": "note"}, note), element("div", {"class": "charts"}, charts)])


def threshold_charts(run: RunData, stages: Sequence[Stage]) -> Html | None:
    """Draw DAC's thresholds, what they select, and how right the selected pairs are."""
    trace = threshold_trace(run, stages)
    if len(trace) < 2:
        return None
    steps = [float(point.step) for point in trace]
    charts = [
        line_chart(
            "Thresholds",
            [Line("upper", steps, [p.upper for p in trace]), Line("lower", steps, [p.lower for p in trace])],
            x_title="step",
        )
    ]
    shares = [
        Line("selected pairs", steps, [p.selected for p in trace]),
        Line("precision, same cluster", steps, [p.positive_precision for p in trace]),
        Line("precision, different clusters", steps, [p.negative_precision for p in trace]),
    ]
    known = [line for line in shares if sum(y is not None for y in line.y) >= 2]
    if known:
        charts.append(line_chart("Pairs", known, x_title="step", is_share=True))
    return element("div", {"class": "charts"}, charts)


def size_chart(stages: Sequence[Stage]) -> Html | None:
    """Draw the smallest and largest cluster against the bounds SeCu holds them to."""
    trace = size_trace(stages)
    if len(trace) < 2:
        return None
    steps = [float(point.step) for point in trace]
    lines = [
        Line("largest", steps, [float(p.largest) for p in trace]),
        Line("smallest", steps, [float(p.smallest) for p in trace]),
        Line("lower bound", steps, [p.lower for p in trace], is_bound=True),
        Line("upper bound", steps, [p.upper for p in trace], is_bound=True),
    ]
    known = [line for line in lines if any(y is not None for y in line.y)]
    return element("div", {"class": "charts"}, line_chart("Images per cluster", known, x_title="step"))


def attention_table(run: RunData, pictures: Pictures) -> Html | None:
    """Show pictures, where the network looked, and what it took them for."""
    found = attention(run)
    if found is None:
        return None
    soft = run.soft()
    items: list[Html] = []
    for i, row in enumerate(found.rows.tolist()):
        if row not in pictures or len(items) >= MAX_ATTENTION:
            continue
        mixed = data_uri(overlay(pictures.pixels(row), found.maps[i]))
        name = run.table.names[row]
        bars = bar_chart(
            f"Cluster {int(run.table.labels[row])}",
            soft[row].tolist(),
            [str(c) for c in range(soft.shape[1])],
            alt=f"soft assignment of {name}",
            colours=[colour(c) for c in range(soft.shape[1])],
        )
        looked = element("img", {"src": mixed, "alt": f"where the network looked in {name}"})
        items.append(
            element("div", {"class": "look"}, element("div", {"class": "pair"}, pictures.image(row), looked), bars)
        )
    if not items:
        return None
    note = (
        "Left the image, right the attention map over it: red is where the network looks. Below, the soft assignment."
    )
    return join([element("p", {"class": "note"}, note), element("div", {"class": "looks"}, items)])


def centre_panels(run: RunData, stages: Sequence[Stage]) -> Html | None:
    """Show where in the picture attention is centred, image by image, at successive stages."""
    panels = []
    for stage in spread_out([stage for stage in stages if stage.bumps is not None]):
        thin = stage.thinned(MAX_POINTS)
        assert stage.bumps is not None and thin.bumps is not None  # noqa: PT018 (narrowing, not a test)
        # Heights are counted from the top of a picture.
        place = np.stack([thin.bumps[:, 0], 1 - thin.bumps[:, 1]], axis=1).astype(np.float64)
        caption = f"mean width {float(stage.bumps[:, 2].mean()):.2f}"
        alt = "the centre of attention in each image"
        panels.append(
            scatter_panel(f"Step {stage.step}", place, stage_groups(run, thin), alt=alt, caption=caption, frame=True)
        )
    if not panels:
        return None
    note = (
        "Each dot is an image, placed where in the picture the network looks; the colour is its cluster at that step."
    )
    return join([element("p", {"class": "note"}, note), element("div", {"class": "panels"}, panels)])


def network_pictures(run: RunData) -> Html | None:
    """Show filters and activation maps as contact sheets."""
    sheets = []
    for layer, pixels in filters(run).items():
        scale = max(1, 24 // max(pixels.shape[1:3]))
        uri = data_uri(tiled(pixels[:MAX_FILTERS], 16, scale))
        sheets.append(_sheet(f"Filters: {layer}", uri, f"{plural(len(pixels), 'filter')} of layer {layer}"))
    for layer, maps in activations(run).items():
        n_images, n_channels = min(len(maps), 4), min(maps.shape[1], MAX_CHANNELS)
        shown = maps[:n_images, :n_channels].reshape(-1, *maps.shape[2:])
        uri = data_uri(tiled(shown, n_channels, max(1, 40 // max(maps.shape[2:4]))))
        sheets.append(_sheet(f"Activations: {layer}", uri, f"{plural(n_channels, 'channel')}, one image per row"))
    return element("div", {"class": "sheets"}, sheets) if sheets else None


def _sheet(title: str, uri: str, alt: str) -> Html:
    return element(
        "figure",
        {"class": "chart"},
        element("figcaption", {}, title),
        element("img", {"src": uri, "alt": f"{title}: {alt}"}),
    )


def _features(stage: Stage) -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
    assert stage.features is not None
    return stage.features
