"""Where a network attends: attention maps over pictures, and the centres of attention at successive stages."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from selfsort.report.drawings import BarChart, Panels, Picture, PictureTable, Scatter
from selfsort.report.read import RunData
from selfsort.report.render.html import Html, element, join
from selfsort.report.render.images import data_uri
from selfsort.report.render.svg import draw
from selfsort.report.sections.pictures import Pictures
from selfsort.report.sections.stages import stage_groups
from selfsort.report.stages import MAX_POINTS, spread_out
from selfsort.runs.arrays import as_rows, finite
from selfsort.runs.outliers import cluster_name
from selfsort.types import F32, F64, I64, U8

MAX_ATTENTION = 12
MAX_COLUMNS = 8
"""Images of the page and of the figure."""


@dataclass(frozen=True, eq=False)
class Attention:
    """Where GATCluster attends."""

    rows: I64
    maps: F32
    """(M, h, w) between 0 and 1."""


def attention(run: RunData) -> Attention | None:
    """Find attention maps among the extras."""
    extras = run.extras
    maps, rows = extras.get("attention"), as_rows(extras.get("attention_rows"), run.n_images)
    if maps is None or rows is None or maps.ndim != 3 or not maps.size or len(rows) != len(maps):
        return None
    return Attention(rows, finite(maps).clip(0, 1))


def overlay(picture: U8, map_hw: F32) -> U8:
    """Lay an attention map over a picture: colours from blue to red, blended in with weight A^0.7."""
    height, width = picture.shape[:2]
    weight = _stretch(map_hw, height, width)
    level = 4 * weight[:, :, None]
    jet = np.clip(1.5 - np.abs(level - np.array([3.0, 2.0, 1.0])), 0, 1) * 255
    blend = weight[:, :, None] ** 0.7
    mixed: U8 = np.rint(picture * (1 - blend) + jet * blend).astype(np.uint8)
    return mixed


@dataclass(frozen=True, eq=False)
class Attended:
    """One image with the attention over it and what the network took it for."""

    row: int
    mixed: U8
    """The picture under its attention map."""
    soft: BarChart


def attended(run: RunData, pictures: Pictures, most: int) -> list[Attended]:
    """Find the first images of which there are an attention map and a picture."""
    found = attention(run)
    if found is None:
        return []
    kept = [(i, row) for i, row in enumerate(found.rows.tolist()) if row in pictures][:most]
    if not kept:
        return []
    soft = run.soft(np.array([row for _, row in kept]))
    clusters = list(range(soft.shape[1]))
    return [
        Attended(
            row,
            overlay(pictures.pixels(row), found.maps[i]),
            BarChart(
                cluster_name(int(run.table.labels[row]), run.table.outliers),
                soft_K.tolist(),
                [str(cluster) for cluster in clusters],
                f"soft assignment of {run.table.names[row]}",
                clusters,
            ),
        )
        for (i, row), soft_K in zip(kept, soft, strict=True)
    ]


def attention_table(run: RunData, pictures: Pictures) -> Html | None:
    """Show pictures, where the network attended, and what it took them for."""
    items = []
    for item in attended(run, pictures, MAX_ATTENTION):
        alt = f"where the network looked in {run.table.names[item.row]}"
        pair = [pictures.image(item.row), element("img", {"src": data_uri(item.mixed), "alt": alt})]
        items.append(element("div", {"class": "attended"}, element("div", {"class": "pair"}, pair), draw(item.soft)))
    if not items:
        return None
    note = (
        "Left the image, right the attention map over it: red is where the network looks. Below, the soft assignment."
    )
    return join([element("p", {"class": "note"}, note), element("div", {"class": "attention"}, items)])


def attention_pictures(run: RunData) -> PictureTable | None:
    """Lay images, attention over them and their soft assignments out in three rows."""
    pictures = Pictures(run)
    items = attended(run, pictures, MAX_COLUMNS)
    if not items:
        return None
    plain, mixed = [Picture(pictures.pixels(item.row)) for item in items], [Picture(item.mixed) for item in items]
    return PictureTable([*plain, *mixed, *(item.soft for item in items)], len(items), side=1.2)


def centres(run: RunData) -> Panels | None:
    """Show where in the picture attention is centred, image by image, at successive stages."""
    panels = []
    for stage in spread_out([stage for stage in run.stages if stage.bumps is not None]):
        thin = stage.thinned(MAX_POINTS)
        assert stage.bumps is not None and thin.bumps is not None  # noqa: PT018 (narrowing, not a test)
        # Heights are counted from the top of a picture.
        place = np.stack([thin.bumps[:, 0], 1 - thin.bumps[:, 1]], axis=1).astype(np.float64)
        caption = f"mean width {float(stage.bumps[:, 2].mean()):.2f}"
        alt = "the centre of attention in each image"
        panels.append(Scatter(f"Step {stage.step}", place, stage_groups(run, thin), alt, caption, "square"))
    note = (
        "Each dot is an image, placed where in the picture the network looks; the colour is its cluster at that step."
    )
    return Panels(panels, note) if panels else None


def _stretch(map_hw: F32, height: int, width: int) -> F64:
    """Enlarge a map bilinearly, sampling at the middles of the pixels."""
    rows = np.clip((np.arange(height) + 0.5) * map_hw.shape[0] / height - 0.5, 0, map_hw.shape[0] - 1)
    columns = np.clip((np.arange(width) + 0.5) * map_hw.shape[1] / width - 0.5, 0, map_hw.shape[1] - 1)
    top, left = np.floor(rows).astype(int), np.floor(columns).astype(int)
    bottom, right = np.minimum(top + 1, map_hw.shape[0] - 1), np.minimum(left + 1, map_hw.shape[1] - 1)
    down, across = (rows - top)[:, None], (columns - left)[None, :]
    upper = map_hw[top][:, left] * (1 - across) + map_hw[top][:, right] * across
    lower = map_hw[bottom][:, left] * (1 - across) + map_hw[bottom][:, right] * across
    stretched: F64 = upper * (1 - down) + lower * down
    return stretched
