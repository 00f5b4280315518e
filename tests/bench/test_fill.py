from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.bench.drawn import write_umist

from selfsort.bench import fill as filling
from selfsort.bench.cells import Cell, key_of
from selfsort.bench.fill import Filled, expected_seconds, fill, parse_seeds
from selfsort.bench.records import read_records
from selfsort.bench.tables import Row, Table
from selfsort.errors import InvalidInput, TrainingFailed

ROWS = (Row("kmeans", is_random=True), Row("ac-gdl"), Row("ac-link"))
TABLE = Table(name="small", title="A small table", rows=ROWS, datasets=("umist",), n_seeds=2)
ALL = ["umist kmeans seed 0", "umist ac-gdl seed 0", "umist ac-link seed 0", "umist kmeans seed 1"]

Fill = Callable[..., Filled]


@pytest.fixture
def measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the cells in the order in which they were measured; the measuring itself is played."""
    names: list[str] = []

    def play(cell: Cell, fingerprint: str, cpu_limit: int) -> dict[str, Any]:
        if cell.method == "ac-link" and (tmp_path / "broken").exists():
            raise TrainingFailed("it broke")
        names.append(cell.name)
        content = cell.content()
        if cell.method == "kmeans" and cpu_limit < 60:
            return {"key": key_of(content, fingerprint), **content, "refused": "stopped", "cpu_limit": cpu_limit}
        result = {"scores": {"acc": 0.5, "nmi_geometric": 0.5}, "cpu_seconds": 1.0, "peak_memory_mb": 1.0}
        return {"key": key_of(content, fingerprint), **content, **result, "total_seconds": 50.0}

    monkeypatch.setattr(filling, "measure", play)
    write_umist(tmp_path / "data")
    monkeypatch.setenv("SELFSORT_DATA", str(tmp_path / "data"))
    return names


@pytest.fixture
def filled(tmp_path: Path) -> Fill:
    """Fill the table from what is on disk, as a new process would."""
    folder = tmp_path / "records"

    def run(**options: Any) -> Filled:
        return fill(TABLE, read_records([folder]), folder, say=lambda text: None, **options)

    return run


def test_what_was_measured_is_not_measured_again(measured: list[str], filled: Fill) -> None:
    assert filled(only="kmeans seed 0").n_measured == 1
    assert filled().n_measured == 3
    assert measured == ALL
    assert (filled().n_measured, filled().left) == (0, [])
    assert filled(again=True).n_measured == 4
    assert filled(seeds=[0, 7]).n_measured == 1
    assert measured[-1] == "umist kmeans seed 7"


def test_other_pixels_are_measured_anew(measured: list[str], filled: Fill, tmp_path: Path) -> None:
    filled()
    write_umist(tmp_path / "data", seed=1)
    assert filled().n_measured == 4


def test_a_kill_loses_only_the_cell_it_hit(measured: list[str], filled: Fill, monkeypatch: pytest.MonkeyPatch) -> None:
    play: Callable[[Cell, str, int], dict[str, Any]] = vars(filling)["measure"]

    def killed(cell: Cell, fingerprint: str, cpu_limit: int) -> dict[str, Any]:
        if len(measured) == 2:
            raise KeyboardInterrupt
        return play(cell, fingerprint, cpu_limit)

    with monkeypatch.context() as patched:
        patched.setattr(filling, "measure", killed)
        with pytest.raises(KeyboardInterrupt):
            filled()
    assert filled().n_measured == 2
    assert measured == ALL


def test_the_budget_stops_what_would_end_too_late(measured: list[str], filled: Fill) -> None:
    assert len(filled(budget_seconds=0).left) == 4
    # Nothing is known of how long the first will take, so it starts; the others are expected to take as long.
    found = filled(budget_seconds=40)
    assert (found.n_measured, [cell.name for cell in found.left]) == (1, ALL[1:])
    assert filled(budget_seconds=600).left == []


def test_what_was_stopped_is_measured_again_only_when_it_may_take_longer(measured: list[str], filled: Fill) -> None:
    assert filled(cell_seconds=30).n_measured == 4
    assert filled(cell_seconds=30).n_measured == filled(cell_seconds=20).n_measured == 0
    assert filled(cell_seconds=90).n_measured == 2  # the two seeds of kmeans
    assert filled(cell_seconds=900).n_measured == 0


def test_a_cell_that_fails_keeps_no_other_from_being_measured(
    measured: list[str], filled: Fill, tmp_path: Path
) -> None:
    (tmp_path / "broken").touch()
    found = filled()
    assert (found.n_measured, [cell.name for cell in found.left]) == (3, ["umist ac-link seed 0"])


def test_missing_data_leave_their_cells(measured: list[str], filled: Fill, monkeypatch: pytest.MonkeyPatch) -> None:
    filled(only="kmeans")
    monkeypatch.delenv("SELFSORT_DATA")
    found = filled()
    assert found.missing is not None
    assert [cell.name for cell in found.left] == ALL[1:3]


def test_expectations_come_from_the_same_images() -> None:
    records = {
        str(row): {"dataset": dataset, "method": method, "total_seconds": seconds}
        for row, (dataset, method, seconds) in enumerate(
            [("umist", "kmeans", 3.0), ("umist", "kmeans", 2.0), ("umist", "ncuts", 9.0), ("usps", "kmeans", 70.0)]
        )
    }
    expected = [
        expected_seconds(Cell(dataset=dataset, method=method, seed=5), records)
        for dataset, method in (("umist", "kmeans"), ("umist", "ac-gdl"), ("coil20", "kmeans"))
    ]
    assert expected == [3.0, 9.0, 0.0]


def test_only_that_fits_nothing_is_refused(measured: list[str], filled: Fill) -> None:
    with pytest.raises(InvalidInput, match="--only must occur in the name of a cell of small; got 'k-means'"):
        filled(only="k-means")


@pytest.mark.parametrize("text", ["", "0", "x", "1,x", ",", "-1", "1.5", "1,,2"])
def test_strange_seeds_are_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="--seeds"):
        parse_seeds(text)
