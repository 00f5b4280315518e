"""More images than the memory holds: the budget is kept, and the result is that of a machine with enough."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from selfsort.runs.folder import RunFolder

FIT = """
import json, sys
from pathlib import Path
from selfsort.cli.main import main
try:
    main()
finally:
    peak = int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]) * 1024 // 10**6
    print(json.dumps({"peak": peak}), file=sys.stderr)
"""
BESIDE = 1000
"""Megabytes that a run may take beyond its budget, whatever the number of images; half of them are libraries."""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the system does not say what a process takes")
def test_kmeans_on_pixels_keeps_within_its_budget(tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    kinds = draw.integers(0, 256, (4, 80, 80, 3), dtype=np.uint8) // 2
    truth = draw.integers(0, 4, 5000)
    images = kinds[truth] + draw.integers(0, 100, (5000, 1, 1, 3), dtype=np.uint8)
    np.savez(tmp_path / "many.npz", images=images, labels=truth)  # 96 MB, and 384 MB as floats
    peaks = {}
    for memory in ("4G", "20M"):
        words = ["fit", "many.npz", "--clusters", "4", "--method", "kmeans", "--encoder", "none", "--memory", memory]
        done = subprocess.run(
            [sys.executable, "-c", FIT, *words, "--set", "n_restarts=2", "--out", memory],
            cwd=tmp_path,
            env=os.environ | {"OMP_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        peaks[memory] = json.loads(done.stderr.splitlines()[-1])["peak"]
    assert peaks["20M"] < 20 + BESIDE
    assert peaks["4G"] > 20 + BESIDE, "or there was nothing to save"
    tables = [RunFolder.open(tmp_path / memory).label_table() for memory in peaks]
    pairs = set(zip(*(table.labels.tolist() for table in tables), strict=True))
    assert len(pairs) == 4
