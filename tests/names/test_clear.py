from __future__ import annotations

import numpy as np
import pytest

from selfsort.names.clear import clear_words

WORDS = ["cats", "dogs"]


def said(*likely: float, least: float = 0.2) -> tuple[str, ...]:
    (found,) = clear_words(np.array([likely], np.float32), WORDS, least)
    return found


@pytest.mark.parametrize(
    ("likely", "expected"),
    [
        ((0.6, 0.3), ("cats",)),
        ((0.6, 0.31), ()),  # not twice the next
        ((0.2, 0.0), ("cats",)),
        ((0.19, 0.0), ()),  # too little
        ((0.3, 0.7), ("dogs",)),
        ((0.1, 0.2, 0.7), ()),  # what has no word is best
        ((0.1, 0.4, 0.3), ()),  # and a rival too
    ],
)
def test_a_word_is_likely_and_has_no_rival(likely: tuple[float, ...], expected: tuple[str, ...]) -> None:
    assert said(*likely) == expected


def test_the_least_is_what_the_model_makes_it() -> None:
    assert said(0.02, 0.001, least=0.01) == ("cats",)
    assert said(0.02, 0.001) == ()


def test_one_word_and_no_rival() -> None:
    assert clear_words(np.array([[0.5], [0.1]], np.float32), ["cats"]) == [("cats",), ()]
