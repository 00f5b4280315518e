"""The way to the result at successive stages: features, label circle, score histograms."""

from __future__ import annotations

import numpy as np

from selfsort.metrics.external import accuracy
from selfsort.report.drawings import Panels, Scatter, histogram
from selfsort.report.read import RunData
from selfsort.report.render.layout import label_circle, neighbour_map, principal_components, tsne_map
from selfsort.report.stages import MAX_POINTS, Stage, spread_out
from selfsort.text import plural
from selfsort.types import F32, F64, I64

MAX_MAPPED = 700
"""Points of a neighbour map of one stage."""


def stage_components(run: RunData) -> Panels | None:
    """Show the features at successive stages by their first three principal components, as JULE does."""
    kept = spread_out([stage for stage in run.stages if stage.features is not None and stage.soft is None])
    drawings = []
    for stage in kept:
        thin = stage.thinned(MAX_POINTS)
        drawings.append(_features_at(run, stage, thin, principal_components(_features(thin), 3)))
    how = "the first three principal components, seen from a corner"
    return Panels(drawings, _note(how)) if drawings else None


def stage_maps(run: RunData) -> Panels | None:
    """Show the features at successive stages as maps, where scores were kept too: by t-SNE as in DBC's Fig. 7.

    Without the extra `tsne` they are maps of neighbours.
    """
    kept = spread_out([stage for stage in run.stages if stage.features is not None and stage.soft is not None])
    drawings, how = [], "maps of neighbours"
    for stage in kept:
        thin = stage.thinned(MAX_MAPPED)
        place = tsne_map(_features(thin))
        how = "maps of neighbours" if place is None else "maps by t-SNE"
        drawings.append(_features_at(run, stage, thin, neighbour_map(_features(thin)) if place is None else place))
    return Panels(drawings, _note(how)) if drawings else None


def label_circles(run: RunData) -> Panels | None:
    """Show soft assignments on a circle: towards the rim the network is sure, between two angles it wavers."""
    drawings = []
    for stage in spread_out([stage for stage in run.stages if stage.soft is not None and stage.soft.shape[1] >= 3]):
        thin = stage.thinned(MAX_POINTS)
        assert stage.soft is not None and thin.soft is not None  # noqa: PT018 (narrowing, not a test)
        caption = None
        groups: I64 = thin.soft.argmax(axis=1).astype(np.int64)
        if run.truth is not None and run.class_idx is not None:
            groups = run.class_idx[thin.rows]
            caption = f"ACC {accuracy(stage.soft.argmax(axis=1), run.truth[stage.rows]):.3f}"
        alt = "each image at the mean of the angles of its clusters"
        drawings.append(Scatter(f"Step {stage.step}", label_circle(thin.soft), groups, alt, caption, "circle"))
    note = (
        "Each cluster has an angle. An image on the rim belongs to one cluster alone, one in the middle to all alike."
    )
    if run.truth is not None:
        note += " The colour is the true class."
    return Panels(drawings, note) if drawings else None


def score_histograms(run: RunData) -> Panels | None:
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
        for stage in spread_out([stage for stage in run.stages if stage.soft is not None])
        if stage.soft is not None
    ]
    note = "Counts of the soft assignment to cluster 0: at first near one in the number of clusters, later near 0 or 1."
    return Panels(charts, note) if charts else None


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


def _features_at(run: RunData, stage: Stage, thin: Stage, place: F64) -> Scatter:
    caption = None if stage.labels is None else plural(n_clusters_at(stage), "cluster")
    return Scatter(f"Step {stage.step}", place, stage_groups(run, thin), "features of the images", caption)


def _note(how: str) -> str:
    return f"The features as {how}; the colour is the cluster at that stage."


def _features(stage: Stage) -> F32:
    assert stage.features is not None
    return stage.features
