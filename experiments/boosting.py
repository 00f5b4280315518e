"""What the parts of DBC are worth: the power, the cluster sizes in the target, and the first stage, each by itself.

    python -m experiments.boosting SOURCE --clusters 10 --curves curves.csv

Each row is the same as `selfsort fit SOURCE --method dbc --set alpha=4` (or n_j=, ae_init=), whose run folder holds the
curve in events.jsonl; this script learns the auto-encoder once and starts every variant of the second stage from it.
"""

from __future__ import annotations

import argparse
import csv
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from selfsort.bench.datasets import find_or_exit
from selfsort.config import parse_settings
from selfsort.data import read_source
from selfsort.errors import InvalidInput
from selfsort.learning.device import choose_device
from selfsort.methods.dbc import DBCConfig, train
from selfsort.metrics.external import scores
from selfsort.types import I64, Images, State

VARIANTS: dict[str, Mapping[str, Any]] = {
    "default": {},
    "alpha=1.5": {"alpha": 1.5},
    "alpha=4": {"alpha": 4.0},
    "n_j=soft": {"n_j": "soft"},
    "n_j=constant": {"n_j": "constant"},
    "ae_init=half": {"ae_init": "half"},
    "ae_init=random": {"ae_init": "random"},
}
"""One change at a time, as in the paper."""


@dataclass(frozen=True)
class Point:
    """One epoch of the second stage; epoch 0 is k-means, which the variants of one first stage share."""

    variant: str
    epoch: int
    acc: float
    nmi_max: float
    kl: float | None
    changed: float | None


def curves(images: Images, truth: I64, config: DBCConfig, *, seed: int) -> Iterator[Point]:
    """Run every variant and score each of its epochs."""
    shared: State | None = None
    for name, change in VARIANTS.items():
        # The first stage is the same for all but these, which go less far in it.
        resume = None if "ae_init" in change else shared
        epoch = 0
        for snapshot in train(images, replace(config, **change), device=choose_device(), seed=seed, resume=resume):
            event, found = snapshot.event, scores(snapshot.labels, truth)
            if event["phase"] == "reconstruct":
                continue
            if event["phase"] == "boost":
                epoch += 1
            elif shared is None:
                shared = snapshot.state()
            kl, changed = (float(event[key]) if key in event else None for key in ("kl", "changed"))
            yield Point(name, epoch, found["acc"], found["nmi_max"], kl, changed)


def main(arguments: Sequence[str] | None = None) -> dict[str, dict[str, float]]:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("source")
    parser.add_argument("--clusters", type=int, required=True)
    parser.add_argument("--where", help="NAME=VALUE: a part of the source")
    parser.add_argument("--set", nargs="*", default=[], metavar="NAME=VALUE", help="settings of dbc for all variants")
    parser.add_argument("--curves", type=Path, help="write every epoch to this CSV file")
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args(arguments)
    source = read_source(find_or_exit(asked.source), where=asked.where)
    if source.labels is None:
        raise InvalidInput(f"{asked.source} has no labels. They are needed to compare. Use an npz with labels.")
    config = DBCConfig(n_clusters=asked.clusters, **parse_settings(DBCConfig, asked.set))
    points = list(curves(source.images, source.labels, config, seed=asked.seed))
    if asked.curves:
        with asked.curves.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(["variant", "epoch", "acc", "nmi_max", "kl", "changed"])
            writer.writerows([p.variant, p.epoch, p.acc, p.nmi_max, p.kl, p.changed] for p in points)
    table = {p.variant: {"acc": p.acc, "nmi_max": p.nmi_max, "epochs": p.epoch} for p in points}
    print(json.dumps(table))
    return table


if __name__ == "__main__":
    main()
