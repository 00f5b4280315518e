"""Windows and macOS from here: modules they lack are not imported, names that mean something there stay harmless."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path, PureWindowsPath

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.conftest import Command, write_photos
from tests.test_house import SOURCE, source_files

from selfsort.data.folder import stored_name
from selfsort.data.labels import read_labels
from selfsort.errors import MissingData
from selfsort.report.sections.reference import dataset_of
from selfsort.runs.encoder import find_run
from selfsort.runs.export.folders import folder_names, safe_name
from selfsort.runs.folder import RunFolder

# Hidden from our own files only: what other packages import is right for the system they are installed on.
WITHOUT_POSIX = """
import builtins, sys
HIDDEN = {"resource", "fcntl", "pwd", "grp", "termios", "tty", "pty", "syslog", "crypt", "posix"}
imports = builtins.__import__
def guarded(name, globals=None, locals=None, fromlist=(), level=0):
    if (globals or {}).get("__name__", "").split(".")[0] == "selfsort" and name.split(".")[0] in HIDDEN:
        raise ModuleNotFoundError(f"No module named {name!r}")
    return imports(name, globals, locals, fromlist, level)
builtins.__import__ = guarded
"""


def run(code: str, *words: str) -> subprocess.CompletedProcess[str]:
    around = {**os.environ, "PYTHONPATH": str(SOURCE.parent), "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [sys.executable, "-c", WITHOUT_POSIX + code, *words], capture_output=True, text=True, check=False, env=around
    )


def test_every_module_loads_without_posix() -> None:
    modules = [
        ".".join(("selfsort", *file.relative_to(SOURCE).with_suffix("").parts)).removesuffix(".__init__")
        for file in source_files()
        if file.stem != "__main__"
    ]
    done = run(f"import importlib\nfor name in {modules}: importlib.import_module(name)")
    assert done.returncode == 0, done.stderr


def test_a_run_is_made_scored_and_shown_without_posix(tmp_path: Path) -> None:
    photos, out = write_photos(tmp_path / "photos"), tmp_path / "run"
    command = "from selfsort.cli.main import main\nimport sys\nfor words in {}:\n sys.argv[1:] = words\n main()\n"
    lines = [
        ["fit", str(photos), "--clusters", "3", "--method", "kmeans", "--labels-from-folders", "--out", str(out)],
        ["score", str(out)],
        ["report", str(out)],
        ["export", str(out), "--to", "folders", "--out", str(tmp_path / "sorted")],
    ]
    done = run(command.format(lines))
    assert done.returncode == 0, done.stderr
    assert "3 clusters found" in done.stdout
    assert "peak memory" not in done.stdout  # unknown is not nought
    assert RunFolder.open(out).events()[-1]["peak_memory_mb"] is None
    assert (out / "report.html").is_file()
    assert len(list((tmp_path / "sorted").rglob("*.png"))) == 18


TRICKS = [
    "..\\..\\x", "C:evil", "C:\\evil", "\\\\server\\share\\x", "CON", "con.png", "nul .txt", "COM1", "lpt¹.jpg",
    "conin$", "a.", "a. .", "...", "a.png:hidden", "a<b>|c?*\"", "line\nbreak", " ",
    "aux." + "x" * 300, "x" * 199 + " y" * 50,
]  # fmt: skip


def assert_harmless(name: str) -> None:
    """Check that a name, joined to a folder on Windows, is one plain file in it."""
    folder = PureWindowsPath("D:/sorted/cluster-00")
    joined = folder / name
    assert joined.parent == folder
    assert joined.name == name
    assert name not in ("", ".", "..")
    assert name[-1] not in ". "
    assert not set(name) & set('<>:"/\\|?*') | {c for c in name if c < " "}
    if sys.version_info < (3, 13):  # later ones can ask only on Windows itself
        assert not joined.is_reserved()


@pytest.mark.parametrize("name", TRICKS)
def test_file_names_stay_in_their_folder_on_windows(name: str) -> None:
    assert_harmless(safe_name(name, for_windows=True))


@given(st.text(st.sampled_from('./\\: aAcCoOnN1$"\n\0é'), max_size=12))
def test_no_text_escapes_on_windows(name: str) -> None:
    assert_harmless(safe_name(name, for_windows=True))
    assert_harmless(folder_names({0: name})[0])


@pytest.mark.parametrize("name", [*TRICKS, ".con", "..aux"])
def test_folders_of_named_clusters_too(name: str) -> None:
    assert_harmless(folder_names({0: name})[0])


def test_names_that_only_windows_minds_are_kept_elsewhere() -> None:
    assert safe_name("2024-01-01 10:00.jpg", for_windows=False) == "2024-01-01 10:00.jpg"


@pytest.mark.parametrize(
    ("path", "expected"),
    [("cats\\a.png", "cats/a.png"), ("C:\\cats\\a.png", "C:/cats/a.png"), ("..\\a.png", "../a.png")],
)
def test_listed_names_have_forward_slashes(path: str, expected: str) -> None:
    assert stored_name(PureWindowsPath(path)) == expected


def test_a_label_table_made_on_windows(tmp_path: Path) -> None:
    table = tmp_path / "labels.csv"
    table.write_text("cats\\a.png,1\ndogs\\b.png,0\n", encoding="utf-8", newline="\r\n")
    assert read_labels(table, ["dogs/b.png", "cats/a.png"]).tolist() == [0, 1]


def test_a_drive_letter_is_no_layer() -> None:
    with pytest.raises(MissingData, match=r"^C:\\runs\\digits is not a run folder"):
        find_run("C:\\runs\\digits")
    with pytest.raises(MissingData, match=r"^C:\\runs\\digits is not a run folder"):
        find_run("C:\\runs\\digits:top")


def test_a_data_set_is_known_by_the_name_of_a_windows_path() -> None:
    assert dataset_of("C:\\data\\mnist.npz", 70_000) == dataset_of("data/mnist.npz", 70_000) == "mnist"


def test_a_run_made_on_windows_is_shown_here(photos: Path, tmp_path: Path, selfsort: Command) -> None:
    out = tmp_path / "run"
    assert selfsort("fit", photos, "--clusters", 3, "--method", "kmeans", "--out", out).code == 0
    folder = RunFolder.open(out)
    folder.write_json("config.json", {**folder.config, "source": {**folder.field("source", dict), "path": "C:\\pics"}})
    table = folder.label_table()
    folder.write_labels("labels.csv", ["..\\..\\x", *table.names[1:]], table.labels, table.confidence)
    assert selfsort("report", out).code == 0
    assert selfsort("export", out, "--to", "csv", "--out", tmp_path / "labels.csv").code == 0
    refused = selfsort("export", out, "--to", "folders", "--out", tmp_path / "sorted")
    assert (refused.code, (tmp_path / "sorted").exists()) == (2, False)
