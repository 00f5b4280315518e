"""`selfsort methods` and `selfsort bench`: lists, measures, prints; what is missing is said and no traceback."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.bench.drawn import write_umist
from tests.cli.conftest import assert_refused
from tests.conftest import Command

from selfsort.bench import records as shelf
from selfsort.bench.tables import TABLES
from selfsort.methods import registry


@pytest.fixture(autouse=True)
def _nothing_shipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shelf, "SHIPPED", tmp_path / "shipped")


def test_tables_are_listed(selfsort: Command) -> None:
    done = selfsort("bench")
    assert done.code == 0
    assert all(name in done.out for name in TABLES)
    listed = json.loads(selfsort("bench", "--json").out)["tables"]
    states = {table["name"]: table["state"] for table in listed}
    assert states.keys() >= TABLES.keys()
    assert states["classic"] == "none of 196 combinations measured yet."


def test_a_cell_is_measured_once_and_shown(selfsort: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_umist(tmp_path / "data")
    monkeypatch.setenv("SELFSORT_DATA", str(tmp_path / "data"))
    words = ["bench", "classic", "--only", "umist ac-link seed"]
    done = selfsort(*words)
    assert done.code == 0
    assert done.err.startswith("umist ac-link seed 0: NMI ")
    assert "(.643)" not in done.err
    lines = (tmp_path / "shipped/classic.jsonl").read_text().splitlines()
    assert len(lines) == 1
    again = selfsort("bench", "classic", "--only", "umist ac-link", "--json", "--budget-minutes", "0")
    found = json.loads(again.out)
    assert (found["measured"], found["left"]) == (0, 1)  # centre=yes is left
    assert found["rows"][0]["nmi"]["published"] == 0.643
    assert again.err == "1 cells are left, the first is umist ac-link (centre=yes) seed 0.\n"
    shown = selfsort("bench", "classic", "--only", "umist ac-link", "--budget-minutes", "0")
    assert "(.643)" in shown.out
    # Records of one's own lie beside those that ship.
    other = selfsort(*words, "--again", "--records", "own")
    assert (other.code, len(Path("own/classic.jsonl").read_text().splitlines())) == (0, 1)
    assert len((tmp_path / "shipped/classic.jsonl").read_text().splitlines()) == 1


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["clasic"], "Did you mean classic?"),
        (["classic", "--seeds", "x"], "--seeds"),
        (["classic", "--only", "k-means"], "--only"),
        (["classic", "--budget-minutes", "-1"], "--budget-minutes"),
    ],
)
def test_wrong_use(selfsort: Command, monkeypatch: pytest.MonkeyPatch, words: list[str], part: str) -> None:
    monkeypatch.delenv("SELFSORT_DATA", raising=False)
    done = selfsort("bench", *words)
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert part in done.err


def test_a_table_is_shown_with_what_it_needs(selfsort: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SELFSORT_DATA", raising=False)
    done = selfsort("bench", "gatcluster-1-imagenet-dog-128")
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert "the variable SELFSORT_DATA is not set" in done.err
    assert "image-net.org" in done.err
    assert ".333" in done.out
    assert "needs" in done.out
    found = json.loads(selfsort("bench", "gatcluster-2", "--json").out)
    assert {row["state"] for row in found["rows"]} == {"needs data"}
    assert found["rows"][0]["acc"]["published_runs"] == [0.583, 0.537, 0.033]


def test_methods(selfsort: Command) -> None:
    done = selfsort("methods")
    assert all(name in done.out for name in registry.METHODS)
    assert "\x1b" not in done.out
    assert {row["name"] for row in json.loads(selfsort("methods", "--json").out)["methods"]} == set(registry.METHODS)
    assert "n_restarts" in selfsort("methods", "kmeans").out
    assert [row["name"] for row in json.loads(selfsort("methods", "--json").out)["stages"]] == [
        "self-label",
        "cut",
        "consensus",
        "update",
        "corrections",
        "teach",
    ]
    assert "min_agreement" in selfsort("methods", "self-label").out
    improvable = json.loads(selfsort("methods", "dac", "--json").out)["settings"]
    assert [row["name"] for row in improvable][-6:] == [
        "improve.starts",
        "improve.start_length",
        "improve.regroup_every",
        "improve.warm_start",
        "improve.warm_passes",
        "improve.shrink",
    ]
    names = [row["name"] for row in json.loads(selfsort("methods", "jule", "--json").out)["settings"]]
    assert [name for name in names if name.startswith("improve.")] == ["improve.shrink"]
    settings = json.loads(selfsort("methods", "kmeans", "--json").out)["settings"]
    own = [row["name"] for row in settings if not row["name"].startswith("encoder.")]
    assert own == ["n_clusters", "centre", "n_restarts", "max_iterations"]
    assert "encoder.views" in [row["name"] for row in settings]
    assert_refused(selfsort("methods", "kmeens"), "Did you mean kmeans?")
