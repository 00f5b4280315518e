"""What came in: the new pictures of an updated run, by where they were put."""

from __future__ import annotations

from typing import Any

import numpy as np

from selfsort.report.read import RunData
from selfsort.report.render.html import Html, element
from selfsort.report.sections.pictures import Pictures
from selfsort.text import plural

MAX_GROUPS = 60
MAX_PICTURES = 12


def arrivals(run: RunData, pictures: Pictures, *, budget: int) -> Html | None:
    """Show what came in with `selfsort update`, new groups first."""
    told: Any = run.config.get("update")
    first = told.get("n_before") if isinstance(told, dict) else None
    if not isinstance(first, int) or isinstance(first, bool) or not 0 <= first < run.n_images:
        return None
    proposed = told.get("new_groups")
    new = [one for one in proposed if isinstance(one, int)] if isinstance(proposed, list) else []
    labels = run.table.labels[first:]
    sizes = np.bincount(labels, minlength=run.n_clusters)
    order = sorted(
        np.flatnonzero(sizes).tolist(), key=lambda c: (c not in new, c == run.table.outliers, -int(sizes[c]))
    )
    n_bytes, strips = pictures.mean_bytes(), []
    for cluster in order[:MAX_GROUPS]:
        rows = [row for row in (first + np.flatnonzero(labels == cluster)).tolist() if row in pictures][:MAX_PICTURES]
        if len(rows) * n_bytes > budget:
            break
        budget -= round(len(rows) * n_bytes)
        what = "put aside" if cluster == run.table.outliers else f"in {run.labels.name(cluster)}"
        title = f"{plural(int(sizes[cluster]), 'picture')} {what}{', a new group' if cluster in new else ''}"
        shown = element("div", {"class": "thumbs"}, [pictures.image(row) for row in rows])
        strips.append(element("div", {"class": "strip"}, element("h4", {}, title), shown))
    aside = int(sizes[run.table.outliers]) if run.table.outliers is not None else 0
    note = f"{plural(len(labels), 'picture')} came in: {len(labels) - aside:,} found a group, {aside:,} were put aside."
    if new:
        note += (
            f" {plural(len(new), 'group')} of those that fit nowhere else {'is' if len(new) == 1 else 'are'} proposed."
        )
    return element("div", {}, element("p", {"class": "note"}, note), strips)
