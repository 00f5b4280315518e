"""What a criterion says: a value for every number of clusters it looked at, and its answer."""

from __future__ import annotations

from dataclasses import dataclass

from selfsort.types import F64, I64


@dataclass(frozen=True, eq=False)
class Criterion:
    """One criterion's curve; higher values speak for a number."""

    name: str
    ks: I64
    """Numbers of clusters, ascending."""
    values: F64
    answer: int
    """What it would choose alone; 1 if it sees nothing to divide."""
