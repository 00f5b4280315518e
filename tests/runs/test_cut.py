from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.cli.conftest import assert_refused
from tests.conftest import Command
from tests.tiny_run import files_of

from selfsort.data.options import ReadOptions
from selfsort.data.synthetic import shapes
from selfsort.errors import InvalidInput
from selfsort.estimator import load
from selfsort.runs import cut as room
from selfsort.runs.cut import cut_run
from selfsort.runs.edits import Edit, Move, Rename
from selfsort.runs.folder import RunFolder
from selfsort.runs.journal import Journal
from selfsort.runs.labels import current_labels
from selfsort.runs.launch import launch
from selfsort.runs.model import apply_in_chunks, load_model
from selfsort.runs.request import Request
from selfsort.runs.tree import TREE_FILE, tree_of

IMAGES, TRUTH = shapes(12, size=16, seed=1, n_classes=4)
CPU = torch.device("cpu")


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("cut")
    np.savez(home / "shapes.npz", images=IMAGES.pixels, labels=TRUTH)
    wanted = ReadOptions(path=str(home / "shapes.npz"))
    launch(Request(source=wanted, clusters=5, method="ac-gdl", out=home / "run")).fit.run()
    return home


@pytest.fixture
def folder(home: Path, tmp_path: Path) -> RunFolder:
    shutil.copytree(home / "run", tmp_path / "run")
    return RunFolder.open(tmp_path / "run")


def labels_of(folder: RunFolder) -> list[int]:
    found: list[int] = folder.label_table().labels.tolist()
    return found


def correct(folder: RunFolder, *edits: Edit) -> None:
    journal = Journal.open(folder.path)
    for edit in edits:
        journal.add(edit)
    journal.close()


@pytest.mark.parametrize("n_clusters", [2, 4, 5, 8, 48])
def test_the_new_run_is_whole_and_the_first_one_stays(folder: RunFolder, n_clusters: int) -> None:
    before = files_of(folder.path)
    made = cut_run(folder, n_clusters).folder
    assert made.path == folder.path.with_name(f"run-k{n_clusters}")
    assert files_of(folder.path) == before
    result = made.result()
    np.testing.assert_array_equal(result.labels, tree_of(folder).cut(n_clusters))
    assert result.soft.shape == (48, n_clusters)
    assert made.n_clusters == n_clusters
    assert made.truth() is not None
    predicted = apply_in_chunks(load_model(made, CPU), IMAGES)
    np.testing.assert_allclose(predicted.soft, result.soft, atol=1e-5)


def test_its_own_number_gives_its_own_labels(folder: RunFolder) -> None:
    assert labels_of(cut_run(folder, 5).folder) == labels_of(folder)


@pytest.mark.parametrize("n_between", [2, 9])
def test_a_cut_of_a_cut_is_a_cut_of_the_run(folder: RunFolder, n_between: int, tmp_path: Path) -> None:
    between = cut_run(folder, n_between).folder
    for n_clusters in (3, 5, 7):
        direct = cut_run(folder, n_clusters, tmp_path / f"direct-{n_clusters}").folder
        again = cut_run(between, n_clusters, tmp_path / f"again-{n_clusters}").folder
        for name in ("labels.csv", "soft.npy", "model.safetensors"):
            assert (again.path / name).read_bytes() == (direct.path / name).read_bytes(), name
        assert tree_of(again).n_clusters == n_clusters
        np.testing.assert_array_equal(load(again.path).predict(IMAGES.pixels), load(direct.path).predict(IMAGES.pixels))


def test_an_older_run_gets_its_tree_on_the_way(folder: RunFolder) -> None:
    kept = (folder.path / TREE_FILE).read_bytes()
    (folder.path / TREE_FILE).unlink()
    cut_run(folder, 3)
    assert (folder.path / TREE_FILE).read_bytes() == kept


def test_the_source_is_not_needed(folder: RunFolder, selfsort: Command, tmp_path: Path) -> None:
    folder.config["source"] = {"path": "gone.npz"}
    folder.write_json("config.json", folder.config)
    assert selfsort("cut", folder.path, "--clusters", 7, "--out", "seven").code == 0
    assert selfsort("report", "seven").code == 0
    assert "ACC" in selfsort("score", "seven").out
    assert selfsort("export", "seven", "--to", "csv", "--out", "seven.csv").code == 0


def test_names_and_corrections_come_along(folder: RunFolder) -> None:
    labels = labels_of(folder)
    other = next(row for row in range(48) if labels[row] != labels[0])
    correct(folder, Rename(labels[0], "round"), Move((other,), labels[0]))
    made = cut_run(folder, 6)
    now = current_labels(made.folder)
    heir = int(np.bincount(now.original[np.array(labels) == labels[0]]).argmax())
    assert now.names == {heir: "round"}
    assert now.table.labels[other] == heir
    assert str(made.carried) == "carried over: 1 name, 1 moved image"
    again = cut_run(made.folder, 5)  # and from there on
    assert current_labels(again.folder).table.labels.tolist() == current_labels(folder).table.labels.tolist()
    assert list(current_labels(again.folder).names.values()) == ["round"]


def test_while_the_page_is_open(folder: RunFolder) -> None:
    journal = Journal.open(folder.path)
    try:
        journal.add(Rename(0, "first"))
        assert cut_run(folder, 4).carried.n_names == 1
    finally:
        journal.close()


class TestRefusals:
    @pytest.mark.parametrize("n_clusters", ["1", "0", "-3", "49"])
    def test_a_number_that_cannot_be(self, folder: RunFolder, selfsort: Command, n_clusters: str) -> None:
        done = selfsort("cut", folder.path, "--clusters", n_clusters)
        assert_refused(done, "--clusters must be between 2 and the number of images (48)", f"got {n_clusters}.")

    @pytest.mark.parametrize("n_clusters", ["auto", "5:30", "x", ""])
    def test_no_number(self, folder: RunFolder, selfsort: Command, n_clusters: str) -> None:
        assert_refused(selfsort("cut", folder.path, "--clusters", n_clusters), "--clusters", "cut --help")

    def test_a_place_that_is_taken(self, folder: RunFolder) -> None:
        with pytest.raises(InvalidInput, match="holds a run already"):
            cut_run(folder, 3, folder.path)
        (folder.path.parent / "full").mkdir()
        (folder.path.parent / "full" / "mine.txt").write_text("mine")
        with pytest.raises(InvalidInput, match="holds files that are not a run"):
            cut_run(folder, 3, folder.path.parent / "full")
        assert (folder.path.parent / "full" / "mine.txt").read_text() == "mine"

    def test_an_empty_folder_is_a_place(self, folder: RunFolder, tmp_path: Path) -> None:
        (tmp_path / "empty").mkdir()
        assert cut_run(folder, 3, tmp_path / "empty").folder.is_finished

    def test_a_run_that_is_not_finished(self, folder: RunFolder, selfsort: Command) -> None:
        (folder.path / "labels.csv").unlink()
        assert_refused(selfsort("cut", folder.path, "--clusters", 3), "is not finished", "--resume")

    @pytest.mark.parametrize("name", ["labels.npy", "soft.npy", "model.safetensors", "config.json"])
    def test_a_cut_that_was_damaged(self, folder: RunFolder, selfsort: Command, name: str) -> None:
        made = cut_run(folder, 3).folder
        (made.path / "started_from" / name).write_bytes(b"damaged")
        assert_refused(selfsort("cut", made.path, "--clusters", 4), name, "restore it")


def killed_at(number: int, act: Callable[[], object]) -> bool:
    """Do something in a child that is killed before its n-th file is complete; say whether it was."""
    child = os.fork()
    if child == 0:
        count = iter(range(number))

        real = os.fsync

        def fsync(handle: int) -> None:
            if next(count, None) is None:
                os.kill(os.getpid(), signal.SIGKILL)
            real(handle)

        setattr(os, "fsync", fsync)  # noqa: B010 (its type is wider)
        torch.set_num_threads(1)  # a fork has no threads of its parent
        act()
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL


def test_a_kill_leaves_nothing_half_written(folder: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    correct(folder, Rename(0, "first"))
    labels, soft = labels_of(folder), folder.result().soft
    found = cut_run(folder, 3).folder.result()
    shutil.rmtree(folder.path.with_name("run-k3"))
    before = files_of(folder.path)
    # Computed before: threads of a library may not survive the fork.
    monkeypatch.setattr(room, "cut_clustering", lambda *_: found)
    out, number = folder.path.with_name("cut"), 0
    while killed_at(number, lambda: cut_run(folder, 3, out)):
        assert not out.exists(), f"killed at file {number}"
        number += 1
    assert number > 15
    assert files_of(folder.path) == before
    assert {path.name for path in folder.path.parent.iterdir()} == {"run", "cut"}, "scratch of the killed is removed"
    assert current_labels(RunFolder.open(out)).names == {int(found.labels[labels.index(0)]): "first"}
    assert soft.shape == (48, 5)
