from __future__ import annotations

import numpy as np
import pytest
from tests.report.pages import Page, parse_text

from selfsort.report.drawings import (
    BarChart,
    Branch,
    Drawing,
    Line,
    LineChart,
    Matrix,
    Panels,
    Scatter,
    Sheet,
    TreeChart,
)
from selfsort.report.render.svg import draw, draw_panels


def drawn(drawing: Drawing) -> Page:
    return parse_text(draw(drawing))


def test_every_chart_has_words_for_those_who_cannot_see_it() -> None:
    charts: list[Drawing] = [
        LineChart("Loss", [Line("loss", [1, 2], [0.5, 0.25])]),
        BarChart("Sizes", [3, 1], ["0", "1"], alt="two clusters"),
        Matrix("Confusion", np.eye(2), [["1", "0"]] * 2, ["a", "b"], ["a", "b"], alt="x"),
        Scatter("Step 1", np.zeros((2, 2)), np.array([0, 1]), alt="dots"),
        TreeChart("Merges", [Branch((0, 0), (1, 0), 1, 0)], y_title="merge"),
    ]
    for chart in charts:
        page = drawn(chart)
        (drawing,) = page.all("svg")
        assert drawing.attributes["role"] == "img"
        assert drawing.attributes["aria-label"].startswith(page.all("figcaption")[0].text)
    sheet = drawn(Sheet("Filters: conv1", np.zeros((2, 2, 1), np.uint8), alt="four"))
    assert sheet.all("img")[0].attributes["alt"] == "Filters: conv1: four"


def test_panels_stand_between_what_is_said_before_and_after() -> None:
    chart = BarChart("x", [1], ["a"], alt="")
    page = parse_text(draw_panels(Panels([chart, chart], "before", "after")))
    outer = [e for e in page.elements if not e.path]
    assert [(e.tag, e.attributes["class"]) for e in outer] == [("p", "note"), ("div", "charts"), ("p", "note")]
    assert [outer[0].text, outer[2].text] == ["before", "after"]
    assert len(page.all("figure")) == 2


def test_a_tree_needs_no_room_around_it() -> None:
    page = parse_text(draw_panels(Panels([TreeChart("x", [Branch((0, 0), (1, 0), 1, -1)], "merge")])))
    assert [e.tag for e in page.elements if not e.path] == ["figure"]


def test_a_curve_has_a_gap_where_a_value_is_missing() -> None:
    chart = drawn(LineChart("x", [Line("a", [1, 2, 3, 4], [1.0, 2.0, None, 3.0])]))
    (path,) = [e for e in chart.all("path") if "line" in e.attributes["class"]]
    assert path.attributes["d"].count("M") == 2


def test_a_curve_that_never_moves_is_drawn() -> None:
    chart = drawn(LineChart("x", [Line("a", [1, 1], [0.0, 0.0])]))
    assert "NaN" not in chart.source
    assert "inf" not in chart.source


def test_scores_share_the_scale_from_zero_to_one() -> None:
    chart = drawn(LineChart("x", [Line("a", [0, 1], [0.4, 0.5])], is_share=True))
    assert {"0", "1"} <= {e.text for e in chart.all("text", "tick")}


def test_bars_are_as_high_as_their_values() -> None:
    chart = drawn(BarChart("x", [4, 2, 0], ["a", "b", "c"], alt=""))
    heights = [float(e.attributes["height"]) for e in chart.all("rect")]
    assert heights[0] == pytest.approx(2 * heights[1], abs=0.02)
    assert heights[2] == 0


def test_bars_have_the_colours_of_their_clusters() -> None:
    chart = drawn(BarChart("x", [4, 2], ["a", "b"], "", groups=[7, 21]))
    assert [e.attributes["class"] for e in chart.all("rect")] == ["box k7", "box k1"]


def test_labels_of_many_bars_are_thinned_out() -> None:
    names = [f"cluster {i}" for i in range(80)]
    chart = drawn(BarChart("x", [1] * 80, names, alt=""))
    assert 1 < len([e for e in chart.all("text") if e.text in names]) < 20


def test_empty_cells_are_not_drawn_and_large_tables_keep_numbers_as_tips() -> None:
    strength = np.eye(30)
    texts = [[str(int(v)) for v in row] for row in strength]
    names = [str(i) for i in range(30)]
    chart = drawn(Matrix("x", strength, texts, names, names, alt="", row_title="r", column_title="c"))
    assert len(chart.all("rect")) == 30
    assert not chart.all("text", "cell-text")
    assert chart.all("title")[3].text == "r 3, c 3: 1"


@pytest.mark.parametrize("n_axes", [2, 3])
def test_every_dot_is_drawn_in_the_colour_of_its_group(n_axes: int) -> None:
    place = np.random.default_rng(0).random((50, n_axes))
    chart = drawn(Scatter("x", place, np.arange(50) % 23, alt=""))
    paths = chart.all("path", "dots")
    assert sum(path.attributes["d"].count("M") for path in paths) == 50
    assert len(paths) == 20  # the colours begin again after twenty
