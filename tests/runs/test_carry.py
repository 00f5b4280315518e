from __future__ import annotations

import numpy as np

from selfsort.runs.carry import carry_over
from selfsort.runs.edits import Edit, Mark, Merge, Move, Rename, Split
from selfsort.runs.labelling import Labelling
from selfsort.types import I64

BEFORE = np.array([0, 0, 0, 1, 1, 2, 2, 2, 2])
JOINED = np.array([0, 0, 0, 0, 0, 1, 1, 1, 1])
PARTED = np.array([0, 0, 3, 1, 1, 2, 2, 2, 4])


def applied(edits: tuple[Edit, ...], after: I64) -> Labelling:
    labelling = Labelling(after)
    for edit in edits:
        labelling.apply(edit)
    return labelling


def test_a_name_stays_with_the_cluster_that_inherits_most() -> None:
    found = carry_over([Rename(0, "cats"), Rename(2, "owls")], BEFORE, PARTED)
    assert found.edits == (Rename(0, "cats"), Rename(2, "owls"))
    assert str(found) == "carried over: 2 names"


def test_of_two_names_that_of_the_most_images_stays_and_the_other_is_told() -> None:
    found = carry_over([Rename(1, "dogs"), Rename(0, "cats")], BEFORE, JOINED)
    assert found.edits == (Rename(0, "cats"),)
    assert str(found) == (
        "carried over: 1 name; not carried over: 1 name ('dogs'), of clusters that are part of others now"
    )


def test_a_name_that_was_taken_away_is_not_carried() -> None:
    assert carry_over([Rename(0, "cats"), Rename(0, "")], BEFORE, JOINED).edits == ()


def test_moved_images_stay_moved_where_their_target_is() -> None:
    found = carry_over([Move((0, 3), 2)], BEFORE, JOINED)
    assert found.edits == (Move((0, 3), 1),)
    assert str(found) == "carried over: 2 moved images"


def test_a_move_inside_what_is_one_cluster_now_says_nothing_any_more() -> None:
    found = carry_over([Move((0, 5), 1)], BEFORE, JOINED)
    assert found.edits == (Move((5,), 0),)
    assert str(found) == "carried over: 1 moved image; not carried over: 1 correction inside what is one cluster now"


def test_clusters_made_by_hand_are_made_again() -> None:
    edits: list[Edit] = [Move((0,), 3), Rename(3, "best"), Move((8,), 3), Split(2, ((4, (6, 7)),)), Rename(4, "half")]
    found = applied(carry_over(edits, BEFORE, JOINED).edits, JOINED)
    assert found.labels.tolist() == [2, 0, 0, 0, 0, 1, 3, 3, 2]
    assert found.names == {2: "best", 3: "half"}


def test_merged_clusters_are_merged_again_unless_they_are_one() -> None:
    assert carry_over([Merge((0, 1), 1)], BEFORE, JOINED).edits == ()
    found = carry_over([Merge((0, 2), 2), Rename(2, "all")], BEFORE, PARTED)
    assert found.edits == (Merge((0, 2), 2), Rename(2, "all"))


def test_what_comes_after_a_merge_follows_it() -> None:
    edits: list[Edit] = [Merge((0, 1), 0), Move((5,), 0), Merge((0, 2), 2), Move((8,), 3)]
    found = applied(carry_over(edits, BEFORE, PARTED).edits, PARTED)
    assert found.labels.tolist() == [2, 2, 3, 2, 2, 2, 2, 2, 5]


def test_marks_are_kept() -> None:
    found = carry_over([Mark((0, 4), True), Mark((4,), False)], BEFORE, JOINED)
    assert applied(found.edits, JOINED).is_wrong.nonzero()[0].tolist() == [0]
    assert str(found) == ""


def test_the_same_clustering_keeps_everything() -> None:
    edits: list[Edit] = [
        Rename(0, "cats"),
        Move((5, 6), 0),
        Split(2, ((3, (7,)),)),
        Merge((1, 3), 1),
        Mark((0,), True),
        Move((0,), 4),
    ]
    before, after = applied(tuple(edits), BEFORE), applied(carry_over(edits, BEFORE, BEFORE).edits, BEFORE)
    np.testing.assert_array_equal(before.labels, after.labels)
    np.testing.assert_array_equal(before.is_wrong, after.is_wrong)
    assert before.names == after.names
