"""The parts of a report that every method has: what was asked and found, clusters, sizes, curves, scores."""

from __future__ import annotations

import numpy as np

from selfsort.metrics.external import contingency
from selfsort.metrics.internal import size_report
from selfsort.report.charts import Line, bar_chart, histogram, line_chart, matrix_chart
from selfsort.report.html import Child, Html, element, join, shorten
from selfsort.report.pictures import Pictures, Strips, choose_strips, strip_length
from selfsort.report.read import SCORE_NAMES, RunData, number

MAX_MATRIX = 60
"""Most clusters or classes for which the confusion matrix is drawn."""

_BOOKKEEPING = frozenset({"step", "total", "elapsed", "seconds", "images_per_second", "skipped_batches"})


def section(name: str, title: str, *children: Child) -> Html:
    """Write a section that the page's menu can point at."""
    return element("section", {"id": name}, element("h2", {}, title), *children)


def plural(count: int, noun: str) -> str:
    """Write a count with its noun.

    >>> plural(1, "image"), plural(1200, "image")
    ('1 image', '1,200 images')
    """
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def duration(seconds: float) -> str:
    """Write a time span for people.

    >>> duration(4.21), duration(90), duration(5400)
    ('4.2 s', '1.5 min', '1.5 h')
    """
    if seconds < 60:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.1f} min" if seconds < 3600 else f"{seconds / 3600:.1f} h"


def percent(share: float) -> str:
    """Write a share.

    >>> percent(0.1234)
    '12.3 %'
    """
    return f"{100 * share:.1f} %"


# --- what was asked, what was found --------------------------------------------------------------------------


def summary(run: RunData) -> Html:
    """Say in plain words what was asked, what was found and what to beware of."""
    found = size_report(run.table.labels, max(run.n_asked, 2))
    said = [
        f"You asked for {plural(run.n_asked, 'cluster')} of {plural(run.n_images, 'image')}, "
        f"from {shorten(run.source, 60)}.",
        f"{run.method} (seed {run.config['seed']}) found {found.used}: "
        f"the smallest holds {plural(found.min, 'image')}, the largest {found.max:,}.",
    ]
    seconds = number(run.end.get("seconds"))
    if seconds is not None:
        memory = number(run.end.get("peak_memory_mb"))
        said.append(f"It took {duration(seconds)}" + (f" and at most {memory:,.0f} MB of memory." if memory else "."))
    if run.truth is not None:
        said.append(
            f"Compared with the {len(np.unique(run.truth))} known classes, {percent(run.scores['acc'])} of the images "
            "lie in the cluster that stands for their class. No label was used to find the clusters."
        )
    warnings = [element("li", {}, text) for text in run.warnings]
    return join(
        [
            _tiles(run, found.used),
            element("p", {"class": "words"}, " ".join(said)),
            element(
                "div", {"class": "warning", "role": "note"}, element("h3", {}, "Warnings"), element("ul", {}, warnings)
            )
            if warnings
            else None,
            _skipped(run),
        ]
    )


def _tiles(run: RunData, used: int) -> Html:
    facts = [
        ("images", f"{run.n_images:,}"),
        ("clusters", f"{used:,}" if used == run.n_asked else f"{used:,} of {run.n_asked:,}"),
        ("mean confidence", f"{float(run.table.confidence.mean(dtype=np.float64)):.2f}"),
    ]
    if run.scores:
        facts += [
            ("ACC", f"{run.scores['acc']:.3f}"),
            ("NMI, geometric", f"{run.scores['nmi_geometric']:.3f}"),
            ("ARI", f"{run.scores['ari']:.3f}"),
        ]
    tiles = [element("div", {}, element("dt", {}, name), element("dd", {}, value)) for name, value in facts]
    return element("dl", {"class": "tiles"}, tiles)


def _skipped(run: RunData, most: int = 200) -> Html | None:
    if not run.skipped:
        return None
    rows = [
        element(
            "li",
            {},
            element("bdi", {"class": "file"}, shorten(str(item["name"]))),
            f": {shorten(str(item.get('reason', '')), 200)}",
        )
        for item in run.skipped[:most]
    ]
    more = f"... and {len(run.skipped) - most:,} more, listed in ingest.json." if len(run.skipped) > most else None
    return element(
        "details",
        {},
        element(
            "summary",
            {},
            f"Left out because they could not be read: {plural(len(run.skipped), 'file')}",
        ),
        element("ul", {}, rows),
        element("p", {}, more) if more else None,
    )


def settings(run: RunData) -> Html:
    """List every setting, the versions and where the numbers come from."""
    rows: list[tuple[str, str]] = [(name, _plain(value)) for name, value in run.config["settings"].items()]
    rows += [("seed", str(run.config["seed"]))]
    recipe = run.config.get("recipe")
    if isinstance(recipe, dict):
        rows.append(("recipe", f"{recipe.get('name')} ({recipe.get('reason')})"))
    rows += [
        (name, _plain(run.config[name]))
        for name in ("device", "threads", "fingerprint", "selfsort")
        if name in run.config
    ]
    versions = run.config.get("versions")
    if isinstance(versions, dict):
        rows.append(("versions", ", ".join(f"{name} {text}" for name, text in versions.items())))
    body = [
        element("tr", {}, element("th", {"scope": "row"}, name), element("td", {}, shorten(text, 300)))
        for name, text in rows
    ]
    return element(
        "details", {}, element("summary", {}, "Every setting of this run"), element("table", {"class": "facts"}, body)
    )


def _plain(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


# --- clusters --------------------------------------------------------------------------------------------------


def gallery(run: RunData, pictures: Pictures, budget: int) -> Html:
    """Show each cluster by its most typical, its borderline and other images."""
    length = strip_length(run, pictures, budget)
    strips = choose_strips(run, pictures, length)
    confidence = np.bincount(run.table.labels, run.table.confidence, minlength=run.n_clusters) / np.maximum(
        run.sizes, 1
    )
    cards = [
        _card(run, pictures, cluster, float(confidence[cluster]), strips[cluster])
        for cluster in np.argsort(-run.sizes, kind="stable").tolist()
        if run.sizes[cluster]
    ]
    note = "Largest cluster first. Typical images are those the method is surest of, borderline ones the least sure."
    if not len(pictures.rows()):
        note = "Largest cluster first. This run kept no pictures, so only numbers can be shown."
    return element("div", {}, element("p", {"class": "note"}, note), element("div", {"class": "cards"}, cards))


def _card(run: RunData, pictures: Pictures, cluster: int, confidence: float, strips: Strips) -> Html:
    size = int(run.sizes[cluster])
    facts = f"{plural(size, 'image')} \u00b7 {percent(size / run.n_images)} \u00b7 mean confidence {confidence:.2f}"
    rows = [
        element(
            "div",
            {"class": "strip"},
            element("h4", {}, title),
            element("div", {"class": "thumbs"}, [pictures.image(row) for row in chosen]),
        )
        for title, chosen in (("Typical", strips.typical), ("Borderline", strips.borderline), ("Others", strips.others))
        if chosen
    ]
    return element(
        "article",
        {"class": "card", "id": f"cluster-{cluster}"},
        element("h3", {}, element("i", {"class": f"dot {colour(cluster)}"}), f"Cluster {cluster}"),
        element("p", {"class": "facts-line"}, facts),
        _mostly(run, cluster),
        rows,
    )


def _mostly(run: RunData, cluster: int) -> Html | None:
    """Say which true class a cluster holds most of."""
    if run.truth is None:
        return None
    classes, counts = np.unique(run.truth[run.table.labels == cluster], return_counts=True)
    best = int(np.argmax(counts))
    share = percent(int(counts[best]) / int(counts.sum()))
    return element(
        "p",
        {"class": "mostly"},
        "Mostly class ",
        element("b", {}, shorten(run.class_name(int(classes[best])), 40)),
        f" ({share})",
    )


def colour(cluster: int) -> str:
    """Return the CSS class that carries a cluster's colour."""
    return f"k{cluster % 20}"


def sizes(run: RunData) -> Html:
    """Show how many images each cluster holds, and how sure the method is."""
    order = np.argsort(-run.sizes, kind="stable").tolist()
    counts = [int(run.sizes[cluster]) for cluster in order]
    description = f"{len(counts)} clusters, from {max(counts):,} down to {min(counts):,} images"
    if len(order) <= 120:
        chart = bar_chart(
            "Images per cluster",
            counts,
            [str(c) for c in order],
            description=description,
            classes=[colour(c) for c in order],
        )
    else:
        spread = np.array(counts, dtype=np.float64)
        chart = histogram(
            "Clusters by size", spread, low=0, high=float(max(counts)), description=description, width=720
        )
    sure = run.table.confidence.astype(np.float64)
    middle = f"half of the images above {float(np.median(sure)):.2f}"
    return element(
        "div", {"class": "charts"}, chart, histogram("Images by confidence", sure, low=0, high=1, description=middle)
    )


# --- training ---------------------------------------------------------------------------------------------------


def curves(run: RunData, most: int = 400) -> Html | None:
    """Draw every number of events.jsonl over the steps; the scores share one chart."""
    if len(run.events) < 2:
        return None
    picked = np.unique(np.linspace(0, len(run.events) - 1, min(most, len(run.events))).astype(int)).tolist()
    events = [run.events[i] for i in picked]
    steps = [float(event["step"]) for event in events]
    names = list(dict.fromkeys(name for event in events for name in event))
    lines = {}
    for name in names:
        values = [number(event.get(name)) for event in events]
        if name not in _BOOKKEEPING and sum(value is not None for value in values) >= 2:
            lines[name] = Line(SCORE_NAMES.get(name, name.replace("_", " ")), steps, values)
    score_lines = [lines.pop(name) for name in SCORE_NAMES if name in lines]
    charts = [line_chart(line.name, [line]) for line in lines.values()]
    if score_lines:
        charts.insert(0, line_chart("scores (not seen by the method)", score_lines, unit_range=True))
    return element("div", {"class": "charts"}, charts) if charts else None


# --- with labels --------------------------------------------------------------------------------------------------


def agreement(run: RunData) -> Html:
    """Score against the known classes and draw the confusion matrix."""
    columns = [("", run.scores), *([("straight-forward labels", run.scores_sf)] if run.scores_sf else [])]
    head = element(
        "tr", {}, element("th", {}), [element("th", {"scope": "col"}, title or "score") for title, _ in columns]
    )
    body = [
        element(
            "tr",
            {},
            element("th", {"scope": "row"}, SCORE_NAMES[key]),
            [element("td", {}, f"{scores[key]:.4f}" if key in scores else "") for _, scores in columns],
        )
        for key in SCORE_NAMES
    ]
    note = (
        "ACC: share of images whose cluster is matched to their class, one cluster per class (Hungarian method). "
        "NMI names its normaliser, because papers differ: geometric in JULE, DAC and GATCluster, arithmetic in SeCu, "
        "max in DBC."
    )
    return join(
        [element("table", {"class": "scores"}, head, body), element("p", {"class": "note"}, note), _confusion(run)]
    )


def _confusion(run: RunData) -> Html:
    assert run.truth is not None
    table = contingency(run.table.labels, run.truth)
    class_order = {int(name): i for i, name in enumerate(table.truth_names.tolist())}
    # A cluster stands in the row of its class, so that what is right lies on the diagonal.
    matched = [class_order.get(run.matching.get(int(c), -1), len(class_order)) for c in table.predicted_names.tolist()]
    order = np.argsort(matched, kind="stable")
    if max(table.shape) > MAX_MATRIX:
        return element(
            "p",
            {"class": "note"},
            f"A confusion matrix of {table.shape[0]} clusters and {table.shape[1]} classes would be too large to read.",
        )
    cells = table.dense()[order]
    rows = [str(name) for name in table.predicted_names[order].tolist()]
    columns = [run.class_name(int(name)) for name in table.truth_names.tolist()]
    texts = [[f"{value}" for value in line] for line in cells.tolist()] if max(table.shape) <= 20 else None
    return matrix_chart(
        "Confusion matrix after Hungarian matching",
        cells,
        rows,
        columns,
        description=f"{percent(run.scores['acc'])} of the images on the diagonal",
        row_title="cluster",
        column_title="true class",
        texts=texts,
    )
