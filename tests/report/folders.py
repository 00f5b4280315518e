"""Run folders for the tests of the report: small, synthetic, written by the same RunFolder as real ones."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from selfsort.runs.folder import RunFolder, Thumbnails
from selfsort.types import Arrays, Clustering, Json, State


def make_run(
    path: Path,
    *,
    n: int = 60,
    k: int = 3,
    names: Sequence[str] | None = None,
    has_truth: bool = True,
    class_names: Sequence[str] | None = None,
    n_events: int = 5,
    warnings: Sequence[str] = (),
    skipped: Sequence[Json] = (),
    side: int = 8,
    channels: int = 1,
    n_thumbnails: int | None = None,
    config: Json | None = None,
    extras: Arrays | None = None,
    history: dict[int, Arrays] | None = None,
    seed: int = 0,
) -> Path:
    """Write a finished run whose clusters are blobs, a tenth of them in the wrong cluster."""
    rng = np.random.default_rng(seed)
    truth = np.arange(n) % k
    labels = np.where(rng.random(n) < 0.1, (truth + 1) % k, truth)
    labels[:k] = np.arange(k)
    soft = rng.random((n, k)).astype(np.float32) * 0.2
    soft[np.arange(n), labels] += 1
    soft /= soft.sum(axis=1, keepdims=True)
    features = np.eye(k, 5)[truth] + 0.1 * rng.standard_normal((n, 5))
    described = {
        "method": "kmeans",
        "settings": {"n_clusters": k},
        "seed": seed,
        "image": {},
        "fingerprint": "same-pixels",
        "source": {"path": "some/where/shapes"},
    }
    folder = RunFolder.create(path, {**described, **(config or {})})
    folder.write_json("ingest.json", {"skipped": list(skipped)})
    if has_truth:
        folder.save_truth(truth.astype(np.int64), class_names)
    for step in range(1, n_events + 1):
        folder.append_event({"step": step, "total": n_events, "elapsed": step * 0.5, "clusters": k, "loss": 1 / step})
    for step, arrays in (history or {}).items():
        folder.save_history(step, arrays)
    rows = np.arange(n if n_thumbnails is None else n_thumbnails, dtype=np.int64)
    if len(rows):
        folder.save_thumbnails(
            Thumbnails(rows, rng.integers(0, 256, (len(rows), side, side, channels), dtype=np.uint8))
        )
    folder.append_event({"kind": "end", "seconds": 2.5, "peak_memory_mb": 100.0, "warnings": list(warnings)})
    result = Clustering(labels.astype(np.int64), soft, features.astype(np.float32), State(), extras or {})
    folder.save_result(result, names if names is not None else [f"{i}.png" for i in range(n)])
    return path
