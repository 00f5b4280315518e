"""Measured means and spreads beside the published numbers."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

from selfsort.bench.cells import CONTENT
from selfsort.bench.datasets import DATASETS
from selfsort.bench.tables import Row, Table
from selfsort.metrics.published import NMIVariant, Score, published
from selfsort.types import Json

Measure = Literal["nmi", "acc", "ari", "seconds", "memory"]
MEASURES: tuple[Measure, ...] = get_args(Measure)
TITLES: dict[Measure, str] = {
    "nmi": "NMI",
    "acc": "ACC",
    "ari": "ARI",
    "seconds": "Seconds of processor time",
    "memory": "Peak memory, MB",
}

_SCORES = ("nmi", "acc", "ari")


@dataclass(frozen=True)
class Summary:
    """All seeds of one row on one data set."""

    row: Row
    dataset: str
    records: tuple[Json, ...]
    refused: str | None = None
    """Why there is nothing to show, if the method refused."""
    features: str = "pixels"
    nmi_variant: NMIVariant = "geometric"
    shows_best: bool = False
    stopped: Json | None = None
    """The record behind `refused`."""

    @property
    def curve(self) -> list[Json]:
        """The states that the first seed went through, or one that was stopped: step, total and scores."""
        told: Json = self.records[0] if self.records else self.stopped or {}
        return list(told.get("curve", ()))

    def so_far(self, measure: Measure) -> float | None:
        """Return the last state of a fit that was stopped."""
        if self.refused is None or not self.curve or measure not in _SCORES:
            return None
        return float(self.curve[-1][self._score(measure)])

    def _score(self, measure: Measure) -> str:
        return f"nmi_{self.nmi_variant}" if measure == "nmi" else measure

    def values(self, measure: Measure) -> list[float]:
        """Return one number a seed."""
        if measure in _SCORES:
            return [float(record[scores_of(self.row)][self._score(measure)]) for record in self.records]
        name = "cpu_seconds" if measure == "seconds" else "peak_memory_mb"
        return [float(record[name]) for record in self.records if record[name] is not None]

    def mean(self, measure: Measure) -> float | None:
        """Return the mean over the seeds."""
        values = self.values(measure)
        return statistics.fmean(values) if values else None

    def best(self, measure: Measure) -> float | None:
        """Return the best of the seeds, if there are several."""
        values = self.values(measure)
        return max(values) if len(values) > 1 else None

    def spread(self, measure: Measure) -> float | None:
        """Return the standard deviation over the seeds, if there are several."""
        values = self.values(measure)
        return statistics.pstdev(values) if len(values) > 1 else None

    def published(self, measure: Measure) -> float | None:
        """Return what was printed; the first source is a method's main table."""
        found = self._printed()
        value: float | None = None if found is None else getattr(found, measure, None)
        return value

    def published_runs(self, measure: Measure) -> tuple[float | None, float | None, float | None]:
        """Return best, mean and standard deviation as printed, where a paper has several runs."""
        found = self._all_printed()
        mean = next((score for score in found if score.note == "mean"), None)
        best = next((score for score in found if score.note != "mean"), None)
        return (
            getattr(best, measure, None),
            getattr(mean, measure, None),
            None if mean is None else mean.spread.get(measure),
        )

    def _printed(self) -> Score | None:
        return next(iter(self._all_printed()), None)

    def _all_printed(self) -> tuple[Score, ...]:
        if not self.row.is_published:
            return ()
        name, features = self.row.printed_as or self.row.method, self.row.features or self.features
        dataset = self.row.printed_on or DATASETS[self.dataset].printed_as or self.dataset
        return published(name, dataset, features)

    def to_json(self) -> Json:
        """Return JSON types."""
        return {
            "dataset": self.dataset,
            "method": self.row.method,
            "encoder": self.row.encoder,
            "settings": dict(self.row.settings),
            "seeds": [record["seed"] for record in self.records],
            **({} if self.refused is None else {"refused": self.refused}),
            **{name: self.records[0].get(name) for name in ("dimension", "encode_ms") if self.records},
            **{
                measure: {
                    "mean": self.mean(measure),
                    **({"best": self.best(measure)} if measure in _SCORES else {}),
                    "spread": self.spread(measure),
                    "published": self.published(measure),
                    **({"published_runs": list(self.published_runs(measure))} if self.shows_best else {}),
                }
                for measure in MEASURES
            },
        }


def scores_of(row: Row) -> str:
    """Return the name of the scores in a record that a row shows."""
    return "scores_sf" if row.is_straight else "scores"


def title_of(measure: Measure, table: Table) -> str:
    """Name a measure with all that it needs to be understood."""
    return f"{TITLES[measure]} ({table.nmi_variant})" if measure == "nmi" else TITLES[measure]


def summarise(table: Table, records: Mapping[str, Json]) -> list[Summary]:
    """Gather what is known about every row on every data set, whatever the seeds.

    Only settings as they are today count: a default that has changed since makes another cell.
    """
    by_content: dict[tuple[str, ...], dict[int, Json]] = {}
    for record in records.values():  # the newest last
        by_content.setdefault(_group(record), {})[record["seed"]] = record
    found = []
    for dataset in table.datasets:
        for row in table.rows:
            seeds = by_content.get(_group(table.cell(row, dataset, 0).content()), {})
            chosen = [seeds[seed] for seed in sorted(seeds) if row.is_random or seed == 0]
            scored = tuple(record for record in chosen if scores_of(row) in record)
            refusal = None if scored else next((record for record in chosen if "refused" in record), None)
            found.append(
                Summary(
                    row,
                    dataset,
                    scored,
                    None if refusal is None else str(refusal["refused"]),
                    table.features,
                    table.nmi_variant,
                    table.shows_best,
                    refusal,
                )
            )
    return found


def _group(content: Mapping[str, object]) -> tuple[str, ...]:
    return tuple(str(content.get(name)) for name in CONTENT if name != "seed")
