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

COMMAND = """
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
"""Megabytes that a command may take beyond its budget, whatever the number of images; half of them are libraries."""


def peak_of(folder: Path, *words: str) -> int:
    """Run a command of selfsort in a process of its own; return the most that was resident, in megabytes."""
    done = subprocess.run(
        [sys.executable, "-c", COMMAND, *words],
        cwd=folder,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return int(json.loads(done.stderr.splitlines()[-1])["peak"])


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the system does not say what a process takes")
@pytest.mark.parametrize("method", ["kmeans", "leiden"])
def test_pixels_keep_within_the_budget(tmp_path: Path, method: str) -> None:
    draw = np.random.default_rng(0)
    kinds = draw.integers(0, 256, (4, 128, 128, 3), dtype=np.uint8) // 2
    truth = draw.integers(0, 4, 2500)
    images = kinds[truth] + draw.integers(0, 100, (2500, 1, 1, 3), dtype=np.uint8)
    np.savez(tmp_path / "many.npz", images=images, labels=truth)  # 123 MB, and 491 MB as floats
    fit = ("fit", "many.npz", "--clusters", "4", "--method", method, "--encoder", "none")
    peaks = {memory: peak_of(tmp_path, *fit, "--memory", memory, "--out", memory) for memory in ("4G", "20M")}
    assert peaks["20M"] < 20 + BESIDE
    assert peaks["4G"] > 20 + BESIDE, "or there was nothing to save"
    tables = [RunFolder.open(tmp_path / memory).label_table() for memory in peaks]
    if method == "leiden":
        np.testing.assert_array_equal(tables[0].labels, tables[1].labels)
        np.testing.assert_array_equal(tables[0].confidence, tables[1].confidence)
    # k-means that goes over blocks starts elsewhere, and may number its clusters otherwise.
    assert len(set(zip(*(table.labels.tolist() for table in tables), strict=True))) == 4
    assert peak_of(tmp_path, "predict", "20M", "many.npz", "--memory", "20M") < 20 + BESIDE
