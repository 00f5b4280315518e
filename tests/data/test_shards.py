from __future__ import annotations

import io
import sys
import tarfile
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.data.samples import noise, picture

from selfsort.data import read_source
from selfsort.errors import InvalidInput, MissingData
from selfsort.types import U8


def encoded(pixels: U8) -> bytes:
    buffer = io.BytesIO()
    picture(pixels).save(buffer, format="PNG")
    return buffer.getvalue()


def save_shard(path: Path, members: dict[str, bytes], mode: Any = "w") -> None:
    with tarfile.open(path, mode) as archive:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))


def members(first: int, last: int, *, with_labels: bool = True) -> dict[str, bytes]:
    made: dict[str, bytes] = {}
    for number in range(first, last):
        made[f"{number:04d}.png"] = encoded(noise(seed=number))
        made[f"{number:04d}.json"] = b"{}"
        if with_labels:
            made[f"{number:04d}.cls"] = str(number % 2 + 5).encode()
    return made


def test_a_folder_of_shards(tmp_path: Path) -> None:
    save_shard(tmp_path / "b.tar", members(3, 5))
    save_shard(tmp_path / "a.tar", members(0, 3))
    data = read_source(tmp_path)
    assert data.names == ("a.tar/0000.png", "a.tar/0001.png", "a.tar/0002.png", "b.tar/0003.png", "b.tar/0004.png")
    assert (data.images.pixels == np.stack([noise(seed=seed) for seed in range(5)])).all()
    assert data.labels is not None
    assert data.labels.tolist() == [0, 1, 0, 1, 0]
    assert data.label_names == ("5", "6")
    assert data.paths is None
    assert data.ingest["kind"] == "webdataset"
    assert data.ingest["ignored"] == {".json": 5}


def test_one_shard_without_labels_and_with_a_broken_member(tmp_path: Path) -> None:
    made = members(0, 3, with_labels=False) | {"x/0009.jpg": b"text", "0001.cls": b"1"}
    save_shard(tmp_path / "a.tar", made)
    data = read_source(tmp_path / "a.tar", max_bad=0.5)
    assert len(data) == 3
    assert data.labels is None
    assert data.ingest["skipped"] == [{"name": "a.tar/x/0009.jpg", "reason": "not a picture: the content is text"}]


def test_member_names_cannot_reach_outside(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    save_shard(tmp_path / "in" / "a.tar", {"../evil.png": encoded(noise()), "/abs.png": encoded(noise(seed=1))})
    assert read_source(tmp_path / "in" / "a.tar").names == ("a.tar/../evil.png", "a.tar//abs.png")
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["a.tar", "in"]


def test_shards_of_no_use(tmp_path: Path) -> None:
    save_shard(tmp_path / "a.tar", {"notes.txt": b"hello"})
    with pytest.raises(InvalidInput, match=r"a.tar must hold pictures; got none"):
        read_source(tmp_path / "a.tar")
    save_shard(tmp_path / "b.tar", members(0, 3))
    whole = (tmp_path / "b.tar").read_bytes()
    (tmp_path / "b.tar").write_bytes(whole[:1600])
    with pytest.raises(InvalidInput, match=r"b.tar must be a whole, undamaged file; got no end mark"):
        read_source(tmp_path / "b.tar")
    save_shard(tmp_path / "c.tar.gz", members(0, 3), "w:gz")
    with pytest.raises(InvalidInput, match=r"a gzip file that is no idx file. Unpack it first"):
        read_source(tmp_path / "c.tar.gz")


# ---- Hugging Face datasets: the library is an extra, so a stand-in with its interface answers here ----------


class Image:
    def __init__(self, decode: bool = True) -> None:
        self.decode = decode


class ClassLabel:
    dtype = "int64"

    def __init__(self, names: list[str]) -> None:
        self.names = names


class Rows:
    """The part of `datasets.Dataset` that we use."""

    split = None

    def __init__(self, columns: dict[str, list[Any]], features: dict[str, Any]) -> None:
        self.columns, self.features = columns, features
        self.column_names = list(columns)

    def __len__(self) -> int:
        return len(self.columns["picture"])

    def cast_column(self, name: str, feature: Image) -> Rows:
        return Rows(self.columns, self.features | {name: feature})

    def __getitem__(self, key: str | int) -> Any:
        if isinstance(key, str):
            return self.columns[key]
        assert not self.features["picture"].decode, "the library must not decode: we do, in threads"
        return {name: values[key] for name, values in self.columns.items()}


def rows(first: int, last: int, labels: list[int]) -> Rows:
    cells = [{"bytes": encoded(noise(seed=seed)), "path": None} for seed in range(first, last)]
    features = {"picture": Image(), "kind": ClassLabel(["cat", "dog"])}
    return Rows({"picture": cells, "kind": labels}, features)


def pretend(monkeypatch: pytest.MonkeyPatch, loaded: Any) -> None:
    module = types.SimpleNamespace(Image=Image, ClassLabel=ClassLabel, load_from_disk=lambda path: loaded)
    monkeypatch.setitem(sys.modules, "datasets", module)


def test_datasets_folder_with_splits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "dataset_dict.json").write_text("{}")
    pretend(monkeypatch, {"train": rows(0, 3, [1, 0, 1]), "test": rows(3, 5, [-1, -1])})
    data = read_source(tmp_path)
    assert data.names == ("train/0", "train/1", "train/2", "test/0", "test/1")
    assert (data.images.pixels == np.stack([noise(seed=seed) for seed in range(5)])).all()
    assert data.labels is None  # the test split has none
    train = read_source(tmp_path, where="split=train")
    assert train.labels is not None
    assert train.labels.tolist() == [1, 0, 1]
    assert train.label_names == ("cat", "dog")


def test_datasets_folder_with_empty_cells_and_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("dataset_info.json", "state.json"):
        (tmp_path / name).write_text("{}")
    (tmp_path / "p.png").write_bytes(encoded(noise(seed=8)))
    loaded = rows(0, 3, [0, 1, 0])
    loaded.columns["picture"][1] = None
    loaded.columns["picture"][2] = {"bytes": None, "path": str(tmp_path / "p.png")}
    pretend(monkeypatch, loaded)
    data = read_source(tmp_path, max_bad=0.5)
    assert data.names == ("all/0", "all/2")
    assert (data.images.pixels[1] == noise(seed=8)).all()
    assert data.ingest["skipped"] == [{"name": "all/1", "reason": "there is no picture in this row"}]


def test_datasets_folder_without_images(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "dataset_dict.json").write_text("{}")
    pretend(monkeypatch, {"train": Rows({"picture": [1], "text": ["a"]}, {"picture": None, "text": None})})
    with pytest.raises(InvalidInput, match="must have a column of images; got picture, text"):
        read_source(tmp_path)


def test_datasets_folder_without_the_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "dataset_dict.json").write_text("{}")
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(MissingData, match=r'needs the package datasets.*pip install "selfsort\[datasets\]"'):
        read_source(tmp_path)


def test_datasets_folder_written_by_the_library(tmp_path: Path) -> None:
    library = pytest.importorskip("datasets")
    features = library.Features({"image": library.Image(), "label": library.ClassLabel(names=["cat", "dog"])})
    cells = [picture(noise(seed=seed)) for seed in range(4)]
    library.Dataset.from_dict({"image": cells, "label": [1, 0, 0, 1]}, features=features).save_to_disk(tmp_path / "d")
    data = read_source(tmp_path / "d")
    assert (data.images.pixels == np.stack([noise(seed=seed) for seed in range(4)])).all()
    assert data.label_names == ("cat", "dog")
