from __future__ import annotations

import math

import numpy as np
import pytest
from tests.report.pages import parse_text

from selfsort.report.render.svg import (
    Line,
    bar_chart,
    count_histogram,
    histogram,
    line_chart,
    linear,
    matrix_chart,
    num,
    scatter_panel,
    ticks,
    tree_chart,
)
from selfsort.report.sections.trees import Branch


@pytest.mark.parametrize(("low", "high"), [(0, 1), (0.013, 0.017), (-5, 5), (0, 1e9), (99, 100), (0, 7)])
def test_ticks_are_round_few_and_inside(low: float, high: float) -> None:
    found = ticks(low, high)
    assert 2 <= len(found) <= 7
    assert all(low - 1e-9 <= value <= high + 1e-9 for value in found)
    assert np.allclose(np.diff(found), found[1] - found[0])


def test_a_range_of_no_width_has_one_tick_in_the_middle() -> None:
    assert ticks(3, 3) == [3]
    assert linear(3, 3, 0, 10)(3) == 5


def test_every_chart_has_words_for_those_who_cannot_see_it() -> None:
    charts = [
        line_chart("Loss", [Line("loss", [1, 2], [0.5, 0.25])]),
        bar_chart("Sizes", [3, 1], ["0", "1"], alt="two clusters"),
        histogram("Sure", np.array([0.1, 0.9]), low=0, high=1, alt="two images"),
        count_histogram("Sizes", np.array([3, 900]), alt="two clusters"),
        matrix_chart(
            "Confusion", np.eye(2), [["1", "0"]] * 2, ["a", "b"], ["a", "b"], alt="x", row_title="", column_title=""
        ),
        scatter_panel("Step 1", np.zeros((2, 2)), np.array([0, 1]), alt="dots"),
        tree_chart("Merges", [Branch((0, 0), (1, 0), 1, 0)], y_title="merge"),
    ]
    for chart in charts:
        page = parse_text(chart)
        (drawing,) = page.all("svg")
        assert drawing.attributes["role"] == "img"
        assert drawing.attributes["aria-label"].startswith(page.all("figcaption")[0].text)


@pytest.mark.parametrize("values", [[0], [1, 1, 3], [924, 1071, 1000], [5, 20, 21], [999_999, 12]])
def test_counts_are_binned_at_whole_numbers_and_none_is_lost(values: list[int]) -> None:
    page = parse_text(count_histogram("Sizes", np.array(values), alt="x", x_title="images"))
    tips = [e.text for e in page.all("title")]
    assert sum(int(tip.rsplit(" ", 1)[1].replace(",", "")) for tip in tips) == len(values)
    assert not [tip for tip in tips if "." in tip]


def test_a_curve_has_a_gap_where_a_value_is_missing() -> None:
    chart = parse_text(line_chart("x", [Line("a", [1, 2, 3, 4], [1.0, 2.0, None, 3.0])]))
    (path,) = [e for e in chart.all("path") if "line" in e.attributes["class"]]
    assert path.attributes["d"].count("M") == 2


def test_a_curve_that_never_moves_is_drawn() -> None:
    chart = parse_text(line_chart("x", [Line("a", [1, 1], [0.0, 0.0])]))
    assert "NaN" not in chart.source
    assert "inf" not in chart.source


def test_scores_share_the_scale_from_zero_to_one() -> None:
    chart = parse_text(line_chart("x", [Line("a", [0, 1], [0.4, 0.5])], is_share=True))
    assert {"0", "1"} <= {e.text for e in chart.all("text", "tick")}


def test_bars_are_as_high_as_their_values() -> None:
    chart = parse_text(bar_chart("x", [4, 2, 0], ["a", "b", "c"], alt=""))
    heights = [float(e.attributes["height"]) for e in chart.all("rect")]
    assert heights[0] == pytest.approx(2 * heights[1], abs=0.02)
    assert heights[2] == 0


def test_labels_of_many_bars_are_thinned_out() -> None:
    names = [f"cluster {i}" for i in range(80)]
    chart = parse_text(bar_chart("x", [1] * 80, names, alt=""))
    assert 1 < len([e for e in chart.all("text") if e.text in names]) < 20


def test_empty_cells_are_not_drawn_and_large_tables_keep_numbers_as_tips() -> None:
    strength = np.eye(30)
    texts = [[str(int(v)) for v in row] for row in strength]
    names = [str(i) for i in range(30)]
    chart = parse_text(matrix_chart("x", strength, texts, names, names, alt="", row_title="r", column_title="c"))
    assert len(chart.all("rect")) == 30
    assert not chart.all("text", "cell-text")
    assert chart.all("title")[3].text == "r 3, c 3: 1"


def test_every_dot_is_drawn_in_the_colour_of_its_group() -> None:
    place = np.random.default_rng(0).random((50, 2))
    chart = parse_text(scatter_panel("x", place, np.arange(50) % 23, alt=""))
    paths = chart.all("path", "dots")
    assert sum(path.attributes["d"].count("M") for path in paths) == 50
    assert len(paths) == 20  # the colours begin again after twenty


def test_coordinates_are_short() -> None:
    assert num(1 / 3) == "0.33"
    assert all(len(num(math.pi * 10**p)) <= 6 for p in range(3))
