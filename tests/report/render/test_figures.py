from __future__ import annotations

from pathlib import Path

import matplotlib
import numpy as np

from selfsort.report.render.figures import draw_dots, draw_lines, panels, plain, save
from selfsort.report.render.svg import Line


def test_panels_stand_in_rows_and_none_is_left_over() -> None:
    figure, axes = panels(5, columns=3)
    assert len(axes) == len(figure.axes) == 5
    rows = {round(place.get_subplotspec().rowspan.start) for place in axes}  # type: ignore[union-attr]
    assert rows == {0, 1}


def test_names_can_be_drawn_whatever_they_hold(tmp_path: Path) -> None:
    figure, (axes,) = panels(1)
    axes.set_title(plain("$\\frac{ and 日本 \x00"))
    assert len(save(figure, tmp_path / "x")) == 2


def test_dots_take_the_colour_of_their_group_and_lines_leave_gaps() -> None:
    _, (left, right) = panels(2)
    draw_dots(left, np.zeros((3, 2)), np.array([0, 1, 21]), "x")
    (cloud,) = left.collections
    shown = cloud.get_array()
    assert shown is not None
    assert shown.tolist() == [0, 1, 1]
    draw_lines(right, [Line("a", [1, 2, 3], [1.0, None, 3.0]), Line("b", [1], [0.5], is_bound=True)], "x", "step")
    first, second = right.lines
    assert np.isnan(np.asarray(first.get_ydata(), dtype=float)).tolist() == [False, True, False]
    assert second.get_linestyle() == "--"


def test_files_are_the_same_every_time_and_carry_no_date(tmp_path: Path) -> None:
    written = []
    for name in ("a", "b"):
        with matplotlib.rc_context({"svg.hashsalt": "selfsort"}):
            figure, (axes,) = panels(1)
            axes.plot([1, 2])
            written.append(save(figure, tmp_path / name))
    for first, second in zip(*written, strict=True):
        assert first.read_bytes() == second.read_bytes()
    assert "date" not in (tmp_path / "a.svg").read_text()
