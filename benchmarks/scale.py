"""`make bench-scale`: from features of a million digits to their clusters; seconds, share, memory and growth by stage.

    python -m benchmarks.scale --n 1000000            the table for n, n / 10 and n / 100, and the exponents between
    python -m benchmarks.scale --n 100000 --others    MiniBatchKMeans, HDBSCAN, EVoC on the same rows, 20 minutes each

The digits are those of `benchmarks.repeated`. Every size runs in a process of its own, so that its peak memory is its
own. Seconds are those of the processor: on an idle machine with one thread they are those of the clock. The result is
written to benchmarks/results as JSON; docs/records/scale.jsonl keeps what docs/scale.md is made from.
"""

from __future__ import annotations

import argparse
import importlib
import json
import math
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from benchmarks.repeated import features_of, load

from selfsort.classic.kmeans import kmeans
from selfsort.graph.affinity import digraph
from selfsort.graph.agglomerate import agglomerate, nearest_neighbour_components
from selfsort.graph.approximate import EXACT_LIMIT, approximate_neighbours
from selfsort.graph.communities import find_n_communities, symmetric_affinities
from selfsort.graph.knn import nearest_neighbours
from selfsort.metrics.external import accuracy
from selfsort.runs.loop import peak_memory_mb
from selfsort.types import F32, I64

ROOT = Path(__file__).parents[1]
N_NEIGHBOURS, N_CLUSTERS = 20, 10
STAGES = ("features", "neighbours", "graph", "communities")
"""What leiden does; "merging", which is timed after it, is what ac-gdl does with the same neighbours."""
_WARM_UP = 600


class Clock:
    """Seconds of the processor and of the wall, and the largest memory so far, by stage."""

    def __init__(self) -> None:
        self.stages: dict[str, dict[str, float]] = {}

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Time a block."""
        begin, began = time.process_time(), time.perf_counter()
        yield
        self.stages[name] = {
            "seconds": round(time.process_time() - begin, 2),
            "wall": round(time.perf_counter() - began, 2),
            "peak_mb": peak_memory_mb() or math.nan,
        }
        print(name, self.stages[name], file=sys.stderr, flush=True)


def measure(n: int) -> dict[str, Any]:
    """Sort n images as a million are sorted, and say what each stage took and how good it is."""
    digits = load()
    warm_up(digits.pixels[:_WARM_UP].reshape(_WARM_UP, -1).astype(np.float32))
    clock = Clock()
    with clock.stage("features"):
        features, classes = features_of(digits, n)
    del digits
    with clock.stage("neighbours"):
        neighbours = approximate_neighbours(features, N_NEIGHBOURS)
    with clock.stage("graph"):
        graph = symmetric_affinities(neighbours)
    with clock.stage("communities"):
        found, start = find_n_communities(graph, N_CLUSTERS, features, condensed_above=0)
    print("ACC", accuracy(found.labels, classes), neighbours.event, file=sys.stderr, flush=True)
    n_arcs = int(graph.nnz)
    del graph
    with clock.stage("merging"):
        weights, first = digraph(neighbours), nearest_neighbour_components(neighbours)
        merged = agglomerate(weights, first, N_CLUSTERS, features=features)
    return {
        "n": n,
        "stages": clock.stages,
        "recall": neighbours.recall,
        "arcs": n_arcs,
        "communities": start.n_clusters,
        "acc": round(accuracy(found.labels, classes), 4),
        "acc_merging": round(accuracy(merged.labels, classes), 4),
        "threads": torch.get_num_threads(),
    }


def warm_up(rows: F32) -> None:
    """Compile, so that no timing contains it."""
    near = nearest_neighbours(rows, N_NEIGHBOURS)
    find_n_communities(symmetric_affinities(near), 3, rows, condensed_above=0)
    agglomerate(digraph(near), nearest_neighbour_components(near), 3, features=rows)
    approximate_neighbours(rows, N_NEIGHBOURS)


def others(n: int, only: list[str], cpu_seconds: int) -> dict[str, Any]:
    """Cluster the same features with what others offer, each in a process of its own and within so much time.

    One that is not installed is left out.
    """
    found: dict[str, Any] = {}
    for name in only or PEERS:
        command = [sys.executable, "-m", "benchmarks.scale", "--one", "--n", str(n), "--others", name]
        done = subprocess.run(
            ["prlimit", f"--cpu={cpu_seconds}:{cpu_seconds + 60}", *command],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            text=True,
            check=False,
        )
        if done.returncode == -signal.SIGXCPU:
            found[name] = {"refused": f"not ended after {cpu_seconds / 60:.1f} minutes of processor time"}
        elif done.returncode == 0:
            found[name] = json.loads(done.stdout.splitlines()[-1])
        else:
            print(f"{name} is not installed, or it failed", file=sys.stderr)
            continue
        print(f"{name:18} {found[name]}", file=sys.stderr, flush=True)
    return {"n": n, "others": found}


def other(n: int, name: str) -> dict[str, Any]:
    """Cluster the features with one of the others."""
    features, classes = features_of(load(), n)
    PEERS[name](features[:_WARM_UP])  # what is compiled at first use
    clock = Clock()
    with clock.stage(name):
        labels = PEERS[name](features)
    return {
        **clock.stages[name],
        "clusters": len(np.unique(labels[labels >= 0])),
        "acc": round(accuracy(labels, classes), 4),
    }


def mini_batch_kmeans(features: F32) -> I64:
    module = importlib.import_module("sklearn.cluster")
    labels: I64 = module.MiniBatchKMeans(N_CLUSTERS, random_state=0, n_init=3).fit_predict(features)
    return labels.astype(np.int64)


def evoc(features: F32) -> I64:
    labels: I64 = importlib.import_module("evoc").EVoC(random_state=0).fit_predict(features)
    return labels.astype(np.int64)


def hdbscan(features: F32) -> I64:
    module = importlib.import_module("sklearn.cluster")
    labels: I64 = module.HDBSCAN(min_cluster_size=max(5, len(features) // 200), copy=True).fit_predict(features)
    return labels.astype(np.int64)


def our_kmeans(features: F32) -> I64:
    return kmeans(features, N_CLUSTERS, seed=0, n_restarts=3).labels


PEERS: dict[str, Callable[[F32], I64]] = {
    "our k-means": our_kmeans,
    "MiniBatchKMeans": mini_batch_kmeans,
    "EVoC": evoc,
    "HDBSCAN": hdbscan,
}


def exponents(results: list[dict[str, Any]]) -> dict[str, float]:
    """Fit time = c n^p to each stage and to their sum."""
    sizes = np.log([result["n"] for result in results])
    fitted = {}
    for name in (*STAGES, "merging", "all"):
        taken = [seconds_of(result, name) for result in results]
        fitted[name] = round(float(np.polyfit(sizes, np.log(np.maximum(taken, 0.01)), 1)[0]), 3)
    return fitted


def seconds_of(result: dict[str, Any], name: str) -> float:
    """Return the seconds of a stage, or of all of them."""
    return float(sum(result["stages"][stage]["seconds"] for stage in (STAGES if name == "all" else (name,))))


def table(results: list[dict[str, Any]]) -> str:
    """Return what is printed: the largest size, stage by stage, and how each stage grows."""
    last = results[-1]
    growth = exponents(results) if len(results) > 1 else {}
    lines = [f"{last['n']:,} images, recall {last['recall']}, ACC {last['acc']}"]
    lines.append(f"{'stage':14} {'seconds':>9} {'share':>7} {'peak MB':>9} {'exponent':>9}")
    for name in (*STAGES, "all", "merging"):
        seconds = seconds_of(last, name)
        peak = last["stages"][STAGES[-1] if name == "all" else name]["peak_mb"]
        share = seconds / max(seconds_of(last, "all"), 0.01)
        lines.append(f"{name:14} {seconds:9.1f} {share:7.2f} {peak:9.0f} {growth.get(name, math.nan):9.2f}")
    searched = max(seconds_of(last, "neighbours"), 0.01)
    grouped = seconds_of(last, "graph") + seconds_of(last, "communities")
    lines.append(
        f"over the search: communities {grouped / searched:.2f}, merging {seconds_of(last, 'merging') / searched:.2f}"
    )
    lines.append(f"peak bytes per image: {1e6 * last['stages'][STAGES[-1]]['peak_mb'] / last['n']:,.0f}")
    lines.append("ACC: " + ", ".join(f"{result['n']:,}: {result['acc']}" for result in results))
    return "\n".join(lines)


def in_a_process(*words: str) -> dict[str, Any]:
    """Run one measurement in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.scale", "--one", *words]
    done = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def run(n: int, sizes: list[int] | None = None) -> list[dict[str, Any]]:
    """Measure every size, smallest first."""
    results = []
    for size in sizes or [n // 100, n // 10, n]:
        results.append(in_a_process("--n", str(size)))
        print(table(results), flush=True)
    return results


def main(words: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale")
    parser.add_argument("--n", type=int, default=1_000_000)
    parser.add_argument("--sizes", type=int, nargs="*", help="instead of n / 100, n / 10 and n")
    parser.add_argument("--others", nargs="*", help="other libraries on the same features: all, or those named")
    parser.add_argument("--minutes", type=float, default=20.0, help="of the processor, that each of the others has")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args(words)
    if asked.others is not None:
        one_other = asked.one and asked.others
        told: Any = (
            other(asked.n, asked.others[0]) if one_other else others(asked.n, asked.others, round(asked.minutes * 60))
        )
    else:
        told = measure(asked.n) if asked.one else run(asked.n, asked.sizes)
    if asked.one:
        print(json.dumps(told))
        return
    folder = ROOT / "benchmarks" / "results"
    folder.mkdir(exist_ok=True)
    path = folder / f"scale-{time.strftime('%Y%m%d-%H%M%S')}.json"
    path.write_text(json.dumps(told, indent=2) + "\n")
    print(json.dumps(told))
    print(f"written: {path.relative_to(ROOT)} (exact up to {EXACT_LIMIT:,} images)")


if __name__ == "__main__":
    main(sys.argv[1:])
