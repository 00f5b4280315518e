"""The tables: which methods, with which settings, on which data sets."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from selfsort.bench.cells import NO_ENCODER, Cell, label
from selfsort.errors import invalid


@dataclass(frozen=True)
class Row:
    """One line of a table."""

    method: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    is_random: bool = False
    is_published: bool = False
    """True if these settings are meant to be those behind the published row."""
    encoder: str = NO_ENCODER

    @property
    def name(self) -> str:
        """How the row is called."""
        return label(self.method, self.settings, self.encoder)

    @property
    def seen(self) -> str:
        """How its images are seen: an encoder has learned from other images, most often with their labels."""
        return "from scratch" if self.encoder == NO_ENCODER else f"with {self.encoder}"


@dataclass(frozen=True, kw_only=True)
class Table:
    """A named list of cells."""

    name: str
    title: str
    rows: tuple[Row, ...]
    datasets: tuple[str, ...]
    features: str = "pixels"
    """On what the published numbers are that stand beside."""
    n_seeds: int = 3

    def cells(self, seeds: Sequence[int] | None = None) -> list[Cell]:
        """List the cells, a first seed of everything before the second of anything."""
        seeds = range(self.n_seeds) if seeds is None else seeds
        return [
            self.cell(row, dataset, seed)
            for turn, seed in enumerate(seeds)
            for dataset in self.datasets
            for row in self.rows
            if row.is_random or turn == 0
        ]

    def cell(self, row: Row, dataset: str, seed: int) -> Cell:
        """Return one of the cells."""
        # What draws no random numbers is the same for every seed.
        return Cell(
            dataset=dataset,
            method=row.method,
            settings=row.settings,
            encoder=row.encoder,
            seed=seed if row.is_random else 0,
        )


_CLASSIC_DATASETS = ("umist", "coil20", "cmu-pie", "usps", "mnist-test", "coil100")

_CLASSIC = (
    Row("kmeans", is_random=True, is_published=True),
    Row("kmeans", {"centre": True}, is_random=True, is_published=True),
    Row("sc-njw", is_random=True, is_published=True),
    Row("sc-njw", {"keep_diagonal": False}, is_random=True),
    Row("sc-st", is_random=True, is_published=True),
    Row("sc-st", {"scale_neighbour": 7}, is_random=True),
    Row("sc-ls", is_random=True, is_published=True),
    Row("ncuts", is_random=True, is_published=True),
    Row("ncuts", {"is_squared": False}, is_random=True),
    Row("ac-link", is_published=True),
    Row("ac-link", {"centre": True}, is_published=True),
    Row("ac-zell", {"absorb": False}, is_published=True),
    Row("ac-zell", {"absorb": False, "centre": True}, is_published=True),
    Row("ac-zell"),
    Row("ac-gdl", {"absorb": False}, is_published=True),
    Row("ac-gdl", {"absorb": False, "centre": True}, is_published=True),
    Row("ac-gdl"),
    Row("ac-gdl", {"graph": "local", "absorb": False}),
    Row("ac-gdl", {"graph": "local"}),
    Row("ac-gdl", {"graph": "local", "centre": False}),
    Row("ac-pic", {"absorb": False}, is_published=True),
    Row("ac-pic", {"absorb": False, "centre": True}, is_published=True),
    Row("ac-pic"),
    Row("nmf-lp", is_random=True, is_published=True),
    Row("nmf-lp", {"alpha": 100.0}, is_random=True),
    Row("nmf-d", is_random=True, is_published=True),
    Row("umap-kmeans", is_random=True),
    Row("leiden", is_random=True),
)

_UPDATES = (
    Row("ac-gdl", {"absorb": False}),
    Row("ac-gdl", {"absorb": False, "update": "approx_size"}),
    *(
        Row("ac-gdl", {"absorb": False, "update": "approx_alpha", "alpha": alpha})
        for alpha in (-0.2, -0.1, 0.0, 0.1, 0.2, 0.3, 0.5)
    ),
)

_NEIGHBOURS = tuple(
    Row("ac-gdl", {**plain, "K_s": k}) for plain in ({}, {"absorb": False}) for k in (5, 10, 15, 20, 30, 50, 80)
)

_ENCODERS = tuple(
    Row(method, encoder=encoder, is_random=is_random)
    for encoder in (NO_ENCODER, "efficientnet-lite0", "efficientnet-lite2")
    for method, is_random in (("kmeans", True), ("ac-gdl", False), ("leiden", True))
)

_TEACH = (
    Row("ac-gdl"),
    Row("leiden", is_random=True),
    Row("leiden", {"neighbours": "augmented"}, is_random=True),
    Row("teach", is_random=True),
    # Each with one part left out, or another in its place.
    Row("teach", {"neighbours": "plain"}, is_random=True),
    Row("teach", {"views": "mild"}, is_random=True),
    Row("teach", {"grouping": "ac-gdl"}, is_random=True),
    Row("teach", {"augment": 0.0}, is_random=True),
    Row("teach", {"own_from": 1.0}, is_random=True),
    Row("teach", {"smoothing": 0.0}, is_random=True),
    Row("teach", {"rounds": 2}, is_random=True),
)

_SEEN_DATASETS = (
    *("photos-mixed", "tinyimagenet-10", "cifar10-test", "coil20", "coil100"),
    *("umist", "cmu-pie", "usps", "mnist-test"),
)

TABLES: dict[str, Table] = {
    table.name: table
    for table in (
        Table(
            name="classic",
            title="The classical methods on pixels",
            rows=_CLASSIC,
            datasets=_CLASSIC_DATASETS,
        ),
        Table(
            name="gdl-updates",
            title="Approximate updates of ac-gdl",
            rows=_UPDATES,
            datasets=_CLASSIC_DATASETS,
        ),
        Table(
            name="gdl-neighbours",
            title="The number of neighbours of ac-gdl",
            rows=_NEIGHBOURS,
            datasets=_CLASSIC_DATASETS,
        ),
        Table(
            name="encoders",
            title="Encoders before classical methods",
            rows=_ENCODERS,
            datasets=_SEEN_DATASETS,
        ),
        Table(
            name="teach",
            title="The parts of teach, from pixels",
            rows=_TEACH,
            datasets=("umist", "usps", "mnist-test"),
        ),
    )
}


def find_table(name: str) -> Table:
    """Look a table up by name; a near miss is named."""
    if name in TABLES:
        return TABLES[name]
    close = difflib.get_close_matches(name, TABLES, n=1, cutoff=0.4)
    hint = f"Did you mean {close[0]}?" if close else "`selfsort bench` lists them."
    raise invalid("NAME", f"be one of {', '.join(TABLES)}", repr(name), hint)
