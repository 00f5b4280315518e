"""What a disk may hold after a loss of power: a model in which only that is certain which was brought to the disk.

Contents of a file are certain as they were when it was last synced, names in a folder as they were when the folder was
last synced. Anything since then may have arrived or not, and the last before the others: names that are new, names that
are gone, and half of what was written. Real file systems promise more (that a synced file has its name, say); nothing
here relies on it.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

WAYS = tuple(itertools.product(("none", "all", "last"), (False, True)))
"""Which new names have arrived, with half of the contents, and whether old ones have gone."""

Names = dict[int, dict[str, int]]
"""For each folder, what is called how in it; files and folders go by numbers."""


@dataclass(frozen=True)
class Moment:
    """A disk as programs see it, and what of it is certain."""

    names: Names
    data: dict[int, bytes]
    certain_names: Names
    certain_data: dict[int, bytes]
    before: Names
    """What was called how one moment earlier."""


class Recorder:
    """Notes what happens under a folder."""

    ROOT = 0

    def __init__(self, root: Path) -> None:
        self.root = root
        self.moments: list[Moment] = []
        self._numbers = itertools.count(self.ROOT)
        self._of_inode: dict[int, int] = {}
        self._certain_names: Names = {self.ROOT: {}}
        self._certain_data: dict[int, bytes] = {}

    def install(self) -> None:
        """Listen to this process, for good."""
        really = os.fsync

        def fsync(handle: int) -> None:
            really(handle)
            names, data = self._walk()
            number = self._of_inode.get(os.fstat(handle).st_ino)
            if number in names:
                self._certain_names[number] = names[number]
            elif number in data:
                self._certain_data[number] = data[number]

        setattr(os, "fsync", fsync)  # noqa: B010
        for name in ("replace", "rename", "unlink", "rmdir"):
            # A number that the file system gives out again after a removal is another file.
            setattr(os, name, self._followed_by_walk(getattr(os, name)))

    def _followed_by_walk(self, call: Callable[..., None]) -> Callable[..., None]:
        def followed(*arguments: Any, **options: Any) -> None:
            call(*arguments, **options)
            self._walk()

        return followed

    def look(self) -> None:
        """Note a moment at which the power might fail."""
        names, data = self._walk()
        before = self.moments[-1].names if self.moments else {}
        self.moments.append(Moment(names, data, dict(self._certain_names), dict(self._certain_data), before))

    def _walk(self) -> tuple[Names, dict[int, bytes]]:
        names: Names = {}
        data: dict[int, bytes] = {}
        alive: dict[int, int] = {}

        def visit(path: Path) -> int:
            inode = path.stat().st_ino
            number = alive[inode] = self._of_inode[inode] if inode in self._of_inode else next(self._numbers)
            if path.is_dir():
                names[number] = {entry.name: visit(entry) for entry in sorted(path.iterdir())}
            else:
                data[number] = path.read_bytes()
            return number

        visit(self.root)
        self._of_inode = alive
        return names, data


def disk_after(moment: Moment, way: tuple[str, bool]) -> dict[str, bytes | None]:
    """Return what is found after the power has failed at a moment: contents by name, None for folders."""
    arrived, has_lost = way

    def inside(folder: int) -> dict[str, int]:
        certain = moment.certain_names.get(folder, {})
        seen = moment.names.get(folder, certain)
        kept = {name: number for name, number in certain.items() if name in seen or not has_lost}
        if arrived == "none":
            return kept
        before = moment.before.get(folder, {}) if arrived == "last" else {}
        return kept | {name: number for name, number in seen.items() if before.get(name) != number}

    def contents(file: int) -> bytes:
        certain = moment.certain_data.get(file, b"")
        seen = moment.data.get(file, certain)
        if arrived == "none" or not seen.startswith(certain):
            return certain
        return certain + seen[len(certain) : (len(certain) + len(seen)) // 2]

    def walk(folder: int, above: str) -> Iterator[tuple[str, bytes | None]]:
        for name, number in inside(folder).items():
            if number in moment.names or number in moment.certain_names:
                yield above + name, None
                yield from walk(number, f"{above}{name}/")
            else:
                yield above + name, contents(number)

    return dict(walk(Recorder.ROOT, ""))


def write_disk(disk: dict[str, bytes | None], to: Path) -> None:
    """Put what was found on a disk into a folder."""
    to.mkdir(parents=True)
    for name, content in disk.items():
        if content is None:
            (to / name).mkdir()
        else:
            (to / name).write_bytes(content)
