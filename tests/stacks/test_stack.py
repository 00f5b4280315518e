from __future__ import annotations

from selfsort.stacks.stack import KINDS, Member, Stack, representatives


def test_the_best_of_a_stack_stands_for_all_of_it() -> None:
    stack = Stack(3, (Member(0, "copy"), Member(4, "burst")))
    assert stack.rows == (3, 0, 4)
    assert representatives([stack], 5).tolist() == [3, 1, 2, 3, 3]
    assert {member.kind for member in stack.others} <= set(KINDS)
