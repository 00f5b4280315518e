from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.data.samples import noise, picture

from selfsort.data import read_source
from selfsort.data.detect import Recorded, open_recorded
from selfsort.data.gallery import Gallery
from selfsort.errors import InvalidInput, MissingData
from selfsort.types import U8

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")


def encoded(pixels: U8) -> bytes:
    buffer = io.BytesIO()
    picture(pixels).save(buffer, format="PNG")
    return buffer.getvalue()


def save(path: Path, first: int, last: int, *, is_noted: bool = True, **columns: Any) -> None:
    cells = [{"bytes": encoded(noise(seed=seed)), "path": f"{seed}.png"} for seed in range(first, last)]
    table = pa.table({"image": cells, "label": [seed % 2 for seed in range(first, last)], **columns})
    features = {"image": {"_type": "Image"}, "label": {"_type": "ClassLabel", "names": ["cat", "dog"]}}
    if is_noted:
        table = table.replace_schema_metadata({"huggingface": json.dumps({"info": {"features": features}})})
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path, row_group_size=2)


def test_the_layout_of_hugging_face(tmp_path: Path) -> None:
    save(tmp_path / "data" / "train-00001-of-00002.parquet", 5, 8)
    save(tmp_path / "data" / "train-00000-of-00002.parquet", 0, 5)
    save(tmp_path / "data" / "test-00000-of-00001.parquet", 8, 10)
    (tmp_path / "README.md").write_text("a card")
    data = read_source(tmp_path)
    assert data.ingest["kind"] == "parquet"
    assert data.names[:3] == (
        "data/test-00000-of-00001.parquet/0",
        "data/test-00000-of-00001.parquet/1",
        "data/train-00000-of-00002.parquet/0",
    )
    order = [8, 9, *range(8)]
    assert (data.images.pixels == np.stack([noise(seed=seed) for seed in order])).all()
    assert data.labels is not None
    assert data.labels.tolist() == [seed % 2 for seed in order]
    assert data.label_names == ("cat", "dog")
    assert read_source(tmp_path, where="split=train").names == data.names[2:]
    assert len(read_source(tmp_path, where="label=1")) == 5
    with pytest.raises(InvalidInput, match="split, label"):
        read_source(tmp_path, where="colour=1")


def test_one_file_with_a_broken_and_an_empty_cell(tmp_path: Path) -> None:
    good = encoded(noise(seed=0))
    cells = [{"bytes": good, "path": None}, {"bytes": b"text", "path": None}, None, {"bytes": good, "path": "x"}]
    outside = [{"bytes": None, "path": "/etc/hostname"}, {"bytes": None, "path": "../x.png"}]
    pq.write_table(pa.table({"picture": [*cells, *outside]}), tmp_path / "a.parquet")
    data = read_source(tmp_path / "a.parquet", max_bad=0.9)
    assert data.names == ("a.parquet/0", "a.parquet/3")
    assert data.labels is None
    reasons = {one["name"]: one["reason"] for one in data.ingest["skipped"]}
    assert reasons["a.parquet/2"] == "there is no picture in this row"
    assert reasons["a.parquet/4"] == reasons["a.parquet/5"] == "its file lies outside the folder"


def test_plain_bytes_and_unnoted_labels(tmp_path: Path) -> None:
    cells = [encoded(noise(seed=seed)) for seed in range(3)]
    pq.write_table(pa.table({"name": ["a", "b", "c"], "img": cells, "label": [4, 4, 7]}), tmp_path / "a.parquet")
    data = read_source(tmp_path)
    assert data.labels is not None
    assert data.labels.tolist() == [0, 0, 1]
    assert data.label_names == ("4", "7")
    assert read_source(tmp_path, where="name!=b").names == ("a.parquet/0", "a.parquet/2")


def test_rows_in_any_order(tmp_path: Path) -> None:
    save(tmp_path / "a.parquet", 0, 40)
    recorded = Recorded("parquet", (), read_source(tmp_path).spec)
    opened = open_recorded(str(tmp_path), recorded)
    assert isinstance(opened, Gallery)
    for row in (39, 0, 17, 16, 38, 1):
        with opened.items[row].open() as stream:
            assert stream.read() == encoded(noise(seed=row))


@pytest.mark.parametrize("content", [b"PAR1", b"PAR1" + bytes(100) + b"PAR1"])
def test_a_damaged_file(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.parquet").write_bytes(content)
    with pytest.raises(InvalidInput, match=r"a\.parquet"):
        read_source(tmp_path)


def test_damage_behind_the_header_skips_pictures(tmp_path: Path) -> None:
    save(tmp_path / "a.parquet", 0, 40)
    content = bytearray((tmp_path / "a.parquet").read_bytes())
    content[4:300] = bytes(296)
    (tmp_path / "a.parquet").write_bytes(content)
    data = read_source(tmp_path, max_bad=0.9)
    assert 30 < len(data) < 40


def test_no_pictures_and_other_columns(tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": [1.0]}), tmp_path / "a.parquet")
    with pytest.raises(InvalidInput, match="column of images"):
        read_source(tmp_path)
    save(tmp_path / "a.parquet", 0, 4)
    save(tmp_path / "b.parquet", 0, 4, other=[1, 2, 3, 4])
    with pytest.raises(InvalidInput, match=r"b\.parquet must have the columns of a\.parquet"):
        read_source(tmp_path)


def test_it_needs_its_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save(tmp_path / "a.parquet", 0, 4)
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(MissingData, match=r"selfsort\[datasets\]"):
        read_source(tmp_path)
