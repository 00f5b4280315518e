"""Run folders with everything a method may keep, so that every section and figure can be asked for."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from tests.report.folders import make_run

from selfsort.types import F32, Arrays

N, K = 48, 4


def merging_run(path: Path) -> Path:
    """A run in the manner of JULE: features and labels at three stages, and a merge history."""
    history: dict[int, Arrays] = {
        step: {"features": _features(step), "labels": np.arange(N) % (24 // step), "neighbours": _neighbours()}
        for step in (1, 2, 4)
    }
    merges = [(i, i + 4) if i < 4 else (8 + i, 4 + i + 4) for i in range(4)]
    return make_run(path, n=N, k=K, history=history, extras={"merges": np.array(merges)}, config={"method": "jule"})


def pairing_run(path: Path) -> Path:
    """A run in the manner of DAC, GATCluster and SeCu: scores, sizes, thresholds, bounds, attention, filters."""
    rng = np.random.default_rng(0)
    history: dict[int, Arrays] = {}
    for step in range(1, 5):
        logits = step * np.eye(K)[np.arange(N) % K] + rng.standard_normal((N, K))
        soft = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
        history[step] = {"soft": soft.astype(np.float32), "sizes": np.bincount(soft.argmax(axis=1), minlength=K)}
        history[step]["attention_parameters"] = rng.random((N, 3)).astype(np.float32)
    extras: Arrays = {
        "attention": rng.random((3, 4, 4)).astype(np.float32),
        "attention_rows": np.array([5, 6, 7]),
        "filters.conv1": rng.standard_normal((6, 5, 5)).astype(np.float32),
        "activations.conv1": rng.random((2, 6, 8, 8)).astype(np.float32),
    }
    make_run(path, n=N, k=K, n_events=0, history=history, extras=extras, config={"method": "dac"})
    thresholds = [
        {"step": step, "upper": 0.9 - 0.1 * step, "lower": 0.3, "size_lower": 9.0, "size_upper": 15.0}
        for step in (1, 2, 3, 4)
    ]
    (path / "events.jsonl").write_text("".join(json.dumps(event) + "\n" for event in thresholds))
    return path


def boosting_run(path: Path) -> Path:
    """A run in the manner of DBC: features and scores at two stages."""
    soft = np.full((N, K), 1 / K, dtype=np.float32)
    history: dict[int, Arrays] = {step: {"features": _features(step), "soft": soft} for step in (1, 2)}
    return make_run(path, n=N, k=K, history=history, config={"method": "dbc"})


def _features(sharpness: float) -> F32:
    noise = np.random.default_rng(1).standard_normal((N, 6))
    return (sharpness * np.eye(K, 6)[np.arange(N) % K] + 0.3 * noise).astype(np.float32)


def _neighbours() -> np.ndarray:
    return (np.arange(N)[:, None] + K * np.arange(1, 4)) % N
