from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from selfsort.data.spreadsheet import as_text, from_text, is_as_text


@pytest.mark.parametrize("first", ["=", "+", "-", "@", "\t", "\r", "\n", "＝", "＠"])  # noqa: RUF001
def test_what_begins_like_a_formula_becomes_text(first: str) -> None:
    assert as_text(f"{first}1.png") == f"'{first}1.png"
    assert not is_as_text(f"{first}1.png")


@given(st.text("'=+-@\ta", max_size=6), st.text("'=+-@\ta", max_size=6))
@settings(derandomize=True, deadline=None)
def test_every_text_comes_back_and_no_two_become_one(one: str, other: str) -> None:
    assert from_text(as_text(one)) == one
    assert is_as_text(as_text(one))
    assert (as_text(one) == as_text(other)) == (one == other)
