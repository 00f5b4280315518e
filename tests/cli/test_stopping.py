"""Stopping and going on: Ctrl-C, kill, time's up; and what a terminal and a closed pipe get to see."""

from __future__ import annotations

import errno
import functools
import io
import itertools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import Command
from tests.tiny_run import files_of
from tests.toy import TOY

from selfsort.cli import main as cli
from selfsort.data import options as reading
from selfsort.methods import registry
from selfsort.runs import launch as session
from selfsort.runs import request as asking
from selfsort.runs.folder import RunFolder
from selfsort.runs.loop import FitRun

ROOT = Path(__file__).parents[2]
PROGRAM = [sys.executable, str(ROOT / "tests" / "toy.py")]
TOY_WORDS = ["--clusters", "3", "--method", "toy"]
DEEP = ("jule", "dbc", "dac", "gatcluster", "secu", "teach", "self-label")
RESULT_FILES = ("labels.csv", "features.npy", "soft.npy", "model.safetensors")


@pytest.fixture(autouse=True)
def _toy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry.OWN, "toy", TOY)


def environment(**more: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src")]), "OMP_NUM_THREADS": "1", **more}


def assert_same_result(one: Path | str, other: Path | str) -> None:
    for name in RESULT_FILES:
        assert Path(one, name).read_bytes() == Path(other, name).read_bytes(), name


def raiser(error: BaseException) -> Callable[..., Any]:
    def raise_it(*arguments: object, **options: object) -> None:
        raise error

    return raise_it


class TestSignals:
    @pytest.mark.usefixtures("_ctrl_c_is_heard")
    @pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
    def test_a_run_stopped_politely_says_how_to_go_on(
        self, selfsort: Command, npz: Path, tmp_path: Path, number: signal.Signals
    ) -> None:
        out = tmp_path / "my run"
        process = subprocess.Popen(
            [*PROGRAM, "fit", str(npz), *TOY_WORDS, "--out", str(out)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment(TOY_PAUSE_AT="3"),
        )
        assert process.stderr is not None
        assert process.stderr.readline() == "paused\n"
        process.send_signal(number)
        said, complained = process.communicate()
        assert process.returncode == 3, complained
        assert complained == f"selfsort: interrupted. Continue with: selfsort fit --resume '{out}'\n"
        assert "run folder" not in said
        assert sorted(path.name for path in out.iterdir()) == [
            "config.json",
            "events.jsonl",
            "history",
            "ingest.json",
            "resume",
            "thumbnails.npz",
            "truth.npy",
        ]
        assert selfsort("fit", "--resume", out).code == 0
        assert selfsort("fit", npz, *TOY_WORDS, "--out", "reference").code == 0
        assert_same_result(out, "reference")
        # It went on from where it was, not from the start: the first steps were timed by the first process.
        assert [event["step"] for event in RunFolder.open(out).events()[:-1]] == [1, 2, 3, 4, 5]

    def test_a_terminal_that_has_gone_does_not_change_how_it_ends(self, npz: Path, tmp_path: Path) -> None:
        pty = pytest.importorskip("pty")
        screen, terminal = pty.openpty()
        with subprocess.Popen(
            [*PROGRAM, "fit", str(npz), *TOY_WORDS, "--out", str(tmp_path / "run")],
            stdin=subprocess.PIPE,
            stdout=terminal,
            stderr=terminal,
            env=environment(TOY_PAUSE_AT="3"),
        ) as process:
            os.close(terminal)
            shown = b""
            while b"paused" not in shown:
                shown += os.read(screen, 4096)
            os.close(screen)
            process.send_signal(signal.SIGHUP)
        assert process.returncode == 3
        assert not RunFolder.open(tmp_path / "run").is_finished

    def test_a_hang_up_that_is_ignored_stays_so(self, selfsort: Command) -> None:
        """As nohup has it."""
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        assert selfsort("methods").code == 0
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN

    @pytest.mark.parametrize(
        ("moment", "advice"),
        [
            ("selfsort.runs.loop.FitRun._event", "Continue with: selfsort fit --resume run"),
            ("selfsort.cli.fit._tell_outcome", "The run is finished: run"),
        ],
    )
    def test_a_second_ctrl_c_keeps_the_advice(
        self, selfsort: Command, npz: Path, monkeypatch: pytest.MonkeyPatch, moment: str, advice: str
    ) -> None:
        @contextmanager
        def impatient(max_seconds: float | None) -> Iterator[None]:
            try:
                yield
            finally:
                raise KeyboardInterrupt

        monkeypatch.setattr("selfsort.cli.fit.progress_bars", impatient)
        monkeypatch.setattr(moment, raiser(KeyboardInterrupt()))
        done = selfsort("fit", npz, *TOY_WORDS, "--out", "run")
        assert (done.code, done.err) == (3, f"selfsort: interrupted. {advice}\n")

    @pytest.mark.parametrize("moment", ["read_source", "find_method", "choose_device"])
    def test_ctrl_c_before_the_run_exists_leaves_nothing(
        self, selfsort: Command, npz: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
    ) -> None:
        before = files_of(tmp_path)
        room = reading if moment == "read_source" else asking
        monkeypatch.setattr(room, moment, raiser(KeyboardInterrupt()))
        done = selfsort("fit", npz, *TOY_WORDS)
        assert (done.code, done.out) == (3, "")
        assert done.err == "selfsort: interrupted; nothing is lost. Run the same command again to do all of it.\n"
        assert files_of(tmp_path) == before

    @pytest.mark.parametrize(
        ("words", "moment"),
        [
            (["predict", "run", "shapes.npz"], "selfsort.runs.launch.read_source"),
            (["export", "run", "--to", "folders"], "selfsort.runs.export.folders.save_png"),
            (["export", "run", "--to", "csv"], "os.fsync"),
            (["report", "run"], "selfsort.report.build.write_report"),
            (["score", "run"], "selfsort.metrics.external.scores"),
        ],
    )
    def test_ctrl_c_in_any_other_command(
        self,
        selfsort: Command,
        npz: Path,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        words: list[str],
        moment: str,
    ) -> None:
        assert selfsort("fit", npz, *TOY_WORDS, "--out", "run").code == 0
        before = files_of(tmp_path)
        monkeypatch.setattr(moment, raiser(KeyboardInterrupt()))
        done = selfsort(*words)
        assert (done.code, done.out) == (3, "")
        assert done.err.startswith("selfsort: interrupted")
        assert files_of(tmp_path) == before


class TestTimeIsUp:
    def test_each_resume_goes_one_step_further_to_the_same_end(self, selfsort: Command, npz: Path) -> None:
        assert selfsort("fit", npz, *TOY_WORDS, "--out", "reference").code == 0
        done = selfsort("fit", npz, *TOY_WORDS, "--out", "run", "--max-minutes", "0", "--json")
        for step in (1, 2, 3, 4):
            assert (done.code, done.out) == (3, "" if step == 1 else done.out)
            assert f"at step {step} of 5, as asked. Continue with: selfsort fit --resume run\n" in done.err
            done = selfsort("fit", "--resume", "run", "--max-minutes", "0")
        assert done.code == 0
        assert_same_result("run", "reference")
        assert sorted(files_of(Path("run"))) == sorted(files_of(Path("reference")))
        for key in ("step", "loss", "acc"):
            one, other = ([event.get(key) for event in RunFolder.open(run).events()] for run in ("run", "reference"))
            assert one == other

    def test_a_method_of_one_step_is_finished_by_then(self, selfsort: Command, npz: Path) -> None:
        words = ["--clusters", "3", "--method", "kmeans", "--max-minutes", "0"]
        assert selfsort("fit", npz, *words).code == 0


class TestFullDisk:
    def test_at_every_file_in_turn(
        self, selfsort: Command, npz: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        words = ["fit", str(npz), *TOY_WORDS, "--set", "steps=2", "--max-minutes", "1"]
        monkeypatch.setattr(session, "FitRun", functools.partial(FitRun, save_interval=0))
        assert selfsort(*words, "--out", "reference").code == 0
        really, run, stopped_in = os.fsync, tmp_path / "run", set()
        for budget in itertools.count():
            left = iter(range(budget))

            def limited(handle: int, left: Iterator[int] = left) -> None:
                if next(left, None) is None:
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                really(handle)

            with monkeypatch.context() as patch:
                patch.setattr("os.fsync", limited)
                done = selfsort(*words, "--out", run)
            if done.code == 0:
                break
            assert done.code == 2
            assert done.err.count("\n") == 1
            assert "could not be written (No space left on device). Expected a writable folder" in done.err
            assert not list(tmp_path.rglob("*.part"))
            stopped_in.add(re.findall(r"run/(\S+) could", done.err)[0])
            if run.exists():
                assert done.err.endswith(f"Continue with: selfsort fit --resume {run}\n")
                assert selfsort("fit", "--resume", run).code == 0
                assert_same_result(run, "reference")
                shutil.rmtree(run)
        assert_same_result(run, "reference")
        assert stopped_in >= {*files_of(run), "resume/state.safetensors"}


class TestKills:
    """Of `tests/killing.py`: a SIGKILL or a loss of power, at any moment, on a toy and on the real methods."""

    def attack(self, npz: Path, tmp_path: Path, how_many: str, *methods: str) -> dict[str, Any]:
        folder = tmp_path / "killing"
        folder.mkdir()
        done = subprocess.run(
            [sys.executable, str(ROOT / "tests" / "killing.py"), str(npz), how_many, *methods],
            cwd=folder,
            env=environment(),
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        found: dict[str, Any] = json.loads(done.stdout)
        for method in methods:
            for kind in ("kills", "losses"):
                assert found[method][kind]["wrong"] == {}, (method, kind)
            assert found[method]["kills"]["ends"]["finished"] >= 1
            least = 20 if method == "update" else 60
            assert found[method]["kills"]["moments"] > least
            assert found[method]["losses"]["moments"] > least
        return found

    def test_a_run_killed_at_some_moments_ends_the_same(self, npz: Path, tmp_path: Path) -> None:
        self.attack(npz, tmp_path, "12", "toy")

    def test_a_run_of_a_real_method_killed_at_some_moments_ends_the_same(self, npz: Path, tmp_path: Path) -> None:
        self.attack(npz, tmp_path, "4", *DEEP)

    def test_an_update_killed_at_some_moments_ends_the_same(self, npz: Path, tmp_path: Path) -> None:
        self.attack(npz, tmp_path, "6", "update")

    @pytest.mark.slow
    def test_an_update_killed_at_any_moment_ends_the_same(self, npz: Path, tmp_path: Path) -> None:
        found = self.attack(npz, tmp_path, "all", "update")["update"]
        assert set(found["kills"]["ends"]) == {"started again", "finished"}

    @pytest.mark.slow
    @pytest.mark.parametrize("method", ["toy", *DEEP])
    def test_a_run_killed_at_any_moment_ends_the_same(self, npz: Path, tmp_path: Path, method: str) -> None:
        found = self.attack(npz, tmp_path, "all", method)[method]
        for kind in ("kills", "losses"):
            assert found[kind]["tried"] == found[kind]["moments"]
            assert set(found[kind]["ends"]) == {"started again", "resumed", "finished"}


class TestScreens:
    def test_on_a_terminal_bars_go_there_and_the_answer_to_standard_output(self, photos: Path, tmp_path: Path) -> None:
        pty = pytest.importorskip("pty")
        screen, terminal = pty.openpty()
        words = ["fit", str(photos), "--clusters", "3", "--method", "kmeans", "--json", "--out", "run"]
        with subprocess.Popen(
            [*PROGRAM, *words],
            stdout=subprocess.PIPE,
            stderr=terminal,
            text=True,
            cwd=tmp_path,
            env=environment(TERM="xterm", COLUMNS="100"),
        ) as process:
            os.close(terminal)
            shown = read_all(screen)
            answer, _ = process.communicate()
        os.close(screen)
        assert process.returncode == 0, shown
        assert json.loads(answer)["clusters_found"] == 3
        assert "\x1b" not in answer
        assert "\x1b[" in shown
        assert "18 images" in shown
        assert "━" in shown  # the bar

    def test_a_reader_that_has_gone_is_no_fault(self) -> None:
        reader, writer = os.pipe()
        os.close(reader)
        words = [sys.executable, "-m", "selfsort", "--help"]
        done = subprocess.run(words, stdout=writer, stderr=subprocess.PIPE, text=True, env=environment(), check=False)
        os.close(writer)
        assert (done.returncode, done.stderr) == (1, "")

    def test_a_terminal_that_cannot_show_a_name(
        self, selfsort: Command, npz: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Not through the fixture, whose standard output can show anything."""
        out = "gruppierung-ü\udce9"
        assert selfsort("fit", npz, *TOY_WORDS, "--out", out).code == 0
        shown = io.BytesIO()
        monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(shown, encoding="ascii"))
        monkeypatch.setattr(sys, "argv", ["selfsort", "export", out, "--to", "csv"])
        cli.main()
        sys.stdout.flush()
        assert shown.getvalue() == rb"written: gruppierung-\xfc\udce9.csv" + b"\n"
        assert Path(f"{out}.csv").exists()


def read_all(screen: int) -> str:
    """Read a terminal until everyone has closed it, which Linux reports as an error."""
    shown = b""
    while True:
        try:
            part = os.read(screen, 4096)
        except OSError:
            break
        if not part:
            break
        shown += part
    return shown.decode()
