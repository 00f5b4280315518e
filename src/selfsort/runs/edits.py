"""The edits a user can make, as values: what is written to the journal and replayed when a run is opened again.

An edit says all that is needed to do it again on the same labels: a split, for example, names the images of each part
and not how they were found.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeAlias

from selfsort.errors import InvalidInput
from selfsort.types import Json

MAX_NAME = 80
"""Characters a name may have."""


@dataclass(frozen=True)
class Rename:
    """Call a cluster something; an empty name gives it its number back."""

    cluster: int
    name: str


@dataclass(frozen=True)
class Merge:
    """Put all images of some clusters into one of them."""

    clusters: tuple[int, ...]
    into: int


@dataclass(frozen=True)
class Split:
    """Take parts of a cluster out, each into a new cluster of its own."""

    cluster: int
    parts: tuple[tuple[int, tuple[int, ...]], ...]
    """New cluster and its images."""


@dataclass(frozen=True)
class Move:
    """Put some images into a cluster, which may be new."""

    rows: tuple[int, ...]
    to: int


@dataclass(frozen=True)
class Mark:
    """Say that some images are wrong where they are, or that they are not."""

    rows: tuple[int, ...]
    is_wrong: bool


Edit: TypeAlias = Rename | Merge | Split | Move | Mark

KINDS: dict[str, type[Edit]] = {"rename": Rename, "merge": Merge, "split": Split, "move": Move, "mark": Mark}


def kind_of(edit: Edit) -> str:
    """Name an edit's kind.

    >>> kind_of(Move((1, 2), 0))
    'move'
    """
    return type(edit).__name__.lower()


def to_json(edit: Edit) -> Json:
    """Return JSON types."""
    return asdict(edit)


def from_json(kind: object, values: object) -> Edit:
    """Rebuild an edit from what the journal says, trusting none of it.

    >>> from_json("merge", {"clusters": [3, 5], "into": 3})
    Merge(clusters=(3, 5), into=3)
    """
    edit_type = KINDS.get(kind) if isinstance(kind, str) else None
    if edit_type is None or not isinstance(values, dict) or set(values) != set(edit_type.__dataclass_fields__):
        raise _damaged(f"an entry of the kind {str(kind)[:20]!r} lacks something or has too much")
    return _READERS[edit_type](values)


def _rename(values: Mapping[str, Any]) -> Edit:
    name = values["name"]
    if not isinstance(name, str) or len(name) > MAX_NAME or not name.isprintable():
        raise _damaged("a name is not a short text")
    return Rename(_number(values["cluster"]), name)


def _split(values: Mapping[str, Any]) -> Edit:
    parts = values["parts"]
    if not isinstance(parts, list) or not all(isinstance(part, list) and len(part) == 2 for part in parts):
        raise _damaged("the parts of a split are not pairs")
    return Split(_number(values["cluster"]), tuple((_number(new), _numbers(rows)) for new, rows in parts))


def _mark(values: Mapping[str, Any]) -> Edit:
    if not isinstance(values["is_wrong"], bool):
        raise _damaged("a mark is neither true nor false")
    return Mark(_numbers(values["rows"]), values["is_wrong"])


_READERS = {
    Rename: _rename,
    Merge: lambda values: Merge(_numbers(values["clusters"]), _number(values["into"])),
    Split: _split,
    Move: lambda values: Move(_numbers(values["rows"]), _number(values["to"])),
    Mark: _mark,
}


def _number(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 2**40:
        raise _damaged("a number is not a whole number from zero on")
    return value


def _numbers(values: object) -> tuple[int, ...]:
    if not isinstance(values, Sequence) or isinstance(values, str):
        raise _damaged("a list of numbers is something else")
    return tuple(_number(value) for value in values)


def _damaged(reason: str) -> InvalidInput:
    return InvalidInput(
        f"the edits of this run cannot be used ({reason}). Expected edits.sqlite as selfsort explore wrote it. "
        "It was changed or damaged: restore it, or move it away to begin without edits."
    )
