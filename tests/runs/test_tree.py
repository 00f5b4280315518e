from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.report.folders import make_run

from selfsort.errors import CannotWrite, InvalidInput
from selfsort.runs.folder import RunFolder
from selfsort.runs.tree import TREE_FILE, save_tree, tree_of
from selfsort.types import Arrays, State


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    """A run of before trees were kept."""
    return RunFolder.open(make_run(tmp_path / "run"))


def test_a_run_without_one_gets_it_and_keeps_it(folder: RunFolder) -> None:
    first = tree_of(folder)
    kept = (folder.path / TREE_FILE).read_bytes()
    second = tree_of(folder)
    assert (folder.path / TREE_FILE).read_bytes() == kept
    np.testing.assert_array_equal(first.labels(), folder.label_table().labels)
    for number in (1, 2, 3, 10, 60):
        np.testing.assert_array_equal(first.cut(number), second.cut(number))
    np.testing.assert_array_equal(first.tree.sizes, second.tree.sizes)


def test_a_folder_that_cannot_be_written_is_no_hindrance(folder: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(name: str, state: State) -> None:
        raise CannotWrite(f"{name} cannot be written.")

    monkeypatch.setattr(folder, "write_state", refuse)
    assert tree_of(folder).n_clusters == 3
    assert not (folder.path / TREE_FILE).exists()


def changed(name: str, arrays: Arrays) -> Arrays:
    """Damage the arrays of a tree in one way."""
    merges, start = arrays["merges"].copy(), arrays["start"].copy()
    match name:
        case "a merge of what is not there yet":
            merges[0, 1] = len(start) + 5
        case "a merge of what was merged before":
            merges[1] = merges[0]
        case "a negative number":
            merges[0, 0] = -1
        case "too few merges":
            merges = merges[:-1]
        case "an image without a leaf":
            start[0] = len(start)
        case "a leaf without an image":
            start[:] = 0
        case "other clusters":
            return arrays | {"clusters": np.array([0, 1, 4])}
        case "clusters of another tree":
            return arrays | {"clusters": np.array([0, 1])}
        case "affinities that are no numbers":
            return arrays | {"affinity": np.full(len(merges), np.nan)}
        case "nothing":
            return {}
        case "numbers with fractions":
            return arrays | {"rows": arrays["rows"].astype(np.float32)}
    return arrays | {"merges": merges, "start": start}


@pytest.mark.parametrize(
    "name",
    [
        "a merge of what is not there yet",
        "a merge of what was merged before",
        "a negative number",
        "too few merges",
        "an image without a leaf",
        "a leaf without an image",
        "other clusters",
        "clusters of another tree",
        "affinities that are no numbers",
        "nothing",
        "numbers with fractions",
    ],
)
def test_a_file_that_is_no_tree_of_the_run_is_refused(folder: RunFolder, name: str) -> None:
    tree_of(folder)
    folder.write_state(TREE_FILE, State(changed(name, folder.read_state(TREE_FILE).arrays)))
    with pytest.raises(InvalidInput, match=r"is not the tree of this run.*remove it, and it is made again"):
        tree_of(folder)


def test_a_tree_of_other_labels_is_refused(folder: RunFolder, tmp_path: Path) -> None:
    other = RunFolder.open(make_run(tmp_path / "other", seed=3))
    save_tree(folder, tree_of(other))
    with pytest.raises(InvalidInput, match="is not the tree of this run"):
        tree_of(folder)
