from __future__ import annotations

import numpy as np
import pytest

from selfsort.data.lazy import Mapped, chosen


def test_entries_are_made_when_asked_for() -> None:
    made = []

    def make(number: int) -> int:
        made.append(number)
        return 10 * number

    lazy = Mapped(range(5), make)
    assert len(lazy) == 5
    assert made == []
    assert (lazy[1], lazy[-1], lazy[1:3]) == (10, 40, (10, 20))
    assert made == [1, 4, 1, 2]
    assert list(lazy) == [0, 10, 20, 30, 40]
    with pytest.raises(IndexError):
        lazy[5]
    with pytest.raises(IndexError):
        lazy[-6]


def test_it_equals_what_has_equal_entries() -> None:
    lazy = Mapped((1, 2), str)
    assert lazy == ("1", "2")
    assert lazy == Mapped((1, 2), str)
    assert lazy != ("1",)
    assert lazy != ("1", "3")
    assert lazy != "12"


def test_all_chosen_is_the_sequence_itself() -> None:
    letters = ("a", "b", "c")
    assert chosen(letters, np.arange(3)) is letters
    assert chosen(letters, np.array([2, 0])) == ("c", "a")
    assert len(chosen(letters, np.array([], dtype=np.int64))) == 0
