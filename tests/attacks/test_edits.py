"""Edits of a stranger: files beside `edits.sqlite` that make SQLite itself do harm, and those of ours that look alike.

A rollback journal may end with the name of a file that SQLite removes once it has rolled back. The name is a whole
path, so it can be any file of whoever opens the run.
"""

from __future__ import annotations

import os
import signal
import sqlite3
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from tests.tiny_run import files_of

from selfsort.errors import InvalidInput
from selfsort.runs.edits import Mark
from selfsort.runs.journal import FILE, Journal, read_entries

MAGIC = bytes.fromhex("d9d505f920a163d7")
PAGE = 4096
SECTOR = 512


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A folder with one edit."""
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "labels.csv").write_text("name,cluster,confidence\na,0,1\n")
    journal = Journal.open(folder)
    journal.add(Mark((0,), True))
    journal.close()
    return folder


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    path = tmp_path / "the only copy of a novel.txt"
    path.write_text("It was a dark and stormy night.")
    return path


def hot_journal(run: Path, pages: dict[int, bytes] | None = None) -> bytes:
    """Return a journal that asks for these pages to be put back."""
    pages = pages or {}
    n_pages = (run / FILE).stat().st_size // PAGE
    head = MAGIC + struct.pack(">IIIII", len(pages), 0, n_pages, SECTOR, PAGE)
    records = [
        struct.pack(">I", number) + page + struct.pack(">I", sum(page[PAGE - 200 : 0 : -200]))
        for number, page in pages.items()
    ]
    return head.ljust(SECTOR, b"\0") + b"".join(records)


def naming(path: Path) -> bytes:
    """Return the end of a journal that names another file."""
    name = os.fsencode(path)
    return struct.pack(">I", 2**30 // PAGE + 1) + name + struct.pack(">II", len(name), sum(name)) + MAGIC


def journal_of(run: Path) -> Path:
    return run / f"{FILE}-journal"


def test_sqlite_removes_what_a_journal_names(run: Path, victim: Path) -> None:
    """The attack works on SQLite alone; if this fails, the tests below prove nothing any more."""
    journal_of(run).write_bytes(hot_journal(run) + naming(victim))
    connection = sqlite3.connect(run / FILE)
    connection.execute("SELECT * FROM edit").fetchall()
    connection.close()
    assert not victim.exists()


@pytest.mark.parametrize("head", ["hot", "zeroed", "missing"])
def test_a_journal_that_names_another_file_is_refused(run: Path, victim: Path, head: str) -> None:
    before = {"hot": hot_journal(run), "zeroed": bytes(SECTOR), "missing": b""}[head]
    journal_of(run).write_bytes(before + naming(victim))
    files = files_of(run)
    with pytest.raises(
        InvalidInput, match=r"edits\.sqlite-journal cannot be used \(it names another file, which SQLite"
    ):
        Journal.open(run)
    assert victim.exists()
    assert files_of(run) == files


def test_from_the_command_line(run: Path, victim: Path, tmp_path: Path) -> None:
    from tests.tiny_run import CONFIG, fill

    from selfsort.explore.editor import Editor
    from selfsort.runs.folder import RunFolder

    folder = fill(RunFolder.create(tmp_path / "whole", CONFIG))
    Editor.open(folder.path).close()
    journal_of(folder.path).write_bytes(hot_journal(folder.path) + naming(victim))
    words = [sys.executable, "-m", "selfsort", "explore", str(folder.path), "--no-browser"]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 2, done.stderr
    assert done.stderr.count("\n") == 1
    assert victim.exists()


@pytest.mark.parametrize("ending", ["-wal", "-shm"])
@pytest.mark.parametrize("kind", ["file", "link", "folder"])
def test_what_we_never_write_is_refused(run: Path, victim: Path, ending: str, kind: str) -> None:
    beside = run / f"{FILE}{ending}"
    if kind == "file":
        beside.write_bytes(b"")
    elif kind == "link":
        beside.symlink_to(victim)
    else:
        beside.mkdir()
    with pytest.raises(InvalidInput, match=f"{ending} cannot be used"):
        Journal.open(run)
    assert victim.exists()


@pytest.mark.parametrize("at", ["", "-journal"])
@pytest.mark.parametrize("kind", ["link", "dangling", "pipe"])
def test_links_and_pipes_are_refused(run: Path, victim: Path, at: str, kind: str) -> None:
    path = run / f"{FILE}{at}"
    path.unlink(missing_ok=True)
    if kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to(victim if kind == "link" else victim.with_name("new"))
    with pytest.raises(InvalidInput, match="is a link or a device, not a plain file"):
        Journal.open(run)
    assert victim.read_text().startswith("It was")
    assert not victim.with_name("new").exists()


def test_a_database_with_a_write_ahead_log_is_refused(run: Path) -> None:
    connection = sqlite3.connect(run / FILE)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.close()
    files = files_of(run)
    with pytest.raises(InvalidInput, match="it keeps a log that we never write"):
        Journal.open(run)
    assert files_of(run) == files


def test_a_journal_cannot_bring_a_write_ahead_log_in(run: Path) -> None:
    """The file is as we write it; the page that the journal puts back is not."""
    page = bytearray((run / FILE).read_bytes()[:PAGE])
    page[18:20] = b"\2\2"
    journal_of(run).write_bytes(hot_journal(run, {1: bytes(page)}))
    for _ in range(2):
        with pytest.raises(InvalidInput, match="it keeps a log that we never write"):
            Journal.open(run)
    assert not {f"{FILE}-wal", f"{FILE}-shm"} & set(files_of(run))


KILLED = """
import os, signal, sys
from pathlib import Path
from selfsort.runs.edits import Move
from selfsort.runs.journal import Journal
journal = Journal.open(Path(sys.argv[1]))
journal._connection.execute("PRAGMA cache_size = 1")  # pages go to the file before the end of the edit
journal._connection.execute("BEGIN IMMEDIATE")
journal._connection.execute("UPDATE edit SET detail = ?", ("x" * 500_000,))
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_journal_left_by_a_kill_is_rolled_back(run: Path) -> None:
    before = (run / FILE).read_bytes()
    done = subprocess.run([sys.executable, "-c", KILLED, str(run)], check=False)
    assert done.returncode == -signal.SIGKILL
    assert journal_of(run).read_bytes().startswith(MAGIC)
    assert (run / FILE).read_bytes() != before, "nothing to roll back"
    journal = Journal.open(run)
    assert [entry.edit for entry in journal.entries()] == [Mark((0,), True)]
    journal.close()
    assert (run / FILE).read_bytes() == before
    assert sorted(files_of(run)) == [FILE, "labels.csv"]


KILLED_AFTERWARDS = """
import os, signal, sys
from pathlib import Path
from selfsort.runs.edits import Mark
from selfsort.runs.journal import Journal
Journal.open(Path(sys.argv[1])).add(Mark((1,), True))
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_an_edit_that_was_confirmed_before_a_kill_stays(run: Path) -> None:
    done = subprocess.run([sys.executable, "-c", KILLED_AFTERWARDS, str(run)], check=False)
    assert done.returncode == -signal.SIGKILL
    assert journal_of(run).exists()
    journal = Journal.open(run)
    assert [entry.edit for entry in journal.entries()] == [Mark((0,), True), Mark((1,), True)]
    journal.close()


class TestReading:
    """Score, report, export and predict read edits, too: of a stranger's run, and while its page is open."""

    def test_no_file_is_made_or_touched(self, run: Path, tmp_path: Path) -> None:
        files, times = files_of(run), [path.stat().st_mtime_ns for path in (run, run / FILE)]
        assert [entry.edit for entry in read_entries(run)] == [Mark((0,), True)]
        assert (files_of(run), [path.stat().st_mtime_ns for path in (run, run / FILE)]) == (files, times)
        (tmp_path / "empty").mkdir()
        assert read_entries(tmp_path / "empty") == []
        assert list((tmp_path / "empty").iterdir()) == []

    def test_while_the_page_is_open(self, run: Path) -> None:
        journal = Journal.open(run)
        journal.add(Mark((1,), True))
        assert [entry.edit for entry in read_entries(run)] == [Mark((0,), True), Mark((1,), True)]
        journal.add(Mark((2,), True))
        journal.close()
        assert len(read_entries(run)) == 3

    def test_nobody_is_kept_from_editing(self, run: Path) -> None:
        read_entries(run)
        Journal.open(run).close()

    def test_a_journal_that_names_another_file_is_refused(self, run: Path, victim: Path) -> None:
        journal_of(run).write_bytes(hot_journal(run) + naming(victim))
        files = files_of(run)
        with pytest.raises(InvalidInput, match="it names another file, which SQLite would remove"):
            read_entries(run)
        assert victim.exists()
        assert files_of(run) == files

    @pytest.mark.parametrize("at", ["", "-journal"])
    def test_links_are_refused(self, run: Path, victim: Path, at: str) -> None:
        (run / f"{FILE}{at}").unlink(missing_ok=True)
        (run / f"{FILE}{at}").symlink_to(victim)
        with pytest.raises(InvalidInput, match="is a link or a device, not a plain file"):
            read_entries(run)

    def test_half_an_edit_is_taken_back(self, run: Path) -> None:
        before = (run / FILE).read_bytes()
        done = subprocess.run([sys.executable, "-c", KILLED, str(run)], check=False)
        assert done.returncode == -signal.SIGKILL
        assert (run / FILE).read_bytes() != before, "nothing to roll back"
        assert [entry.edit for entry in read_entries(run)] == [Mark((0,), True)]
        assert (run / FILE).read_bytes() == before

    @pytest.mark.parametrize("content", [b"not a database at all" * 100, b"SQLite format 3\0" + bytes(84)])
    def test_a_damaged_file_is_refused(self, run: Path, content: bytes) -> None:
        (run / FILE).write_bytes(content)
        with pytest.raises(InvalidInput, match=r"edits\.sqlite cannot be used"):
            read_entries(run)

    def test_a_file_of_another_form_is_refused(self, run: Path) -> None:
        connection = sqlite3.connect(run / FILE)
        connection.execute("CREATE TRIGGER t AFTER INSERT ON edit BEGIN DELETE FROM edit; END")
        connection.close()
        with pytest.raises(InvalidInput, match="it has another form"):
            read_entries(run)

    def test_an_empty_file_has_no_edits(self, run: Path) -> None:
        (run / FILE).write_bytes(b"")
        assert read_entries(run) == []
