"""Neighbour search and merging against plain yardsticks of the same run, on MNIST.

Everything is a ratio, so that the numbers mean the same on any machine. Run: python -m benchmarks.graph
The data are looked for in the folder that SELFSORT_DATA names.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import torch

from selfsort.bench.datasets import find_or_exit
from selfsort.choose_k.search import LIST_LENGTH, choose_k
from selfsort.graph.affinity import digraph, unit_rows
from selfsort.graph.agglomerate import agglomerate, nearest_neighbour_components
from selfsort.graph.approximate import approximate_neighbours
from selfsort.graph.knn import nearest_neighbours
from selfsort.graph.neighbours import Neighbours
from selfsort.types import F32

N_NEIGHBOURS = 20
SIZES = (10_000, 20_000, 40_000, 70_000)


def run() -> dict[str, float]:
    features = load()
    warm_up(features)
    results: dict[str, float] = {}
    for section in (neighbour_search, merging, counting, against_oracle, approximate, peak_memory):
        for name, value in section(features).items():
            print(f"{name:32} {value:9.3f}", flush=True)
            results[name] = value
    return results


def load() -> F32:
    with np.load(find_or_exit("mnist")) as archive:
        return unit_rows(archive["images"])


def warm_up(features: F32) -> None:
    """Compile, so that no timing contains it."""
    merge(nearest_neighbours(features[:500], N_NEIGHBOURS), features[:500])


def seconds(task: Callable[[], object], n_repeats: int = 1, clock: Callable[[], float] = time.perf_counter) -> float:
    """Return the best of a few timings: whatever else the machine does only adds."""
    times = []
    for _ in range(n_repeats):
        begin = clock()
        task()
        times.append(clock() - begin)
    return min(times)


def bare_product(features: F32) -> None:
    """Multiply the features with themselves in blocks, and forget the product: the yardstick of the exact search."""
    rows = torch.from_numpy(features)
    block = torch.empty((2000, len(rows)))
    for start in range(0, len(rows), 2000):
        torch.mm(rows[start : start + 2000], rows.T, out=block[: len(rows[start : start + 2000])])


def merge(neighbours: Neighbours, features: F32) -> None:
    """Build the graph and merge down to ten clusters."""
    weights = digraph(neighbours, "global")
    agglomerate(weights, nearest_neighbour_components(neighbours), 10, absorb=False, features=features)


def neighbour_search(features: F32) -> dict[str, float]:
    part = features[:30_000]
    bare, ours = [], []
    for _ in range(3):  # in turns: a busy minute hits both
        bare.append(seconds(lambda: bare_product(part)))
        ours.append(seconds(lambda: nearest_neighbours(part, N_NEIGHBOURS)))
    return {"knn_over_product_30000": min(ours) / min(bare), "knn_seconds_30000": min(ours)}


def merging(features: F32) -> dict[str, float]:
    search_seconds, merge_seconds = 0.0, []
    for n_items in SIZES:
        begin = time.perf_counter()
        neighbours = nearest_neighbours(features[:n_items], N_NEIGHBOURS)
        search_seconds = time.perf_counter() - begin
        # Merging runs in one thread: on an idle machine its processor time is its time.
        task = partial(merge, neighbours, features[:n_items])
        merge_seconds.append(seconds(task, n_repeats=7, clock=time.process_time))
    slope, _ = np.polyfit(np.log(SIZES), np.log(merge_seconds), 1)
    # n log n itself has the slope 1 + 1 / log n, about 1.1 in this range.
    return {
        "merge_over_knn_70000": merge_seconds[-1] / search_seconds,
        "merge_seconds_70000": merge_seconds[-1],
        "merge_time_exponent": float(slope),
    }


def counting(features: F32) -> dict[str, float]:
    """Time the rule for the number of clusters, given neighbours, beside the search for these."""
    clock = time.process_time  # of all threads: the search has several, the rule one
    begin = clock()
    neighbours = nearest_neighbours(features, LIST_LENGTH)
    searched = clock()
    found = choose_k(features, seed=0, device=torch.device("cpu"), neighbours=neighbours)
    took = clock() - searched
    print(f"{found.k} clusters found, {found.near} nearly as good")
    return {"choose_k_over_knn_70000": took / (searched - begin), "choose_k_seconds_70000": took}


def against_oracle(features: F32) -> dict[str, float]:
    from tests.oracles import graph_agglomerate as oracle

    neighbours = nearest_neighbours(features[-3000:], N_NEIGHBOURS)
    weights, labels = digraph(neighbours, "global"), nearest_neighbour_components(neighbours)
    dense = weights.toarray()
    ours = seconds(lambda: agglomerate(weights, labels, 10, absorb=False), n_repeats=5)
    return {"oracle_over_merge_3000": seconds(lambda: oracle.agglomerate(dense, labels, 10)) / ours}


def approximate(features: F32) -> dict[str, float]:
    part = features[:30_000]
    exact = nearest_neighbours(part, N_NEIGHBOURS)
    begin = time.perf_counter()
    found = approximate_neighbours(part, N_NEIGHBOURS)
    took = time.perf_counter() - begin
    shared = [len(np.intersect1d(a, b)) for a, b in zip(exact.idx, found.idx, strict=True)]
    return {"approximate_recall_30000": float(np.mean(shared)) / N_NEIGHBOURS, "approximate_seconds_30000": took}


def peak_memory(_: F32) -> dict[str, float]:
    """Search and merge 70,000 images in a process of its own; return its peak in gigabytes, interpreter included."""
    script = (
        "import json, resource\n"
        "from benchmarks.graph import load, merge, nearest_neighbours, N_NEIGHBOURS\n"
        "features = load()\n"
        "merge(nearest_neighbours(features, N_NEIGHBOURS), features)\n"
        "print(json.dumps(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss))\n"
    )
    root = Path(__file__).parents[1]
    done = subprocess.run([sys.executable, "-c", script], cwd=root, check=True, capture_output=True, text=True)
    unit = 1 if sys.platform == "darwin" else 1024
    return {"merge_peak_memory_gb_70000": float(json.loads(done.stdout)) * unit / 1e9}


if __name__ == "__main__":
    run()
