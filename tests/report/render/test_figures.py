from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from matplotlib.axes import Axes
from PIL import Image

from selfsort.report.drawings import (
    BarChart,
    Branch,
    Drawing,
    Line,
    LineChart,
    Matrix,
    Panels,
    Picture,
    PictureTable,
    Scatter,
    Sheet,
    TreeChart,
)
from selfsort.report.render.figures import draw_figure, plain, save

BARS = BarChart("bars", [3.0, 1.0], ["a", "b"], "", groups=[0, 25], x_title="cluster")


def axes_of(drawing: Drawing) -> Axes:
    (axes,) = draw_figure(Panels([drawing])).axes
    return axes


def test_panels_stand_in_rows_and_none_is_left_over() -> None:
    axes = draw_figure(Panels([BARS] * 5)).axes
    assert len(axes) == 5
    assert {place.get_subplotspec().rowspan.start for place in axes} == {0, 1}  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "drawing",
    [
        LineChart("$x$", [Line("日本 $\\frac{", [1, 2], [0.5, 0.25])], "$"),
        BarChart("$x$", [1.0] * 50, ["$"] * 50, "", x_title="\x00"),
        Matrix("$x$", np.eye(3), [["$"] * 3] * 3, ["$a"] * 3, ["$b"] * 3, ""),
        Scatter("$x$", np.zeros((2, 3)), np.array([0, 1]), "", "$"),
        TreeChart("$x$", [Branch((0, 0), (1, 0), 1, -1)], "merge"),
        Sheet("$x$", np.zeros((4, 4, 3), np.uint8), ""),
    ],
    ids=lambda drawing: type(drawing).__name__,
)
def test_everything_can_be_drawn_whatever_it_is_called(drawing: Drawing, tmp_path: Path) -> None:
    written = save(draw_figure(Panels([drawing])), tmp_path / "x")
    assert [path.name for path in written] == ["x.png", "x.svg"]


def test_names_are_safe_to_draw() -> None:
    assert plain("5 $ \x00") == "5 \\$ \ufffd"


def test_dots_take_the_colour_of_their_group() -> None:
    (cloud,) = axes_of(Scatter("x", np.zeros((3, 2)), np.array([0, 1, 21]), "")).collections
    shown = cloud.get_array()
    assert shown is not None
    assert shown.tolist() == [0, 1, 1]


def test_dots_in_space_are_drawn_in_space_and_captions_follow_titles() -> None:
    axes = axes_of(Scatter("Step 1", np.ones((2, 3)), np.array([0, 1]), "", "5 clusters"))
    assert axes.name == "3d"
    assert axes.get_title() == "Step 1, 5 clusters"


def test_outlines_hold_the_whole_circle_and_square() -> None:
    dots = np.full((1, 2), 0.5)
    circle = axes_of(Scatter("x", dots, np.array([0]), "", outline="circle"))
    assert circle.get_xlim()[0] < -1
    assert circle.get_ylim()[1] > 1
    assert axes_of(Scatter("x", dots, np.array([0]), "", outline="square")).get_xlim() == (0, 1)


def test_lines_leave_gaps_and_bounds_are_dashed() -> None:
    lines = [Line("a", [1, 2, 3], [1.0, None, 3.0]), Line("b", [1], [0.5], is_bound=True)]
    axes = axes_of(LineChart("x", lines, "step", is_share=True))
    first, second = axes.lines
    assert np.isnan(np.asarray(first.get_ydata(), dtype=float)).tolist() == [False, True, False]
    assert second.get_linestyle() == "--"
    assert axes.get_ylim() == (0, 1.02)


def test_bars_are_those_of_the_chart() -> None:
    axes = axes_of(BARS)
    assert [bar.get_height() for bar in axes.patches] == [3, 1]  # type: ignore[attr-defined]
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["a", "b"]
    assert axes.get_xlabel() == "cluster"


def test_cells_of_nothing_have_no_text() -> None:
    axes = axes_of(Matrix("x", np.eye(2), [["7", "0"], ["0", "9"]], ["a", "b"], ["c", "d"], ""))
    assert [text.get_text() for text in axes.texts] == ["7", "9"]


def test_a_table_of_pictures_may_have_holes_and_bars() -> None:
    gray = Picture(np.zeros((4, 4, 1), np.uint8), "3")
    figure = draw_figure(PictureTable([gray, None, gray, BARS], 2, side=1.0))
    assert [len(axes.images) for axes in figure.axes] == [1, 0, 1, 0]
    assert [len(axes.patches) for axes in figure.axes] == [0, 0, 0, 2]
    assert figure.axes[0].get_title() == "3"


def test_files_are_the_same_every_time_and_carry_no_date(tmp_path: Path) -> None:
    written = [save(draw_figure(Panels([BARS, BARS])), tmp_path / name) for name in ("a", "b")]
    for first, second in zip(*written, strict=True):
        assert first.read_bytes() == second.read_bytes()
    assert "date" not in (tmp_path / "a.svg").read_text()
    with Image.open(tmp_path / "a.png") as picture:
        assert min(picture.size) > 300
