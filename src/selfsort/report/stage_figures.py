"""Figure files of what only some methods keep; docs/report.md says what each needs."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from selfsort.metrics.external import accuracy
from selfsort.report.read import RunData
from selfsort.report.render.figures import PALETTE, draw_dots, draw_lines, panels, picture_panels, plain
from selfsort.report.render.layout import label_circle, neighbour_map, principal_components
from selfsort.report.render.svg import N_COLOURS, Line
from selfsort.report.sections.networks import activations, attention, filters, overlay
from selfsort.report.sections.pictures import Pictures, tiled
from selfsort.report.sections.stages import MAX_MAPPED, n_clusters_at, stage_groups
from selfsort.report.sections.trees import merge_tree, top_of_tree
from selfsort.report.stages import MAX_POINTS, read_stages, size_trace, spread_out, threshold_trace

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def stages_figure(run: RunData) -> Figure | None:
    """Draw the first three principal components at successive stages (JULE)."""
    kept = spread_out([stage for stage in read_stages(run) if stage.features is not None and stage.soft is None])
    if not kept:
        return None
    figure, flat = panels(len(kept), width=2.8)
    for i, stage in enumerate(kept):
        thin = stage.thinned(MAX_POINTS)
        assert thin.features is not None
        where = flat[i].get_subplotspec()
        flat[i].remove()
        axes = figure.add_subplot(where, projection="3d")
        x, y, z = principal_components(thin.features, 3).T
        groups = stage_groups(run, thin) % N_COLOURS
        axes.scatter(x, y, z, c=groups, cmap=PALETTE, vmin=0, vmax=N_COLOURS - 1, s=3, linewidths=0)
        axes.set_title(f"step {stage.step}: {n_clusters_at(stage)} clusters")
        axes.set(xticklabels=[], yticklabels=[], zticklabels=[])
    return figure


def stage_maps_figure(run: RunData) -> Figure | None:
    """Draw maps of neighbours at successive epochs (DBC)."""
    kept = spread_out([stage for stage in read_stages(run) if stage.features is not None and stage.soft is not None])
    if not kept:
        return None
    figure, axes = panels(len(kept))
    for place, stage in zip(axes, kept, strict=True):
        thin = stage.thinned(MAX_MAPPED)
        assert thin.features is not None
        draw_dots(place, neighbour_map(thin.features), stage_groups(run, thin), f"step {stage.step}")
    return figure


def circle_figure(run: RunData) -> Figure | None:
    """Draw soft assignments on the label circle (DAC, GATCluster)."""
    kept = spread_out([s for s in read_stages(run) if s.soft is not None and s.soft.shape[1] >= 3])
    if not kept:
        return None
    figure, axes = panels(len(kept))
    for place, stage in zip(axes, kept, strict=True):
        thin = stage.thinned(MAX_POINTS)
        assert thin.soft is not None
        groups, title = thin.soft.argmax(axis=1).astype(np.int64), f"step {stage.step}"
        if run.truth is not None and stage.soft is not None:
            title += f", ACC {accuracy(stage.soft.argmax(axis=1), run.truth[stage.rows]):.3f}"
            groups = np.unique(run.truth, return_inverse=True)[1][thin.rows]
        draw_dots(place, label_circle(thin.soft), groups, title)
    return figure


def histograms_figure(run: RunData) -> Figure | None:
    """Draw how the scores of the first cluster part (DBC)."""
    kept = spread_out([stage for stage in read_stages(run) if stage.soft is not None])
    if not kept:
        return None
    figure, axes = panels(len(kept), width=2.8, height=2.2)
    for place, stage in zip(axes, kept, strict=True):
        assert stage.soft is not None
        place.hist(stage.soft[:, 0], bins=20, range=(0, 1))
        place.set_title(f"step {stage.step}")
    return figure


def merge_tree_figure(run: RunData) -> Figure | None:
    """Draw the last merges (JULE, the agglomerative methods)."""
    tree = merge_tree(run)
    if tree is None:
        return None
    import matplotlib

    colours = matplotlib.colormaps[PALETTE].colors  # type: ignore[attr-defined]
    figure, (axes,) = panels(1, width=9, height=3.2)
    for branch in top_of_tree(tree):
        x = [branch.left[0], branch.left[0], branch.right[0], branch.right[0]]
        y = [branch.left[1], branch.height, branch.height, branch.right[1]]
        axes.plot(x, y, color="0.4" if branch.cluster < 0 else colours[branch.cluster % N_COLOURS], linewidth=1)
    axes.set_xticks([])
    axes.set_ylabel(tree.height_name)
    return figure


def thresholds_figure(run: RunData) -> Figure | None:
    """Draw the thresholds and what they select (DAC)."""
    trace = threshold_trace(run, read_stages(run))
    if len(trace) < 2:
        return None
    steps = [float(point.step) for point in trace]
    figure, axes = panels(2, width=3.6, height=2.6)
    bounds = [Line("upper", steps, [p.upper for p in trace]), Line("lower", steps, [p.lower for p in trace])]
    draw_lines(axes[0], bounds, "Thresholds", "step")
    shares = [
        Line("selected pairs", steps, [p.selected for p in trace]),
        Line("precision, same", steps, [p.positive_precision for p in trace]),
        Line("precision, different", steps, [p.negative_precision for p in trace]),
    ]
    draw_lines(axes[1], shares, "Pairs", "step", is_share=True)
    return figure


def size_bounds_figure(run: RunData) -> Figure | None:
    """Draw the smallest and largest cluster against their bounds (SeCu)."""
    trace = size_trace(read_stages(run))
    if len(trace) < 2:
        return None
    steps = [float(point.step) for point in trace]
    figure, (axes,) = panels(1, width=4, height=3)
    lines = [
        Line("largest", steps, [float(p.largest) for p in trace]),
        Line("smallest", steps, [float(p.smallest) for p in trace]),
        Line("lower bound", steps, [p.lower for p in trace], is_bound=True),
        Line("upper bound", steps, [p.upper for p in trace], is_bound=True),
    ]
    draw_lines(axes, [line for line in lines if any(y is not None for y in line.y)], "Images per cluster", "step")
    return figure


def attention_figure(run: RunData) -> Figure | None:
    """Show images, attention over them and their soft assignments (GATCluster)."""
    found, pictures = attention(run), Pictures(run)
    if found is None:
        return None
    shown = [(i, row) for i, row in enumerate(found.rows.tolist()) if row in pictures][:8]
    if not shown:
        return None
    soft = run.soft()
    figure, axes = picture_panels(3 * len(shown), columns=len(shown), width=1.2, height=1.2)
    for column, (i, row) in enumerate(shown):
        picture, mixed, bars = axes[column :: len(shown)]
        picture.imshow(pictures.drawable(row), cmap="gray", vmin=0, vmax=255)
        mixed.imshow(overlay(pictures.pixels(row), found.maps[i]))
        bars.bar(np.arange(soft.shape[1]), soft[row])
        bars.set_ylim(0, 1)
        bars.set_yticks([])
        picture.axis("off")
        mixed.axis("off")
    return figure


def centres_figure(run: RunData) -> Figure | None:
    """Draw where in the picture attention is centred at successive stages (GATCluster)."""
    kept = spread_out([stage for stage in read_stages(run) if stage.bumps is not None])
    if not kept:
        return None
    figure, axes = panels(len(kept))
    for place, stage in zip(axes, kept, strict=True):
        thin = stage.thinned(MAX_POINTS)
        assert thin.bumps is not None
        centres = np.stack([thin.bumps[:, 0], 1 - thin.bumps[:, 1]], axis=1).astype(np.float64)
        draw_dots(place, centres, stage_groups(run, thin), f"step {stage.step}")
        place.set_aspect("equal", adjustable="box")
        place.set(xlim=(0, 1), ylim=(0, 1))
    return figure


def filters_figure(run: RunData) -> Figure | None:
    """Show filters and activations as contact sheets (DBC)."""
    sheets = [(f"filters {layer}", tiled(pixels[:64], 16, 1)) for layer, pixels in filters(run).items()]
    for layer, maps in activations(run).items():
        shown = maps[:4, :12]
        sheets.append((f"activations {layer}", tiled(shown.reshape(-1, *maps.shape[2:]), shown.shape[1], 1)))
    if not sheets:
        return None
    figure, axes = panels(len(sheets), columns=1, width=6, height=1.8)
    for place, (title, sheet) in zip(axes, sheets, strict=True):
        place.imshow(sheet[:, :, 0] if sheet.shape[2] == 1 else sheet, cmap="gray", vmin=0, vmax=255)
        place.set_title(plain(title, 60))
        place.axis("off")
    return figure


STAGE_FIGURES: dict[str, Callable[[RunData], Figure | None]] = {
    "stages": stages_figure,
    "stage-maps": stage_maps_figure,
    "circle": circle_figure,
    "score-histograms": histograms_figure,
    "merge-tree": merge_tree_figure,
    "thresholds": thresholds_figure,
    "size-bounds": size_bounds_figure,
    "attention": attention_figure,
    "attention-centres": centres_figure,
    "filters": filters_figure,
}
