"""One training in two processes. Each test starts torchrun once, so there are few of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.contract.tiny import TINY
from torch import nn

from selfsort import distributed
from selfsort.data.synthetic import shapes
from selfsort.errors import Interrupted, InvalidInput
from selfsort.metrics.external import accuracy
from selfsort.runs.folder import RunFolder

ROOT = Path(__file__).parents[1]
TIMEOUT = 600


def torchrun(*words: object, cwd: Path, n: int = 2) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={n}", *map(str, words)]
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=TIMEOUT, check=False
    )


class TestAlone:
    """Without torchrun nothing happens."""

    def test_every_function_gives_back_what_it_was_given(self) -> None:
        rows = torch.arange(6.0).view(3, 2)
        for function in (distributed.share, distributed.gather_rows, distributed.average, distributed.add_up):
            assert function(rows) is rows
        assert distributed.agree("me") == "me"
        assert (distributed.world_size(), distributed.rank(), distributed.is_main()) == (1, 0, True)

    def test_generators_and_statistics_stay(self) -> None:
        generator, norm = torch.Generator().manual_seed(1), nn.BatchNorm1d(2)
        before = generator.get_state().clone()
        distributed.own_stream(generator)
        distributed.average_buffers(norm)
        assert torch.equal(generator.get_state(), before)
        assert distributed.synchronised(norm) is norm

    def test_rows_are_computed_chunk_by_chunk(self) -> None:
        found = distributed.rows_in_shares(torch.split(torch.arange(5), 2), 5, lambda idx: [idx[:, None].float(), idx])
        assert found[0].tolist() == [[0], [1], [2], [3], [4]]
        assert found[1].tolist() == [0, 1, 2, 3, 4]
        with pytest.raises(InvalidInput, match="images must be at least one"):
            distributed.rows_in_shares([], 0, lambda idx: [idx])

    def test_no_process_group_is_opened(self) -> None:
        with distributed.joined("cpu"):
            assert not torch.distributed.is_initialized()

    def test_a_lost_process_is_told_from_other_faults(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(distributed, "world_size", lambda: 2)
        with pytest.raises(Interrupted, match="another process of this job has ended"), distributed.company():
            raise RuntimeError("[../gloo/transport/tcp/pair.cc:525] Read error: Connection reset by peer")
        with pytest.raises(RuntimeError, match="shapes cannot be multiplied"), distributed.company():
            raise RuntimeError("mat1 and mat2 shapes cannot be multiplied")


def test_two_processes_agree(tmp_path: Path) -> None:
    """Building blocks, gradients, neighbours, and SeCu: labels, duals, counts, centres, weights are the same."""
    jobs = "primitives,gradients,empty_shares,search,secu"
    done = torchrun(ROOT / "tests/shared_job.py", jobs, tmp_path / "ok", cwd=tmp_path)
    assert done.returncode == 0, done.stderr[-3000:]
    assert (tmp_path / "ok").exists()


@pytest.mark.slow
def test_three_processes_find_the_same_neighbours(tmp_path: Path) -> None:
    done = torchrun(ROOT / "tests/shared_job.py", "search", tmp_path / "ok", cwd=tmp_path, n=3)
    assert done.returncode == 0, done.stderr[-3000:]


@pytest.mark.slow
def test_the_other_methods_agree_too(tmp_path: Path) -> None:
    done = torchrun(ROOT / "tests/shared_job.py", "others", tmp_path / "ok", cwd=tmp_path)
    assert done.returncode == 0, done.stderr[-3000:]


def settings(**changes: object) -> list[str]:
    return [f"--set={key}={value}" for key, value in {**TINY["secu"], **changes}.items()]


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    images, labels = shapes(12, size=16, n_classes=3)
    np.savez(tmp_path / "shapes.npz", images=images.pixels, labels=labels)
    return tmp_path / "shapes.npz"


def test_a_killed_process_ends_the_job_and_one_process_goes_on(pictures: Path, tmp_path: Path) -> None:
    words = ["fit", pictures, "--clusters", 3, "--method", "secu", "--recipe", "default", *settings()]
    done = torchrun(ROOT / "tests/shared_job.py", "deserted", *words, "--out", "run", cwd=tmp_path)
    assert done.returncode != 0
    assert "Continue with: selfsort fit --resume run" in done.stderr
    folder = RunFolder.open(tmp_path / "run")
    assert not folder.is_finished
    n_before = len(folder.events())
    assert n_before >= 2
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    resume = [sys.executable, "-m", "selfsort", "fit", "--resume", "run", "--json"]
    alone = subprocess.run(resume, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert alone.returncode == 0, alone.stderr
    assert json.loads(alone.stdout)["clusters_asked"] == 3
    assert [event["step"] for event in folder.events() if "step" in event] == [1, 2, 3, 4, 5]


@pytest.mark.slow
def test_as_good_as_one_process_and_only_the_first_speaks(tmp_path: Path) -> None:
    images, labels = shapes(15, size=16)
    np.savez(tmp_path / "shapes.npz", images=images.pixels, labels=labels)
    more = {"n_heads": 3, "dim": 32, "batch_size": 20, "epochs": 30, "gamma": 1.0, "weight_decay": 1e-3, "jitter": 0.0}
    words = ["fit", "shapes.npz", "--clusters", 4, "--method", "secu", "--recipe", "default", *settings(**more)]
    done = torchrun("-m", "selfsort", *words, "--out", "run", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr[-3000:]
    told = json.loads(done.stdout)
    assert told["metrics"]["acc"] >= 0.95
    predicted = torchrun("-m", "selfsort", "predict", "run", "shapes.npz", "--out", "new.csv", cwd=tmp_path)
    assert predicted.returncode == 0, predicted.stderr[-3000:]
    folder = RunFolder.open(tmp_path / "run")
    rows = (tmp_path / "new.csv").read_text().splitlines()[1:]
    np.testing.assert_array_equal([int(row.split(",")[1]) for row in rows], folder.label_table().labels)
    assert accuracy(folder.label_table().labels, labels) == told["metrics"]["acc"]


def test_a_method_for_one_process_is_refused_once(pictures: Path, tmp_path: Path) -> None:
    done = torchrun("-m", "selfsort", "fit", pictures, "--clusters", 3, "--method", "kmeans", cwd=tmp_path)
    assert done.returncode != 0
    assert done.stderr.count("kmeans cannot be trained by several processes") == 1


def test_encoding_is_shared_and_gives_the_same_features(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    np.savez(tmp_path / "shapes.npz", images=shapes(50, size=32, n_classes=3, channels=3)[0].pixels)
    words = ["shapes.npz", "--clusters", "3", "--method", "secu", "--encoder", "efficientnet-lite0"]
    words += ["--set", "encoder.views=1", "--set", "epochs=1", "--set", "warmup=0", "--set", "n_heads=1"]
    kept = {}
    for name, n in (("alone", 1), ("together", 2)):
        monkeypatch.setenv("SELFSORT_CACHE", str(tmp_path / name))
        done = torchrun("-m", "selfsort", "fit", *words, "--out", f"run-{name}", cwd=tmp_path, n=n)
        assert done.returncode == 0, done.stderr
        kept[name] = {path.name: path.read_bytes() for path in (tmp_path / name).glob("*.npy")}
    assert len(kept["alone"]) == 2, "images and views"
    assert kept["alone"] == kept["together"]
