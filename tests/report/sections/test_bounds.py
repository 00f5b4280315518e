from __future__ import annotations

from pathlib import Path

import numpy as np
from tests.report.stories import pairing_run

from selfsort.report.drawings import LineChart
from selfsort.report.read import read_run
from selfsort.report.sections.bounds import size_bounds, size_trace
from selfsort.report.stages import Stage


def test_sizes_are_followed_with_their_bounds() -> None:
    rows = np.arange(1)
    stages = [
        Stage(1, rows, sizes=np.array([3, 0, 9]), event={"size_lower": 2.5}),
        Stage(2, rows),
        Stage(3, rows, sizes=np.array([4, 4, 4]), event={"size_lower": 2.5, "size_upper": 6}),
    ]
    assert [(t.step, t.smallest, t.largest, t.lower, t.upper) for t in size_trace(stages)] == [
        (1, 0, 9, 2.5, None),
        (3, 4, 4, 2.5, 6.0),
    ]


def test_bounds_are_dashed(tmp_path: Path) -> None:
    found = size_bounds(read_run(pairing_run(tmp_path / "run")))
    assert found is not None
    (chart,) = found.drawings
    assert isinstance(chart, LineChart)
    assert [(line.name, line.is_bound) for line in chart.lines] == [
        ("largest", False),
        ("smallest", False),
        ("lower bound", True),
        ("upper bound", True),
    ]
