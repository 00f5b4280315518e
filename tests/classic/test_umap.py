from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import torch

from selfsort.classic.umap import METHOD, UMAPConfig, cluster
from selfsort.errors import InvalidInput, MissingData
from selfsort.metrics import accuracy
from selfsort.types import F32, I64

CPU = torch.device("cpu")


def blobs(n_each: int = 25) -> tuple[F32, I64]:
    truth = np.repeat(np.arange(3), n_each)
    noise = np.random.default_rng(0).standard_normal((len(truth), 6))
    return (12 * np.eye(6)[truth] + noise).astype(np.float32), truth


def test_without_the_extra_it_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "umap", None)
    with pytest.raises(MissingData, match=r'umap-kmeans needs the package umap-learn.*"selfsort\[umap\]"'):
        cluster(blobs()[0], UMAPConfig(n_clusters=3), seed=0, device=CPU)


def test_settings_are_checked() -> None:
    with pytest.raises(InvalidInput, match="n_neighbours must be at least 2; got 1"):
        METHOD.config.from_json({"n_clusters": 3, "n_neighbours": 1})


@pytest.mark.slow
@pytest.mark.parametrize("n_each", [1, 3, 25])
def test_blobs_are_found_and_the_seed_decides(n_each: int) -> None:
    pytest.importorskip("umap")
    features, truth = blobs(n_each)
    first, second = (cluster(features, UMAPConfig(n_clusters=3), seed=4, device=CPU) for _ in range(2))
    np.testing.assert_array_equal(first.labels, second.labels)
    if n_each == 25:
        assert accuracy(first.labels, truth) == 1.0


def test_the_threads_of_everything_else_stay_as_they_were() -> None:
    """Its loops set the number for the whole process when they first run, so a new process has to look."""
    pytest.importorskip("umap")
    script = (
        "import numpy as np, torch; from selfsort.classic.umap import UMAPConfig, embed; torch.set_num_threads(1); "
        "embed(np.random.default_rng(0).normal(size=(40, 5)).astype(np.float32), UMAPConfig(n_clusters=2), 0); "
        "print(torch.get_num_threads())"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "1\n"
