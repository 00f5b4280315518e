"""A finished run of a million images, made up: how long the report and the first page of the explorer take on it.

`python -m benchmarks.million_run make FOLDER` writes a seeded run: a hundred clusters of Gaussian features, tiny
pictures in Parquet files, labels, soft assignments, tree and small copies, by the code that ends every fit.
`python -m benchmarks.million_run measure FOLDER` prints seconds, bytes and the largest resident sizes.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import re
import resource
import subprocess
import sys
import time
import urllib.request
from http.cookiejar import CookieJar
from pathlib import Path

import numpy as np
from PIL import Image

N_CLUSTERS, N_FEATURES, SIDE = 100, 160, 8
PER_FILE, PER_GROUP = 20_000, 100


def make(root: Path, n: int) -> None:
    """Write source and run."""
    import torch

    from selfsort.data import ImageSpec
    from selfsort.improve.around import ImproveConfig
    from selfsort.methods.recipes import choose_recipe
    from selfsort.methods.registry import METHODS
    from selfsort.runs.folder import RunFolder
    from selfsort.runs.loop import FitRun, Outcome, run_config, write_outcome
    from selfsort.types import Clustering, Images, State

    draw = np.random.default_rng(0)
    labels = np.minimum(draw.zipf(1.3, n) - 1, 10**6) % N_CLUSTERS
    centres = draw.standard_normal((N_CLUSTERS, N_FEATURES)).astype(np.float32) * 2
    features = centres[labels] + draw.standard_normal((n, N_FEATURES), dtype=np.float32)
    colours = draw.integers(0, 256, (N_CLUSTERS, 1, 1, 3))
    pixels = np.empty((n, SIDE, SIDE, 3), np.uint8)
    soft = np.empty((n, N_CLUSTERS), np.float32)
    for start in range(0, n, 10_000):
        some = slice(start, start + 10_000)
        grain = draw.integers(-40, 41, (len(labels[some]), SIDE, SIDE, 3))
        pixels[some] = np.clip(colours[labels[some]] + grain, 0, 255)
        strength = features[some] @ centres.T - (centres**2).sum(axis=1) / 2
        strength = np.exp(strength - strength.max(axis=1, keepdims=True))
        soft[some] = strength / strength.sum(axis=1, keepdims=True)
    source = root / "source"
    names = write_source(source, pixels, labels)
    images, device = Images(pixels), torch.device("cpu")
    kind = METHODS["kmeans"]
    config = kind.config.from_json({"n_clusters": N_CLUSTERS})
    fit = FitRun(images, kind, config, device, names=names, improve=ImproveConfig())
    choice = choose_recipe(kind.name, "auto", images.shape, has_accelerator=False)
    spec = ImageSpec(SIDE, SIDE, 3)
    described = run_config(fit, choice, spec, fingerprint="0" * 64, source={"path": str(source.absolute())})
    model = State({"centroids": centres}, {"variance": 1.0, "rule": "centroid"})
    clustering = Clustering(soft.argmax(axis=1).astype(np.int64), soft, features, model)
    with RunFolder.creating(root / "run", described) as folder:
        folder.write_json("ingest.json", {"kind": "parquet", "found": n, "read": n, "skipped": []})
    folder.append_event({"step": 1, "total": 1, "elapsed": 1.0, "clusters": N_CLUSTERS})
    write_outcome(folder, Outcome(clustering, [], (), 1.0, None), images, names)


def write_source(folder: Path, pixels: np.ndarray[tuple[int, ...], np.dtype[np.uint8]], labels: object) -> list[str]:
    """Write Parquet files as Hugging Face does; return the names of the pictures."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    (folder / "data").mkdir(parents=True)
    names = []
    for number, start in enumerate(range(0, len(pixels), PER_FILE)):
        name = f"data/train-{number:05d}.parquet"
        cells = []
        for picture in pixels[start : start + PER_FILE]:
            stream = io.BytesIO()
            Image.fromarray(picture).save(stream, "BMP")
            cells.append({"bytes": stream.getvalue(), "path": None})
        pq.write_table(pa.table({"image": cells}), folder / name, row_group_size=PER_GROUP)
        names += [f"{name}/{row}" for row in range(len(cells))]
    return names


def measure(root: Path) -> dict[str, float]:
    """Time the report and the explorer, each in a process of its own."""
    found = _report(root / "run", root / "report.html")
    return found | _explore(root / "run")


def _report(run: Path, out: Path) -> dict[str, float]:
    started = time.monotonic()
    command = [sys.executable, "-m", "selfsort", "report", str(run), "--out", str(out)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    assert status == 0
    return {
        "report_seconds": time.monotonic() - started,
        "report_mb": out.stat().st_size / 1e6,
        "report_resident_mb": used.ru_maxrss / 1e3,
    }


def _explore(run: Path) -> dict[str, float]:
    started = time.monotonic()
    command = [sys.executable, "-m", "selfsort", "explore", str(run), "--no-browser"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            address = next(line.split()[1] for line in server.stdout if line.startswith("explore: "))
            found = {"explorer_start_seconds": time.monotonic() - started}
            opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(CookieJar()))
            base = re.match(r"http://[^/]+", address)
            assert base is not None

            def fetch(place: str) -> bytes:
                begun = time.monotonic()
                content: bytes = opener.open(place if place.startswith("http") else base[0] + place).read()
                name = re.sub(r"\W+", "_", place.split("?")[0].replace(base[0], ""))[:20]
                found[f"fetch{name}_seconds"] = time.monotonic() - begun
                found[f"fetch{name}_kb"] = len(content) / 1e3
                return content

            fetched = time.monotonic()
            fetch(address)
            fetch("/explorer.js")
            fetch("/api/run")
            overview = json.loads(fetch("/api/clusters"))
            largest = overview["clusters"][0]["id"]
            rows = json.loads(fetch(f"/api/rows?cluster={largest}&order=typical"))["rows"]
            fetch("/api/sheet?" + "&".join(f"row={row}" for row in rows[:16]))
            found["explorer_first_page_seconds"] = time.monotonic() - fetched
            found["explorer_page_after_command_seconds"] = time.monotonic() - started
            fetch("/api/sheet?" + "&".join(f"row={row}" for row in rows[-16:]))
            fetch("/api/rows?view=all&order=typical")
            fetch("/api/names?" + "&".join(f"row={row}" for row in rows[:200]))
            fetch(f"/api/similar?row={rows[7]}")
            fetch("/api/tree")
            told = Path(f"/proc/{server.pid}/status").read_text()
            found["explorer_resident_mb"] = int(told.split("VmHWM:")[1].split()[0]) * 1.024 / 1e3
            return found
        finally:
            server.terminate()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("task", choices=("make", "measure"))
    parser.add_argument("root", type=Path)
    parser.add_argument("--n", type=int, default=1_000_000)
    given = parser.parse_args()
    if given.task == "make":
        started = time.monotonic()
        make(given.root, given.n)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
        print(f"made in {time.monotonic() - started:.0f} s, {peak:.0f} MB resident")
    else:
        for name, value in measure(given.root).items():
            print(f"{name:40} {value:12.3f}")


if __name__ == "__main__":
    main()
