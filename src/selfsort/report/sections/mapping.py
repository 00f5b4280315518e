"""The interactive map: a sample of the images in the plane, drawn by report.js from one block of numbers."""

from __future__ import annotations

import numpy as np

from selfsort.report.drawings import N_COLOURS, Panels, Scatter
from selfsort.report.read import RunData
from selfsort.report.render.axes import colour
from selfsort.report.render.html import Child, Html, data_block, element, join
from selfsort.report.render.layout import neighbour_map, principal_components
from selfsort.report.sections.pictures import Pictures
from selfsort.text import plural, printable, shorten
from selfsort.types import F64, I64, Json

MAX_POINTS = 3000
GRID = 4095
"""Places are whole numbers up to this: finer than any screen shows, short to write."""

MAX_LEGEND = 40
MAX_WEIGHED, _BLOCK = 100_000, 4096


def map_section(run: RunData, pictures: Pictures, *, budget: int, anchor: str = "", most: int = MAX_POINTS) -> Html:
    """Write the map with its tools; `budget` bounds the bytes of pictures that are not in the page already."""
    rows = sample_rows(run, pictures, most)
    if len(rows) < 3:
        return element("p", {"class": "note"}, "A map needs at least three images.")
    count = plural(run.n_images, "image") if len(rows) == run.n_images else f"{len(rows):,} of {run.n_images:,} images"
    note = f"Each dot is an image ({count}). Near dots have similar features; distances between far groups mean little."
    data = {**_points(run, rows), "pictures": _more_pictures(pictures, rows, budget), "anchor": anchor}
    if is_sample := len(rows) < run.n_images:
        data["weight"] = weights(run, rows).tolist()
        note += " The shading shows where all images lie, each at the dot of its cluster that it is most like."
    canvas = element(
        "canvas",
        {
            "tabindex": 0,
            "role": "application",  # its keys are for it, and not for moving about the page
            "aria-roledescription": "map",
            "aria-label": f"Map of {count}, coloured by cluster",
            "aria-describedby": f"{anchor}map-keys",
        },
    )
    stage = element(
        "div", {"class": "stage"}, canvas, element("div", {"class": "peek", "aria-live": "polite", "hidden": True})
    )
    keys = (
        "Drag to move, scroll to zoom once the map is selected. Keys: arrows move, + and \u2212 zoom, 0 shows all, "
        "N and P step through the images, Escape lets go."
    )
    return join(
        [
            element("p", {"class": "note"}, note),
            element(
                "div",
                {"class": "map"},
                _tools(run, is_shaded=is_sample),
                stage,
                element("div", {"class": "key"}),
                _legend(run),
                element("p", {"class": "note no-print", "id": f"{anchor}map-keys"}, keys),
                data_block(f"{anchor}map-data", data),
            ),
            element("noscript", {}, element("p", {"class": "note"}, "The map needs JavaScript.")),
        ]
    )


def map_panels(run: RunData) -> Panels | None:
    """Draw the map as it is first seen, by cluster and, with labels, by class."""
    rows = sample_rows(run, Pictures(run), MAX_POINTS)
    if len(rows) < 3:
        return None
    place = neighbour_map(run.features(rows))
    drawings = [Scatter("By cluster", place, run.table.labels[rows], "images, near ones alike")]
    if run.class_idx is not None:
        drawings.append(Scatter("By true class", place, run.class_idx[rows], "images, near ones alike"))
    return Panels(drawings)


def sample_rows(run: RunData, pictures: Pictures, most: int) -> I64:
    """Choose the images to draw: those with pictures first, then evenly over the rest."""
    seen = _thin(pictures.rows(), most)
    is_other = np.ones(run.n_images, np.bool_)
    is_other[pictures.rows()] = False
    others = np.flatnonzero(is_other)
    rows: I64 = np.sort(np.concatenate([seen, _thin(others, most - len(seen))])).astype(np.int64)
    return rows


def weights(run: RunData, rows: I64) -> I64:
    """Return how many images each drawn one stands for: those of its cluster that are more like it than like others.

    Of very many images some are asked, evenly spread, and count for all.
    """
    asked = _thin(np.arange(run.n_images), MAX_WEIGHED)
    labels = run.table.labels[rows]
    found = np.zeros(len(rows), np.int64)
    by_cluster = asked[np.argsort(run.table.labels[asked], kind="stable")]
    ends = np.flatnonzero(np.diff(run.table.labels[by_cluster])) + 1
    for members in np.split(by_cluster, ends):
        drawn = np.flatnonzero(labels == run.table.labels[members[0]])
        if not len(drawn):
            continue
        for start in range(0, len(members), _BLOCK):
            # Read together: of very wide features the same columns are taken then.
            features = run.features(np.concatenate([rows[drawn], members[start : start + _BLOCK]])).astype(np.float64)
            shown, others = features[: len(drawn)], features[len(drawn) :]
            # Rounded, so that the last bits of a product, which depend on the threads, decide nothing.
            likeness = np.round(others @ shown.T - (shown**2).sum(axis=1) / 2, 5)
            found += np.bincount(drawn[likeness.argmax(axis=1)], minlength=len(rows))
    counts: I64 = np.rint(found * (run.n_images / len(asked))).astype(np.int64)
    return counts


def on_grid(place: F64) -> list[list[int]]:
    """Turn places into whole numbers 0..GRID with the same scale on both axes; y grows downwards as on a screen."""
    low, high = place.min(axis=0), place.max(axis=0)
    reach = float((high - low).max()) or 1.0
    scaled = np.rint(((place - (low + high) / 2) / reach + 0.5) * GRID).astype(int)
    scaled[:, 1] = GRID - scaled[:, 1]
    return [scaled[:, 0].tolist(), scaled[:, 1].tolist()]


def _thin(rows: I64, most: int) -> I64:
    if len(rows) <= most:
        return rows
    thin: I64 = rows[np.linspace(0, len(rows) - 1, max(most, 0)).astype(int)]
    return thin


def _points(run: RunData, rows: I64) -> Json:
    features = run.features(rows)
    points: Json = {
        "row": rows.tolist(),
        "neighbours": on_grid(neighbour_map(features)),
        "components": on_grid(principal_components(features, 2)),
        "cluster": run.table.labels[rows].tolist(),
        "sure": np.rint(run.table.confidence[rows].astype(np.float64).clip(0, 1) * 100).astype(int).tolist(),
        "name": [printable(shorten(run.table.names[row], 80)) for row in rows.tolist()],
        "colours": N_COLOURS,
    }
    if run.table.outliers is not None:
        points["outliers"] = run.table.outliers
    if run.truth is not None and run.class_idx is not None:
        numbers = np.unique(run.truth)
        points["classes"] = [printable(shorten(run.class_name(int(number)), 40)) for number in numbers.tolist()]
        points["truth"] = run.class_idx[rows].tolist()
        places = {int(number): i for i, number in enumerate(numbers.tolist())}
        points["matched"] = {str(cluster): places[name] for cluster, name in sorted(run.matching.items())}
    return points


def _more_pictures(pictures: Pictures, rows: I64, budget: int) -> dict[str, str]:
    """Embed the pictures that no other part of the page shows, as far as the budget goes."""
    found: dict[str, str] = {}
    for row in rows.tolist():
        if row in pictures and not pictures.is_shown(row):
            uri = pictures.uri(row)
            budget -= len(uri) + 12
            if budget < 0:
                break
            found[str(row)] = uri
    return found


def _tools(run: RunData, *, is_shaded: bool) -> Html:
    colours = [("cluster", "cluster"), ("sure", "confidence")]
    if run.truth is not None:
        colours[1:1] = [("truth", "true class"), ("right", "right or wrong")]
    return element(
        "div",
        {"class": "tools no-print"},
        _choice("Colour by", "colour", colours),
        _choice("Layout", "layout", [("neighbours", "neighbours"), ("components", "first two components")]),
        _choice("Shading", "shading", [("all", "all images"), ("none", "none")]) if is_shaded else None,
        element(
            "span",
            {"class": "zoom"},
            [
                element("button", {"type": "button", "data-zoom": action, "aria-label": title}, sign)
                for action, sign, title in (
                    ("in", "+", "Zoom in"),
                    ("out", "\u2212", "Zoom out"),
                    ("all", "All", "Show all"),
                )
            ],
        ),
    )


def _choice(title: str, name: str, options: list[tuple[str, str]]) -> Html:
    shown: Child = [element("option", {"value": value}, text) for value, text in options]
    return element("label", {}, f"{title} ", element("select", {"data-choice": name}, shown))


def _legend(run: RunData) -> Html | None:
    """Write a button per cluster that shows it alone; too many would be a wall."""
    used = np.flatnonzero(run.sizes).tolist()
    if len(used) > MAX_LEGEND:
        return None
    buttons = [
        element(
            "button",
            {"type": "button", "data-cluster": cluster, "aria-pressed": "false"},
            element("i", {"class": f"dot {colour(cluster)}"}),
            shorten(run.labels.name(cluster), 24),
        )
        for cluster in used
    ]
    title = element("span", {"class": "note"}, "Only")
    return element("div", {"class": "only", "role": "group", "aria-label": "Show one cluster alone"}, title, buttons)
