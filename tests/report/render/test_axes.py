from __future__ import annotations

import math

from selfsort.report.drawings import ticks
from selfsort.report.render.axes import colour, figure, label, linear, num


def test_a_range_of_no_width_has_one_tick_in_the_middle() -> None:
    assert ticks(3, 3) == [3]
    assert linear(3, 3, 0, 10)(3) == 5


def test_coordinates_are_short() -> None:
    assert num(1 / 3) == "0.33"
    assert all(len(num(math.pi * 10**p)) <= 6 for p in range(3))


def test_colours_begin_again() -> None:
    assert (colour(3), colour(23)) == ("k3", "k3")


def test_words_are_escaped_and_turned_about_their_place() -> None:
    assert label("<b>", 1, 2, "end", turn=-90).endswith('transform="rotate(-90 1 2)">&lt;b&gt;</text>')


def test_a_frame_without_legend_or_caption_has_neither() -> None:
    assert figure("x", None) == '<figure class="chart"><figcaption>x</figcaption></figure>'
