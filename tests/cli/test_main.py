"""The command line: words in, one answer out, the right exit code."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest
import typer
from tests.cli.conftest import assert_refused
from tests.conftest import Command

import selfsort as package
from selfsort.cli import main as cli
from selfsort.runs import launch as session

# The whole command line. A new option is a decision: it is added here in the same commit, or it is not added.
FROZEN = {
    "sort": "SOURCE --out --names --no-browser --no-page",
    "fit": """SOURCE --clusters --method --recipe --set --seed --size --fit --gray/--color --where --labels
        --labels-from-folders --encoder --features --outliers --stack-duplicates --names --train-on --self-label
        --start-from --max-bad --memory --device --out --cache/--no-cache --resume --max-minutes --json""",
    "refine": """RUNS --stage --recipe --set --seed --labels --labels-from-folders --encoder --device --out
        --max-minutes --json""",
    "cut": "RUN --clusters --out --json",
    "predict": """RUN SOURCE --to --out --where --labels --max-bad --memory --encoder --device --original --replace
        --json""",
    "update": "RUN SOURCE --out --max-bad --encoder --device --json",
    "duplicates": "SOURCE --out --encoder --max-bad --device --json",
    "score": "RUN --labels --original --json",
    "names": "RUN --names --encoder --json",
    "report": "RUNS --out --figures --original",
    "explore": "RUN --port --no-browser",
    "export": "RUN --to --out --mode --link --levels --source --original --replace",
    "undo": "EXPORT --json",
    "methods": "NAME --json",
    "encoders": "--json",
    "doctor": "--json",
    "cache": "--clear --json",
    "bench": "NAME --seeds --budget-minutes --cell-minutes --only --again --records --json",
    "demo": "--out",
}


class TestWords:
    def test_the_flag_list_is_frozen(self) -> None:
        group: Any = typer.main.get_command(cli.app)
        found = {}
        for name, command in group.commands.items():
            words = ["/".join([*parameter.opts, *parameter.secondary_opts]) for parameter in command.params]
            found[name] = [word if word.startswith("-") else word.upper() for word in words]
        assert found == {name: words.split() for name, words in FROZEN.items()}
        assert [parameter.opts for parameter in group.params] == [["--debug"], ["--version"]]

    @pytest.mark.parametrize("words", [[], ["--help"]])
    def test_help(self, selfsort: Command, words: list[str]) -> None:
        done = selfsort(*words)
        assert done.code == 0
        assert all(name in done.out for name in FROZEN)
        assert "\x1b" not in done.out

    def test_version(self, selfsort: Command) -> None:
        assert selfsort("--version").out == f"selfsort {package.__version__}\n"

    @pytest.mark.parametrize(
        ("words", "part"),
        [
            (["sart"], "No such command 'sart'."),
            (["sart"], " See: selfsort --help"),
            (["fit", "x", "--cluster", "3"], "--clusters"),
            (["fit", "x", "y"], "See: selfsort fit --help"),
            (["fit", "x", "--seed", "-1"], "--seed"),
            (["fit", "x", "--seed", "one"], "--seed"),
            (["fit", "x", "--fit", "squeeze"], "'crop'"),
            (["fit", "x", "--max-minutes", "-1"], "--max-minutes"),
            (["fit", "x", "--max-minutes", "nan"], "--max-minutes"),
            (["fit", "x", "--max-bad", "2"], "--max-bad"),
            (["fit", "x", "--max-bad", "nan"], "--max-bad"),
            (["fit", "x", "--set"], "--set"),
            (["predict", "x"], "See: selfsort predict --help"),
            (["export", "x", "--to", "tape"], "'csv'"),
            (["export", "x"], "--to"),
            (["report"], "See: selfsort report --help"),
        ],
    )
    def test_wrong_use(self, selfsort: Command, words: list[str], part: str) -> None:
        done = selfsort(*words)
        assert_refused(done, part)
        assert not re.search(r"\?\)?\.", done.err)


class TestRefusals:
    def test_names_cannot_play_tricks_on_the_terminal(self, selfsort: Command, tmp_path: Path) -> None:
        assert_refused(selfsort("fit", "a\nb\x1b[31m\udce9", "--clusters", "3"), r"a\nb\x1b[31m\xe9 is not there")

    @pytest.mark.parametrize("words", [["--debug", "fit", "nowhere"], ["fit", "nowhere", "--debug"]])
    def test_debug_shows_the_traceback_wherever_it_stands(self, selfsort: Command, words: list[str]) -> None:
        done = selfsort(*words, "--clusters", "3")
        assert done.code == 2
        assert "Traceback" in done.err
        assert done.err.splitlines()[-1].startswith("selfsort: The source nowhere is not there.")

    def test_a_fault_of_ours_is_called_that(
        self, selfsort: Command, npz: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def broken(*arguments: object, **options: object) -> None:
            raise ZeroDivisionError("nobody thought of this")

        monkeypatch.setattr(session, "launch", broken)
        done = selfsort("fit", npz, "--clusters", "3")
        assert_refused(done, "(ZeroDivisionError: nobody thought of this)", "a fault of ours", "--debug", code=1)
        assert "Traceback" in selfsort("fit", npz, "--clusters", "3", "--debug").err


def test_the_public_names_and_no_others() -> None:
    assert set(package.__all__) == {"ImageClusterer", "__version__", "duplicates", "load"}
    assert all(hasattr(package, name) for name in package.__all__)
    with pytest.raises(AttributeError, match="has no attribute 'fit'"):
        _ = package.fit
    assert sys.modules["selfsort"] is package
