from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from selfsort.errors import CannotWrite, InvalidInput
from selfsort.runs.edits import Edit, Mark, Move, Rename
from selfsort.runs.journal import FILE, Journal


@pytest.fixture
def run(tmp_path: Path) -> Path:
    (tmp_path / "labels.csv").write_text("name,cluster,confidence\na,0,1\n")
    return tmp_path


def edits_in(run: Path) -> list[tuple[Edit, bool]]:
    journal = Journal.open(run)
    found = [(entry.edit, entry.is_undone) for entry in journal.entries()]
    journal.close()
    return found


def test_edits_are_there_when_the_run_is_opened_again(run: Path) -> None:
    journal = Journal.open(run)
    entry = journal.add(Move((1, 2), 3))
    journal.add(Rename(0, "naïve 🐈"))
    assert entry.made_at.endswith("Z")
    journal.close()
    assert edits_in(run) == [(Move((1, 2), 3), False), (Rename(0, "naïve 🐈"), False)]


def test_a_new_edit_takes_the_place_of_undone_ones(run: Path) -> None:
    journal = Journal.open(run)
    first, second = journal.add(Mark((0,), True)), journal.add(Mark((1,), True))
    journal.mark(second.number, is_undone=True)
    journal.close()
    assert edits_in(run) == [(first.edit, False), (second.edit, True)]
    journal = Journal.open(run)
    journal.mark(second.number, is_undone=False)
    journal.mark(second.number, is_undone=True)
    journal.add(Mark((2,), True))
    journal.close()
    assert edits_in(run) == [(first.edit, False), (Mark((2,), True), False)]


def test_one_server_at_a_time(run: Path) -> None:
    journal = Journal.open(run)
    with pytest.raises(InvalidInput, match=r"in use by another selfsort explore. Expected one at a time"):
        Journal.open(run)
    journal.close()
    Journal.open(run).close()


def test_what_is_confirmed_is_on_the_disk(run: Path) -> None:
    """The file as another process would find it if this one were killed now."""
    journal = Journal.open(run)
    journal.add(Mark((5,), True))
    copy = run / "copy"
    copy.mkdir()
    (copy / FILE).write_bytes((run / FILE).read_bytes())
    (copy / "labels.csv").write_bytes((run / "labels.csv").read_bytes())
    assert edits_in(copy) == [(Mark((5,), True), False)]
    journal.close()


def test_edits_of_other_labels_are_refused(run: Path) -> None:
    Journal.open(run).close()
    (run / "labels.csv").write_text("name,cluster,confidence\na,1,1\n")
    with pytest.raises(InvalidInput, match=r"made on other labels than those of labels\.csv"):
        Journal.open(run)


@pytest.mark.parametrize(
    "content", [b"not a database at all, but long enough to be looked at" * 40, b"SQLite format 3\0"]
)
def test_a_damaged_file_is_refused(run: Path, content: bytes) -> None:
    (run / FILE).write_bytes(content)
    with pytest.raises(
        InvalidInput, match=r"cannot be used \(.+\)\. Expected edits .+ the labels of the run are untouched"
    ):
        Journal.open(run)


@pytest.mark.parametrize(
    "change",
    [
        "CREATE TRIGGER harm AFTER INSERT ON edit BEGIN DELETE FROM edit; END",
        "CREATE VIEW other AS SELECT * FROM edit",
        "ALTER TABLE edit ADD COLUMN more TEXT",
        "DROP TABLE origin",
        "PRAGMA user_version = 2",
    ],
)
def test_a_strangers_file_with_another_form_is_refused(run: Path, change: str) -> None:
    Journal.open(run).close()
    connection = sqlite3.connect(run / FILE)
    connection.execute(change)
    connection.commit()
    connection.close()
    with pytest.raises(InvalidInput, match="it has another form"):
        Journal.open(run)


@pytest.mark.parametrize(
    "values",
    [("move", "{"), ("move", '{"rows": [1]}'), ("drop", "{}"), ("move", "[" * 100_000)],
)
def test_a_strangers_edit_is_refused(run: Path, values: tuple[str, str]) -> None:
    Journal.open(run).close()
    connection = sqlite3.connect(run / FILE)
    connection.execute("INSERT INTO edit (kind, detail, made_at) VALUES (?, ?, '')", values)
    connection.commit()
    connection.close()
    journal = Journal.open(run)
    with pytest.raises(InvalidInput, match="the edits of this run cannot be used"):
        journal.entries()
    journal.close()


def test_a_place_that_cannot_be_written_to(run: Path) -> None:
    (run / FILE).mkdir()
    with pytest.raises(CannotWrite, match=r"edits\.sqlite could not be written .+ no confirmed edit was lost"):
        Journal.open(run)


def test_a_full_disk_leaves_the_edits_as_they_were(run: Path) -> None:
    journal = Journal.open(run)
    journal.add(Mark((0,), True))
    journal._connection.execute("PRAGMA max_page_count = 4")  # stands for a disk without room
    with pytest.raises(CannotWrite, match="full"):
        journal.add(Move(tuple(range(50_000)), 1))
    assert [entry.edit for entry in journal.entries()] == [Mark((0,), True)]
    journal.close()
    assert sorted(path.name for path in run.iterdir()) == [FILE, "labels.csv"]
