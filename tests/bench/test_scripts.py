"""Tables whose cells are commands."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path

import pytest
from typer.main import get_command

from experiments import embedding, patch_codebook, peers, softmax_finetune
from selfsort.bench.records import read_records
from selfsort.bench.scripts import FILES, SCRIPTS, ScriptTable, Trial, fill_script, rows_of, run_trial, state_of, told
from selfsort.cli.main import app
from selfsort.errors import InvalidInput

TRIALS = [trial for table in SCRIPTS.values() for trial in table.trials]
CODE = "import json; print('hello'); print(json.dumps({'jule': {'error': 0.25}, 'on': 'conv1'}))"


def table(*trials: Trial) -> ScriptTable:
    return ScriptTable(name="jule-13", title="drawn", trials=trials)


def drawn(name: str = "one", code: str = CODE, **rest: object) -> Trial:
    return Trial(name=name, commands=(f"python -c {shlex.quote(code)}",), needs=(), **rest)  # type: ignore[arg-type]


class TestTables:
    def test_names_and_commands_stand_once_and_needs_are_described(self) -> None:
        for found in SCRIPTS.values():
            assert len({trial.name for trial in found.trials}) == len(found.trials)
            assert len({trial.key() for trial in found.trials}) == len(found.trials)
        assert all(name in FILES for trial in TRIALS for name in trial.needs)

    @pytest.mark.parametrize("command", sorted({line for trial in TRIALS for line in trial.commands}))
    def test_every_command_is_understood(self, command: str, monkeypatch: pytest.MonkeyPatch) -> None:
        words = shlex.split(command)
        if words[0] == "selfsort":
            group = get_command(app)
            known = group.commands[words[1]]  # type: ignore[attr-defined]
            known.make_context(words[1], words[2:])
            return
        script = {
            "embedding": embedding,
            "patch_codebook": patch_codebook,
            "peers": peers,
            "softmax_finetune": softmax_finetune,
        }[words[2].removeprefix("experiments.")]

        class Understood(Exception):
            pass

        def stop(*given: object, **named: object) -> None:
            raise Understood

        for name in ("find_or_exit", "choose_device", "read_pairs", "read"):
            monkeypatch.setattr(script, name, stop, raising=False)
        with pytest.raises(Understood):
            script.main(words[3:])


class TestFilling:
    def test_figures_are_recorded_once(self, tmp_path: Path) -> None:
        records: dict[str, object] = {}
        said: list[str] = []
        trial = drawn(printed={"jule error": 0.2})
        first = fill_script(table(trial), records, tmp_path, say=said.append)  # type: ignore[arg-type]
        assert (first.n_measured, first.left, len(said)) == (1, {}, 1)
        stored = read_records([tmp_path])
        assert stored[trial.key()]["scores"] == {"jule error": 0.25}
        assert stored[trial.key()]["cpu_seconds"] > 0
        assert stored[trial.key()]["peak_memory_mb"] > 1
        assert fill_script(table(trial), stored, tmp_path).n_measured == 0
        assert told(rows_of(table(trial), stored, {})[0]) == "jule error 0.250 (0.200)"
        assert state_of(table(trial), stored) == "1 of 1 commands measured so far."

    def test_what_is_not_there_is_said_with_its_source_and_command(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("SELFSORT_DATA", str(tmp_path))
        tried = fill_script(SCRIPTS["jule-7"], {}, tmp_path)
        assert tried.n_measured == 0
        assert "ytf-1446.npz: 100,000 frames of YouTube Faces" in tried.left["100,000 frames, clusters"]
        rows = rows_of(SCRIPTS["jule-7"], {}, tried.left)
        assert len(rows) == 10  # five numbers of frames, with clusters and with names
        row = next(row for row in rows if row["trial"] == "100,000 frames, clusters")
        assert "lfw-pairs.txt" in row["left"]
        assert row["commands"][0].startswith("selfsort fit DATA/ytf-1446.npz")
        assert told(row) == "accuracy - (0.767)"

    def test_an_accelerator_is_waited_for_unless_one_cell_is_asked_for(self, tmp_path: Path) -> None:
        trial = drawn(needs_accelerator=True)
        assert fill_script(table(trial), {}, tmp_path).left == {"one": "needs an accelerator"}
        assert fill_script(table(trial), {}, tmp_path, only="one").n_measured == 1

    def test_an_environment_of_its_own_is_asked_for(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("SELFSORT_PEERS", raising=False)
        left = fill_script(table(drawn(variable="SELFSORT_PEERS")), {}, tmp_path).left
        assert "python -m experiments.peers environment FOLDER" in left["one"]

    def test_the_budget_ends_it(self, tmp_path: Path) -> None:
        assert fill_script(table(drawn()), {}, tmp_path, budget_seconds=0).left == {"one": "the time was over"}

    def test_a_name_that_is_nowhere(self, tmp_path: Path) -> None:
        with pytest.raises(InvalidInput, match=r"occur in the name of a cell of jule-13; got 'none'. Try 'one'"):
            fill_script(table(drawn()), {}, tmp_path, only="none")


def test_no_network_is_scored_on_images_it_was_fitted_to() -> None:
    for trial in SCRIPTS["secu-self-label"].trials:
        fits = [command for command in trial.commands if command.startswith("selfsort fit")]
        assert fits
        for command in fits:
            (where,) = re.findall(r"--where split=(\S+)", command)
            assert "1" not in where.split(",")
        assert "--where split=1" in trial.commands[-1]


class TestRunning:
    def test_a_command_that_fails_is_a_refusal(self) -> None:
        found = run_trial(drawn(code="raise SystemExit('no such thing')"), None)
        assert found == {"refused": "a command ended with code 1: no such thing"}

    @pytest.mark.skipif(sys.platform != "linux", reason="limits of children are set on Linux")
    def test_processor_time_is_limited(self) -> None:
        found = run_trial(drawn(code="while True: pass"), 1)
        assert found == {"refused": "stopped after 0 minutes of processor time", "cpu_limit": 1}

    def test_commands_share_a_folder(self) -> None:
        write = "open('kept.json', 'w').write('{\"a\": 1}')"
        trial = Trial(
            name="two",
            commands=(f"python -c {shlex.quote(write)}", "python -c \"print(open('kept.json').read())\""),
            needs=(),
        )
        assert run_trial(trial, None)["scores"] == {"a": 1.0}
