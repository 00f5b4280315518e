from __future__ import annotations

from pathlib import Path

from tests.report.folders import make_run
from tests.report.stories import boosting_run, merging_run, pairing_run

from selfsort.report.read import read_run
from selfsort.report.stage_figures import STAGE_FIGURES


def drawn(path: Path) -> dict[str, int]:
    """Name every figure that applies, with its number of axes."""
    run = read_run(path)
    figures = {name: draw(run) for name, draw in STAGE_FIGURES.items()}
    return {name: len(figure.axes) for name, figure in figures.items() if figure is not None}


def test_jule(tmp_path: Path) -> None:
    assert drawn(merging_run(tmp_path / "run")) == {"stages": 3, "merge-tree": 1}


def test_dac_gatcluster_and_secu(tmp_path: Path) -> None:
    assert drawn(pairing_run(tmp_path / "run")) == {
        "circle": 4,
        "score-histograms": 4,
        "thresholds": 2,
        "size-bounds": 1,
        "attention": 9,
        "attention-centres": 4,
        "filters": 2,
    }


def test_dbc(tmp_path: Path) -> None:
    assert drawn(boosting_run(tmp_path / "run")) == {"stage-maps": 2, "circle": 2, "score-histograms": 2}


def test_a_method_that_kept_nothing(tmp_path: Path) -> None:
    assert drawn(make_run(tmp_path / "run")) == {}
