from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tests.conftest import Command

from selfsort.explore.editor import Editor
from selfsort.explore.pictures import Pictures
from selfsort.runs.edits import Mark, Move, Rename
from selfsort.runs.encoder import apply_in_chunks
from selfsort.runs.folder import RunFolder
from selfsort.runs.journal import Journal
from selfsort.runs.labels import current_labels
from selfsort.types import Assignment

RNG = np.random.default_rng(0)
KINDS = RNG.integers(30, 225, (4, 6, 6, 3))


def write(folder: Path, kind: int, n: int, first: int = 0) -> None:
    """Write pictures of one kind, which differ in noise."""
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(first, first + n):
        noise = np.random.default_rng((kind, number)).normal(0, 10, (6, 6, 3))
        pixels = np.clip(KINDS[kind] + noise, 0, 255).astype(np.uint8)
        Image.fromarray(pixels).resize((24, 24), Image.Resampling.NEAREST).save(folder / f"{kind}-{number:02d}.png")


@pytest.fixture
def run(tmp_path: Path, selfsort: Command) -> RunFolder:
    for kind in range(3):
        write(tmp_path / "photos", kind, 25)
    words = ("--method", "kmeans", "--clusters", 3, "--encoder", "none", "--out", tmp_path / "run")
    assert selfsort("fit", tmp_path / "photos", *words).code == 0
    folder = RunFolder.open(tmp_path / "run")
    journal = Journal.open(folder.path)
    target = int(folder.label_table().labels[0])
    for edit in (Rename(target, "kind zero"), Move((1,), 3), Rename(3, "by hand"), Mark((2,), True)):
        journal.add(edit)
    journal.close()
    return folder


def test_new_pictures_join_and_all_else_stays(run: RunFolder, tmp_path: Path, selfsort: Command) -> None:
    write(tmp_path / "more", 0, 5, first=40)
    write(tmp_path / "more" / "deep", 1, 5, first=40)
    write(tmp_path / "more", 3, 8, first=40)  # a kind that the run has never seen
    before = {path.name: path.read_bytes() for path in run.path.iterdir() if path.is_file()}
    old = current_labels(run)
    done = selfsort("update", run.path, "more")
    assert done.code == 0, done.err
    assert "18 pictures added, 0 of them put aside" in done.out
    assert "1 new group" in done.out
    assert {path.name: path.read_bytes() for path in run.path.iterdir() if path.is_file()} == before
    made = RunFolder.open("run-update")
    new = current_labels(made)
    assert new.table.names[:75] == old.table.names
    assert (new.table.written[:75] == old.table.written).all()
    assert (new.name(int(old.table.labels[0])), new.name(3)) == ("kind zero", "by hand")
    assert new.is_wrong[2]
    kinds = np.array([int(Path(name).name[0]) for name in new.table.names[75:]])
    for kind, row in ((0, 0), (1, 30)):
        assert set(new.table.labels[75:][kinds == kind].tolist()) == {int(old.table.labels[row])}
    assert set(new.table.labels[75:][kinds == 3].tolist()) == {4}
    assert len(made.result().features) == 93
    for words in (
        ["score", made.path],
        ["report", made.path],
        ["export", made.path, "--to", "folders", "--out", "sorted"],
    ):
        assert selfsort(*words).code == 0, words
    assert len(list(Path("sorted").rglob("*.png"))) == 93
    assert "What came in" in Path("run-update/report.html").read_text()
    names = Editor.open(made.path)
    assert len(names) == 93
    names.close()
    assert Pictures.open(made, new.table.names).note is None


def test_later_pictures_of_the_same_folder(run: RunFolder, tmp_path: Path, selfsort: Command) -> None:
    write(tmp_path / "photos", 2, 3, first=60)
    done = selfsort("update", run.path, "photos", "--json", "--out", "second")
    told = json.loads(done.out)
    assert (told["added"], told["known"]) == (3, 75)
    write(tmp_path / "photos", 1, 2, first=70)
    told = json.loads(selfsort("update", "second", "photos", "--json", "--out", "third").out)
    assert (told["added"], told["known"]) == (2, 78)
    labels = current_labels(RunFolder.open("third"))
    assert len(labels.table.names) == 80
    assert labels.name(3) == "by hand"
    assert selfsort("predict", "third", "photos", "--out", "p.csv").code == 0
    assert "already. Expected new ones" in selfsort("update", "third", "photos").err


def test_what_fits_nowhere_is_put_aside(run: RunFolder, tmp_path: Path, selfsort: Command) -> None:
    (tmp_path / "odd").mkdir()
    for number in range(3):
        noise = np.random.default_rng(100 + number).integers(0, 255, (24, 24, 3), dtype=np.uint8)
        Image.fromarray(noise).save(tmp_path / "odd" / f"{number}.png")
    told = json.loads(selfsort("update", run.path, "odd", "--json").out)
    assert told["aside"]["nowhere"] == 3
    made = RunFolder.open("run-update")
    assert made.label_table().written[-3:].tolist() == [-1, -1, -1]
    assert made.config["format"] == 2
    assert selfsort("report", made.path).code == 0


def test_refusals_leave_nothing(run: RunFolder, tmp_path: Path, npz: Path, selfsort: Command) -> None:
    assert "be files" in selfsort("update", run.path, npz).err
    assert selfsort("update", run.path, tmp_path / "nothing").code == 2
    shutil.rmtree(run.path)
    assert selfsort("fit", npz, "--method", "kmeans", "--clusters", 3, "--encoder", "none", "--out", run.path).code == 0
    assert "made from an array" in selfsort("update", run.path, tmp_path / "photos").err
    assert not Path("run-update").exists()


def test_the_same_update_is_not_made_twice(run: RunFolder, tmp_path: Path, selfsort: Command) -> None:
    write(tmp_path / "more", 0, 5, first=40)
    first = json.loads(selfsort("update", run.path, "more", "--json").out)
    assert json.loads(selfsort("update", run.path, "more", "--json").out) == first
    assert not Path("run-update-2").exists()
    write(tmp_path / "more", 1, 2, first=60)
    assert json.loads(selfsort("update", run.path, "more", "--json").out)["run"].endswith("run-update-2")


def test_an_update_that_comes_again_finds_what_the_encoder_saw(
    run: RunFolder, tmp_path: Path, selfsort: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[dict[str, Any]] = []

    def noted(*given: Any, **named: Any) -> Assignment:
        asked.append(named)
        return apply_in_chunks(*given, **named)

    monkeypatch.setattr("selfsort.runs.update.apply_in_chunks", noted)
    write(tmp_path / "more", 0, 5, first=40)
    assert selfsort("update", run.path, "more").code == 0
    assert asked[0]["fingerprint"], "so that features are kept"
