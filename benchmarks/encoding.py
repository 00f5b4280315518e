"""What it costs to get features from a folder of photographs, in processor seconds: load stretches them least.

Ours: `read_source` at the encoder's size, then `plain_features`. Bare: nothing but draft, cut and resize of each file,
and nothing but the network on tensors that are ready; as many threads as ours has, their seconds added. Everything is
repeated in turn, and the least of each counts.

Beside it, on the same folder: the loop that anybody would write around onnxruntime, and clustimage up to its features
(principal components, no network), run by the Python that the variable CLUSTIMAGE_PYTHON names.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import torch
from PIL import Image
from sklearn.datasets import load_sample_images

from selfsort.data import read_source
from selfsort.encoders.encode import plain_features
from selfsort.encoders.weights import PUBLISHED, open_published, read_weights
from selfsort.nets.efficientnet import EfficientNetLite, folded
from selfsort.nets.trace import as_onnx
from selfsort.types import F32, U8

N, WIDTH, HEIGHT = 300, 1200, 900
ROUNDS, BATCH = 5, 32
ENCODER = PUBLISHED["lite0"]
SIDE = ENCODER.shape[0]
VARIABLE = "CLUSTIMAGE_PYTHON"

# What clustimage does until it has features; run by a Python of its own, so nothing of ours may be imported.
_CLUSTIMAGE = """
import json, sys, time
from clustimage import Clustimage
print("begin", file=sys.stderr)
found = {"wall": 1e9, "cpu": 1e9}
for _ in range(int(sys.argv[2])):
    wall, cpu = time.perf_counter(), time.process_time()
    clusters = Clustimage(method="pca", dirpath=sys.argv[3], verbose="critical")
    clusters.extract_feat(clusters.import_data(sys.argv[1]))
    taken = {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu}
    assert len(clusters.results["feat"]) == int(sys.argv[4])
    found = {name: min(found[name], taken[name]) for name in found}
print(json.dumps(found))
"""


@dataclass
class Taken:
    """The least seconds that something took so far."""

    cpu: float = float("inf")
    wall: float = float("inf")

    def run(self, work: Callable[[], object]) -> None:
        """Do it once more."""
        wall, cpu = time.perf_counter(), time.process_time()
        work()
        self.cpu = min(self.cpu, time.process_time() - cpu)
        self.wall = min(self.wall, time.perf_counter() - wall)


def make_photographs(folder: Path, n: int = N) -> None:
    """Write crops of two photographs, in other light and with grain, as JPEGs of about 200 kB."""
    photographs = [Image.fromarray(pixels) for pixels in load_sample_images().images]
    grain = np.random.default_rng(0).normal(0, 5, HEIGHT * WIDTH * 3).astype(np.float32)

    def make(number: int) -> None:
        generator = np.random.default_rng(number)
        photograph = photographs[number % 2]
        width = int(generator.integers(240, 560))
        height = width * HEIGHT // WIDTH
        left, top = (int(generator.integers(0, most + 1)) for most in (640 - width, 427 - height))
        crop = photograph.resize((WIDTH, HEIGHT), Image.Resampling.BICUBIC, box=(left, top, left + width, top + height))
        light = generator.uniform(0.7, 1.2, 3).astype(np.float32)
        pixels = np.asarray(crop, np.float32) * light + np.roll(grain, generator.integers(grain.size)).reshape(
            HEIGHT, WIDTH, 3
        )
        Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8)).save(folder / f"{number:05d}.jpg", quality=85)

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(make, range(n)))


def bare_decode(path: Path) -> U8:
    """Do the least that gives the pixels."""
    with Image.open(path) as picture:
        picture.draft("RGB", (SIDE * WIDTH // HEIGHT, SIDE))
        width, height = picture.size
        left = (width - height) / 2
        square = (left, 0.0, left + height, float(height))
        return np.asarray(picture.resize((SIDE, SIDE), Image.Resampling.BILINEAR, box=square))


def ready(pixels_NHWC: U8) -> F32:
    """Return pictures as the network takes them."""
    return np.ascontiguousarray(pixels_NHWC.transpose(0, 3, 1, 2), np.float32) / np.float32(255)


def plain_loop(session: Any, paths: list[Path]) -> F32:
    """Open, resize, stack, run: batches, whole pictures decoded, all threads at every layer."""
    found = []
    for start in range(0, len(paths), BATCH):
        opened = [Image.open(path).convert("RGB").resize((SIDE, SIDE)) for path in paths[start : start + BATCH]]
        found.append(session.run(None, {"images": ready(np.stack([np.asarray(one) for one in opened]))})[0])
    features: F32 = np.concatenate(found)
    return features


def network() -> bytes:
    """Return the network of the encoder as a graph."""
    net = EfficientNetLite(ENCODER.plan)
    net.load_state_dict(read_weights(ENCODER))
    return as_onnx(folded(net), torch.zeros(2, 3, SIDE, SIDE), "images", ["features"])


def session_of(graph: bytes, threads: int) -> Any:
    """Open a session of onnxruntime."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    return onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])


def measure(folder: Path) -> dict[str, float]:
    """Return processor milliseconds per image, and images per second, of every way."""
    paths, cpu, threads = sorted(folder.iterdir()), torch.device("cpu"), torch.get_num_threads()
    encoder, graph = open_published(ENCODER, cpu, "onnxruntime"), network()
    single, whole = session_of(graph, 1), session_of(graph, threads)
    inputs = ready(np.stack([bare_decode(path) for path in paths]))
    results: dict[str, F32] = {}

    def ours() -> None:
        dataset = read_source(folder, side=SIDE)
        results["ours"] = plain_features(
            encoder, dataset.images, dataset.fingerprint, is_mirrored=False, folder=None, device=cpu
        )

    def forward(row: int) -> F32:
        found: F32 = single.run(None, {"images": inputs[row : row + 1]})[0]
        return found

    taken = {name: Taken() for name in ("ours", "decode", "forward", "plain")}
    with ThreadPoolExecutor(threads) as pool:
        for _ in range(ROUNDS):
            taken["ours"].run(ours)
            taken["decode"].run(lambda: list(pool.map(bare_decode, paths)))
            taken["forward"].run(
                lambda: results.update(bare=np.concatenate(list(pool.map(forward, range(len(paths))))))
            )
            taken["plain"].run(lambda: plain_loop(whole, paths))
    # The same features, or the comparison would mean nothing.
    np.testing.assert_allclose(results["ours"], results["bare"], atol=0.05)
    bare = taken["decode"].cpu + taken["forward"].cpu
    n = len(paths)
    return {
        "encoding_overhead": taken["ours"].cpu / bare,
        "encoding_images_per_second": n / taken["ours"].wall,
        "plain_loop_images_per_second": n / taken["plain"].wall,
        **{f"encoding_cpu_ms_{name}": 1000 * one.cpu / n for name, one in taken.items()},
    }


def measure_clustimage(folder: Path) -> dict[str, float]:
    """Return the same of clustimage, if there is a Python that has it."""
    python = os.environ.get(VARIABLE)
    if not python:
        print(f"clustimage: not run ({VARIABLE} does not name a Python that has it)")
        return {}
    n = len(list(folder.iterdir()))
    with tempfile.TemporaryDirectory(prefix="selfsort-bench-") as scratch:
        words = [python, "-c", _CLUSTIMAGE, str(folder), str(ROUNDS), scratch, str(n)]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        print(f"clustimage: not run ({(done.stderr.strip().splitlines() or ['it said nothing'])[-1]})")
        return {}
    taken = json.loads(done.stdout.splitlines()[-1])
    return {"clustimage_images_per_second": n / taken["wall"], "encoding_cpu_ms_clustimage": 1000 * taken["cpu"] / n}


def run() -> dict[str, float]:
    """Return `encoding_overhead`, our processor seconds over the bare ones (goal: at most 1.15), and the rates."""
    with tempfile.TemporaryDirectory(prefix="selfsort-bench-") as name:
        folder = Path(name)
        make_photographs(folder)
        return measure(folder) | measure_clustimage(folder)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    ROUNDS = parser.parse_args().rounds
    print(json.dumps(run(), indent=2))
