"""Pictures that `export --mode move` has put elsewhere: the run knows the export, and its journal knows each file.

A run keeps the places of such exports in `moved.json`. The journal lies in the export, as `.selfsort-moves.json`, and
is written before the first file is moved. It says what is to go where; where the file is shows what has gone already.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from selfsort.data.options import ReadOptions
from selfsort.errors import InvalidInput, MissingData
from selfsort.runs.files import write_whole
from selfsort.runs.folder import RunFolder

JOURNAL = ".selfsort-moves.json"
MOVED = "moved.json"
_LARGEST = 1 << 30
_FORMAT = 1


@dataclass(frozen=True)
class Move:
    """One file: what the run calls it, where it was, and its place inside the export."""

    name: str
    source: str
    place: str


@dataclass(frozen=True)
class Moves:
    """The journal of an export."""

    run: str
    moves: tuple[Move, ...]
    is_done: bool = False

    def write(self, export: Path) -> None:
        """Write the journal whole."""
        told = {
            "format": _FORMAT,
            "run": self.run,
            "is_done": self.is_done,
            "moves": [[one.name, one.source, one.place] for one in self.moves],
        }
        text = json.dumps(told).encode()  # bytes of names that are not UTF-8 are spelt as halves of characters
        write_whole(export / JOURNAL, lambda file: file.write(text))

    @classmethod
    def read(cls, export: Path) -> Moves:
        """Read the journal of an export, trusting none of it."""
        path = export / JOURNAL
        if not path.is_file() or path.is_symlink():
            raise MissingData(
                f"{export} holds no journal of moved files. Expected a folder that selfsort export --mode move made. "
                "Check the path; copies and links need no undoing, remove them as you like."
            )
        try:
            if path.stat().st_size > _LARGEST:
                raise ValueError
            told = json.loads(path.read_bytes())
            if told["format"] != _FORMAT:
                raise ValueError
            moves = tuple(Move(*map(_text, entry)) for entry in told["moves"])
            if not all(_is_inside(one.place) and Path(one.source).is_absolute() for one in moves):
                raise ValueError
            return cls(_text(told["run"]), moves, told["is_done"] is True)
        except (ValueError, KeyError, TypeError, RecursionError, OSError):
            raise InvalidInput(
                f"{path} cannot be used. Expected what selfsort export --mode move wrote. It was changed or damaged: "
                "restore it, or move the files back by hand."
            ) from None


def moved_pictures(folder: RunFolder) -> dict[str, Path]:
    """Return where the pictures of a run are that were moved: name to file, those that are there."""
    found: dict[str, Path] = {}
    for export in exports_of(folder):
        try:
            journal = Moves.read(export)
        except (InvalidInput, MissingData):  # undone, or taken away: the pictures may be back where they were
            continue
        for one in journal.moves:
            place = export / one.place
            if place.is_file():
                found[one.name] = place
    return found


def exports_of(folder: RunFolder) -> list[Path]:
    """Return the exports that pictures of a run were moved to."""
    if not (folder.path / MOVED).is_file():
        return []
    told = folder.read_json(MOVED).get("exports")
    if not isinstance(told, list) or not all(isinstance(one, str) and "\0" not in one for one in told):
        raise InvalidInput(
            f"{folder.path / MOVED} cannot be used. Expected what selfsort export wrote. It was changed or damaged: "
            "restore it, or remove it if no picture was moved."
        )
    return [Path(one) for one in told]


def remember(folder: RunFolder, export: Path) -> None:
    """Let a run know an export before files are moved there."""
    kept = [str(one) for one in exports_of(folder)]
    if str(export) not in kept:
        folder.write_json(MOVED, {"exports": [*kept, str(export)]})


def recorded_reading(folder: RunFolder, names: Sequence[str]) -> ReadOptions:
    """Say how to read the pictures of a run again, wherever they are now."""
    source, image = folder.field("source", dict), folder.field("image", dict)
    return ReadOptions.from_run(source, folder.source_kind, names, image, moved_pictures(folder))


def picture_paths(folder: RunFolder, names: Sequence[str]) -> list[str]:
    """Return where the pictures of a run are, whether they can be read or not; empty for those that are no files."""
    kind, source = folder.source_kind, folder.config.get("source")
    path = source.get("path") if isinstance(source, dict) else None
    if kind not in ("folder", "list") or not isinstance(path, str):
        return [""] * len(names)
    moved: Mapping[str, Path] = moved_pictures(folder)
    root = path if kind == "folder" else os.path.dirname(path)  # noqa: PTH120 - texts of a stranger, not looked at
    return [str(moved[name]) if name in moved else os.path.normpath(os.path.join(root, name)) for name in names]  # noqa: PTH118


def _text(value: object) -> str:
    if not isinstance(value, str) or "\0" in value:
        raise ValueError(value)
    return value


def _is_inside(place: str) -> bool:
    path = PurePosixPath(place)
    return bool(path.parts) and not path.is_absolute() and ".." not in path.parts and "\\" not in place
