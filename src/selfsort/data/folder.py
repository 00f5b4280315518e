"""Pictures as files: a folder, however deep, or a list of paths.

What counts as a picture in a folder:
- hidden files and folders (a name that starts with a dot) and `__MACOSX` are passed over;
- a file that starts like a picture is one, whatever its name;
- a file with a picture's suffix that is none, or cannot be opened, is *skipped* with a reason;
- everything else (notes, tables, other formats) is *ignored* and counted by suffix.
Links to folders are followed; each folder is entered once, so a loop of links ends.
"""

from __future__ import annotations

import os
import re
import stat
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from hashlib import sha256
from pathlib import Path, PurePath
from typing import IO

from selfsort.data.datasets import Skipped
from selfsort.data.decode import HEAD_BYTES, PICTURE_SUFFIXES, Unreadable, explain, is_picture_head
from selfsort.data.gallery import Gallery, Item
from selfsort.data.lazy import Lazy
from selfsort.errors import MissingData, invalid

_LONGEST_LINE = 1 << 16

_SPELT_BYTE = re.compile(r"\\(?=x[0-9a-f]{2})")


def printable(name: str) -> str:
    r"""Return a name that any file or terminal can hold: bytes that are not UTF-8 are spelt out.

    A name that holds such a spelling already has its backslash spelt out, so that no two names become one.

    >>> printable(os.fsdecode(b"caf\xe9.png")), printable(r"caf\xe9.png"), printable(r"a\b.png")
    ('caf\\xe9.png', 'caf\\x5cxe9.png', 'a\\b.png')
    """
    if name.isascii() and "\\" not in name:
        return name
    name = _SPELT_BYTE.sub(r"\\x5c", name)
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def stored_name(path: PurePath) -> str:
    """Return what a picture is called in a run: with forward slashes, whatever system it was listed on."""
    return printable(path.as_posix())


def expanded(path: str | os.PathLike[str]) -> Path:
    """Return a path in which `~` is the home folder; an unknown `~name` is a name like any other."""
    return Path(os.path.expanduser(path))  # noqa: PTH111 - Path.expanduser raises on unknown names


def open_file(path: Path) -> IO[bytes]:
    """Open a regular file; a pipe or a device could block for ever and is refused."""
    try:
        mode = path.stat().st_mode
    except ValueError:
        raise Unreadable("no file can have such a name") from None
    if stat.S_ISDIR(mode):
        raise Unreadable("it is a folder")
    if not stat.S_ISREG(mode):
        raise Unreadable("not a regular file")
    return path.open("rb")


class Files(Lazy[Item]):
    """Picture files, of which only names and places are held."""

    def __init__(self, names: Sequence[str], places: Sequence[str], root: Path | None = None) -> None:
        """Take names as a run has them, and where the files are, below a folder or in full."""
        self.names, self._places, self._root = names, places, root

    def __len__(self) -> int:
        return len(self.names)

    def _at(self, place: int) -> Item:
        path = self._path(place)
        return Item(self.names[place], partial(open_file, path), path)

    def _path(self, place: int) -> Path:
        return Path(self._places[place]) if self._root is None else self._root / self._places[place]

    def identity(self) -> str:
        """Digest names, sizes and times of change."""
        digest = sha256(f"{len(self)} files".encode())
        for place, name in enumerate(self.names):
            try:
                status = self._path(place).stat()
                told = f"{status.st_size} {status.st_mtime_ns}"
            except (OSError, ValueError):
                told = "unreadable"
            digest.update(f"{name}\0{told}\0".encode("utf-8", "surrogateescape"))
        return digest.hexdigest()

    @classmethod
    def gallery(cls, kind: str, names: Sequence[str], places: Sequence[str], root: Path | None = None) -> Gallery:
        """Return a source of files."""
        files = cls(names, places, root)
        return Gallery(kind, files, identity=files.identity)


def list_folder(root: Path) -> Gallery:
    """Find the pictures under a folder, sorted by name."""
    found: list[str] = []
    failed: list[Skipped] = []
    ignored: Counter[str] = Counter()
    entered: set[tuple[int, int]] = set()
    waiting = [(root, "")]
    while waiting:
        folder, prefix = waiting.pop()
        inner: list[tuple[Path, str]] = []
        try:
            status = folder.stat()
            if (status.st_dev, status.st_ino) in entered:
                continue
            entered.add((status.st_dev, status.st_ino))
            with os.scandir(folder) as entries:
                for entry in entries:
                    if entry.name.startswith(".") or entry.name == "__MACOSX":
                        continue
                    suffix = PurePath(entry.name).suffix.lower()
                    if _is_folder(entry):
                        inner.append((folder / entry.name, f"{prefix}{entry.name}/"))
                    elif suffix in PICTURE_SUFFIXES or _starts_like_picture(folder / entry.name):
                        found.append(prefix + entry.name)
                    else:
                        ignored[printable(suffix) or "(no suffix)"] += 1
        except OSError as error:
            if folder == root:
                raise _unlistable(root, error) from error
            failed.append(Skipped(printable(prefix), explain(error, folder)))
            continue
        waiting.extend(sorted(inner, key=lambda one: one[1], reverse=True))
    found.sort(key=printable)
    gallery = Files.gallery("folder", list(map(printable, found)), found, root)
    return replace(gallery, failed=failed, ignored=dict(sorted(ignored.items())))


def list_recorded(root: Path, names: Iterable[str], moved: Mapping[str, Path] | None = None) -> Gallery:
    """Take pictures by the names they had when the folder was listed: one look at each, and at nothing else."""
    there = [(name, str(path)) for name in names if (path := _place_of(root, name, moved)) is not None]
    return Files.gallery("folder", [name for name, _ in there], [place for _, place in there])


def recorded_item(root: Path, name: str, moved: Mapping[str, Path] | None = None) -> Item | None:
    """Return the picture of a recorded name, if it is still there or where it was moved to."""
    path = _place_of(root, name, moved)
    return None if path is None else Item(name, partial(open_file, path), path)


def _place_of(root: Path, name: str, moved: Mapping[str, Path] | None) -> Path | None:
    return (moved or {}).get(name) or _recorded_path(root, name)


def _recorded_path(root: Path, name: str) -> Path | None:
    """Return the file of a name that `printable` has written, if it is there and holds something."""
    spelt_out = re.sub(rb"\\x(5c|[89a-f][0-9a-f])", lambda found: bytes.fromhex(found[1].decode()), os.fsencode(name))
    for path in (Path(os.fsdecode(spelt_out)), Path(name)):  # names of older runs were not spelt out
        try:
            if path.is_absolute() or ".." in path.parts:
                continue
            status = (root / path).stat()
            # What has no size, as everything in /proc, may wait for ever when it is read.
            if stat.S_ISREG(status.st_mode) and status.st_size:
                return root / path
        except (OSError, ValueError):
            continue
    return None


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link that leads back to itself
        return False


def _starts_like_picture(path: Path) -> bool:
    try:
        with open_file(path) as file:
            return is_picture_head(file.read(HEAD_BYTES))
    except (OSError, Unreadable):
        return False


def _unlistable(root: Path, error: OSError) -> MissingData:
    return MissingData(
        f"The folder {printable(str(root))} cannot be listed ({explain(error, root)}). "
        "Expected a folder that you may read. Check its permissions."
    )


def list_files(
    paths: Iterable[str | os.PathLike[str]], base: Path, kind: str, moved: Mapping[str, Path] | None = None
) -> Gallery:
    """Take pictures from a list of paths, in its order; relative ones start at `base`."""
    names, places = [], []
    for given in paths:
        names.append(name := stored_name(Path(given)))
        places.append(str((moved or {}).get(name) or os.path.abspath(base / given)))  # noqa: PTH100 - links stay
    return Files.gallery(kind, names, places)


def read_list_file(path: Path) -> Gallery:
    """Read a list file: one path per line, relative to the file's own folder; empty lines do not count."""
    lines: list[str] = []
    with path.open(encoding="utf-8-sig", errors="surrogateescape", newline="\n") as file:
        while line := file.readline(_LONGEST_LINE):
            if len(line) == _LONGEST_LINE or "\0" in line:
                got = f"other bytes in line {len(lines) + 1}"
                raise invalid(
                    f"the list file {printable(path.name)}", "be text, one path a line", got, "Repair the list."
                )
            lines.append(line.removesuffix("\n").rstrip("\r"))
    return list_files([line for line in lines if line.strip()], path.parent, "list")
