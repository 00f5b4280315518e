"""The rules of the house that no other tool checks: who may import whom, names, mirrored tests, light imports.

A failing test here lists every offender. To move a wall, change the table in the same commit and say why.
"""

from __future__ import annotations

import ast
import json
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import selfsort

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "selfsort"

# Imports flow down these floors and never up. A room is a module or a folder directly under src/selfsort.
GROUND = {"errors", "config", "types", "progress", "overall", "text", "registry", "distributed", "pages"}
FLOORS: list[set[str]] = [
    GROUND,
    {"augment"},
    {"data", "nets", "graph", "metrics"},
    {"learning", "encoders"},
    {"classic", "choose_k", "stacks", "names"},
    {"methods", "improve", "trust"},
    {"runs"},
    {"report", "explore", "bench"},
    {"estimator", "contract"},  # the one shows its report in a notebook, the other is what packages of others test with
    {"cli"},
]
"""Rooms of one floor do not see each other, except on the ground."""

BELOW = {room: set().union(*FLOORS[:floor]) for floor, rooms in enumerate(FLOORS) for room in rooms}
ALLOWED: dict[str, set[str]] = {
    **BELOW,
    "errors": set(),
    "progress": {"errors"},
    "overall": set(),
    "text": set(),
    "registry": {"errors"},
    "config": {"errors"},
    "types": {"errors", "config"},
    "distributed": GROUND - {"distributed"},
    "data": GROUND,
    "nets": GROUND,
    "graph": GROUND | {"augment"},
    "metrics": GROUND | {"augment"},
    # One encode loop for the networks of methods and for encoders.
    "encoders": BELOW["encoders"] | {"learning"},
    "names": GROUND,  # words and counts: what they are counted in is read by others
    # The report knows nothing but run folders and metrics.
    "report": GROUND | {"runs", "metrics"},
    "explore": GROUND | {"data", "runs"},
    "__main__": {"cli"},
    "__init__": {"estimator", "runs"},  # the public names, loaded on first use
}

# Rooms that work without torch, and the files in them that are excused.
TORCH_FREE: dict[str, set[str]] = {
    **{
        room: set()
        for room in (
            "errors",
            "config",
            "types",
            "progress",
            "overall",
            "text",
            "registry",
            "metrics",
            "data",
            "names",
            "report",
        )
    },
    # The chunked matrix product, what is shared among processes, and views of whole batches.
    "graph": {"graph/knn.py", "graph/approximate.py", "graph/augmented.py"},
    "explore": set(),
}

NAMES_THAT_SAY_NOTHING = {"util", "utils", "helper", "helpers", "misc", "common", "manager"}

# Loaded only when a command needs them: `selfsort --help` has to answer at once.
HEAVY = ["torch", "numpy", "scipy", "sklearn", "numba", "PIL", "matplotlib"]


@dataclass(frozen=True)
class Import:
    """One import statement of a source file."""

    file: Path
    line: int
    target: str
    """Dotted name: selfsort.graph.knn, torch.nn."""
    is_typing_only: bool

    @property
    def room(self) -> str:
        return room_of(self.file)

    @property
    def target_room(self) -> str:
        return self.target.split(".")[1]

    def __str__(self) -> str:
        return f"{self.file.relative_to(ROOT)}:{self.line} imports {self.target}"


def source_files() -> list[Path]:
    return sorted(SOURCE.rglob("*.py"))


def room_of(file: Path) -> str:
    return file.relative_to(SOURCE).parts[0].removesuffix(".py")


def imports_of(file: Path) -> Iterator[Import]:
    tree = ast.parse(file.read_text(encoding="utf-8"))
    typing_only = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING")
        for statement in node.body
        for inner in ast.walk(statement)
    }
    for node in ast.walk(tree):
        for target in targets_of(node, file):
            assert isinstance(node, ast.stmt)
            yield Import(file, node.lineno, target, is_typing_only=id(node) in typing_only)


def targets_of(node: ast.AST, file: Path) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if not isinstance(node, ast.ImportFrom):
        return []
    module = node.module or ""
    if node.level:
        package = ("selfsort", *file.relative_to(SOURCE).parts[: -node.level])
        module = ".".join([*package, module]).rstrip(".")
    if module != "selfsort":
        return [module]
    # `from selfsort import data` names a room; `from selfsort import __version__` does not.
    return [f"selfsort.{alias.name}" for alias in node.names if alias.name != "__version__"]


def own_imports() -> list[Import]:
    found = [statement for file in source_files() for statement in imports_of(file)]
    return [statement for statement in found if statement.target.startswith("selfsort.")]


def listed(offences: list[str]) -> str:
    return "\n" + "\n".join(offences)


def tracked_text() -> Iterator[tuple[Path, str]]:
    git = shutil.which("git")
    if git and (ROOT / ".git").exists():
        names = subprocess.run([git, "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
        files = [ROOT / name for name in names.split("\0") if name]
    else:  # an unpacked source archive has no index, but nothing untracked either
        files = [path for path in ROOT.rglob("*") if not path.relative_to(ROOT).parts[0].startswith(".")]
    for file in files:
        if file.is_file():
            try:
                yield file, file.read_text(encoding="utf-8")
            except UnicodeDecodeError:
                continue  # pictures and stored runs


# Written so that no pattern matches its own source.
MACHINE_BOUND = re.compile(
    r"""
    # an absolute path on someone's disk
    (?<![\w.~*)\]}-]) / (?: (?:work|root)(?![\w-]) | (?:tmp|home|Users|mnt|scratch)/\w )
    | \b[A-Z]:\\\\?Users\\
    # a package registry
    | \b(?: pypi\.org | pythonhosted\.org | download\.pytorch\.org | registry\.npmjs | anaconda\.org | artifactor[y] )
    | (?:extra-)?index[-_]ur[l]
    """,
    re.VERBOSE,
)


class TestImports:
    def test_every_room_has_a_row(self) -> None:
        rooms = {room_of(file) for file in source_files()}
        assert rooms <= set(ALLOWED), f"add these to the table: {sorted(rooms - set(ALLOWED))}"

    def test_the_table_has_no_circle(self) -> None:
        assert len(list(TopologicalSorter(ALLOWED).static_order())) == len(ALLOWED)

    def test_rooms_import_only_what_the_table_allows(self) -> None:
        offences = [
            f"{statement}; {statement.room} may import only: {', '.join(sorted(ALLOWED[statement.room])) or 'nothing'}"
            for statement in own_imports()
            if statement.room in ALLOWED and statement.target_room not in ALLOWED[statement.room] | {statement.room}
        ]
        assert not offences, listed(offences)

    def test_no_room_reaches_into_the_private_modules_of_another(self) -> None:
        offences = [
            str(found)
            for found in own_imports()
            if found.room != found.target_room and any(part.startswith("_") for part in found.target.split(".")[2:])
        ]
        assert not offences, listed(offences)

    def test_methods_do_not_import_each_other(self) -> None:
        # A method may be two files: methods/_dbc_history.py is a private part of methods/dbc.py and of no other.
        offences = [
            str(found)
            for found in own_imports()
            if found.room == found.target_room == "methods"
            and not found.target.startswith(f"selfsort.methods._{found.file.stem}_")
            and found.file.stem != "registry"
        ]
        assert not offences, listed(offences)

    def test_only_excused_files_import_torch(self) -> None:
        offences = [
            str(statement)
            for file in source_files()
            for statement in imports_of(file)
            if statement.target.split(".")[0] == "torch"
            and not statement.is_typing_only
            and file.relative_to(SOURCE).as_posix() not in TORCH_FREE.get(room_of(file), {str(file)})
            and room_of(file) in TORCH_FREE
        ]
        assert not offences, listed(offences)


class TestReader:
    """The checks above are only as good as their reading of a file."""

    def read(self, text: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[tuple[str, bool]]:
        monkeypatch.setattr(sys.modules[__name__], "SOURCE", tmp_path)
        file = tmp_path / "graph" / "knn.py"
        file.parent.mkdir()
        file.write_text(text, encoding="utf-8")
        return [(found.target, found.is_typing_only) for found in imports_of(file)]

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("import torch.nn as nn, json", [("torch.nn", False), ("json", False)]),
            ("from selfsort.data.folder import read", [("selfsort.data.folder", False)]),
            ("from selfsort import data, __version__", [("selfsort.data", False)]),
            ("def f():\n    from selfsort import data", [("selfsort.data", False)]),
            ("from . import affinity", [("selfsort.graph", False)]),
            ("from .affinity import vote", [("selfsort.graph.affinity", False)]),
            ("from ..data import read", [("selfsort.data", False)]),
            ("from .. import data", [("selfsort.data", False)]),
            ("if TYPE_CHECKING:\n    import torch\nelse:\n    import json", [("torch", True), ("json", False)]),
        ],
    )
    def test_imports_are_found(
        self, text: str, expected: list[tuple[str, bool]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        assert self.read(text, monkeypatch, tmp_path) == expected

    @pytest.mark.parametrize(
        "text",
        [
            "see {}tmp/run".format("/"),
            "cd {}root".format("/"),
            "'{}home/ann/pictures'".format("/"),
            "`{}work`".format("/"),
            "C:" + "\\Users\\ann",
            "https://" + "pypi" + ".org/simple",
            "--index" + "-url somewhere",
        ],
    )
    def test_machine_bound_text_is_found(self, text: str) -> None:
        assert MACHINE_BOUND.search(text)

    @pytest.mark.parametrize(
        "text",
        [
            "work{0}root{0}tmp".format("/"),
            "https://example.org/home/",
            "tmp_path / 'home'",
            "../tmp/x",
            "/roots",
            "/tmp is often memory",
        ],
    )
    def test_harmless_text_is_not(self, text: str) -> None:
        assert not MACHINE_BOUND.search(text)


class TestFiles:
    def test_no_module_has_a_name_that_says_nothing(self) -> None:
        folders = [SOURCE, *(ROOT / name for name in ("tests", "benchmarks", "examples"))]
        offences = [
            str(file.relative_to(ROOT))
            for folder in folders
            for file in sorted(folder.rglob("*.py"))
            if {part.removeprefix("test_").strip("_") for part in file.relative_to(folder).with_suffix("").parts}
            & NAMES_THAT_SAY_NOTHING
        ]
        assert not offences, listed(offences)

    def test_every_module_has_a_test_of_its_name(self) -> None:
        # Private modules are tested through the public module that calls them, __main__ through cli.
        excused = re.compile(r"__init__|__main__|_\w+")
        missing = []
        for file in source_files():
            inside = file.relative_to(SOURCE)
            test = Path("tests") / inside.parent / f"test_{inside.name.lstrip('_')}"
            if not any(map(excused.fullmatch, (*inside.parts[:-1], file.stem))) and not (ROOT / test).exists():
                missing.append(f"{test} is missing for {file.relative_to(ROOT)}")
        assert not missing, listed(missing)

    def test_no_file_speaks_of_one_machine(self) -> None:
        offences = [
            f"{file.relative_to(ROOT)}:{number}: {line.strip()[:100]}"
            for file, text in tracked_text()
            for number, line in enumerate(text.splitlines(), start=1)
            if MACHINE_BOUND.search(line)
        ]
        assert not offences, listed(offences)

    def test_the_version_is_the_same_everywhere(self) -> None:
        project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
        assert selfsort.__version__ == project["version"]
        assert re.findall(r"^version: (.+)$", citation, re.MULTILINE) == [project["version"]]


class TestLightImports:
    """Asked of `sys.modules` in a fresh process, not of a clock."""

    def heavy_after(self, code: str) -> tuple[list[str], str]:
        report = f"import json; print(json.dumps([m for m in {HEAVY} if m in sys.modules]), file=sys.stderr)"
        done = subprocess.run(
            [sys.executable, "-c", f"import sys\n{code}\n{report}"], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        loaded: list[str] = json.loads(done.stderr.strip().splitlines()[-1])
        return loaded, done.stdout

    def test_the_probe_sees_what_is_loaded(self) -> None:
        assert self.heavy_after("import numpy")[0] == ["numpy"]

    def test_importing_selfsort(self) -> None:
        assert self.heavy_after("import selfsort; selfsort.__version__")[0] == []

    @pytest.mark.parametrize("arguments", [["--help"], ["fit", "--help"]])
    def test_help(self, arguments: list[str]) -> None:
        loaded, shown = self.heavy_after(
            f"import runpy\nsys.argv = ['selfsort', *{arguments}]\n"
            "try:\n    runpy.run_module('selfsort', run_name='__main__', alter_sys=True)\n"
            "except SystemExit as end:\n    assert not end.code, end.code"
        )
        assert "Usage" in shown
        assert loaded == []
