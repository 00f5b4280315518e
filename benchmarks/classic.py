"""Every classical method on the real data sets: published against measured, into docs/classic.md.

    python -m benchmarks.classic                        what has not been measured yet, then tables and pictures
    python -m benchmarks.classic --datasets umist usps --methods ac-gdl kmeans
    python -m benchmarks.classic --fresh                everything again
    python -m benchmarks.classic --write                tables and pictures from earlier measurements

Each fit runs in a child process, one at a time, on one thread, with a limit on its processor time. Measurements are
kept in benchmarks/results/classic.json. The data are looked for in SELFSORT_DATA.
"""

from __future__ import annotations

import argparse
import functools
import json
import multiprocessing
import os
import resource
import signal
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from selfsort.types import I64, Images

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "classic.json"
PAGE = ROOT / "docs" / "classic.md"

CPU_LIMIT = 900

N_SEEDS = 3

# On a shared machine several threads wait for each other, which counts as processor time; and a process that has
# started threads must not fork.
ONE_THREAD = {
    **dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1"),
    "NUMBA_THREADING_LAYER": "workqueue",
}

DATASETS = {
    "umist": ("umist-32.npz", None),
    "coil20": ("coil20.npz", None),
    "cmu-pie": ("cmu-pie.npz", None),
    "usps": ("usps-9298.npz", None),
    "mnist-test": ("mnist.npz", 1),
    "coil100": ("coil100-64.npz", None),
}
TITLES = {
    "umist": "UMist",
    "coil20": "COIL-20",
    "cmu-pie": "CMU-PIE",
    "usps": "USPS",
    "mnist-test": "MNIST-test",
    "coil100": "COIL-100",
    "mnist": "MNIST-full",
}


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    method: str
    settings: dict[str, Any] = field(default_factory=dict)
    is_random: bool = False
    is_published: bool = True
    """True if these settings are meant to be those behind the published row."""

    @property
    def name(self) -> str:
        """How the row is called in the table and in the stored measurements."""
        said = ", ".join(f"{key}={_spell(value)}" for key, value in self.settings.items())
        return f"{self.method} ({said})" if said else self.method


def _spell(value: Any) -> str:
    return {True: "yes", False: "no"}.get(value, str(value)) if isinstance(value, bool) else str(value)


ROWS = (
    Row("kmeans", is_random=True),
    Row("kmeans", {"centre": "yes"}, is_random=True),
    Row("sc-njw", is_random=True),
    Row("sc-njw", {"keep_diagonal": False}, is_random=True, is_published=False),
    Row("sc-st", is_random=True),
    Row("sc-st", {"scale_neighbour": 7}, is_random=True, is_published=False),
    Row("sc-ls", is_random=True),
    Row("ncuts", is_random=True),
    Row("ncuts", {"is_squared": False}, is_random=True, is_published=False),
    Row("ac-link"),
    Row("ac-link", {"centre": "yes"}),
    Row("ac-zell", {"absorb": False}),
    Row("ac-zell", {"absorb": False, "centre": "yes"}),
    Row("ac-zell", is_published=False),
    Row("ac-gdl", {"absorb": False}),
    Row("ac-gdl", {"absorb": False, "centre": "yes"}),
    Row("ac-gdl", is_published=False),
    Row("ac-gdl", {"graph": "local", "absorb": False}, is_published=False),
    Row("ac-gdl", {"graph": "local"}, is_published=False),
    Row("ac-gdl", {"graph": "local", "centre": "no"}, is_published=False),
    Row("ac-pic", {"absorb": False}),
    Row("ac-pic", {"absorb": False, "centre": "yes"}),
    Row("ac-pic", is_published=False),
    Row("nmf-lp", is_random=True),
    Row("nmf-lp", {"alpha": 100.0}, is_random=True, is_published=False),
    Row("nmf-d", is_random=True),
    Row("umap-kmeans", is_random=True, is_published=False),
)

ALPHAS = (-0.2, -0.1, 0.0, 0.1, 0.2, 0.3, 0.5)
NEIGHBOURS = (5, 10, 15, 20, 30, 50, 80)


def load(dataset: str) -> tuple[Images, I64]:
    """Read a data set as it lies on the disk."""
    file, split = DATASETS["mnist-test" if dataset == "mnist" else dataset]
    folder = Path(os.environ.get("SELFSORT_DATA", ROOT.parent / "shared" / "data"))
    with np.load(folder / file) as stored:
        images, labels = stored["images"], stored["labels"].astype(np.int64)
        if split is not None and dataset != "mnist":
            kept = stored["split"] == split
            images, labels = images[kept], labels[kept]
    if images.ndim == 3:
        images = images[..., None]
    return Images(np.ascontiguousarray(images)), labels


def method_named(name: str) -> Any:
    """Find a classical method without loading the others."""
    from importlib import import_module

    modules = {
        "kmeans": "kmeans.METHOD",
        "sc-njw": "spectral.NJW",
        "sc-st": "spectral.SELF_TUNING",
        "sc-ls": "spectral.LANDMARK",
        "ncuts": "spectral.NCUTS",
        "ac-link": "linkage.METHOD",
        "ac-gdl": "gdl.METHOD",
        "ac-zell": "path.ZETA",
        "ac-pic": "path.PATH",
        "nmf-lp": "nmf.LOCALITY",
        "nmf-d": "nmf.DEEP",
        "umap-kmeans": "umap.METHOD",
    }
    module, attribute = modules[name].split(".")
    return getattr(import_module(f"selfsort.classic.{module}"), attribute)


@functools.cache
def warm_up(name: str) -> None:
    """Compile what a row needs, on a few drawn shapes."""
    import torch

    from selfsort.data.synthetic import shapes

    row = next(row for row in ROWS if row.name == name)
    method = method_named(row.method)
    config = method.config.from_json({**row.settings, "n_clusters": 4})
    list(method.train(shapes(20, size=12)[0], config, device=torch.device("cpu"), seed=0))


def fit_once(images: Images, truth: I64, row: Row, seed: int) -> dict[str, Any]:
    """Fit and score in this process."""
    import torch

    from selfsort.errors import SelfsortError
    from selfsort.metrics import scores

    method = method_named(row.method)
    config = method.config.from_json({**row.settings, "n_clusters": len(np.unique(truth))})
    begin, begin_cpu = time.perf_counter(), time.process_time()
    try:
        *_, last = method.train(images, config, device=torch.device("cpu"), seed=seed)
    except SelfsortError as error:
        return {"refused": str(error)}
    return {
        **{name: round(value, 5) for name, value in scores(last.labels, truth).items()},
        "seconds": round(time.perf_counter() - begin, 2),
        "cpu_seconds": round(time.process_time() - begin_cpu, 2),
        "peak_memory_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        "event": dict(last.event),
        "warnings": list(last.warnings),
    }


def measure(images: Images, truth: I64, row: Row, seed: int) -> dict[str, Any]:
    """Fit once in a child process."""
    warm_up(row.name)
    context = multiprocessing.get_context("fork")  # the child finds everything imported, compiled and read
    receiver, sender = context.Pipe(duplex=False)

    def child() -> None:
        resource.setrlimit(resource.RLIMIT_CPU, (CPU_LIMIT, CPU_LIMIT + 5))
        sender.send(fit_once(images, truth, row, seed))

    process = context.Process(target=child)
    process.start()
    sender.close()
    try:
        found: dict[str, Any] = receiver.recv()
    except EOFError:
        process.join()
        is_late = process.exitcode in (-signal.SIGXCPU, -signal.SIGKILL)
        return {"refused": f"stopped after {CPU_LIMIT // 60} minutes of processor time" if is_late else "failed"}
    process.join()
    return found


def sweep(dataset: str) -> dict[str, Any]:
    """GDL on raw pixels with each alpha, and with each K_s; neighbours are searched once."""
    from selfsort.classic.method import pixel_features
    from selfsort.graph.affinity import digraph
    from selfsort.graph.agglomerate import agglomerate, nearest_neighbour_components
    from selfsort.graph.knn import nearest_neighbours
    from selfsort.graph.neighbours import Neighbours
    from selfsort.metrics import scores

    images, truth = load(dataset)
    n_clusters = len(np.unique(truth))
    features = pixel_features(images)
    found = nearest_neighbours(features, max(NEIGHBOURS))

    def merge(k_s: int, **settings: Any) -> dict[str, float]:
        neighbours = Neighbours(found.idx[:, :k_s].copy(), found.sq_dist[:, :k_s].copy(), k_s)
        weights, first = digraph(neighbours), nearest_neighbour_components(neighbours)
        begin = time.process_time()
        merged = agglomerate(weights, first, n_clusters, features=features, **settings)
        took = time.process_time() - begin
        return {**scores(merged.labels, truth), "cpu_seconds": took}

    merge(20, absorb=False)  # compile
    alphas = {"exact": merge(20, absorb=False), "size": merge(20, update="approx_size", absorb=False)}
    for alpha in ALPHAS:
        alphas[str(alpha)] = merge(20, update="approx_alpha", alpha=alpha, absorb=False)
    return {
        "alpha": alphas,
        "K_s": {str(k): merge(k) for k in NEIGHBOURS},
        "K_s_plain": {str(k): merge(k, absorb=False) for k in NEIGHBOURS},
    }


def read_results() -> dict[str, Any]:
    """Return what has been measured so far."""
    return json.loads(RESULTS.read_text()) if RESULTS.exists() else {"fits": {}, "sweeps": {}}


def save_results(results: dict[str, Any]) -> None:
    RESULTS.parent.mkdir(exist_ok=True)
    fresh = RESULTS.with_suffix(".new")
    fresh.write_text(json.dumps(results, indent=1, sort_keys=True) + "\n")
    fresh.replace(RESULTS)


def measure_all(datasets: list[str], methods: list[str], is_fresh: bool) -> None:
    """Fill in what is missing; the file is written after every fit."""
    results = read_results()
    for dataset in datasets:
        images, truth = load(dataset)
        for row in (row for row in ROWS if row.method in methods):
            stored = results["fits"].setdefault(dataset, {})
            runs = [] if is_fresh else stored.get(row.name, [])
            n_runs = N_SEEDS if row.is_random else 1
            for seed in range(len(runs), n_runs):
                if runs and "refused" in runs[-1]:
                    break
                runs.append(measure(images, truth, row, seed))
                stored[row.name] = runs
                save_results(results)
                print(f"{TITLES[dataset]:10} {row.name:40} seed {seed}  {_one_line(runs[-1])}", flush=True)
        if is_fresh or dataset not in results["sweeps"]:
            results["sweeps"][dataset] = sweep(dataset)
            save_results(results)
            print(f"{TITLES[dataset]:10} sweeps done", flush=True)


def _one_line(run: dict[str, Any]) -> str:
    if "refused" in run:
        return str(run["refused"])
    return (
        f"NMI {run['nmi_geometric']:.3f}  ACC {run['acc']:.3f}  {run['seconds']:.1f} s, "
        f"{run['cpu_seconds']:.1f} s of processor time, {run['peak_memory_mb']} MB"
    )


def purity_curve(dataset: str, n_ranks: int = 100) -> npt.NDArray[np.float64]:
    """Mean purity of the 1..n nearest neighbours in unit-norm pixels."""
    from selfsort.classic.method import pixel_features
    from selfsort.graph.knn import nearest_neighbours
    from selfsort.metrics import knn_purity

    images, truth = load(dataset)
    neighbours = nearest_neighbours(pixel_features(images), n_ranks)
    return knn_purity(neighbours.idx, truth)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--datasets", nargs="+", choices=DATASETS, default=list(DATASETS))
    parser.add_argument("--methods", nargs="+", default=list(dict.fromkeys(row.method for row in ROWS)))
    parser.add_argument("--fresh", action="store_true", help="measure again what has been measured")
    parser.add_argument("--write", action="store_true", help="measure nothing, write tables and pictures")
    words = parser.parse_args()
    if any(os.environ.get(name) != value for name, value in ONE_THREAD.items()):
        # The libraries read this when they are loaded, so start again.
        command = [sys.executable, "-m", "benchmarks.classic", *sys.argv[1:]]
        os.execve(sys.executable, command, {**os.environ, **ONE_THREAD})
    if not words.write:
        measure_all(words.datasets, words.methods, words.fresh)
    from benchmarks.classic_page import write_page

    write_page(read_results())


if __name__ == "__main__":
    main()
