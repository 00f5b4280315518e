"""A minute of random commands on damaged input, the same ones every time; `make fuzz` runs others for longer."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tests.attacks.fuzz import make_case
from tests.attacks.hostile_runs import mutated_run
from tests.tiny_run import CONFIG, files_of, fill

from selfsort.runs.folder import RunFolder

SEED = 20_261_117
MINUTES = 0.75


def test_whatever_a_command_is_given_it_ends_in_order() -> None:
    # In a process of its own: a fork of one that has run other tests would bring their threads and patches along.
    words = ["-m", "tests.attacks.fuzz", "--seed", str(SEED), "--minutes", str(MINUTES)]
    done = subprocess.run(
        [sys.executable, *words], cwd=Path(__file__).parents[2], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-8000:]
    assert "0 faults" in done.stdout


@pytest.mark.parametrize("number", range(20))
def test_a_seed_and_a_number_name_one_case(tmp_path: Path, number: int) -> None:
    fill(RunFolder.create(tmp_path / "sound", CONFIG))
    made = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        run = mutated_run(np.random.default_rng(number), tmp_path / "sound", tmp_path / name)
        made.append({path: content for path, content in files_of(run).items() if path != "edits.sqlite"})
    assert made[0] == made[1]


def test_every_kind_of_command_is_drawn(tmp_path: Path) -> None:
    for name in ("dbc", "dbc-interrupted"):
        fill(RunFolder.create(tmp_path / "runs" / name, CONFIG))
    drawn = set()
    for number in range(300):
        folder = tmp_path / str(number)
        folder.mkdir()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("tests.attacks.fuzz.FINISHED", ("dbc",))
            patch.setattr("tests.attacks.fuzz.INTERRUPTED", ("dbc",))
            case = make_case(0, number, tmp_path, folder)
        drawn |= {case.words[0], *(["--resume"] if "--resume" in case.words else [])}
    assert {"fit", "--resume", "predict", "score", "report", "export", "methods", "explore"} <= drawn
