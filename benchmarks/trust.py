"""How well does the confidence hold? Evidence on many clusterings, the regression, and its reliability.

Run: python -m benchmarks.trust [NAME ...]

Every data set of `benchmarks.choose_k`, and photographs by their pixels, which no method sorts, is clustered by
k-means, Leiden and the merge tree into 0.7, 1 and 1.4 times its number of classes: some good, many bad. The regression
of `selfsort.trust.calibration` is fitted to all, and for the reliability with each data set once left out, in all its
forms. Prints the weights to put there; writes docs/records/trust.jsonl, from which docs/trust.md is made.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from benchmarks.choose_k import CPU, SEEN, features
from sklearn.linear_model import LogisticRegression

from selfsort.choose_k.search import WIDTHS, smallest_start, width_for
from selfsort.choose_k.separation import separation_tree
from selfsort.classic.kmeans import kmeans
from selfsort.graph.communities import find_n_communities, in_order, symmetric_affinities
from selfsort.graph.knn import nearest_neighbours
from selfsort.trust.calibration import WEIGHTS, quantities
from selfsort.trust.evidence import gather
from selfsort.types import F32, F64, I64

RECORDS = Path(__file__).parents[1] / "docs" / "records" / "trust.jsonl"
NAMES = (*SEEN, "photos-mixed", "cifar10-test", "tinyimagenet-10")
_MOST_IMAGES, _N_BINS = 2000, 10


@dataclass(frozen=True, eq=False)
class Judged:
    """One clustering: what was seen of each image, and whether it is among its own kind."""

    name: str
    method: str
    k: int
    values: F64
    """(N, quantities)."""
    is_right: I64

    @property
    def dataset(self) -> str:
        """The images, whatever saw them."""
        return self.name.partition("+")[0]


def main() -> None:
    arguments = argparse.ArgumentParser(description="How well the confidence holds.")
    arguments.add_argument("names", nargs="*")
    found = []
    for name in arguments.parse_args().names or NAMES:
        for one in judged(name):
            found.append(one)
            print(f"{one.name} {one.method} {one.k}: {one.is_right.mean():.3f} are right", flush=True)
    fitted = fit(found)
    names = list(WEIGHTS)
    print(dict(zip(names, fitted.coef_[0].round(3).tolist(), strict=True)), fitted.intercept_.round(3))
    lines = [{"kind": "bin", **line} for line in reliability(found)]
    lines += [{"kind": "clustering", **line} for line in left_out(found)]
    RECORDS.parent.mkdir(exist_ok=True)
    RECORDS.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")


def judged(name: str) -> Iterator[Judged]:
    """Cluster a data set in nine ways and look at each."""
    rows, labels = features(name)
    few = np.sort(np.random.default_rng(0).permutation(len(rows))[:_MOST_IMAGES])
    rows, truth = rows[few], np.unique(labels[few], return_inverse=True)[1]
    n_classes = int(truth.max()) + 1
    near = nearest_neighbours(rows, max(WIDTHS), device=CPU)
    for k in sorted({max(2, round(share * n_classes)) for share in (0.7, 1.0, 1.4)}):
        for method, clusters in clusterings(rows, near, k).items():
            number = in_order(clusters)
            evidence = gather(rows, number, int(number.max()) + 1, seed=0, device=CPU)
            values = np.stack(list(quantities(evidence, number).values()), axis=1)
            counts = np.zeros((int(number.max()) + 1, n_classes))
            np.add.at(counts, (number, truth), 1)
            yield Judged(name, method, k, values, (counts.argmax(axis=1)[number] == truth).astype(np.int64))


def clusterings(rows: F32, near: object, k: int) -> dict[str, I64]:
    """Cluster by three methods; their seeds are not those of the second opinions."""
    width = width_for(len(rows), k)
    graph = symmetric_affinities(near, width)  # type: ignore[arg-type]
    tree = separation_tree(graph, rows, smallest=smallest_start(width), seed=3)
    return {
        "kmeans": kmeans(rows, k, seed=3).labels,
        "leiden": find_n_communities(graph, k, rows, seed=3)[0].labels,
        "tree": tree.cut(min(max(k, tree.n_clusters), tree.n_start)),
    }


def fit(some: list[Judged]) -> LogisticRegression:
    """Fit the regression; every clustering counts the same, however many images it has."""
    weight = np.concatenate([np.full(len(one.is_right), 1000 / len(one.is_right)) for one in some])
    values, is_right = np.concatenate([one.values for one in some]), np.concatenate([one.is_right for one in some])
    return LogisticRegression(C=10, max_iter=1000).fit(values, is_right, sample_weight=weight)


def _said_of_others(some: list[Judged]) -> Iterator[tuple[Judged, F64]]:
    """Yield each clustering with what a regression says of it that has not seen its data set."""
    for dataset in dict.fromkeys(one.dataset for one in some):
        fitted = fit([one for one in some if one.dataset != dataset])
        for one in some:
            if one.dataset == dataset:
                yield one, fitted.predict_proba(one.values)[:, 1]


def reliability(some: list[Judged]) -> list[dict[str, float]]:
    """Return, for each tenth of what is said, what is true."""
    pairs = list(_said_of_others(some))
    said, is_right = np.concatenate([p for _, p in pairs]), np.concatenate([one.is_right for one, _ in pairs])
    weight = np.concatenate([np.full(len(p), 1 / len(p)) for _, p in pairs])
    place = np.minimum((said * _N_BINS).astype(int), _N_BINS - 1)
    lines = []
    for here in (place == b for b in range(_N_BINS)):
        if here.any():
            share = float(weight[here].sum() / weight.sum())
            means = (float(np.average(of[here], weights=weight[here])) for of in (said, is_right))
            lines.append(
                {"share": round(share, 4), **dict(zip(("said", "true"), (round(m, 4) for m in means), strict=True))}
            )
    return lines


def left_out(some: list[Judged]) -> list[dict[str, object]]:
    """Return what is said of each clustering as a whole, and what is true."""
    return [
        {
            "name": one.name,
            "method": one.method,
            "k": one.k,
            "said": round(float(said.mean()), 4),
            "true": round(float(one.is_right.mean()), 4),
        }
        for one, said in _said_of_others(some)
    ]


if __name__ == "__main__":
    main()
