from __future__ import annotations

import json
import subprocess
import sys
import venv
from pathlib import Path

import numpy as np
import pytest
from experiments.peers import PEERS, main
from tests.bench.drawn import write_umist

from experiments import peers
from selfsort.errors import MissingData


@pytest.mark.parametrize("peer", [name for name in PEERS if not name.startswith("umap")])
def test_separate_classes_are_found(
    peer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_umist(tmp_path)
    monkeypatch.setenv("SELFSORT_DATA", str(tmp_path))
    found = main(["score", "umist", "--peer", peer])
    assert json.loads(capsys.readouterr().out) == found
    assert found["clusters"] == 20
    assert found["acc"] > 0.85


def test_what_hdbscan_leaves_out_is_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_umist(tmp_path)
    monkeypatch.setenv("SELFSORT_DATA", str(tmp_path))
    labels = np.arange(575) % 20
    labels[:100] = -1
    monkeypatch.setitem(PEERS, "umap-hdbscan", lambda rows, k, seed: labels)
    found = main(["score", "umist", "--peer", "umap-hdbscan"])
    assert found["acc"] == pytest.approx(475 / 575)
    assert (found["n_outliers"], found["clusters"]) == (100, 20)


def test_clustpy_needs_its_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(peers.VARIABLE, raising=False)
    with pytest.raises(MissingData, match=r"experiments\.peers environment FOLDER"):
        peers.clustpy("dec", np.zeros((4, 2), dtype=np.float32), 2, 0)


def test_the_environment_borrows_packages_and_has_an_empty_torchvision(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(venv, "create", lambda folder, with_pip: Path(folder).mkdir())
    monkeypatch.setattr(peers, "_python", lambda folder: sys.executable)
    packages = tmp_path / "packages"
    packages.mkdir()
    answer = type("Done", (), {"stdout": f"{packages}\n"})
    monkeypatch.setattr(subprocess, "run", lambda *given, **named: answer)
    words = peers.make_environment(tmp_path / "environment")
    assert words[1:] == ["-m", "pip", "install", "--no-deps", "clustpy"]
    assert Path((packages / "borrowed.pth").read_text().strip()).is_dir()
    assert (packages / "torchvision" / "models" / "_api" / "__init__.py").is_file()
