"""Published scores beside the measured ones, where the images are those of a paper."""

from __future__ import annotations

import re
from pathlib import PureWindowsPath

from selfsort.metrics.published import DATASETS, SCORES, Score
from selfsort.report.read import RunData
from selfsort.report.render.html import Html, element, join


def dataset_of(source: str, n_images: int) -> str | None:
    """Recognise a paper's data set by the name of the source and the number of images; in doubt there is none.

    >>> dataset_of("mnist.npz", 70_000), dataset_of("mnist.npz", 10_000), dataset_of("mnist.npz", 500)
    ('mnist', 'mnist-test', None)
    """
    stem = PureWindowsPath(source).stem.lower()  # which knows both kinds of slash: the run may come from anywhere
    for name, description in DATASETS.items():
        count = re.search(r"([\d,]+) (?:test )?images", description)
        if count is None:
            if name == stem:
                return name
        elif (name == stem or name.startswith(f"{stem}-")) and int(count[1].replace(",", "")) == n_images:
            return name
    return None


def published_for(run: RunData) -> list[Score]:
    """Return what was printed for this run's method on its data set."""
    dataset = dataset_of(run.source, run.n_images)
    features = ("jule",) if "features_from" in run.config else ("pixels", "own")
    name = _printed_name(run)
    return [s for s in SCORES if s.dataset == dataset and s.method == name and s.features in features]


def _printed_name(run: RunData) -> str:
    """Name the variant of the method that the run's settings make."""
    settings = run.config.get("settings")
    is_star = run.method == "dac" and isinstance(settings, dict) and settings.get("thresholds") == "single"
    return "dac-star" if is_star else run.method


def published_table(run: RunData) -> Html | None:
    """Write the printed scores with their source; None if nothing fits."""
    found = published_for(run)
    if not found:
        return None
    head = element("tr", {}, [element("th", {"scope": "col"}, name) for name in ("source", "ACC", "NMI", "ARI")])
    body = [
        element(
            "tr",
            {},
            element("th", {"scope": "row"}, score.source, element("br", {}), element("small", {}, _remark(score))),
            element("td", {}, _number(score.acc)),
            element("td", {}, _number(score.nmi), f" ({score.nmi_variant})" if score.nmi is not None else None),
            element("td", {}, _number(score.ari)),
        )
        for score in found
    ]
    name = f"Published for {found[0].method}"
    title = element("h3", {}, name)
    note = element("p", {"class": "note"}, f"On {DATASETS[found[0].dataset]}.")
    return join(
        [title, note, element("table", {"aria-label": name}, element("thead", {}, head), element("tbody", {}, body))]
    )


def _remark(score: Score) -> str:
    doubt = "" if score.is_verified else "; not checked against the text"
    return "; ".join(part for part in (score.protocol, score.note) if part) + doubt


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"
