from __future__ import annotations

from pathlib import Path

import numpy as np
from tests.report.folders import make_run

from selfsort.report.drawings import Sheet
from selfsort.report.read import RunData, read_run
from selfsort.report.sections.networks import activations, filters, network_sheets
from selfsort.types import Arrays


def run_with(tmp_path: Path, extras: Arrays) -> RunData:
    return read_run(make_run(tmp_path / "run", extras=extras))


def test_filters_fill_their_own_range(tmp_path: Path) -> None:
    weights = np.array([[[-1.0, 3.0]], [[5.0, 5.0]]], dtype=np.float32)
    found = filters(run_with(tmp_path, {"filters.conv1": weights, "filters.bad": np.ones((2, 2))}))
    assert list(found) == ["conv1"]
    assert found["conv1"][..., 0].tolist() == [[[0, 255]], [[0, 0]]]


def test_activations_are_scaled_map_by_map(tmp_path: Path) -> None:
    maps = np.array([[[[0.0, 1.0]], [[0.0, 9.0]]]], dtype=np.float32)
    found = activations(run_with(tmp_path, {"activations.a": maps, "activations.bad": np.ones((2, 2))}))
    assert list(found) == ["a"]
    assert found["a"][0, :, 0, :, 0].tolist() == [[0, 255], [0, 255]]


def test_sheets_show_what_fits(tmp_path: Path) -> None:
    extras = {"filters.a": np.ones((70, 5, 5), np.float32), "activations.b": np.ones((6, 20, 8, 8), np.float32)}
    found = network_sheets(run_with(tmp_path, extras))
    assert found is not None
    assert [(sheet.title, sheet.pixels.shape) for sheet in found.drawings if isinstance(sheet, Sheet)] == [
        ("Filters: a", (4 * 6 - 1, 16 * 6 - 1, 1)),
        ("Activations: b", (4 * 9 - 1, 12 * 9 - 1, 1)),
    ]
