from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from selfsort.data import read_source
from selfsort.data.hdf5 import MAGIC
from selfsort.errors import InvalidInput, MissingData


def save(path: Path, **arrays: Any) -> Path:
    h5py = pytest.importorskip("h5py")
    with h5py.File(path, "w") as file:
        for name, values in arrays.items():
            file[name] = values
    return path


def test_without_the_extra_one_sentence_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "h5py", None)
    (tmp_path / "a.h5").write_bytes(MAGIC + bytes(100))
    with pytest.raises(MissingData, match=r'Reading an HDF5 file needs the package h5py.*"selfsort\[hdf5\]"'):
        read_source(tmp_path / "a.h5")


PIXELS = np.random.default_rng(0).integers(0, 256, (5, 1, 6, 7), dtype=np.uint8)


@pytest.mark.parametrize("kind", ["uint8", "unit", "255"])
def test_images_and_labels_as_jule_released_them(tmp_path: Path, kind: str) -> None:
    data = {"uint8": PIXELS, "unit": (PIXELS / 255).astype(np.float32), "255": PIXELS.astype(np.float32)}[kind]
    path = save(tmp_path / "data4torch.h5", data=data, labels=np.array([[3, 3, 1, 1, 2]]).T, part=np.arange(5) % 2)
    found = read_source(path)
    assert found.ingest["kind"] == "hdf5"
    assert (found.images.pixels[:, :, :, 0] == PIXELS[:, 0]).all()
    assert found.labels is not None
    assert found.labels.tolist() == [2, 2, 0, 0, 1]
    assert read_source(path, where="part=1").names == ("1", "3")


def test_what_is_no_set_of_images_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="must hold an array called images or data; got x, y"):
        read_source(save(tmp_path / "a.h5", x=np.zeros(3), y=np.zeros(3)))
    with pytest.raises(InvalidInput, match=r"labels in b.h5 must have one entry per image \(5\)"):
        read_source(save(tmp_path / "b.h5", data=PIXELS, labels=np.zeros(4)))
    with pytest.raises(InvalidInput, match=r"In c.h5 \(data\)"):
        read_source(save(tmp_path / "c.h5", data=PIXELS.astype(np.float32) * 9))
    whole = save(tmp_path / "d.h5", data=PIXELS).read_bytes()
    (tmp_path / "e.h5").write_bytes(whole[:600])
    with pytest.raises(InvalidInput, match=r"e\.h5 must be a whole, undamaged file"):
        read_source(tmp_path / "e.h5")


def test_links_to_other_files_are_not_followed(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    save(tmp_path / "secret.h5", data=PIXELS)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["data"] = h5py.ExternalLink("secret.h5", "data")
    with pytest.raises(InvalidInput, match="must hold an array called images or data; got nothing"):
        read_source(tmp_path / "a.h5")
