from __future__ import annotations

from pathlib import Path

import pytest
from tests.tiny_run import CONFIG, fill

from selfsort.errors import InvalidInput
from selfsort.runs.beside import describe, embed_whole, put_beside, write_edits
from selfsort.runs.edits import Rename
from selfsort.runs.folder import RunFolder
from selfsort.runs.journal import read_entries


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    return fill(RunFolder.create(tmp_path / "run", {**CONFIG, "recipe": {"name": "paper"}, "outliers": True}))


def test_the_images_are_described_and_not_the_training(run: RunFolder) -> None:
    told = describe(run, run, "cut", 5)
    assert told["image"] == CONFIG["image"]
    assert (told["method"], told["refines"], told["settings"]) == ("cut", "kmeans", {"n_clusters": 5})
    assert told["recipe"]["name"] == "default"
    assert "outliers" not in told


def test_a_stage_brings_every_run_that_it_went_on_from(run: RunFolder, tmp_path: Path) -> None:
    stage = fill(RunFolder.create(tmp_path / "stage", {**CONFIG, "method": "consensus", "started_from": "elsewhere"}))
    for name in ("started_from", "started_from_2", "started_from_3"):
        embed_whole(stage, run, name)
    made = RunFolder.create(tmp_path / "made", CONFIG)
    embed_whole(made, stage)
    for inner in ("", "started_from", "started_from_2", "started_from_3"):
        copied = RunFolder.open(made.path / "started_from" / inner)
        assert copied.read_state("model.safetensors").meta == {"variance": 0.5}
        assert copied.config["method"] == ("kmeans" if inner else "consensus")
        assert "outliers" not in copied.config


def test_corrections_are_written_where_there_are_any(run: RunFolder) -> None:
    write_edits(run.path, [])
    assert read_entries(run.path) == []
    write_edits(run.path, [Rename(0, "cats")])
    assert [entry.edit for entry in read_entries(run.path)] == [Rename(0, "cats")]


def test_the_place_is_free_or_refused(run: RunFolder, tmp_path: Path) -> None:
    for number, name in enumerate(("run-k3", "run-k3-2", "run-k3-3")):
        made = tmp_path / f"made{number}"
        made.mkdir()
        assert put_beside(made, None, run, "k3") == tmp_path / name
    made.mkdir()
    (tmp_path / "empty").mkdir()
    assert put_beside(made, tmp_path / "empty", run, "k3") == tmp_path / "empty"
    made.mkdir()
    with pytest.raises(InvalidInput):
        put_beside(made, run.path, run, "k3")
    assert made.is_dir()
