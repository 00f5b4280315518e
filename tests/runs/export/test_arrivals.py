from __future__ import annotations

import errno
import shutil
from pathlib import Path

import numpy as np
import pytest
from tests.conftest import write_photos
from tests.runs.corrected import corrected

from selfsort.data import read_source
from selfsort.errors import CannotWrite
from selfsort.runs.edits import Rename
from selfsort.runs.export.arrivals import drop_into_folders
from selfsort.runs.labels import current_labels


def test_names_of_people_and_numbers_for_what_has_none(tmp_path: Path) -> None:
    labels = current_labels(corrected(tmp_path / "run", Rename(0, "cats/dogs")))
    dataset = read_source(write_photos(tmp_path / "new", n_per_class=1))
    came = drop_into_folders(tmp_path / "out", dataset, np.array([0, 1, 5]), labels)
    assert came == {"cats-dogs": 1, "cluster-01": 1, "cluster-05": 1}
    first = tmp_path / "new" / dataset.names[0]
    assert (tmp_path / "out/cats-dogs" / first.name).read_bytes() == first.read_bytes()


def test_another_picture_of_the_same_name_gets_a_number(tmp_path: Path) -> None:
    labels = current_labels(corrected(tmp_path / "run"))
    dataset = read_source(write_photos(tmp_path / "new", n_per_class=1))
    (tmp_path / "out/cluster-00").mkdir(parents=True)
    mine = tmp_path / "out/cluster-00" / Path(dataset.names[0]).name
    mine.write_bytes(b"mine")
    for n_new in (1, 0):
        came = drop_into_folders(tmp_path / "out", dataset, np.array([0, 1, 1]), labels)
        assert came["cluster-00"] == n_new
    assert mine.read_bytes() == b"mine"
    assert sorted(path.name for path in mine.parent.iterdir()) == [f"{mine.stem}-2.png", mine.name]


def test_a_full_disk_leaves_no_half_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(source: Path, place: Path) -> None:
        place.write_bytes(b"half")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(shutil, "copyfile", full)
    labels = current_labels(corrected(tmp_path / "run"))
    dataset = read_source(write_photos(tmp_path / "new", n_per_class=1))
    with pytest.raises(CannotWrite, match="give the command again"):
        drop_into_folders(tmp_path / "out", dataset, np.array([0, 1, 1]), labels)
    assert not [path for path in (tmp_path / "out").rglob("*") if path.is_file()]
