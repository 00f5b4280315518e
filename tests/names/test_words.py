from __future__ import annotations

import numpy as np
import pytest

from selfsort.names.words import date_words, folder_words, look_words, screen_words
from selfsort.types import U8


def plain(*colour: int) -> U8:
    return np.full((8, 8, len(colour)), colour, np.uint8)


class TestFolders:
    @pytest.mark.parametrize(
        ("name", "words"),
        [
            ("a.jpg", ()),
            ("sea/a.jpg", ("sea",)),
            ("2024/sea/a.jpg", ("2024/sea", "2024")),
            ("./../ /a.jpg", ()),
            ("old/Cluster 12/a.jpg", ("old",)),
            ("outliers/a.jpg", ()),
        ],
    )
    def test_innermost_first(self, name: str, words: tuple[str, ...]) -> None:
        assert folder_words(name) == words


class TestDates:
    def test_day_and_month(self) -> None:
        assert date_words(1704067199.5) == ("31 December 2023", "2023-12")

    @pytest.mark.parametrize("taken", [None, 0.0, -1e9])
    def test_a_clock_that_was_never_set_says_nothing(self, taken: float | None) -> None:
        assert date_words(taken) == ()


class TestScreens:
    @pytest.mark.parametrize("size", [(1170, 2532), (2532, 1170), (1920, 1080)])
    def test_usual_sizes(self, size: tuple[int, int]) -> None:
        assert screen_words(size) == (f"screens {size[0]}x{size[1]}",)

    @pytest.mark.parametrize("size", [None, (4032, 3024), (6000, 4000), (1024, 768), (1921, 1080)])
    def test_sizes_of_cameras(self, size: tuple[int, int] | None) -> None:
        assert screen_words(size) == ()


class TestLooks:
    @pytest.mark.parametrize(
        ("colour", "word"),
        [
            ((220, 20, 30), "red"),
            ((250, 140, 20), "orange"),
            ((120, 70, 20), "brown"),
            ((240, 220, 20), "yellow"),
            ((30, 160, 40), "green"),
            ((20, 200, 200), "turquoise"),
            ((20, 40, 230), "blue"),
            ((120, 20, 220), "purple"),
            ((250, 100, 180), "pink"),
            ((230, 20, 40), "red"),
            ((128, 128, 128), "gray"),
            ((130, 128, 127), "gray"),
        ],
    )
    def test_one_colour(self, colour: tuple[int, int, int], word: str) -> None:
        assert look_words(plain(*colour)) == (word,)

    def test_light(self) -> None:
        assert look_words(plain(10, 10, 10)) == ("gray", "dark")
        assert look_words(plain(230, 215, 225)) == ("bright",)
        assert look_words(plain(20)) == ("dark",)

    def test_a_page(self) -> None:
        page = plain(250, 250, 250)
        page[:2] = 20
        assert look_words(page)[:2] == ("black on white", "gray")

    def test_many_colours_are_none(self) -> None:
        halves = plain(220, 20, 30)
        halves[:4] = (20, 200, 200)
        assert look_words(halves) == ()

    def test_what_was_read_as_gray_is_not_called_so(self) -> None:
        assert look_words(plain(128)) == ()
