"""Moving pictures into folders, and putting them back: nothing is ever replaced, and a kill at any point loses nothing.

The whole plan is written before the first file moves. A file is linked to its new place and then taken from the old
one, which no file system does by halves; on another disk it is copied, brought there, and then taken away. So at any
moment each file is where it was, where it goes, or in both places; going on and going back can both tell which.
"""

from __future__ import annotations

import filecmp
import os
import re
import secrets
import shutil
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from selfsort.data.decode import HEAD_BYTES, is_picture_head
from selfsort.errors import CannotWrite, InvalidInput
from selfsort.progress import track
from selfsort.runs.folder import RunFolder
from selfsort.runs.moved import JOURNAL, Move, Moves, remember
from selfsort.text import shorten

_JOURNAL_PART = re.compile(r"\.[0-9a-f]{16}\.part")
_PART = re.compile(r"\.selfsort-[0-9a-f]{16}\.part")


@dataclass(frozen=True)
class Undone:
    """What came of putting files back."""

    n_back: int
    missing: tuple[str, ...]
    """Neither where they were nor where they went."""
    blocked: tuple[str, ...]
    """Still in the export: another file has their old place, or they are no pictures any more."""

    @property
    def is_whole(self) -> bool:
        """Whether all is as it was."""
        return not (self.missing or self.blocked)


def move_pictures(
    folder: RunFolder, out: Path, paths: Sequence[Path], names: Sequence[str], places: Sequence[Path]
) -> Path:
    """Move pictures into a new folder.

    Args:
        folder: the run, which will know where they are.
        out: the folder to make, or one in which a move of this run was interrupted.
        paths: the files.
        names: what the run calls them.
        places: where each goes inside the folder.
    """
    out = Path(os.path.abspath(out))  # noqa: PTH100 - resolve() would follow links
    try:
        if is_interrupted(folder, out):
            plan = Moves.read(out)
        else:
            _refuse(paths)
            out.mkdir(parents=True, exist_ok=True)
            absolute = [os.path.abspath(path) for path in paths]  # noqa: PTH100
            rows = zip(names, absolute, places, strict=True)
            plan = Moves(
                str(folder.path.resolve()), tuple(Move(name, at, place.as_posix()) for name, at, place in rows)
            )
            plan.write(out)
        remember(folder, out)
        for one in track(plan.moves, "moving", len(plan.moves)):
            source, target = Path(one.source), out / one.place
            if os.path.lexists(target) and not os.path.lexists(source):
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            _move(source, target)
        _sweep({out / one.place for one in plan.moves})
        replace(plan, is_done=True).write(out)
    except OSError as error:
        if isinstance(error, CannotWrite):
            raise
        raise CannotWrite(
            f"a picture could not be moved ({error.strerror or error}: {error.filename}). Expected a writable place on "
            f"both sides. Run the same command again to go on, or selfsort undo {out} to go back; nothing is lost."
        ) from error
    return out


def undo_moves(export: Path) -> Undone:
    """Put every file of an export back where it was; what has gone on the way is told."""
    export = Path(os.path.abspath(export))  # noqa: PTH100
    plan = Moves.read(export)
    n_back, missing, blocked = 0, [], []
    try:
        for one in track(reversed(plan.moves), "putting back", len(plan.moves)):
            source, target = Path(one.source), export / one.place
            is_there, is_back = os.path.lexists(target), os.path.lexists(source)
            if not is_there:
                n_back += is_back
                if not is_back:
                    missing.append(one.name)
            elif not _is_picture(target) or (is_back and not _is_same(target, source)):
                blocked.append(one.name)
            else:
                source.parent.mkdir(parents=True, exist_ok=True)
                _move(target, source)
                n_back += 1
        _sweep({Path(one.source) for one in plan.moves} | {export / one.place for one in plan.moves})
        if not (missing or blocked):
            _remove_empty(export, plan)
    except OSError as error:
        raise CannotWrite(
            f"a picture could not be put back ({error.strerror or error}: {error.filename}). Expected a writable place "
            f"on both sides. Run selfsort undo {export} again; nothing is lost."
        ) from error
    return Undone(n_back, tuple(missing), tuple(blocked))


def is_interrupted(folder: RunFolder, out: Path) -> bool:
    """Whether a move of this run was interrupted there."""
    if not (out / JOURNAL).is_file():
        return False
    plan = Moves.read(out)
    return not plan.is_done and plan.run == str(folder.path.resolve())


def can_move_to(folder: RunFolder, out: Path) -> bool:
    """Whether pictures can be moved to a place: it is free, or empty, or they were on their way there."""
    if not os.path.lexists(out) or is_interrupted(folder, out):
        return True
    return out.is_dir() and not out.is_symlink() and not _contents(out)


def _contents(out: Path) -> list[str]:
    """Return what a folder holds, but for what a kill while the journal was written has left."""
    return [name for name in os.listdir(out) if not _JOURNAL_PART.fullmatch(name)]  # noqa: PTH208


def _refuse(paths: Sequence[Path]) -> None:
    links = [path for path in paths if path.is_symlink()]
    twice = [path for path, count in Counter(map(os.path.abspath, paths)).items() if count > 1]
    if links:
        raise InvalidInput(
            f"{len(links)} pictures are links, such as {shorten(str(links[0]))!r}, and a link that is moved may lead "
            "nowhere. Expected files. Use --mode copy, hardlink or symlink."
        )
    if twice:
        raise InvalidInput(
            f"the run has {len(twice)} files twice, such as {shorten(str(twice[0]))!r}, and a file can be moved once. "
            "Expected each file once. Use --mode copy, hardlink or symlink."
        )


def _move(source: Path, target: Path) -> None:
    """Move a file and replace nothing; in the end it is in one place, wherever a kill has left it before."""
    if os.path.lexists(target):
        if not _is_same(source, target):
            raise FileExistsError(17, "another file is there", str(target))
    else:
        try:
            os.link(source, target, follow_symlinks=False)
        except FileExistsError:
            raise
        except OSError:  # another disk, or a file system without such links
            _copy(source, target)
    _sync_folder(target.parent)
    os.unlink(source)  # noqa: PTH108 - the tests of kills watch the calls of os


def _copy(source: Path, target: Path) -> None:
    part = target.parent / f".selfsort-{secrets.token_hex(8)}.part"
    try:
        shutil.copy2(source, part)
        with part.open("rb+") as file:
            os.fsync(file.fileno())
        if os.path.lexists(target):
            raise FileExistsError(17, "another file is there", str(target))
        os.rename(part, target)  # noqa: PTH104
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def _is_same(one: Path, other: Path) -> bool:
    """Whether two places hold the same picture: one file, or equal bytes."""
    if one.is_symlink() or other.is_symlink():
        return False
    return one.samefile(other) or filecmp.cmp(one, other, shallow=False)


def _is_picture(path: Path) -> bool:
    """Whether a file is what may be put back: a foreign journal must not put anything anywhere."""
    if path.is_symlink() or not path.is_file():
        return False
    with path.open("rb") as file:
        head = file.read(HEAD_BYTES)
    return is_picture_head(head) or head[:2] in (b"P1", b"P2", b"P3", b"P4", b"P5", b"P6")


def _sweep(files: set[Path]) -> None:
    """Remove what a kill in the middle of a copy has left beside files."""
    for folder in {file.parent for file in files}:
        with suppress(OSError):
            for name in os.listdir(folder):  # noqa: PTH208
                if _PART.fullmatch(name):
                    (folder / name).unlink(missing_ok=True)


def _remove_empty(export: Path, plan: Moves) -> None:
    """Take the folders away that are empty now, the deepest first; what a person has put there stays."""
    folders = {export / parent for one in plan.moves for parent in Path(one.place).parents} - {export}
    for folder in sorted(folders, key=lambda path: -len(path.parts)):
        with suppress(OSError):
            os.rmdir(folder)  # noqa: PTH106
    for name in os.listdir(export):  # noqa: PTH208
        if _JOURNAL_PART.fullmatch(name):
            (export / name).unlink(missing_ok=True)
    (export / JOURNAL).unlink()
    with suppress(OSError):
        os.rmdir(export)  # noqa: PTH106


def _sync_folder(folder: Path) -> None:
    """Bring the names in a folder to the disk before the old ones go."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
