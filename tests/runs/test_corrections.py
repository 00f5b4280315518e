from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.conftest import Command
from tests.contract.tiny import TINY

from selfsort.runs.edits import Edit, Mark, Merge, Move, Rename
from selfsort.runs.folder import RunFolder
from selfsort.runs.journal import Journal
from selfsort.runs.labels import current_labels


@pytest.fixture
def run(tmp_path: Path, selfsort: Command) -> RunFolder:
    """Return a run of three kinds of pictures in two clusters."""
    rng = np.random.default_rng(0)
    kinds = np.repeat(rng.integers(40, 215, (3, 8, 8)), 30, axis=0)
    images = np.clip(kinds + rng.normal(0, 12, kinds.shape), 0, 255).astype(np.uint8)
    np.savez(tmp_path / "a.npz", images=images, labels=np.repeat(np.arange(3), 30))
    words = ("--method", "kmeans", "--clusters", 2, "--encoder", "none", "--out", tmp_path / "run")
    assert selfsort("fit", tmp_path / "a.npz", *words).code == 0
    return RunFolder.open(tmp_path / "run")


def correct(folder: RunFolder, *edits: Edit) -> None:
    journal = Journal.open(folder.path)
    for edit in edits:
        journal.add(edit)
    journal.close()


def mixed_kind(folder: RunFolder) -> tuple[int, int]:
    """Return a kind of pictures that shares its cluster, and that cluster."""
    labels = folder.label_table().labels.reshape(3, 30)
    shared = next(c for c in (0, 1) if (labels == c).all(axis=1).sum() == 2)
    return int(np.flatnonzero((labels == shared).all(axis=1))[0]), shared


def test_a_run_learns_from_corrections(run: RunFolder, selfsort: Command) -> None:
    kind, _ = mixed_kind(run)
    before = (run.path / "labels.csv").read_bytes()
    correct(run, Move(tuple(range(30 * kind, 30 * kind + 4)), 2), Rename(2, "mine"))
    done = selfsort("refine", run.path, "--stage", "corrections")
    assert done.code == 0, done.err
    assert "4 pictures confirmed by hand; 26 further ones follow them" in done.out
    assert "ACC 1.0000" in done.out
    made = RunFolder.open("run-corrections")
    labels = current_labels(made)
    assert (labels.table.labels.reshape(3, 30)[kind] == 2).all()
    assert labels.name(2) == "mine"
    assert (run.path / "labels.csv").read_bytes() == before
    for words in (["score", made.path], ["report", made.path], ["predict", made.path, "a.npz", "--out", "new.csv"]):
        assert selfsort(*words).code == 0
    assert Path("new.csv").read_text().count(",2,") == 30
    correct(made, Move((0,), 1))
    assert selfsort("refine", made.path, "--stage", "corrections").code == 0, "again"


def test_merged_clusters_stay_merged_and_marks_that_were_answered_go(run: RunFolder, selfsort: Command) -> None:
    kind, shared = mixed_kind(run)
    correct(run, Move((30 * kind,), 2), Merge((0, 1), 0), Mark((30 * kind + 1,), True))
    done = selfsort("refine", run.path, "--stage", "corrections", "--out", "made", "--json")
    assert done.code == 0, done.err
    labels = current_labels(RunFolder.open("made"))
    assert set(labels.table.labels.tolist()) == {0, 2}
    assert labels.table.labels[30 * kind] == 2
    assert labels.table.labels[30 * kind + 1] == 2  # wrong where it was, and there is one other cluster
    assert not labels.is_wrong.any()
    assert shared in (0, 1)


def test_without_corrections_there_is_nothing_to_learn(run: RunFolder, selfsort: Command) -> None:
    done = selfsort("refine", run.path, "--stage", "corrections")
    assert done.code == 2
    assert "no corrections to learn from" in done.err
    assert not Path("run-corrections").exists()


def test_a_source_is_refused(run: RunFolder, selfsort: Command) -> None:
    assert "Expected no SOURCE" in selfsort("refine", run.path, "a.npz", "--stage", "corrections").err


@pytest.mark.parametrize("method", ["dac", "gatcluster", "secu", "teach", "dbc"])
def test_a_network_learns_by_pairs(tmp_path: Path, selfsort: Command, method: str) -> None:
    images = np.random.default_rng(0).integers(0, 255, (36, 12, 12)).astype(np.uint8)
    np.savez(tmp_path / "a.npz", images=images)
    settings = [f"--set={key}={value}" for key, value in TINY[method].items()]
    words = ("--method", method, "--recipe", "default", "--clusters", 3, "--encoder", "none", "--out", "run")
    assert selfsort("fit", "a.npz", *words, *settings).code == 0
    run = RunFolder.open("run")
    labels = run.label_table().labels
    other = next((int(one) for one in labels if one != labels[0]), int(labels.max()) + 1)  # some put all into one
    correct(run, Move((0,), other), Mark((5,), True))
    done = selfsort("refine", "run", "--stage", "corrections")
    assert done.code == 0, done.err
    assert "its network was trained on them" in done.out
    made = RunFolder.open("run-corrections")
    assert made.label_table().labels[0] == other, "never against a confirmed one"
    assert (
        made.read_state("started_from/model.safetensors").arrays.keys()
        == run.read_state("model.safetensors").arrays.keys()
    )
    assert (made.path / "features.npy").read_bytes() != (run.path / "features.npy").read_bytes()
    assert selfsort("predict", made.path, "a.npz").code == 0
    Path("a.npz").unlink()
    again = selfsort("refine", "run", "--stage", "corrections", "--out", "without")
    assert again.code == 0, again.err
    assert "trained" not in again.out, "the images are gone"
