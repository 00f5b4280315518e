"""Thumbnails as data URIs, chosen so that the page stays small."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from selfsort.report.read import RunData
from selfsort.report.render.html import Attributes, Html, element
from selfsort.report.render.images import data_uri
from selfsort.text import shorten
from selfsort.types import I64, U8

STRIP_LENGTH = 8
"""Pictures in each strip of a cluster."""


@dataclass(eq=False)
class Pictures:
    """The thumbnails of one run; each is encoded once, when it is first wanted."""

    run: RunData
    _position: dict[int, int] = field(init=False)
    _encoded: dict[int, str] = field(default_factory=dict, init=False)
    _shown: set[int] = field(default_factory=set, init=False)

    def __post_init__(self) -> None:
        rows = [] if self.run.thumbnails is None else self.run.thumbnails.rows.tolist()
        self._position = {row: i for i, row in enumerate(rows)}

    def __contains__(self, row: int) -> bool:
        return row in self._position

    def is_shown(self, row: int) -> bool:
        """Say whether the page has this picture already, so that the map can borrow it."""
        return row in self._shown

    def rows(self) -> I64:
        """Return the images there are thumbnails of, in ascending order."""
        return np.array(sorted(self._position), dtype=np.int64)

    def pixels(self, row: int) -> U8:
        """Return a thumbnail as (h, w, C)."""
        assert self.run.thumbnails is not None
        found: U8 = self.run.thumbnails.pixels[self._position[row]]
        return found

    def uri(self, row: int) -> str:
        """Return a thumbnail as a data URI."""
        if row not in self._encoded:
            self._encoded[row] = data_uri(self.pixels(row))
        return self._encoded[row]

    def image(self, row: int, alt: str | None = None) -> Html:
        """Write a thumbnail as an element."""
        self._shown.add(row)
        name = shorten(self.run.table.names[row])
        sure = float(self.run.table.confidence[row])
        title = f"{name} \u00b7 confidence {sure:.2f}"
        if self.run.truth is not None:
            title += f" \u00b7 {self.run.class_name(int(self.run.truth[row]))}"
        words: Attributes = {"src": self.uri(row), "alt": alt or name, "title": title, "data-row": row}
        return element("img", {**words, "decoding": "async"})

    def mean_bytes(self) -> float:
        """Estimate what one picture adds to the page."""
        rows = self.rows()
        sample = rows[np.linspace(0, len(rows) - 1, min(len(rows), 64)).astype(int)]
        return float(np.mean([len(self.uri(int(row))) + 180 for row in sample])) if len(rows) else 0.0


@dataclass(frozen=True)
class Strips:
    """The pictures that stand for one cluster; no picture appears twice."""

    typical: list[int]
    """Surest first."""
    borderline: list[int]
    """Least sure first."""
    others: list[int]
    """Evenly spread over the rest."""


def choose_strips(run: RunData, pictures: Pictures, length: int) -> dict[int, Strips]:
    """Pick the pictures of each cluster from the thumbnails, at most `length` in each strip."""
    rows = pictures.rows()
    # One sort for all clusters: by cluster, then the surest first, then by row.
    order = rows[np.lexsort((rows, -run.table.confidence[rows], run.table.labels[rows]))]
    ends = np.searchsorted(run.table.labels[order], np.arange(run.n_clusters + 1))
    return {cluster: _strips(order[ends[cluster] : ends[cluster + 1]], length) for cluster in range(run.n_clusters)}


def fit_strips(run: RunData, pictures: Pictures, budget: int) -> dict[int, Strips]:
    """Pick as many pictures of each cluster as the budget of bytes allows.

    Of very many clusters only typical pictures are shown, and if need be only those of the largest clusters.
    """
    n_used = int((run.sizes > 0).sum())
    n_affordable = int(budget / pictures.mean_bytes()) if len(pictures.rows()) else 0
    if n_affordable >= 3 * n_used:
        return choose_strips(run, pictures, min(STRIP_LENGTH, n_affordable // (3 * n_used)))
    strips = choose_strips(run, pictures, max(1, n_affordable // n_used))
    largest = set(np.argsort(-run.sizes, kind="stable")[:n_affordable].tolist())
    return {cluster: Strips(strips[cluster].typical if cluster in largest else [], [], []) for cluster in strips}


def _strips(members: I64, length: int) -> Strips:
    """Part the pictures of one cluster, surest first, so that none is shown twice."""
    third = min(length, -(-len(members) // 3))
    typical, rest = members[:third], members[third:]
    borderline = rest[::-1][:third]
    middle = np.sort(rest[: len(rest) - len(borderline)])
    spread = middle[np.linspace(0, len(middle) - 1, min(length, len(middle))).astype(int)]
    return Strips(typical.tolist(), borderline.tolist(), spread.tolist())
