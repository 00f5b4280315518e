"""Long lists whose entries are made when they are asked for: of a million pictures only names and places are held."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar, overload

import numpy as np

from selfsort.types import I64

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Lazy(Sequence[T_co], Generic[T_co]):
    """A sequence that knows how to make its entries; equal to any other with equal entries."""

    @abstractmethod
    def _at(self, place: int) -> T_co:
        """Make the entry at a place that exists."""

    @overload
    def __getitem__(self, place: int) -> T_co: ...

    @overload
    def __getitem__(self, place: slice) -> Sequence[T_co]: ...

    def __getitem__(self, place: int | slice) -> T_co | Sequence[T_co]:
        if isinstance(place, slice):
            return tuple(self._at(i) for i in range(*place.indices(len(self))))
        wanted = place + len(self) if place < 0 else place
        if not 0 <= wanted < len(self):
            raise IndexError(place)
        return self._at(wanted)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence) or isinstance(other, str):
            return NotImplemented
        return len(self) == len(other) and all(mine == theirs for mine, theirs in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]


class Chosen(Lazy[T]):
    """Some entries of a sequence."""

    def __init__(self, entries: Sequence[T], places: I64) -> None:
        self._entries, self._places = entries, places

    def __len__(self) -> int:
        return len(self._places)

    def _at(self, place: int) -> T:
        return self._entries[int(self._places[place])]


class Mapped(Lazy[T]):
    """What a function makes of the entries of a sequence."""

    def __init__(self, entries: Sequence[Any], make: Callable[[Any], T]) -> None:
        self._entries, self._make = entries, make

    def __len__(self) -> int:
        return len(self._entries)

    def _at(self, place: int) -> T:
        return self._make(self._entries[place])


def chosen(entries: Sequence[T], places: I64) -> Sequence[T]:
    """Return some entries of a sequence, or the sequence itself if all are chosen."""
    if len(places) == len(entries) and np.array_equal(places, np.arange(len(entries))):
        return entries
    return Chosen(entries, places)
