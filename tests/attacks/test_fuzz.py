"""A minute of random commands on damaged input, the same ones every time; `make fuzz` runs others for longer."""

from __future__ import annotations

import os
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
    (tmp_path / "photos").mkdir()
    for name in ("kmeans", "dbc", "dbc-interrupted"):
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


WRITES = ("--out", "--figures")
"""Options that name something to write."""


def test_what_a_command_writes_lies_in_the_folder_of_its_case(tmp_path: Path) -> None:
    sound = tmp_path / "sound"
    fill(RunFolder.create(sound / "runs" / "kmeans", CONFIG))
    (sound / "photos").mkdir()
    written, read = [], []
    for number in range(400):
        (folder := tmp_path / str(number)).mkdir()
        words = make_case(7, number, sound, folder, about="paths").words
        places = {i + 1 for i, word in enumerate(words) if word in WRITES}
        written += [(folder, words[i]) for i in places]
        read += [word for i, word in enumerate(words) if i not in places]
    assert len(written) > 50
    for folder, path in written:
        assert Path(os.path.realpath(folder / path)).is_relative_to(folder.resolve()), path
    assert "//etc//" in read


ASTRAY = """
import sys
from pathlib import Path
from tests.attacks.fuzz import Case, import_everything, run_case
import_everything()
run, here, elsewhere = map(Path, sys.argv[1:])
for words in (["report", run, "--out", elsewhere], ["export", run, "--to", "csv", "--out", elsewhere], ["score", run]):
    ended = run_case(Case(0, tuple(map(str, words)), here))
    print(ended.code, ended.fault)
"""


def test_a_command_that_writes_elsewhere_is_ended_before_it_does(tmp_path: Path) -> None:
    run = fill(RunFolder.create(tmp_path / "run", CONFIG)).path
    (here := tmp_path / "here").mkdir()
    words = [sys.executable, "-c", ASTRAY, str(run), str(here), str(tmp_path / "elsewhere")]
    done = subprocess.run(words, cwd=Path(__file__).parents[2], capture_output=True, text=True, check=False)
    fault = "98 writing outside of its folder"
    assert done.stdout.splitlines() == [fault, fault, "0 None"], done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["here", "run"]
