from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.report.folders import make_run
from tests.report.stories import pairing_run

from selfsort.report.drawings import Scatter
from selfsort.report.read import RunData, read_run
from selfsort.report.sections.attention import attended, attention, attention_pictures, centres, overlay
from selfsort.report.sections.pictures import Pictures
from selfsort.types import Arrays


def run_with(tmp_path: Path, extras: Arrays) -> RunData:
    return read_run(make_run(tmp_path / "run", extras=extras))


def test_attention_is_read_with_the_images_it_belongs_to(tmp_path: Path) -> None:
    maps = np.array([[[0.5, 2.0], [-1.0, np.nan]]], dtype=np.float32)
    found = attention(run_with(tmp_path, {"attention": maps, "attention_rows": np.array([7])}))
    assert found is not None
    assert found.rows.tolist() == [7]
    assert found.maps.tolist() == [[[0.5, 1.0], [0.0, 0.0]]]


@pytest.mark.parametrize("rows", [np.array([60]), np.array([1, 2]), np.array([0.5])])
def test_attention_of_unknown_images_is_passed_over(tmp_path: Path, rows: np.ndarray) -> None:
    assert attention(run_with(tmp_path, {"attention": np.ones((1, 2, 2)), "attention_rows": rows})) is None


def test_where_nothing_is_looked_at_the_picture_stays() -> None:
    gray = np.full((6, 4, 1), 90, dtype=np.uint8)
    assert (overlay(gray, np.zeros((2, 2), dtype=np.float32)) == 90).all()


def test_full_attention_is_red_and_half_of_it_green() -> None:
    gray = np.zeros((4, 4, 3), dtype=np.uint8)
    assert overlay(gray, np.ones((2, 2), dtype=np.float32))[0, 0].tolist() == [128, 0, 0]
    red, green, blue = overlay(gray, np.full((2, 2), 0.5, dtype=np.float32))[0, 0].tolist()
    assert green > red == blue


def test_a_map_is_stretched_smoothly() -> None:
    white = np.full((2, 8, 1), 255, dtype=np.uint8)
    blue = overlay(white, np.array([[0.0, 1.0]], dtype=np.float32))[0, :, 2].astype(int)
    assert blue[0] == 255
    assert blue[-1] == 0
    assert (np.diff(blue) <= 0).all()


def test_page_and_figure_show_the_same_images(tmp_path: Path) -> None:
    run = read_run(pairing_run(tmp_path / "run"))
    items, table = attended(run, Pictures(run), 12), attention_pictures(run)
    assert [item.row for item in items] == [5, 6, 7]
    assert items[0].soft.values == run.soft(np.array([5]))[0].tolist()
    assert table is not None
    assert (table.columns, len(table.cells)) == (3, 9)


def test_centres_are_counted_from_the_top(tmp_path: Path) -> None:
    bumps = np.tile(np.array([0.25, 0.125, 0.5], np.float32), (60, 1))
    run = read_run(make_run(tmp_path / "run", history={1: {"attention_parameters": bumps}}))
    found = centres(run)
    assert found is not None
    (panel,) = found.drawings
    assert isinstance(panel, Scatter)
    assert panel.place[0].tolist() == [0.25, 0.875]
    assert panel.caption == "mean width 0.50"
