from __future__ import annotations

import pytest

from selfsort.text import duration, plural, printable, sentence, short, shorten


@pytest.mark.parametrize(
    ("seconds", "expected"), [(0, "0.0 s"), (59.9, "59.9 s"), (59.97, "1.0 min"), (3599, "1.0 h"), (86400, "24.0 h")]
)
def test_no_time_span_shows_sixty(seconds: float, expected: str) -> None:
    assert duration(seconds) == expected


@pytest.mark.parametrize(
    ("value", "expected"), [(0, "0"), (-0.5, "-0.5"), (9999, "9999"), (10000, "10k"), (2.5e6, "2.5M"), (1e-5, "1e-05")]
)
def test_axis_numbers_are_short(value: float, expected: str) -> None:
    assert short(value) == expected


def test_a_name_is_cut_in_its_middle_only_when_too_long() -> None:
    assert shorten("x" * 120) == "x" * 120
    cut = shorten("folder/" + "x" * 200 + "/end.png", 41)
    assert len(cut) == 41
    assert cut.startswith("folder/")
    assert cut.endswith("/end.png")


def test_counts_and_sentences() -> None:
    assert plural(0, "file") == "0 files"
    assert sentence("") == ""


@pytest.mark.parametrize("bad", ["\x00", "\x1b", "\ud800", "\u202e", "\x85", "\ufffe"])
def test_what_no_page_can_show_is_replaced(bad: str) -> None:
    assert printable(f"a{bad}b") == "a\ufffdb"


def test_ordinary_names_stay() -> None:
    name = "Été/日本語 🐈\tzwei.png"
    assert printable(name) == name
