"""The commands encoders and cache, as a person and as a program reads them."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests import foreign
from tests.cli.conftest import assert_refused
from tests.conftest import Command
from tests.encoders.test_registry import CARD

from selfsort.encoders import cache, registry
from selfsort.encoders.cache import Wanted, computed_rows


@pytest.fixture(autouse=True)
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv(cache.PLACE, str(tmp_path / "cache"))
    monkeypatch.delenv(cache.LIMIT, raising=False)
    return tmp_path / "cache"


def keep(folder: Path, **depends_on: object) -> None:
    wanted = Wanted(5, (2,), "<f4", {"encoder": "small", **depends_on})
    computed_rows(wanted, lambda first, last: np.zeros((last - first, 2)), folder=folder, what="testing", block=4)


class TestEncoders:
    def test_a_table_fits_a_terminal_and_says_what_to_install(
        self, selfsort: Command, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("COLUMNS", "80")
        monkeypatch.setitem(registry.OWN, "nobody", CARD)
        monkeypatch.setitem(registry.OWN, "somebody", replace(CARD, name="somebody", is_installed=lambda: True))
        done = selfsort("encoders")
        assert done.code == 0
        lines = [line.split() for line in done.out.splitlines()]
        assert lines[0] == ["encoder", "installed", "features", "input", "size", "licence"]
        assert ["nobody", "no", "2", "4", "px", "0", "MB", "MIT"] in lines
        assert ["somebody", "yes", "2", "4", "px", "0", "MB", "MIT"] in lines
        assert "efficientnet-lite0: trained on ImageNet" in done.out
        assert done.out.count("To install: pip install nobody") == 1
        assert "Also: auto (the images decide), none (pixels)" in done.out

    def test_json_has_everything(self, selfsort: Command, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(registry.OWN, "nobody", CARD)
        told = json.loads(selfsort("encoders", "--json").out)
        found = {row["name"]: row for row in told["encoders"]}
        assert {"efficientnet-lite0", "efficientnet-lite2", "nobody"} <= found.keys()
        assert told["errors"] == []
        assert found["nobody"] == {
            "name": "nobody",
            "installed": False,
            "dim": 2,
            "input": [4, 4, 3],
            "bytes": 1,
            "trained_on": "nothing",
            "licence": "MIT",
            "source": "Nobody 2000",
            "install": "pip install nobody",
            "package": "selfsort",
            "version": found["efficientnet-lite0"]["version"],
        }

    def test_one_that_cannot_be_loaded_does_not_hide_the_rest(
        self, selfsort: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        entry = {"module": "broken_encoder", "entries": "broken = broken_encoder:NOTHING"}
        foreign.install(tmp_path / "site", monkeypatch, group=registry.GROUP, **entry)
        done = selfsort("encoders")
        assert done.code == 0
        assert "efficientnet-lite2" in done.out
        assert "warning: " in done.err
        assert len(json.loads(selfsort("encoders", "--json").out)["errors"]) == 1


class TestCache:
    def test_an_empty_one(self, selfsort: Command, folder: Path) -> None:
        done = selfsort("cache")
        assert (done.code, done.out) == (
            0,
            f"0.0 of at most 10737 MB in {folder} (set {cache.PLACE} for another)\n",
        )
        assert not folder.exists()

    def test_what_is_kept_is_listed_and_cleared(self, selfsort: Command, folder: Path) -> None:
        keep(folder)
        keep(folder, views=["Flip()"])
        keep(folder, maps="abc")
        (folder / f"features-{'0' * 32}.npy.part").write_bytes(b"half")
        (folder / "mine.txt").write_text("precious")
        lines = [line.split()[:3] for line in selfsort("cache").out.splitlines()]
        assert lines[0] == ["encoder", "images", "of"]
        assert sorted(lines[1:5]) == [
            ["small", "5", "images"],
            ["small", "5", "maps"],
            ["small", "5", "views"],
            ["unfinished", "images", "0.0"],
        ]
        told = json.loads(selfsort("cache", "--json").out)
        assert told["folder"] == str(folder)
        assert told["limit"] == cache.DEFAULT_LIMIT
        assert told["bytes"] == sum(file["bytes"] for file in told["files"]) > 0
        assert sorted(file["whole"] for file in told["files"]) == [False, True, True, True]
        assert {file.get("encoder") for file in told["files"]} == {"small", None}
        done = selfsort("cache", "--clear")
        assert done.out.startswith("0.0 MB removed from ")
        assert [path.name for path in folder.iterdir()] == ["mine.txt"]

    def test_clearing_as_json_prints_json_alone(self, selfsort: Command, folder: Path) -> None:
        keep(folder)
        done = selfsort("cache", "--clear", "--json")
        assert json.loads(done.out)["files"] == []
        assert "removed from" in done.err

    def test_what_a_description_says_is_not_obeyed(self, selfsort: Command, folder: Path) -> None:
        keep(folder)
        (described,) = folder.glob("*.json")
        described.write_text(json.dumps({"encoder": "\x1b[2J[bold]x", "images": [1], "file": "other", "bytes": -5}))
        (rows,) = folder.glob("*.npy")
        os.utime(rows, ns=(2**62, 2**62))
        done = selfsort("cache")
        assert done.code == 0
        assert "\x1b" not in done.out
        assert "[bold]x" in done.out
        (file,) = json.loads(selfsort("cache", "--json").out)["files"]
        assert (file["file"], file["bytes"]) == (rows.name, rows.stat().st_size)

    def test_without_a_folder_there_is_nothing_to_show(
        self, selfsort: Command, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv(cache.PLACE, "")
        assert_refused(selfsort("cache"), "nothing is kept", f"Set {cache.PLACE}")
