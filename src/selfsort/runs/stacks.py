"""Where a run keeps its stacks of duplicates: `stacks.json`, beside labels.csv."""

from __future__ import annotations

from collections.abc import Sequence

from selfsort.errors import InvalidInput
from selfsort.runs.folder import RunFolder
from selfsort.stacks.stack import KINDS, Kind, Member, Stack, representatives
from selfsort.types import I64

STACKS = "stacks.json"


def save_stacks(folder: RunFolder, stacks: Sequence[Stack]) -> None:
    """Keep the stacks of a run."""
    told = [{"best": stack.best, "others": [[one.row, one.kind] for one in stack.others]} for stack in stacks]
    folder.write_json(STACKS, {"stacks": told})


def load_stacks(folder: RunFolder, n_images: int) -> list[Stack] | None:
    """Return the stacks that a run keeps, trusting none of it; None if nobody has looked for any."""
    if not (folder.path / STACKS).is_file():
        return None
    told = folder.read_json(STACKS).get("stacks")
    try:
        assert isinstance(told, list)
        found = [
            Stack(_row(one["best"], n_images), tuple(Member(_row(row, n_images), _kind(k)) for row, k in one["others"]))
            for one in told
        ]
        rows = [row for stack in found for row in stack.rows]
        assert len(set(rows)) == len(rows)
        assert all(stack.others for stack in found)
    except (AssertionError, KeyError, TypeError, ValueError):
        raise InvalidInput(
            f"{folder.path / STACKS} cannot be used. Expected what selfsort duplicates wrote. It was changed or "
            f"damaged: remove it and run selfsort duplicates {folder.path} again."
        ) from None
    return found


def stored_representatives(folder: RunFolder, n_images: int) -> I64 | None:
    """Return which image stands for each in a run that was made with stacks; None in any other."""
    if not folder.config.get("stack_duplicates"):
        return None
    stacks = load_stacks(folder, n_images)
    if stacks is None:
        raise InvalidInput(
            f"the run {folder.path} was made of stacks, and its {STACKS} is missing. Expected it there. "
            "Restore it, or start a new run."
        )
    return representatives(stacks, n_images)


def _row(value: object, n_images: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < n_images:
        raise ValueError(value)
    return value


def _kind(value: object) -> Kind:
    if value not in KINDS:
        raise ValueError(value)
    return next(kind for kind in KINDS if kind == value)
