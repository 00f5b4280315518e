"""The noun the graph functions share: who is near whom, and how near."""

from __future__ import annotations

from dataclasses import dataclass

from selfsort.errors import invalid
from selfsort.types import F32, I64


@dataclass(frozen=True, eq=False)
class Neighbours:
    """The K nearest items of each of N rows, nearest first; equal distances by lowest index.

    Any search may fill it (`knn.nearest_neighbours`, an approximate index, a GPU library).
    """

    idx: I64
    """(N, K) which items."""
    sq_dist: F32
    """(N, K) squared Euclidean distances, ascending along a row."""
    n_asked: int = 0
    """How many neighbours the caller wanted; more than K if the data set is too small for that."""
    recall: float | None = None
    """Share of the true neighbours that an approximate search has found, as a sample says; None: it was exact."""

    def __post_init__(self) -> None:
        if self.idx.ndim != 2 or self.idx.shape != self.sq_dist.shape:
            raise invalid(
                "idx and sq_dist",
                "be two tables of the same shape (rows, neighbours)",
                f"{self.idx.shape} and {self.sq_dist.shape}",
                "Pass the two tables of one search.",
            )

    def __len__(self) -> int:
        return len(self.idx)

    @property
    def event(self) -> dict[str, float]:
        """What a run says of its search: nothing of an exact one."""
        return {} if self.recall is None else {"neighbour_recall": round(self.recall, 4)}

    @property
    def n_neighbours(self) -> int:
        """K, the neighbours each row really has."""
        return int(self.idx.shape[1])

    @property
    def is_short(self) -> bool:
        """True if there were fewer items than neighbours asked for."""
        return self.n_neighbours < self.n_asked
