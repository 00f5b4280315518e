from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.conftest import Command

from selfsort.errors import InvalidInput
from selfsort.runs.edits import Edit, Mark, Move, Rename
from selfsort.runs.export.levels import folders_above
from selfsort.runs.folder import RunFolder
from selfsort.runs.journal import Journal
from selfsort.runs.labels import current_labels


@pytest.fixture
def folder(tmp_path: Path, selfsort: Command) -> RunFolder:
    """Six clusters of five gray images each: three dark ones and three light ones."""
    values = np.repeat([10, 25, 40, 200, 220, 240], 5) + np.tile(np.arange(5), 6)
    pixels = np.zeros((30, 8, 8, 1), np.uint8)
    pixels[:, :, :4] = values[:, None, None, None]
    pixels[:, :, 4:] = 255 - values[:, None, None, None]
    np.savez(tmp_path / "gray.npz", images=pixels)
    words = ("--clusters", 6, "--method", "kmeans", "--encoder", "none", "--out", "run")
    assert selfsort("fit", tmp_path / "gray.npz", *words).code == 0
    return RunFolder.open("run")


def correct(folder: RunFolder, *edits: Edit) -> None:
    journal = Journal.open(folder.path)
    for edit in edits:
        journal.add(edit)
    journal.close()


def above(folder: RunFolder, n_levels: int = 2) -> dict[int, tuple[str, ...]]:
    return folders_above(folder, current_labels(folder), n_levels)


def test_dark_and_light_are_groups(folder: RunFolder) -> None:
    labels = folder.label_table().labels
    found = above(folder)
    groups = [found[int(labels[row])] for row in range(0, 30, 5)]
    assert len({*groups[:3]}) == len({*groups[3:]}) == 1
    assert groups[0] != groups[-1]
    assert {group[0] for group in groups} == {"group-00", "group-01"}


def test_one_level_is_none_above(folder: RunFolder) -> None:
    assert above(folder, 1) == {}


def test_levels_inside_each_other(folder: RunFolder) -> None:
    found = above(folder, 3)
    assert {len(names) for names in found.values()} == {2}
    outer = {names[1]: names[0] for names in found.values()}
    assert all(outer[names[1]] == names[0] for names in found.values()), "an inner group lies in one outer group"


def test_too_many_levels_for_the_clusters(folder: RunFolder, selfsort: Command) -> None:
    with pytest.raises(InvalidInput, match="--levels must be at most 5 for the 6 clusters of this run; got 6"):
        above(folder, 6)
    done = selfsort("export", "run", "--to", "csv", "--levels", 2)
    assert done.code == 2
    assert "--levels is for folders inside folders" in done.err


def test_groups_are_called_by_the_names_people_gave(folder: RunFolder) -> None:
    first, other = (int(folder.label_table().labels[row]) for row in (0, 29))
    correct(folder, Rename(first, "dark/er"), Rename(other, "Marked Wrong"))
    found = above(folder)
    assert found[first] == ("dark-er",)
    assert found[other] == ("Marked Wrong-2",), "beside the folder of images marked wrong"


def test_exported_with_corrections(folder: RunFolder, selfsort: Command) -> None:
    labels = folder.label_table().labels
    dark, light = int(labels[0]), int(labels[29])
    correct(folder, Move((1,), light), Mark((2,), True), Rename(light, "snow"), Move((29,), 6))
    done = selfsort("export", "run", "--to", "folders", "--levels", 2, "--out", "sorted")
    assert done.code == 0, done.err
    found = {file.name: file.relative_to("sorted").parts[:-1] for file in Path("sorted").rglob("*.png")}
    assert len(found) == 30
    assert found["1.png"] == found["28.png"] == ("snow", "snow")
    assert found["2.png"] == ("marked wrong",)
    assert found["0.png"][1] == f"cluster-{dark:02d}"
    assert found["29.png"] == ("snow", "cluster-06"), "where most of its images belong"
