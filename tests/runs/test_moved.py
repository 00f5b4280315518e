from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.conftest import Command
from tests.tiny_run import files_of

from selfsort.errors import InvalidInput, MissingData
from selfsort.explore.pictures import Pictures
from selfsort.runs.folder import RunFolder
from selfsort.runs.labels import current_labels
from selfsort.runs.moved import JOURNAL, Moves, exports_of, moved_pictures, picture_paths


@pytest.fixture
def run(photos: Path, tmp_path: Path, selfsort: Command) -> RunFolder:
    words = ("--method", "kmeans", "--clusters", 3, "--encoder", "none", "--out", tmp_path / "run")
    assert selfsort("fit", photos, *words).code == 0
    return RunFolder.open(tmp_path / "run")


def test_a_run_finds_its_pictures_after_they_were_moved(run: RunFolder, photos: Path, selfsort: Command) -> None:
    before = files_of(photos)
    names = run.label_table().names
    done = selfsort("export", run.path, "--to", "folders", "--mode", "move", "--out", "sorted")
    assert done.code == 0, done.err
    assert "selfsort undo" in done.out
    assert not files_of(photos)
    assert set(moved_pictures(run)) == set(names)
    assert all(Path(path).is_file() for path in picture_paths(run, names))
    pictures = Pictures.open(run, names)
    assert (pictures.origin, pictures.note) == ("source", None)
    assert pictures.large(0) is not None
    for words in (
        ["export", run.path, "--to", "folders", "--out", "again"],
        ["duplicates", run.path, "--encoder", "none"],
    ):
        assert selfsort(*words).code == 0
    assert selfsort("export", run.path, "--to", "folders", "--mode", "move", "--out", "sorted").code == 2
    done = selfsort("undo", "sorted")
    assert (done.code, done.out) == (0, "18 files back in place\n")
    assert files_of(photos) == before
    assert moved_pictures(run) == {}
    assert selfsort("undo", "sorted").code == 2


def test_moved_twice_and_put_back(run: RunFolder, photos: Path, selfsort: Command) -> None:
    before = files_of(photos)
    for out in ("one", "two"):
        assert selfsort("export", run.path, "--to", "folders", "--mode", "move", "--out", out).code == 0
    assert not files_of(photos)
    assert len(moved_pictures(run)) == 18
    for out in ("two", "one"):
        assert selfsort("undo", out).code == 0
    assert files_of(photos) == before


def test_the_source_folder_itself_may_go(run: RunFolder, photos: Path, selfsort: Command) -> None:
    assert selfsort("export", run.path, "--to", "folders", "--mode", "move", "--out", "sorted").code == 0
    for folder in sorted(photos.rglob("*"), reverse=True):
        folder.rmdir()
    photos.rmdir()
    assert selfsort("export", run.path, "--to", "folders", "--out", "again").code == 0
    assert Pictures.open(run, run.label_table().names).origin == "source"
    assert selfsort("undo", "sorted").code == 0
    assert len(files_of(photos)) == 18


def test_link_is_an_alias_and_modes_are_for_folders(run: RunFolder, selfsort: Command) -> None:
    assert selfsort("export", run.path, "--to", "folders", "--link", "--out", "links").code == 0
    assert all(path.is_symlink() for path in Path("links").rglob("*.png"))
    assert "Leave one out" in selfsort("export", run.path, "--to", "folders", "--link", "--mode", "move").err
    assert "--mode move is for folders" in selfsort("export", run.path, "--to", "csv", "--mode", "move").err


@pytest.mark.parametrize(
    "told",
    [
        [],
        {"format": 1},
        {"format": 2, "run": "r", "is_done": True, "moves": []},
        {"format": 1, "run": "r", "is_done": True, "moves": [["a", "/x/a", "../a"]]},
        {"format": 1, "run": "r", "is_done": True, "moves": [["a", "/x/a", "/a"]]},
        {"format": 1, "run": "r", "is_done": True, "moves": [["a", "x/a", "a"]]},
        {"format": 1, "run": "r", "is_done": True, "moves": [["a", "/x/a\0", "a"]]},
        {"format": 1, "run": "r", "is_done": True, "moves": [["a", "/x/a"]]},
    ],
)
def test_a_changed_journal_is_refused(tmp_path: Path, told: object) -> None:
    (tmp_path / JOURNAL).write_text(json.dumps(told))
    with pytest.raises(InvalidInput, match="cannot be used"):
        Moves.read(tmp_path)


def test_a_folder_without_a_journal(tmp_path: Path) -> None:
    with pytest.raises(MissingData, match="need no undoing"):
        Moves.read(tmp_path)


def test_a_changed_list_of_exports_is_refused(run: RunFolder) -> None:
    run.write_json("moved.json", {"exports": [1]})
    with pytest.raises(InvalidInput, match=r"moved\.json cannot be used"):
        exports_of(run)
    run.write_json("moved.json", {"exports": ["/nowhere/at/all"]})
    assert moved_pictures(run) == {}
    assert len(current_labels(run).table.names) == 18
