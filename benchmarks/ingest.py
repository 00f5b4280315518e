"""How fast and how lean a folder of photographs becomes one array.

Rate: `read_source` (list, choose the shape, decode in threads, account, fingerprint) against two processes
that do nothing but open, draft, resize and store, with their start-up left out. Both cut and scale in one
step with the same filter. The two alternate, and the median of the paired ratios counts.
Memory: the peak of a fresh process that reads the folder, whole, as the system counts it.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import numpy as np
from PIL import Image

from selfsort.data import read_source

N, WIDTH, HEIGHT, SIDE = 3000, 500, 375, 96
ROUNDS = 5
MEGABYTE = 1e6
FREE_MEGABYTES = 300.0
ALLOWED_SHARE = 1.3


def make_photographs(folder: Path, n: int = N) -> None:
    """Write JPEGs that cost what photographs cost: broad colours, grain, quality 85 (about 40 kB each)."""
    grain = np.random.default_rng(0).normal(0, 8, (HEIGHT * WIDTH * 3)).astype(np.float32)

    def make(number: int) -> None:
        generator = np.random.default_rng(number)
        broad = Image.fromarray(generator.integers(0, 256, (6, 8, 3), dtype=np.uint8))
        base = np.asarray(broad.resize((WIDTH, HEIGHT), Image.Resampling.BICUBIC), np.float32)
        noisy = base + np.roll(grain, generator.integers(grain.size)).reshape(base.shape)
        Image.fromarray(np.clip(noisy, 0, 255).astype(np.uint8)).save(folder / f"{number:05d}.jpg", quality=85)

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(make, range(n)))


def bare_loop(paths: list[str]) -> int:
    """Do the least that gives the same pixels."""
    out = np.empty((len(paths), SIDE, SIDE, 3), np.uint8)
    for row, path in enumerate(paths):
        with Image.open(path) as picture:
            picture.draft("RGB", (SIDE * WIDTH // HEIGHT, SIDE))
            width, height = picture.size
            left = (width - height) / 2
            square = (left, 0.0, left + height, float(height))
            out[row] = np.asarray(picture.resize((SIDE, SIDE), Image.Resampling.BILINEAR, box=square))
    return len(out)


def measure_rates(folder: Path) -> list[float]:
    """Return our rate over the bare rate, pair by pair."""
    paths = sorted(str(path) for path in folder.iterdir())
    ratios = []
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:

        def bare() -> float:
            start = time.perf_counter()
            assert sum(pool.map(bare_loop, [paths[0::2], paths[1::2]])) == len(paths)
            return time.perf_counter() - start

        def ours() -> float:
            start = time.perf_counter()
            assert len(read_source(folder, size=SIDE)) == len(paths)
            return time.perf_counter() - start

        bare(), ours()  # both processes up, files in the cache
        for number in range(ROUNDS):
            if number % 2:
                own, other = ours(), bare()
            else:
                other, own = bare(), ours()
            ratios.append(other / own)
    return ratios


def peak_megabytes() -> float:
    """Return the peak of this process; the resource module would also count the parent it was forked from."""
    status = Path("/proc/self/status")
    if status.exists():
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) * 1024 / MEGABYTE
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak * (1 if sys.platform == "darwin" else 1024) / MEGABYTE


def measure_memory(folder: Path) -> dict[str, float]:
    """Read the folder in a fresh process and return what it needed."""
    command = [sys.executable, "-m", "benchmarks.ingest", "--child", str(folder)]
    root = Path(__file__).parents[1]
    done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=root)
    return {name: float(value) for name, value in json.loads(done.stdout).items()}


def read_in_child(folder: Path) -> None:
    before = peak_megabytes()
    result = read_source(folder, size=SIDE).images.pixels.nbytes / MEGABYTE
    print(json.dumps({"before": before, "peak": peak_megabytes(), "result": result}))


def run() -> dict[str, float]:
    """Return the ratios.

    `ingest_rate_ratio`: our rate over the bare one (goal: at least 0.8).
    `ingest_peak_memory_ratio`: peak over 1.3 of the result plus 300 MB (goal: at most 1).
    `ingest_peak_growth_ratio`: growth of the peak while reading, over the result (for information).
    """
    with tempfile.TemporaryDirectory(prefix="selfsort-bench-") as name:
        folder = Path(name)
        make_photographs(folder)
        memory = measure_memory(folder)
        ratios = measure_rates(folder)
    allowed = ALLOWED_SHARE * memory["result"] + FREE_MEGABYTES
    return {
        "ingest_rate_ratio": statistics.median(ratios),
        "ingest_rate_ratio_lowest": min(ratios),
        "ingest_peak_memory_ratio": memory["peak"] / allowed,
        "ingest_peak_growth_ratio": (memory["peak"] - memory["before"]) / memory["result"],
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--child", type=Path, help="read this folder and print the memory it took")
    arguments = parser.parse_args()
    if arguments.child is not None:
        read_in_child(arguments.child)
    else:
        print(json.dumps(run(), indent=2))
