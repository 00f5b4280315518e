"""What a stack is: pictures that a person would keep one of. Light, for all that only shows them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from selfsort.types import I64

Kind = Literal["copy", "re-encoded", "resized", "other light", "burst"]
KINDS: tuple[Kind, ...] = ("copy", "re-encoded", "resized", "other light", "burst")


@dataclass(frozen=True)
class Member:
    """A picture in a stack, and what makes it a duplicate of the best one."""

    row: int
    kind: Kind


@dataclass(frozen=True)
class Stack:
    """Pictures that a person would keep one of."""

    best: int
    others: tuple[Member, ...]

    @property
    def rows(self) -> tuple[int, ...]:
        """All of them, the best first."""
        return (self.best, *(member.row for member in self.others))


def representatives(stacks: list[Stack], n: int) -> I64:
    """Return for each of n pictures the one that stands for it: the best of its stack, or itself."""
    found: I64 = np.arange(n, dtype=np.int64)
    for stack in stacks:
        found[list(stack.rows)] = stack.best
    return found
