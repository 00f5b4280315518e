"""The head of a report: what was asked, what was found, what to beware of, and every setting."""

from __future__ import annotations

import numpy as np

from selfsort.config import written
from selfsort.metrics.internal import size_report
from selfsort.report.read import RunData, number
from selfsort.report.render.html import Html, element, join
from selfsort.runs.renamed import all_settings
from selfsort.text import duration, percent, plural, shorten
from selfsort.types import Json

MAX_SKIPPED = 200
"""Skipped files that are named."""


def summary(run: RunData) -> Html:
    """Write the head of one run."""
    return join(
        [
            _so_far(run),
            _tiles(run),
            _verdict(run),
            element("p", {"class": "words"}, " ".join(sentences(run))),
            _warnings(run),
            _skipped(run),
        ]
    )


def sentences(run: RunData) -> list[str]:
    """Say in plain words what was asked and what was found."""
    said = [
        f"You asked for {plural(run.n_asked, 'cluster')} of {plural(run.n_images, 'image')} from "
        f"{shorten(run.source, 60)}."
    ]
    if not run.has_clusters:
        return said + _before_training(run.config)
    found = size_report(run.labels.original, run.n_asked, outliers=run.table.outliers)
    said += [
        f"{run.method} (seed {run.config['seed']}) {'found' if run.is_finished else 'has, so far,'} {found.used:,}: "
        f"the smallest holds {plural(found.min, 'image')}, the largest {found.max:,}.",
    ]
    n_outliers = run.table.n_outliers
    if n_outliers is not None:
        said.append(f"Images that belong nowhere are a group of their own: {plural(n_outliers, 'outlier')}.")
    if run.labels.n_edits:
        now = run.n_used
        said.append(
            f"{plural(run.labels.n_edits, 'correction')} by hand made {plural(now, 'cluster')} of them, shown here."
        )
    seconds, memory = number(run.end.get("seconds")), number(run.end.get("peak_memory_mb"))
    if seconds is not None:
        said.append(f"It took {duration(seconds)}" + (f" and up to {memory:,.0f} MB of memory." if memory else "."))
    said += _before_training(run.config)
    if isinstance(again := run.end.get("number_again"), str):
        said.append(shorten(again, 300) + ".")
    if run.truth is not None:
        said.append(
            f"Compared with the {len(np.unique(run.truth)):,} known classes, {percent(run.scores['acc'])} of the "
            "images lie in the cluster that stands for their class"
            + (", outliers counted as wrong. " if n_outliers else ". ")
            + "No label was used to find the clusters."
        )
    return said


def _before_training(config: Json) -> list[str]:
    """Say what saw the images before the method, and how the number of clusters was found."""
    encoder, clusters, said = config.get("encoder"), config.get("clusters"), []
    if isinstance(encoder, dict) and isinstance(encoder.get("given"), str):
        name = shorten(str(encoder["given"]), 120)
        said.append(f"The encoder {name} saw the images first; it had learned from other pictures.")
    if isinstance(clusters, dict) and isinstance(clusters.get("sentence"), str):
        said.append(shorten(clusters["sentence"], 400))
    return said


def settings(run: RunData) -> Html:
    """List every setting, the versions and the fingerprint of the data."""
    rows = [(str(name), _plain(value)) for name, value in all_settings(run.config).items()]
    rows.append(("seed", str(run.config["seed"])))
    recipe, versions = run.config.get("recipe"), run.config.get("versions")
    if isinstance(recipe, dict):
        rows.append(("recipe", f"{recipe.get('name')} ({recipe.get('reason')})"))
    known = ("train_on", "device", "threads", "features_from", "fingerprint", "selfsort")
    rows += [(name.replace("_", " "), _plain(run.config[name])) for name in known if name in run.config]
    if isinstance(versions, dict):
        rows.append(("versions", ", ".join(f"{name} {text}" for name, text in versions.items())))
    body = [
        element("tr", {}, element("th", {"scope": "row"}, name), element("td", {}, shorten(text, 300)))
        for name, text in rows
    ]
    table = element("table", {"aria-label": "Settings"}, element("tbody", {}, body))
    return element("details", {}, element("summary", {}, "Every setting of this run"), table)


def _tiles(run: RunData) -> Html:
    used = run.n_used
    facts = [("images", f"{run.n_images:,}")]
    if run.has_clusters:
        facts.append(("clusters", f"{used:,}" if used == run.n_asked else f"{used:,} of {run.n_asked:,}"))
    if run.table.n_outliers is not None:
        facts.append(("outliers", f"{run.table.n_outliers:,}"))
    if run.verdict is not None:
        facts.append(("expected among their kind", percent(run.verdict.expected)))
    if (recall := run.neighbour_recall) is not None:
        facts.append(("neighbours found", percent(recall)))
    if run.scores and run.has_clusters:
        facts += [
            ("ACC", f"{run.scores['acc']:.3f}"),
            ("NMI, geometric", f"{run.scores['nmi_geometric']:.3f}"),
            ("ARI", f"{run.scores['ari']:.3f}"),
        ]
    tiles = [element("div", {}, element("dt", {}, name), element("dd", {}, value)) for name, value in facts]
    return element("dl", {"class": "tiles"}, tiles)


def _so_far(run: RunData) -> Html | None:
    """Say first of all that it is not the end."""
    if run.so_far is None:
        return None
    lead = element("strong", {}, "Not finished. ")
    return element("p", {"class": "verdict unknown", "role": "note"}, lead, run.so_far)


def _verdict(run: RunData) -> Html | None:
    """Say how far to trust it, before anything else is read."""
    if run.verdict is None or not run.verdict.sentence:
        return None
    lead = element("strong", {}, "How far to trust this. ")
    return element(
        "p", {"class": f"verdict {run.verdict.level}", "role": "note"}, lead, shorten(run.verdict.sentence, 600)
    )


def _warnings(run: RunData) -> Html | None:
    if not run.warnings:
        return None
    items = element("ul", {}, [element("li", {}, shorten(text, 600)) for text in run.warnings])
    return element("div", {"class": "warning", "role": "note"}, element("h3", {}, "Warnings"), items)


def _skipped(run: RunData) -> Html | None:
    if not run.skipped:
        return None
    named = [
        element(
            "li",
            {},
            element("bdi", {"class": "file"}, shorten(str(item["name"]))),
            f": {shorten(str(item.get('reason', '')), 200)}",
        )
        for item in run.skipped[:MAX_SKIPPED]
    ]
    n_more = len(run.skipped) - len(named)
    title = f"{plural(len(run.skipped), 'file')} could not be read and had to be left out"
    return element(
        "details",
        {"class": "skipped"},
        element("summary", {}, title),
        element("ul", {}, named),
        element("p", {}, f"{n_more:,} more are listed in ingest.json.") if n_more else None,
    )


def _plain(value: object) -> str:
    return ", ".join(map(written, value)) if isinstance(value, list) else written(value)
