"""What mining and scoring triplets costs JULE, and JULE's figures on real data.

`run`: an epoch against the bare network on the same batches, for two networks (USPS, 16 pixels: the cheapest
published one; MNIST, 28 pixels) at three moments of a run: many small clusters, a few dozen, the final ten.

`python -m benchmarks.jule figures [NAME ...]` fits every data set (folder: $SELFSORT_DATA) with three seeds through the
command line and prints the table of docs/methods/jule.md.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn import functional as F

from selfsort.bench.datasets import find_or_exit
from selfsort.learning.batches import PixelTensor, shuffled_batches
from selfsort.learning.seeds import torch_generator
from selfsort.methods.jule import JULEConfig, _Run
from selfsort.types import Images

N = 2000
CPU = torch.device("cpu")

FIGURES = {
    "usps": "usps-9298.npz --clusters 10",
    "mnist-test": "mnist.npz --where split=1 --clusters 10",
    "umist": "umist-32.npz --clusters 20",
    "cmu-pie": "cmu-pie.npz --clusters 68",
    "coil20": "coil20.npz --size 64 --clusters 20",
    "mnist": "mnist.npz --clusters 10",
}
"""Arguments of `selfsort fit` for each row of the table."""


def _ratio(side: int, n_clusters: int, rounds: int) -> float:
    """Return the median over interleaved rounds of our epoch over the bare one."""
    generator = np.random.default_rng(0)
    images = Images(generator.integers(0, 256, (N, side, side, 1)).astype(np.uint8))
    config = JULEConfig(n_clusters=2)
    run = _Run(images, config, CPU, seed=0)
    run.labels = generator.integers(0, n_clusters, N)
    pixels = PixelTensor(images, CPU)
    batches = list(shuffled_batches(N, config.batch_size, torch_generator(0, "order")))
    ready = [pixels.floats(batch) for batch in batches]

    def bare() -> float:
        started = time.perf_counter()
        for x in ready:
            # The sum of the normalised features is a loss that costs next to nothing.
            loss = F.normalize(run.net(x)).sum()
            run.optimizer.zero_grad(set_to_none=True)
            loss.backward()  # type: ignore[no-untyped-call]
            run.optimizer.step()
        return time.perf_counter() - started

    def ours() -> float:
        return run.train_epoch().seconds

    bare(), ours()
    return statistics.median(ours() / bare() for _ in range(rounds))


def run(rounds: int = 7) -> dict[str, float]:
    """Return `jule_epoch_overhead`, the worst of all, and each ratio (goal: at most 1.3)."""
    ratios = {
        f"jule_epoch_{side}px_{n_clusters}_clusters": _ratio(side, n_clusters, rounds)
        for side in (16, 28)
        for n_clusters in (N // 6, 40, 10)
    }
    return {"jule_epoch_overhead": max(ratios.values()), **ratios}


def fit(words: str, seed: int) -> dict[str, Any]:
    """Run `selfsort fit` on a data set and return what it says."""
    file, *rest = words.split()
    with tempfile.TemporaryDirectory() as temporary:
        command = [
            sys.executable,
            "-m",
            "selfsort",
            "fit",
            str(find_or_exit(file)),
            *rest,
            "--method",
            "jule",
            "--json",
        ]
        command += ["--seed", str(seed), "--out", str(Path(temporary) / "run")]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def figures(names: list[str], n_seeds: int = 3) -> None:
    """Print mean and spread over the seeds, RC and SF."""
    print("| data | RC NMI / ACC | SF NMI / ACC | seconds |\n|---|---|---|---|")
    for name in names or [name for name in FIGURES if name != "mnist"]:
        runs = []
        for seed in range(1 if name == "mnist" else n_seeds):
            runs.append(fit(FIGURES[name], seed))
            print(f"{name} seed {seed}: {json.dumps(runs[-1])}", file=sys.stderr, flush=True)
        cells = [
            " / ".join(_spread([run[kind][score] for run in runs]) for score in ("nmi_geometric", "acc"))
            for kind in ("metrics", "metrics_sf")
        ]
        print(f"| {name} | {' | '.join(cells)} | {statistics.mean(run['seconds'] for run in runs):.0f} |", flush=True)


def _spread(values: list[float]) -> str:
    return f"{statistics.mean(values):.3f} ± {statistics.pstdev(values):.3f}"


if __name__ == "__main__":
    if sys.argv[1:2] == ["figures"]:
        figures(sys.argv[2:])
    else:
        for name, value in run().items():
            print(f"{name:34} {value:.3f}")
