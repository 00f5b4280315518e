"""Do corrections teach? ACC after 10, 30 and 100 simulated corrections, against moving these pictures alone.

Run: python -m benchmarks.corrections [NAME ...]

A run is simulated on the features of a data set by Leiden with the true number of clusters. A correction takes a random
picture that is in the wrong cluster (by the matching of clusters and classes before any correction) and moves it to the
cluster of its class. `relabelled` moves these pictures and nothing else; `learned` is `selfsort refine --stage
corrections`. Pictures that were corrected are left out of `held_out`, the accuracy on all others.

    python -m benchmarks.corrections --network RUN [RUN ...]

does the same with finished runs of a network method that have true labels: their networks learn from pairs.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
from benchmarks.choose_k import CPU, features

from selfsort.graph.communities import find_n_communities, symmetric_affinities
from selfsort.graph.knn import nearest_neighbours
from selfsort.improve.corrections import Said, learn
from selfsort.metrics.external import match_clusters, scores
from selfsort.runs.corrections import inputs_of, teach_run
from selfsort.runs.folder import RunFolder
from selfsort.runs.labels import current_labels
from selfsort.types import F32, I64

RECORDS = Path(__file__).parents[1] / "docs" / "records" / "corrections.jsonl"
OF_NETWORKS = RECORDS.with_name("corrections-network.jsonl")
NAMES = ("coil20", "usps", "umist")
COUNTS = (10, 30, 100)
N_SEEDS, _MOST_IMAGES, _WIDTH = 5, 3000, 15
N_NETWORKS = 3


def main() -> None:
    arguments = argparse.ArgumentParser(description="Do corrections teach.")
    arguments.add_argument("names", nargs="*")
    arguments.add_argument("--network", nargs="+", default=[], metavar="RUN", type=Path)
    given = arguments.parse_args()
    if given.network:
        taught = [line for run in given.network for line in by_network(RunFolder.open(run))]
        OF_NETWORKS.write_text("".join(json.dumps(line) + "\n" for line in taught), encoding="utf-8")
        return
    lines = []
    for name in given.names or NAMES:
        for line in measured(name):
            lines.append(line)
            print(line, flush=True)
    RECORDS.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")


def measured(name: str) -> list[dict[str, object]]:
    """Return the accuracy by number of corrections, mean and spread over seeds."""
    rows, truth = features(name)
    few = np.sort(np.random.default_rng(0).permutation(len(rows))[:_MOST_IMAGES])
    rows, truth = rows[few], np.unique(truth[few], return_inverse=True)[1]
    k = int(truth.max()) + 1
    graph = symmetric_affinities(nearest_neighbours(rows, _WIDTH, device=CPU), _WIDTH)
    labels = find_n_communities(graph, k, rows, seed=0)[0].labels
    found: dict[int, list[tuple[float, float, float, float]]] = {count: [] for count in COUNTS}
    for seed in range(N_SEEDS):
        for count in COUNTS:
            found[count].append(_corrected(rows, labels, truth, k, count, np.random.default_rng(seed)))
    start = scores(labels, truth)["acc"]
    names = ("relabelled", "learned", "relabelled_held_out", "learned_held_out")
    lines: list[dict[str, object]] = []
    for count, values in found.items():
        mean, spread = np.mean(values, axis=0).round(4).tolist(), np.std(values, axis=0).round(4).tolist()
        lines.append(
            {"name": name, "images": len(rows), "before": round(start, 4), "corrections": count}
            | dict(zip(names, mean, strict=True))
            | {f"{one}_sd": sd for one, sd in zip(names, spread, strict=True)}
        )
    return lines


def by_network(folder: RunFolder) -> list[dict[str, object]]:
    """Return the accuracy by number of corrections that a network has learned from."""
    truth = folder.truth()
    assert truth is not None, f"{folder.path} has no true labels"
    before = current_labels(folder)
    labels = before.table.labels
    inputs = inputs_of(folder, before, CPU)
    wanted = _wanted(labels, truth)
    wrong = np.flatnonzero((wanted != labels) & (wanted >= 0))
    lines: list[dict[str, object]] = []
    for count in COUNTS:
        values = []
        for seed in range(N_NETWORKS):
            moved = np.random.default_rng(seed).permutation(wrong)[:count]
            plain = labels.copy()
            plain[moved] = wanted[moved]
            said = Said(moved, wanted[moved], np.empty(0, np.int64))
            corrected = replace(before, table=replace(before.table, labels=plain))
            taught = teach_run(folder, corrected, said, lambda: inputs, CPU)
            assert taught is not None, f"{folder.path} has no network"
            learned = taught.labels.copy()
            learned[moved] = wanted[moved]
            values.append((scores(plain, truth)["acc"], scores(learned, truth)["acc"]))
        mean, spread = np.mean(values, axis=0).round(4).tolist(), np.std(values, axis=0).round(4).tolist()
        line: dict[str, object] = {
            "name": Path(str(folder.field("source", dict)["path"])).stem,
            "method": folder.field("method", str),
            "images": len(labels),
            "before": round(scores(labels, truth)["acc"], 4),
            "wrong": len(wrong),
            "corrections": min(count, len(wrong)),
            **dict(zip(("relabelled", "learned"), mean, strict=True)),
            **dict(zip(("relabelled_sd", "learned_sd"), spread, strict=True)),
        }
        print(line, flush=True)
        lines.append(line)
    return lines


def _wanted(labels: I64, truth: I64) -> I64:
    """Return the cluster that each image belongs in, by the matching before any correction; -1 where there is none."""
    right = {label: cluster for cluster, label in match_clusters(labels, truth).items()}
    return np.array([right.get(int(one), -1) for one in truth])


def _corrected(
    rows: F32, labels: I64, truth: I64, k: int, count: int, rng: np.random.Generator
) -> tuple[float, float, float, float]:
    wanted = _wanted(labels, truth)
    wrong = np.flatnonzero((wanted != labels) & (wanted >= 0))
    moved = rng.permutation(wrong)[:count]
    plain = labels.copy()
    plain[moved] = wanted[moved]
    learned = learn(rows, plain, Said(moved, wanted[moved], np.empty(0, np.int64)), k)
    others = np.setdiff1d(np.arange(len(rows)), moved)

    def held_out(found: I64) -> float:
        return float((found[others] == wanted[others]).mean())

    return scores(plain, truth)["acc"], scores(learned, truth)["acc"], held_out(plain), held_out(learned)


if __name__ == "__main__":
    main()
