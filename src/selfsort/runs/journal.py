"""The edits of a run on disk: one SQLite file, `edits.sqlite`, beside the labels, which are never changed.

An edit is committed and on the disk before anyone is told that it was made, so a server that is killed loses nothing
that it has confirmed. The file holds edits in their order; undone ones stay until a new edit takes their place.
While it is open it is locked: two servers over one run would not see each other's edits. Whoever only reads works on
the bytes of the file in memory: that needs no lock, makes no file, and asks nobody to close the page first.

A stranger's edits are looked at before SQLite is, because SQLite repairs a database before anyone can ask it anything:
it rolls back the journal beside it, and then removes the file that the last bytes of the journal name, whichever that
is. Only a transaction over several databases names one, and we never make any; so such a journal is refused, as is
everything beside the edits that we never write. A journal of ours, left by a kill, names nothing and is rolled back.
Working on a copy would not help, since the name is a whole path; and asking whether a run is trusted would need a list
of trusted runs and a way to bring the copy home, for no more safety. Somebody who can write to the folder at the very
moment in which it is opened is not kept out by this.
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import stat
import time
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from selfsort.errors import CannotWrite, InvalidInput
from selfsort.runs.edits import Edit, from_json, kind_of, to_json

FILE = "edits.sqlite"
VERSION = 1

_MOST_BYTES = 2**28
"""Larger edits are read from the disk and not in memory."""
_TRIES = 5
_JOURNAL_MAGIC = bytes.fromhex("d9d505f920a163d7")

_SCHEMA = (
    "CREATE TABLE origin (labels_sha256 TEXT NOT NULL)",
    "CREATE TABLE edit (id INTEGER PRIMARY KEY, kind TEXT NOT NULL, detail TEXT NOT NULL, made_at TEXT NOT NULL,"
    " is_undone INTEGER NOT NULL DEFAULT 0)",
)


@dataclass(frozen=True)
class Entry:
    """One line of the journal."""

    number: int
    edit: Edit
    made_at: str
    """UTC, to the second."""
    is_undone: bool


class Journal:
    """The open edits of one run."""

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self._connection = connection
        self._path = path

    @classmethod
    def open(cls, run: Path) -> Self:
        """Open or begin the edits of a run folder."""
        path = run / FILE
        _refuse_traps(path)
        try:
            # Requests are answered in several threads; whoever owns the journal lets one in at a time.
            connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=0)
        except sqlite3.Error as error:
            raise _cannot_write(path, error) from error
        try:
            _set(connection, "trusted_schema=OFF", "cell_size_check=ON", "locking_mode=EXCLUSIVE", "synchronous=FULL")
            connection.execute("BEGIN EXCLUSIVE")
            _begin_or_check(connection, path, digest(run / "labels.csv"))
            connection.execute("COMMIT")
        except sqlite3.Error as error:
            connection.close()
            raise _explain(path, error) from error
        except BaseException:
            connection.close()
            raise
        return cls(connection, path)

    def entries(self) -> list[Entry]:
        """Return all edits, oldest first; undone ones come last."""
        try:
            return _entries(self._connection)
        except sqlite3.Error as error:
            raise _explain(self._path, error) from error

    def add(self, edit: Edit) -> Entry:
        """Write an edit; what was undone before it can no longer be redone."""
        detail = json.dumps(to_json(edit), separators=(",", ":"))
        with self._writing():
            self._connection.execute("DELETE FROM edit WHERE is_undone = 1")
            number = self._connection.execute(
                "INSERT INTO edit (kind, detail, made_at) VALUES (?, ?, strftime('%Y-%m-%dT%H:%M:%SZ', 'now'))",
                (kind_of(edit), detail),
            ).lastrowid
        row = self._connection.execute(
            "SELECT id, kind, detail, made_at, is_undone FROM edit WHERE id = ?", (number,)
        ).fetchone()
        return _entry(row)

    def mark(self, number: int, *, is_undone: bool) -> None:
        """Note that an edit was undone or redone."""
        with self._writing():
            self._connection.execute("UPDATE edit SET is_undone = ? WHERE id = ?", (int(is_undone), number))

    def close(self) -> None:
        """Let go of the file."""
        self._connection.close()

    def _writing(self) -> _Transaction:
        return _Transaction(self._connection, self._path)


class _Transaction:
    """Commit on the way out, or leave no trace."""

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self._connection, self._path = connection, path

    def __enter__(self) -> None:
        try:
            self._connection.execute("BEGIN IMMEDIATE")
        except sqlite3.Error as error:
            raise _explain(self._path, error) from error

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        try:
            if error is None:
                self._connection.execute("COMMIT")
                return
        except sqlite3.Error as failure:
            self._roll_back()
            raise _explain(self._path, failure) from failure
        self._roll_back()
        if isinstance(error, sqlite3.Error):
            raise _explain(self._path, error) from error

    def _roll_back(self) -> None:
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")


def read_entries(run: Path) -> list[Entry]:
    """Return the edits of a run folder, oldest first, without touching a file; none if nobody has edited it.

    Only where a kill has left half an edit is the file opened, and the half taken back.
    """
    path = run / FILE
    if not os.path.lexists(path):
        return []
    _refuse_traps(path)
    content = _whole_content(path)
    if content is None:
        journal = Journal.open(run)
        try:
            return journal.entries()
        finally:
            journal.close()
    if not content:  # begun, and killed before the first write
        return []
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        try:
            connection.deserialize(content)
            _set(connection, "trusted_schema=OFF", "cell_size_check=ON")
            if not _schema_of(connection):
                return []
            _check(connection, path, digest(run / "labels.csv"))
            return _entries(connection)
        except sqlite3.Error as error:
            raise _explain(path, error) from error


def _whole_content(path: Path) -> bytes | None:
    """Return the bytes of a database between two transactions; None if there is half a one, or if it is too large."""
    journal = Path(f"{path}-journal")
    try:
        for _ in range(_TRIES):
            before = path.stat()
            if before.st_size > _MOST_BYTES:
                return None
            is_hot = _bytes_at(journal, 0, os.SEEK_SET) == _JOURNAL_MAGIC
            content = path.read_bytes()
            after = path.stat()
            is_hot |= _bytes_at(journal, 0, os.SEEK_SET) == _JOURNAL_MAGIC
            if not is_hot and (before.st_mtime_ns, before.st_size) == (after.st_mtime_ns, after.st_size):
                return content
            time.sleep(0.02)  # the page may be writing an edit just now
    except OSError as error:
        raise _damaged(path, error.strerror or str(error)) from error
    return None


def _set(connection: sqlite3.Connection, *pragmas: str) -> None:
    for pragma in pragmas:
        connection.execute(f"PRAGMA {pragma}")


def _schema_of(connection: sqlite3.Connection) -> list[str]:
    return [row[0] for row in connection.execute("SELECT sql FROM sqlite_schema ORDER BY rootpage")]


def _entries(connection: sqlite3.Connection) -> list[Entry]:
    found = connection.execute("SELECT id, kind, detail, made_at, is_undone FROM edit ORDER BY id")
    return [_entry(row) for row in found.fetchall()]


def digest(path: Path) -> str:
    """Return the sha256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _refuse_traps(path: Path) -> None:
    """Refuse files by which SQLite could be made to do harm; it must not have looked at them before."""
    for ending in ("-wal", "-shm"):
        if os.path.lexists(f"{path}{ending}"):
            raise _damaged(Path(f"{path}{ending}"), "we never write such a file")
    if 2 in _bytes_at(path, 18, os.SEEK_SET)[:2]:  # the versions in the header of a database
        raise _keeps_log(path)
    journal = Path(f"{path}-journal")
    if _bytes_at(journal, -8, os.SEEK_END) == _JOURNAL_MAGIC:
        raise _damaged(journal, "it names another file, which SQLite would remove")


def _bytes_at(path: Path, offset: int, whence: int) -> bytes:
    """Return eight bytes of a plain file, or fewer if it is shorter or not there."""
    try:
        mode = path.lstat().st_mode
        if stat.S_ISDIR(mode):
            return b""  # SQLite says what is wrong with it
        if not stat.S_ISREG(mode):
            raise _damaged(path, "it is a link or a device, not a plain file")
        with path.open("rb") as file:
            if file.seek(0, os.SEEK_END) < abs(offset):
                return b""
            file.seek(offset, whence)
            return file.read(8)
    except FileNotFoundError:
        return b""
    except OSError as error:
        raise _damaged(path, error.strerror or str(error)) from error


def _begin_or_check(connection: sqlite3.Connection, path: Path, labels: str) -> None:
    if connection.execute("PRAGMA journal_mode").fetchone()[0] != "delete":  # what was rolled back may have changed it
        raise _keeps_log(path)
    if not _schema_of(connection):
        for statement in _SCHEMA:
            connection.execute(statement)
        connection.execute("INSERT INTO origin VALUES (?)", (labels,))
        connection.execute(f"PRAGMA user_version = {VERSION}")
        return
    _check(connection, path, labels)


def _check(connection: sqlite3.Connection, path: Path, labels: str) -> None:
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    # Word for word, so that no trigger or view of a stranger's file is ever run.
    if tuple(_schema_of(connection)) != _SCHEMA or version != VERSION:
        raise _damaged(path, f"it has another form, version {version}")
    if connection.execute("PRAGMA quick_check").fetchone()[0] != "ok":
        raise _damaged(path, "SQLite finds it damaged")
    if connection.execute("SELECT labels_sha256 FROM origin").fetchall() != [(labels,)]:
        raise InvalidInput(
            f"the edits in {path} were made on other labels than those of labels.csv. Expected edits of this run. "
            "Restore labels.csv, or move edits.sqlite away to begin without edits."
        )


def _entry(row: tuple[int, str, str, str, int]) -> Entry:
    number, kind, detail, made_at, is_undone = row
    try:
        values = json.loads(detail)
    except (TypeError, ValueError, RecursionError):
        values = None
    return Entry(number, from_json(kind, values), str(made_at)[:20], bool(is_undone))


def _explain(path: Path, error: sqlite3.Error) -> InvalidInput | CannotWrite:
    code = getattr(error, "sqlite_errorcode", None)
    primary = None if code is None else code & 0xFF
    if primary in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return InvalidInput(
            f"the edits in {path} are in use by another selfsort explore. Expected one at a time. "
            "Use the page that is open already, or stop that server first."
        )
    if primary in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        return _damaged(path, str(error))
    return _cannot_write(path, error)


def _damaged(path: Path, reason: str) -> InvalidInput:
    return InvalidInput(
        f"{path} cannot be used ({reason}). Expected edits as this selfsort writes them. "
        f"Restore the file, or move {FILE} and all that begins with this name away to begin without edits; "
        "the labels of the run are untouched."
    )


def _keeps_log(path: Path) -> InvalidInput:
    return _damaged(path, "it keeps a log that we never write")


def _cannot_write(path: Path, error: sqlite3.Error) -> CannotWrite:
    return CannotWrite(
        f"{path} could not be written ({error}). Expected a writable run folder with enough space. "
        "Free some space, or copy the run to a place that you may write to; no confirmed edit was lost."
    )
