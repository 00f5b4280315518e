from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from selfsort.errors import InvalidInput
from selfsort.runs.edits import Edit, Mark, Merge, Move, Rename, Split
from selfsort.runs.labelling import Labelling


def labelling() -> Labelling:
    return Labelling(np.array([0, 0, 1, 1, 2, 2]))


def state(found: Labelling) -> tuple[list[int], list[bool], dict[int, str], int]:
    return found.labels.tolist(), found.is_wrong.tolist(), dict(found.names), found.n_ids


class TestEachEdit:
    def test_rename(self) -> None:
        found = labelling()
        assert found.name(1) == "Cluster 1"
        found.apply(Rename(1, "cats"))
        assert found.name(1) == "cats"
        found.apply(Rename(1, ""))
        assert found.name(1) == "Cluster 1"

    def test_merge(self) -> None:
        found = labelling()
        found.apply(Merge((0, 2), 2))
        assert found.labels.tolist() == [2, 2, 1, 1, 2, 2]

    def test_split(self) -> None:
        found = labelling()
        found.apply(Merge((0, 1), 0))
        found.apply(Split(0, ((3, (1,)), (4, (2, 3)))))
        assert found.labels.tolist() == [0, 3, 4, 4, 2, 2]
        assert found.n_ids == 5

    def test_move_to_an_old_and_to_a_new_cluster(self) -> None:
        found = labelling()
        found.apply(Move((0, 5), 1))
        assert found.labels.tolist() == [1, 0, 1, 1, 2, 1]
        found.apply(Move((5,), 3))
        assert found.labels.tolist() == [1, 0, 1, 1, 2, 3]
        assert found.sizes().tolist() == [1, 3, 1, 1]

    def test_a_mark_is_about_where_an_image_is(self) -> None:
        found = labelling()
        found.apply(Mark((0, 1), True))
        found.apply(Move((1,), 2))
        assert found.is_wrong.tolist() == [True, False, False, False, False, False]

    def test_the_labels_of_the_run_are_never_written_to(self) -> None:
        original = np.array([0, 0, 1])
        original.flags.writeable = False
        found = Labelling(original)
        found.apply(Move((0,), 1))
        assert original.tolist() == [0, 0, 1]


@pytest.mark.parametrize(
    "edit",
    [
        Rename(3, "x"),
        Rename(-1, "x"),
        Merge((1,), 1),
        Merge((1, 1), 1),
        Merge((0, 1), 2),
        Merge((0, 7), 0),
        Split(0, ()),
        Split(0, ((3, ()),)),
        Split(0, ((3, (0, 1)),)),  # nothing would stay
        Split(0, ((3, (2,)),)),  # of another cluster
        Split(0, ((5, (0,)),)),  # a number is left out
        Split(7, ((3, (0,)),)),
        Move((), 1),
        Move((0, 0), 1),
        Move((6,), 1),
        Move((-1,), 1),
        Move((0,), 4),
        Mark((99,), True),
    ],
)
def test_an_edit_that_does_not_fit_changes_nothing(edit: Edit) -> None:
    found = labelling()
    before = state(found)
    with pytest.raises(InvalidInput, match=r" must .+; got .+\. Reload the page and try again\."):
        found.apply(edit)
    assert state(found) == before


def test_an_emptied_cluster_is_no_cluster_any_more() -> None:
    found = labelling()
    found.apply(Move((0, 1), 1))
    with pytest.raises(InvalidInput, match="be one that has images; got 0"):
        found.apply(Rename(0, "x"))
    found.apply(Move((2,), found.n_ids))
    assert found.labels.tolist() == [1, 1, 3, 1, 2, 2], "numbers are not used twice"


ROWS = st.lists(st.integers(0, 5), min_size=1, max_size=6, unique=True).map(tuple)
ID = st.integers(0, 5)
EDITS = st.one_of(
    st.builds(Rename, ID, st.sampled_from(["", "cats", "dogs"])),
    st.builds(Merge, st.lists(ID, min_size=2, max_size=3).map(tuple), ID),
    st.builds(lambda c, new, rows: Split(c, ((new, rows),)), ID, ID, ROWS),
    st.builds(Move, ROWS, ID),
    st.builds(Mark, ROWS, st.booleans()),
)


@settings(derandomize=True, max_examples=200, deadline=None)
@given(st.lists(EDITS, max_size=12))
def test_undoing_everything_leads_back_through_every_state(edits: list[Edit]) -> None:
    found = labelling()
    past = []
    for edit in edits:
        before = state(found)
        try:
            past.append((before, found.apply(edit)))
        except InvalidInput:
            assert state(found) == before
    for before, undo in reversed(past):
        found.restore(undo)
        assert state(found) == before
    assert state(found) == state(labelling())
