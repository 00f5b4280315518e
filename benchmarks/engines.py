"""Which search for neighbours: recall of 20, seconds to build and to ask, and memory, on the rows of a million digits.

    python -m benchmarks.engines --n 70000            every engine that is installed
    python -m benchmarks.engines --n 1000000 --only usearch pynndescent

The rows are those of `benchmarks.scale`. Every engine has a process of its own and one thread, so its memory is its
own. Engines with a knob (how widely they look) are turned up until 99 of 100 true neighbours of 1,000 rows are found,
as selfsort does it. Seconds are those of the processor; where asking can be timed alone, 20,000 rows are asked for and
the time is scaled to all. docs/records/scale.jsonl keeps the lines that docs/scale.md is made from.
"""

from __future__ import annotations

import argparse
import importlib
import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from benchmarks.repeated import features_of, load

from selfsort.graph.approximate import RECALL, approximate_neighbours
from selfsort.graph.knn import nearest_neighbours
from selfsort.runs.loop import peak_memory_mb
from selfsort.types import F32, I64, Json

ROOT = Path(__file__).parents[1]
N_NEIGHBOURS, N_SAMPLE, N_TIMED = 20, 1000, 20_000
EFFORTS = (32, 48, 64, 96, 128, 192, 256)

Ask = Callable[[F32, int], I64]
"""The nearest of all rows to some, these among them, with an effort."""


def faiss_graph(rows: F32) -> Ask:
    """HNSW of faiss, 16 links."""
    faiss = importlib.import_module("faiss")
    faiss.omp_set_num_threads(1)
    index = faiss.IndexHNSWFlat(rows.shape[1], 16)
    index.hnsw.efConstruction = 40
    index.add(rows)

    def ask(wanted: F32, effort: int) -> I64:
        index.hnsw.efSearch = effort
        found: I64 = index.search(wanted, N_NEIGHBOURS + 1)[1]
        return found

    return ask


def usearch_graph(rows: F32) -> Ask:
    """HNSW of usearch, 16 links."""
    module = importlib.import_module("usearch.index")
    index = module.Index(ndim=rows.shape[1], metric="l2sq", dtype="f32", connectivity=16, expansion_add=64)
    index.add(np.arange(len(rows)), rows, threads=1)

    def ask(wanted: F32, effort: int) -> I64:
        index.expansion_search = effort
        found: I64 = index.search(wanted, N_NEIGHBOURS + 1, threads=1).keys.astype(np.int64)
        return found

    return ask


def exact(rows: F32) -> I64:
    return nearest_neighbours(rows, N_NEIGHBOURS).idx


def inverted_file(rows: F32) -> I64:
    """What selfsort does: it raises its effort by itself."""
    return approximate_neighbours(rows, N_NEIGHBOURS).idx


def descent(rows: F32) -> I64:
    """Pynndescent, whose index is the graph of neighbours itself."""
    index = importlib.import_module("pynndescent").NNDescent(rows, n_neighbors=30, random_state=0, n_jobs=1)
    found: I64 = index.neighbor_graph[0].astype(np.int64)
    return found


WHOLE: dict[str, Callable[[F32], I64]] = {
    "exact": exact,
    "faiss, inverted file": inverted_file,
    "pynndescent": descent,
}
"""Engines that answer for all rows at once."""
INDEXED: dict[str, Callable[[F32], Ask]] = {"faiss, HNSW": faiss_graph, "usearch": usearch_graph}
"""Engines that are built, and then asked."""


def measure(name: str, n: int) -> Json:
    """Measure one engine."""
    torch.set_num_threads(1)
    rows, _ = features_of(load(), n)
    sample = np.sort(np.random.default_rng(0).choice(n, min(N_SAMPLE, n), replace=False))
    near = nearest_neighbours(rows, N_NEIGHBOURS + 1, queries=rows[sample]).idx
    (WHOLE | INDEXED)[name](rows[:2000])  # what is compiled at first use
    begin = time.process_time()
    if name in WHOLE:
        found = WHOLE[name](rows)[sample]
        told: Json = {"seconds": time.process_time() - begin, "recall": recall(found, near, sample)}
    else:
        ask = INDEXED[name](rows)
        told = {"build": time.process_time() - begin}
        for effort in EFFORTS:
            begin = time.process_time()
            found = ask(rows[:N_TIMED], effort)
            asked = (time.process_time() - begin) * n / len(found)
            told |= {"seconds": told["build"] + asked, "recall": recall(ask(rows[sample], effort), near, sample)}
            told["remark"] = f"looks at {effort}"
            if told["recall"] >= RECALL:
                break
    rounded = {key: round(value, 4) if isinstance(value, float) else value for key, value in told.items()}
    return {"engine": name, "n": n, **rounded, "peak_mb": peak_memory_mb()}


def recall(found: I64, near: I64, sample: I64) -> float:
    """Return the share of the true neighbours that were found.

    Args:
        found: (S, K or more) rows found for the sample, perhaps themselves among them.
        near: (S, K + 1) the nearest rows, themselves among them.
        sample: (S,) which rows these are.
    """
    shares = []
    for row, some, true in zip(sample, found, near, strict=True):
        others = [set(ids[ids != row][:N_NEIGHBOURS].tolist()) for ids in (some, true)]
        shares.append(len(others[0] & others[1]) / N_NEIGHBOURS)
    return float(np.mean(shares))


def main(words: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.engines")
    parser.add_argument("--n", type=int, default=70_000)
    parser.add_argument("--only", nargs="*", choices=[*WHOLE, *INDEXED], default=[*WHOLE, *INDEXED])
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    asked: Any = parser.parse_args(words)
    if asked.one:
        print(json.dumps(measure(asked.only[0], asked.n)))
        return
    for name in asked.only:
        command = [sys.executable, "-m", "benchmarks.engines", "--one", "--n", str(asked.n), "--only", name]
        done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
        print(done.stdout.strip() or f"{name}: not installed, or it failed", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
