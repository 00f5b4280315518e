"""Exports that meet each other, and exports that were killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest
from tests.conftest import write_photos
from tests.explore.runs import fitted
from tests.tiny_run import files_of

from selfsort.errors import InvalidInput
from selfsort.explore.editor import Editor
from selfsort.explore.exports import Kind, export
from selfsort.runs.export.folders import export_folders, put
from selfsort.runs.folder import RunFolder


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return fitted(write_photos(tmp_path / "photos"), tmp_path / "run").path


def selfsort(*words: object, at: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "selfsort", *map(str, words)]
    return subprocess.Popen(command, cwd=at, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.parametrize(("kind", "count"), [("labels", 40), ("folders", 8), ("model-input", 8)])
def test_exports_at_once_get_a_number_each(run: Path, kind: Kind, count: int) -> None:
    editor, ready = Editor.open(run), Barrier(count)

    def one(_: int) -> Path:
        ready.wait()
        return export(editor, kind)

    with ThreadPoolExecutor(count) as pool:
        found = list(pool.map(one, range(count)))
    editor.close()
    assert sorted(path.name for path in (run / "exports").iterdir()) == sorted(path.name for path in found)
    assert len(set(found)) == count
    assert len({str(files_of(path)) if path.is_dir() else path.read_bytes() for path in found}) == 1


def test_two_commands_at_once_both_write_their_folders(run: Path, tmp_path: Path) -> None:
    both = [selfsort("export", run, "--to", "folders", at=tmp_path) for _ in range(2)]
    told = sorted(command.communicate(timeout=60)[0] for command in both)
    assert [command.returncode for command in both] == [0, 0]
    assert told == ["written: run-folders\n", "written: run-folders-2\n"]
    assert files_of(tmp_path / "run-folders") == files_of(tmp_path / "run-folders-2")
    assert not list(tmp_path.glob(".*"))


def test_of_two_that_want_one_place_the_second_is_told(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other one finishes after this one has looked."""
    out = tmp_path / "sorted"

    def late(made: Path, places: object) -> Path | None:
        theirs = out / "cluster-00"
        theirs.mkdir(parents=True)
        return put(made, places)  # type: ignore[arg-type]

    monkeypatch.setattr("selfsort.runs.export.folders.put", late)
    with pytest.raises(InvalidInput, match=r"sorted exists already. Expected a new folder. Choose another --out."):
        export_folders(RunFolder.open(run), out)
    assert [path.name for path in out.iterdir()] == ["cluster-00"]
    assert not list(tmp_path.glob(".*"))


KILLED = """
import os, shutil, signal, sys
from pathlib import Path
copy, copies = shutil.copyfile, iter(range(5))
def last(source, target):
    if next(copies, None) is None:
        os.kill(os.getpid(), signal.SIGKILL)
    return copy(source, target)
shutil.copyfile = last
"""
BY_COMMAND = """
sys.argv = ["selfsort", "export", sys.argv[1], "--to", "folders", "--out", sys.argv[2]]
from selfsort.cli.main import main
main()
"""
BY_EXPLORER = """
from selfsort.explore.editor import Editor
from selfsort.explore.exports import export
export(Editor.open(Path(sys.argv[1])), "folders")
"""


def kill_in_the_middle(how: str, run: Path, out: Path) -> None:
    done = subprocess.run([sys.executable, "-c", KILLED + how, str(run), str(out)], check=False, timeout=60)
    assert done.returncode == -signal.SIGKILL


def hidden(folder: Path) -> list[Path]:
    return sorted(folder.glob(".*"))


def test_what_a_kill_leaves_the_next_export_removes(run: Path, tmp_path: Path) -> None:
    out = tmp_path / "target" / "sorted"
    for _ in range(2):
        kill_in_the_middle(BY_COMMAND, run, out)
        assert len(hidden(out.parent)) == 1  # the second has removed what the first had left
        assert len(list(hidden(out.parent)[0].rglob("*.png"))) == 5
    assert not out.exists()
    assert export_folders(RunFolder.open(run), out.with_name("another")).is_dir()
    assert [path.name for path in out.parent.iterdir()] == ["another"]


def test_what_a_kill_leaves_in_the_run_any_export_removes(run: Path) -> None:
    kill_in_the_middle(BY_EXPLORER, run, run)
    assert len(hidden(run / "exports")) == 1
    editor = Editor.open(run)
    export(editor, "labels")
    editor.close()
    assert [path.name for path in (run / "exports").iterdir()] == ["labels-001.csv"]


WAITING = """
import shutil, sys
from pathlib import Path
from selfsort.runs.export.folders import scratch_in
with scratch_in(Path(sys.argv[1])) as scratch:
    (scratch / "work").write_text("under way")
    print(scratch, flush=True)
    sys.stdin.read()
    print((scratch / "work").read_text(), flush=True)
"""


def test_what_another_export_is_working_on_stays(run: Path, tmp_path: Path) -> None:
    words = [sys.executable, "-c", WAITING, str(tmp_path / "target")]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        scratch = Path(other.stdout.readline().strip())
        export_folders(RunFolder.open(run), tmp_path / "target" / "sorted")
        assert (scratch / "work").exists()
        assert other.communicate("")[0] == "under way\n"
    assert not scratch.exists()


def test_a_link_that_is_called_like_our_leftovers_is_not_followed(run: Path, tmp_path: Path) -> None:
    """A stranger's run may bring one along."""
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "novel.txt").write_text("It was a dark and stormy night.")
    exports = run / "exports"
    (exports / ".selfsort-export-b").mkdir(parents=True)
    (exports / ".selfsort-export-a").symlink_to(mine)
    (exports / ".selfsort-export-b" / "inside").symlink_to(mine)
    (exports / ".selfsort-export-b" / "lock").symlink_to(tmp_path / "new")
    (exports / ".selfsort-export-c").write_text("a file")
    editor = Editor.open(run)
    export(editor, "labels")
    editor.close()
    assert os.listdir(mine) == ["novel.txt"]  # noqa: PTH208
    assert not (tmp_path / "new").exists()
