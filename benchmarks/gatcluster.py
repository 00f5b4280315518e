"""What the two steps of GATCluster cost on top of the bare network, its memory, and its figures on real data.

`run`: step 1 against a bare forward pass, step 2 against a bare forward, backward and update, k-means as a share of an
iteration (all with the CPU-sized recipe, 28 pixels; images are changed beforehand, as published, and for comparison in
step 2, as the recipe does), and the peak memory of one iteration at 192 pixels with M = 1000 over that with M = 100.

`python -m benchmarks.gatcluster figures [NAME ...]` fits every data set (folder: $SELFSORT_DATA) through the command
line and prints the table of docs/methods/gatcluster.md; `--seeds N` and further words of `selfsort fit` may follow.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from selfsort.bench.datasets import find_or_exit
from selfsort.classic.kmeans import kmeans
from selfsort.learning.batches import shuffled_batches
from selfsort.learning.checkpoint import to_numpy
from selfsort.learning.epoch import run_epoch
from selfsort.learning.seeds import torch_generator
from selfsort.methods.gatcluster import GATClusterConfig, _Run, balanced_target
from selfsort.methods.recipes import recipes_of
from selfsort.runs.loop import peak_memory_mb
from selfsort.types import F32, Images

CPU = torch.device("cpu")
N = 1000

FIGURES = {
    "mnist-test": "mnist.npz --where split=1 --size 16 --clusters 10",
    "usps": "usps-9298.npz --clusters 10",
    "cifar10-test": "cifar10-test.npz --clusters 10",
    "tinyimagenet-10": "tinyimagenet-10.npz --size 32 --clusters 10",
}
"""Arguments of `selfsort fit` for each row of the table."""


def _cpu_sized(**changes: Any) -> GATClusterConfig:
    recipe = next(recipe for recipe in recipes_of("gatcluster") if recipe.is_cpu_sized)
    return GATClusterConfig.from_json({"n_clusters": 10, **recipe.settings, **changes})


def run() -> dict[str, float]:
    """Return every ratio; the goals are in `benchmarks.__main__`."""
    return {**_steps(), "gat_memory_growth_192px": _peak(1000) / _peak(100)}


def _steps(n_rounds: int = 5) -> dict[str, float]:
    """Both steps on one large batch, each interleaved with its bare counterpart."""
    images = Images(np.random.default_rng(0).integers(0, 256, (N, 28, 28, 1)).astype(np.uint8))
    config = _cpu_sized(M=N, repeats=1, iterations=1, augment_once=True)
    state = _Run(images, config, CPU, seed=0)
    rows = torch.arange(N)
    floats = [state.pixels.floats(part) for part in torch.split(rows, config.m1)]

    def bare_first() -> None:
        state.net.eval()
        with torch.inference_mode():
            for x in floats:
                state.net.label(x)

    def ours_first() -> None:
        features = state.label_features(rows)
        balanced_target(features, 1), balanced_target(features, 2)

    state.pool = state.prepare_pool(0)
    assert state.pool.views is not None
    batches = list(shuffled_batches(N, config.m2, torch_generator(0, "order"), drop_last=True))
    ready = [state.pool.views[batch].float() / 255 for batch in batches]

    def bare_second() -> None:
        state.net.train()
        for x in ready:
            l_BK, la_BK = state.net(x)
            # A loss that costs next to nothing and reaches every weight.
            state.optimizer.zero_grad(set_to_none=True)
            (l_BK[:, 0].sum() + la_BK[:, 0].sum()).backward()
            state.optimizer.step()

    def ours_second() -> None:
        state.net.train()
        run_epoch(state.loss, batches, state.optimizer)

    once = state.pool
    anew = replace(once, views=None)

    def with_changes() -> None:
        state.pool = anew
        ours_second()
        state.pool = once

    features: F32 = to_numpy(balanced_target(state.label_features(rows), 2))
    k_means = statistics.median(
        _seconds(lambda: kmeans(features, 10, seed=0, n_restarts=config.n_restarts)) for _ in range(n_rounds)
    )
    second = statistics.median(_seconds(ours_second) for _ in range(n_rounds))
    n_repeats = _cpu_sized().repeats
    iteration = _seconds(lambda: state.prepare_pool(1)) + n_repeats * second
    return {
        "gat_step1_overhead": _ratio(ours_first, bare_first, n_rounds),
        "gat_step2_overhead": _ratio(ours_second, bare_second, n_rounds),
        "gat_step2_with_changes": _ratio(with_changes, bare_second, n_rounds),
        "gat_kmeans_share": k_means / iteration,
    }


def _seconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def _ratio(ours: Callable[[], None], bare: Callable[[], None], n_rounds: int) -> float:
    _seconds(bare), _seconds(ours)
    return statistics.median(_seconds(ours) / _seconds(bare) for _ in range(n_rounds))


def _peak(large_batch: int) -> float:
    """Peak memory in MB of one whole iteration, in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.gatcluster", "one-iteration", str(large_batch)]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def one_iteration(large_batch: int) -> None:
    """Go through both steps at 192 pixels on 1,000 images, whatever M is, and print the peak.

    Few channels and small parts make the network's own memory small, and changing images once for all repeats keeps
    them in memory: both are the harder case.
    """
    images = Images(np.random.default_rng(0).integers(0, 256, (N, 192, 192, 3), dtype=np.uint8))
    config = _cpu_sized(M=large_batch, m1=16, m2=16, repeats=1, iterations=1, width=0.0625, augment_once=True)
    _Run(images, config, CPU, seed=0).learn()
    print(peak_memory_mb())


def fit(words: str, seed: int, further: list[str]) -> dict[str, Any]:
    """Run `selfsort fit` on a data set and return what it says."""
    file, *rest = words.split()
    with tempfile.TemporaryDirectory() as temporary:
        command = [sys.executable, "-m", "selfsort", "fit", str(find_or_exit(file)), *rest, "--method", "gatcluster"]
        command += ["--json", "--seed", str(seed), "--out", str(Path(temporary) / "run"), *further]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def figures(words: list[str]) -> None:
    """Print mean and spread over the seeds."""
    n_seeds = int(words[words.index("--seeds") + 1]) if "--seeds" in words else 3
    names = [word for word in words if word in FIGURES] or list(FIGURES)
    further = words[words.index("--set") :] if "--set" in words else []
    print("| data | NMI geometric | ACC | ARI | seconds |\n|---|---|---|---|---|")
    for name in names:
        runs = []
        for seed in range(n_seeds):
            runs.append(fit(FIGURES[name], seed, further))
            print(f"{name} seed {seed}: {json.dumps(runs[-1])}", file=sys.stderr, flush=True)
        cells = [_spread([run["metrics"][score] for run in runs]) for score in ("nmi_geometric", "acc", "ari")]
        seconds = statistics.mean(run["seconds"] for run in runs)
        print(f"| {name} | {' | '.join(cells)} | {seconds:.0f} |", flush=True)


def _spread(values: list[float]) -> str:
    return f"{statistics.mean(values):.3f} ± {statistics.pstdev(values):.3f}"


if __name__ == "__main__":
    if sys.argv[1:2] == ["figures"]:
        figures(sys.argv[2:])
    elif sys.argv[1:2] == ["one-iteration"]:
        one_iteration(int(sys.argv[2]))
    else:
        for name, value in run().items():
            print(f"{name:34} {value:.3f}")
