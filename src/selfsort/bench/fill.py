"""Measure what a table lacks, within a budget of time."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from selfsort.bench.cells import CPU_LIMIT, Cell, key_of, label, measure
from selfsort.bench.datasets import find, missing
from selfsort.bench.records import keep_record, was_stopped_before
from selfsort.bench.summary import Summary
from selfsort.bench.tables import Table
from selfsort.errors import MissingData, TrainingFailed, invalid
from selfsort.types import Json


@dataclass(eq=False)
class Filled:
    """How a filling ended."""

    n_measured: int = 0
    left: list[Cell] = field(default_factory=list)
    missing: MissingData | None = None
    """Set if data sets are not on this machine; their cells are among those left."""
    slow: list[Cell] = field(default_factory=list)
    """Cells that need an accelerator, which is not there; they are among those left too."""

    def state(self, table: Table, summary: Summary) -> str:
        """Say how many seeds a row has on a data set, or why it has none."""
        if summary.records:
            return str(len(summary.records))
        if summary.refused:
            return "stopped" if summary.curve else "refused"
        if not _is_present(summary.dataset):
            return "needs data"
        cell = table.cell(summary.row, summary.dataset, 0)
        return "needs an accelerator" if cell in self.slow else "left"


def fill(
    table: Table,
    records: dict[str, Json],
    folder: Path,
    *,
    seeds: Sequence[int] | None = None,
    only: str = "",
    budget_seconds: float | None = None,
    again: bool = False,
    cell_seconds: int = CPU_LIMIT,
    say: Callable[[str], None] = print,
) -> Filled:
    """Measure the cells that are not among the records yet, and add them there and to the table's file.

    Args:
        table: the table.
        records: what was measured before, by key.
        folder: where the file of the table lies.
        seeds: which seeds; by default as many as the table has.
        only: leave out cells whose name does not hold this text.
        budget_seconds: start no cell that is expected to end after this long.
        again: measure also what was measured before.
        cell_seconds: stop a cell after so much processor time. One that was stopped sooner before is measured anew.
        say: told about each cell.
    """
    started = time.monotonic()
    cells = [cell for cell in table.cells(seeds) if only in cell.name]
    if not cells:
        raise invalid("--only", f"occur in the name of a cell of {table.name}", repr(only), f"Try {table.datasets[0]}.")
    present = {dataset: _is_present(dataset) for dataset in table.datasets}
    filled = Filled()
    if absent := sorted({cell.dataset for cell in cells if not present[cell.dataset]}):
        filled.missing = missing(absent)
    fingerprints: dict[tuple[str, int | None], str] = {}
    fast = {row.name for row in table.rows if row.needs_accelerator} if not has_accelerator() else set()
    for cell in cells:
        if present[cell.dataset] and fast and _row_name(cell) in fast and not _is_asked_for(only, cell):
            if _record_of(cell, records) is None or again:
                filled.slow.append(cell)
                filled.left.append(cell)
            continue
        if not present[cell.dataset]:
            if _record_of(cell, records) is None or again:
                filled.left.append(cell)
            continue
        if (form := (cell.dataset, cell.side)) not in fingerprints:
            fingerprints[form] = cell.read().fingerprint
        fingerprint = fingerprints[form]
        before = records.get(key_of(cell.content(), fingerprint))
        if before is not None and not again and not was_stopped_before(before, cell_seconds):
            continue
        remaining = None if budget_seconds is None else budget_seconds - (time.monotonic() - started)
        if remaining is not None and (remaining <= 0 or expected_seconds(cell, records) > remaining):
            filled.left.append(cell)
            continue
        try:
            record = measure(cell, fingerprint, cell_seconds)
        except TrainingFailed as error:  # one that fails must not keep the others from being measured
            say(str(error))
            filled.left.append(cell)
            continue
        keep_record(records, folder, table.name, record)
        filled.n_measured += 1
        say(f"{cell.name}: {_told(record)}")
    return filled


def has_accelerator() -> bool:
    """Whether there is one on this machine."""
    from selfsort.learning.device import choose_device

    return choose_device("auto").type != "cpu"


def _row_name(cell: Cell) -> str:
    return label(cell.method, cell.settings, cell.encoder, cell.recipe)


def _is_asked_for(only: str, cell: Cell) -> bool:
    """Whether somebody wants just this cell, however long it takes here."""
    return only == cell.name


def expected_seconds(cell: Cell, records: Mapping[str, Json]) -> float:
    """Guess how long a cell will take: as its method did on these images at worst, else as any did; 0 if none did."""
    on_these = [record for record in records.values() if record["dataset"] == cell.dataset]
    of_method = [record for record in on_these if record["method"] == cell.method]
    return max((float(record.get("total_seconds", 0.0)) for record in of_method or on_these), default=0.0)


def parse_seeds(text: str) -> list[int]:
    """Read --seeds: how many, or which.

    >>> parse_seeds("3"), parse_seeds("4,7"), parse_seeds("5,")
    ([0, 1, 2], [4, 7], [5])
    """
    if re.fullmatch(r"[1-9]\d{0,3}", text):
        return list(range(int(text)))
    if not re.fullmatch(r"\d{1,9}(,\d{1,9})*,?", text) or "," not in text:
        raise invalid("--seeds", "be how many, or which ones with commas", repr(text), "Give --seeds 3 or --seeds 0,1.")
    return list(dict.fromkeys(int(word) for word in text.split(",") if word))


def _is_present(dataset: str) -> bool:
    try:
        find(dataset)
    except MissingData:
        return False
    return True


def _record_of(cell: Cell, records: Mapping[str, Json]) -> Json | None:
    """Find the record of a cell whose images are not at hand: the newest of any images of that name."""
    content = cell.content().items()
    return next((record for record in reversed(list(records.values())) if content <= record.items()), None)


def _told(record: Json) -> str:
    if "refused" in record:
        return str(record["refused"])
    scores = record["scores"]
    return (
        f"NMI {scores['nmi_geometric']:.3f}  ACC {scores['acc']:.3f}  {record['cpu_seconds']:.1f} s of processor time, "
        f"{record['peak_memory_mb']:.0f} MB"
    )
