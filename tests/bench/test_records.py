from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from selfsort.bench.records import append_record, read_records
from selfsort.errors import CannotWrite, InvalidInput


def record(key: str, acc: float = 0.5) -> dict[str, object]:
    return {
        "key": key,
        "dataset": "umist",
        "method": "kmeans",
        "settings_digest": "d",
        "seed": 0,
        "scores": {"acc": acc},
    }


def test_records_come_back_and_the_newest_counts(tmp_path: Path) -> None:
    append_record(tmp_path / "own", "classic", record("a", 0.1))
    append_record(tmp_path / "own", "classic", record("b"))
    append_record(tmp_path / "own", "classic", record("a", 0.2))
    found = read_records([tmp_path / "own"])
    assert list(found) == ["b", "a"]
    assert found["a"]["scores"] == {"acc": 0.2}
    append_record(tmp_path / "later", "another", record("b", 0.9))
    assert read_records([tmp_path / "own", tmp_path / "later"])["b"]["scores"] == {"acc": 0.9}
    assert read_records([tmp_path / "nowhere"]) == {}


def test_a_torn_line_is_left_out_and_taken_away(tmp_path: Path) -> None:
    append_record(tmp_path, "classic", record("a"))
    path = tmp_path / "classic.jsonl"
    whole = path.read_bytes()
    for torn in (b'{"key": "b", "da', b"\xff", json.dumps(record("b")).encode()):
        path.write_bytes(whole + torn)
        assert list(read_records([tmp_path])) == ["a"]
    append_record(tmp_path, "classic", record("c"))
    assert list(read_records([tmp_path])) == ["a", "c"]
    assert path.read_bytes().startswith(whole)
    assert path.read_bytes().count(b"\n") == 2


@pytest.mark.parametrize(
    "line", ["x", "[]", "{}", '{"key": 1}', json.dumps({**record("a"), "scores": {}, "refused": ""})]
)
def test_a_strange_line_is_refused_with_its_place(tmp_path: Path, line: str) -> None:
    append_record(tmp_path, "classic", record("a"))
    with (tmp_path / "classic.jsonl").open("a") as file:
        file.write(line + "\n")
    with pytest.raises(InvalidInput, match=r"line 2 of .*classic.jsonl is no record"):
        read_records([tmp_path])


def test_a_disk_that_refuses_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(CannotWrite, match="--records"):
        append_record(tmp_path, "classic", record("a"))
