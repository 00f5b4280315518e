from __future__ import annotations

import json
from pathlib import Path

from tests.conftest import Command
from tests.stacks.scenes import album


def test_a_folder(tmp_path: Path, selfsort: Command) -> None:
    root, out = album(tmp_path / "album"), tmp_path / "stacks.csv"
    done = selfsort("duplicates", str(root), "--encoder", "none", "--out", str(out))
    assert done.code == 0, done.err
    assert "19 pictures, 2 stacks; 7 are spare (1 copy, 1 re-encoded, 1 resized, 1 other light, 3 burst)" in done.out
    assert "keep 00.jpg; spare:" in done.out
    assert "Nothing was moved or deleted." in done.out
    assert out.read_text().count("\n") == 10


def test_json(tmp_path: Path, selfsort: Command) -> None:
    root = album(tmp_path / "album", 2)
    (root / "torn.jpg").write_bytes(b"\xff\xd8\xff\xe0")
    done = selfsort("duplicates", str(root), "--encoder", "none", "--json", "--max-bad", "1")
    told = json.loads(done.out)
    assert told["spare"]["all"] == 7
    assert {one["best"] for one in told["stacks"]} >= {"00.jpg"}
    assert [one["name"] for one in told["skipped"]] == ["torn.jpg"]


def test_an_output_is_never_replaced(tmp_path: Path, selfsort: Command) -> None:
    root, out = album(tmp_path / "album", 2), tmp_path / "mine.csv"
    out.write_text("mine")
    done = selfsort("duplicates", str(root), "--out", str(out))
    assert done.code == 2
    assert out.read_text() == "mine"


def test_a_source_that_is_not_there(tmp_path: Path, selfsort: Command) -> None:
    done = selfsort("duplicates", str(tmp_path / "nothing"))
    assert done.code == 2
    assert "is not there" in done.err


def test_an_unknown_encoder(tmp_path: Path, selfsort: Command) -> None:
    done = selfsort("duplicates", str(album(tmp_path / "album", 3)), "--encoder", "none-such")
    assert done.code == 2
    assert "--encoder" in done.err
