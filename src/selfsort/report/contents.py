"""What a run has to show: the sections of its page, and its figures as files."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from selfsort.report.drawings import Panels, PictureTable
from selfsort.report.read import RunData
from selfsort.report.render.html import Html, join
from selfsort.report.render.svg import draw_panels
from selfsort.report.sections.arrivals import arrivals
from selfsort.report.sections.attention import attention_pictures, attention_table, centres
from selfsort.report.sections.bounds import size_bounds
from selfsort.report.sections.curves import curves
from selfsort.report.sections.gallery import gallery, samples, sizes
from selfsort.report.sections.hierarchy import hierarchy
from selfsort.report.sections.mapping import MAX_POINTS, map_panels, map_section
from selfsort.report.sections.networks import network_sheets
from selfsort.report.sections.pairs import threshold_charts
from selfsort.report.sections.pictures import Pictures
from selfsort.report.sections.scores import agreement, confusion, mistake_pictures, mistakes, reliability
from selfsort.report.sections.stacks import stacks
from selfsort.report.sections.stages import label_circles, score_histograms, stage_components, stage_maps
from selfsort.report.sections.summary import settings, summary
from selfsort.report.sections.trees import merging

GALLERY_BYTES = 8 * 2**20
TREE_BYTES = 2 * 2**20
STACK_BYTES = 2**20
MAP_BYTES = 3 * 2**20
"""What the pictures of gallery, tree and stacks and the further ones of the map may take: the page is under 15 MB."""

FIGURES: dict[str, Callable[[RunData], Panels | PictureTable | None]] = {
    "curves": curves,
    "sizes": sizes,
    "map": map_panels,
    "samples": samples,
    "confusion": confusion,
    "mistakes": mistake_pictures,
    "reliability": reliability,
    "stages": stage_components,
    "stage-maps": stage_maps,
    "circle": label_circles,
    "score-histograms": score_histograms,
    "merge-tree": merging,
    "thresholds": threshold_charts,
    "size-bounds": size_bounds,
    "attention": attention_pictures,
    "attention-centres": centres,
    "filters": network_sheets,
}
"""Every figure by the name of its files."""


@dataclass(frozen=True, eq=False)
class Part:
    """One section of the page."""

    name: str
    title: str
    body: Html


def run_parts(run: RunData, anchor: str = "", n_runs: int = 1) -> list[Part]:
    """Write the sections of one run; several runs share the room for pictures."""
    if not run.is_finished:
        return _parts_so_far(run, anchor, n_runs)
    pictures = Pictures(run)
    # In this order, so that the map embeds only pictures that nothing else shows.
    clusters = gallery(run, pictures, budget=GALLERY_BYTES // n_runs, anchor=anchor)
    alike = hierarchy(run, pictures, budget=TREE_BYTES // n_runs, anchor=anchor)
    again = stacks(run, pictures, budget=STACK_BYTES // n_runs)
    came = arrivals(run, pictures, budget=STACK_BYTES // n_runs)
    wrong = mistakes(run, pictures) if run.truth is not None else None
    of_method = method_parts(run, pictures)
    points = max(300, MAX_POINTS // n_runs)
    drawn = map_section(run, pictures, budget=MAP_BYTES // n_runs, anchor=anchor, most=points)
    found = [
        ("summary", "Summary", join([summary(run), settings(run)])),
        ("arrivals", "What came in", came),
        ("clusters", "Clusters", clusters),
        ("tree", "Tree", alike),
        ("stacks", "Stacks", again),
        ("map", "Map", drawn),
        ("sizes", "Sizes", _drawn(sizes(run))),
        ("scores", "Scores", agreement(run) if run.scores else None),
        ("mistakes", "Mistakes", wrong),
        ("training", "Training", _drawn(curves(run))),
    ]
    parts = [Part(anchor + name, title, body) for name, title, body in found if body is not None]
    return parts + [Part(anchor + part.name, part.title, part.body) for part in of_method]


def _parts_so_far(run: RunData, anchor: str, n_runs: int) -> list[Part]:
    """Write what can be said of a run that has no result yet."""
    budget = GALLERY_BYTES // n_runs
    clusters = gallery(run, Pictures(run), budget=budget, anchor=anchor) if run.has_clusters else None
    found = [
        ("summary", "Summary", join([summary(run), settings(run)])),
        ("clusters", "Clusters so far", clusters),
        ("training", "Training", _drawn(curves(run))),
    ]
    return [Part(anchor + name, title, body) for name, title, body in found if body is not None]


def method_parts(run: RunData, pictures: Pictures) -> list[Part]:
    """Write every section that only some methods have, if the run kept what it needs."""
    found = [
        ("stages", "Stages", _drawn(stage_components(run), stage_maps(run))),
        ("merging", "Merge tree", _drawn(merging(run))),
        ("circle", "Label circle", _drawn(label_circles(run))),
        ("histograms", "Score histograms", _drawn(score_histograms(run))),
        ("thresholds", "Thresholds", _drawn(threshold_charts(run))),
        ("bounds", "Size bounds", _drawn(size_bounds(run))),
        ("attention", "Attention", attention_table(run, pictures)),
        ("centres", "Attention centres", _drawn(centres(run))),
        ("filters", "Filters", _drawn(network_sheets(run))),
    ]
    return [Part(name, title, body) for name, title, body in found if body is not None]


def _drawn(*found: Panels | None) -> Html | None:
    kept = [panels for panels in found if panels is not None]
    return join(draw_panels(panels) for panels in kept) if kept else None
