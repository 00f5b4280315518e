"""Random commands on damaged sources, damaged runs and odd paths, through the real command line.

Whatever it is given, `selfsort` ends with 0 (done), 2 (wrong use or input) or 3 (interrupted), never with 1, a
traceback, a signal, more than `SECONDS` or more than `MEMORY` bytes. Every case runs in a process of its own, forked
from one that has imported everything: no case sees what another has left behind, and thousands of them fit into
minutes. A case may read anything and writes into its own folder alone: what a command is told to write lies in there,
and a process that reaches for anything else is ended first. A case is named by a seed and a number:

    python -m tests.attacks.fuzz --minutes 30            another seed each time
    python -m tests.attacks.fuzz --seed 5 --case 1234    one case again, with its traceback
"""

from __future__ import annotations

import argparse
import gc
import importlib
import os
import resource
import secrets
import shlex
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from tests.attacks.hostile_runs import mutated_run
from tests.attacks.hostile_sources import mutated_array_file, mutated_picture_folder
from tests.conftest import write_photos
from tests.contract.tiny import TINY

SECONDS = 20
MEMORY = 1536 * 2**20
ALLOWED_CODES = (0, 2, 3)
OUTSIDE = 98
"""The exit code of a command that was about to write outside of its folder."""

FINISHED = ("kmeans", "sc-njw", "ac-gdl", "nmf-d", "dbc", "dac", "gatcluster", "secu", "jule", "refined", "on-features")
INTERRUPTED = ("dbc", "dac", "gatcluster", "secu", "jule", "refined")


_MODULES = (
    *(
        "onnx",
        "uvicorn",
        "sklearn.cluster",
        "sklearn.decomposition",
        "selfsort.cli.main",
        "selfsort.runs.model",
        "selfsort.runs.export.onnx",
    ),
    *(
        "selfsort.runs.launch",
        "selfsort.runs.export.folders",
        "selfsort.explore.app",
        "selfsort.explore.serve",
        "selfsort.report.build",
    ),
    "selfsort.report.render.figures",
)


@dataclass(frozen=True)
class Case:
    """One command and what it is given."""

    number: int
    words: tuple[str, ...]
    folder: Path
    stdout: str | None = None
    """A device to write to in place of a file."""


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    code: int
    """Negative: the signal that ended it."""
    err: str
    peak_bytes: int

    @property
    def fault(self) -> str | None:
        """What must not happen, if it did."""
        if self.code in (-signal.SIGKILL, -signal.SIGXCPU):
            return f"no end after {SECONDS} s"
        if self.code == OUTSIDE:
            return "writing outside of its folder"
        if self.code not in ALLOWED_CODES:
            return f"exit code {self.code}"
        if "Traceback" in self.err:
            return "a traceback"
        if self.peak_bytes > MEMORY:
            return f"{self.peak_bytes / 2**20:.0f} MB"
        return None


@dataclass(eq=False)
class Tally:
    """What a loop of cases came to."""

    codes: Counter[int] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)


# ---- sound things to damage --------------------------------------------------------------------------------


def write_sound_runs(folder: Path) -> None:
    """Make small runs of several methods, finished and interrupted, and the pictures they came from."""
    write_photos(folder / "photos")
    photos, runs = str(folder / "photos"), folder / "runs"

    def fit(name: str, *words: str, is_interrupted: bool = False) -> None:
        method = [] if name == "refined" else ["--method", name if name != "on-features" else "kmeans"]
        out = ["--clusters", "3", "--out", str(runs / (name + ("-interrupted" if is_interrupted else "")))]
        stop = ["--max-minutes", "0"] if is_interrupted else []
        ended = run_case(Case(0, ("fit", photos, "--labels-from-folders", *method, *words, *out, *stop), folder))
        assert ended.code == (3 if is_interrupted else 0), (name, ended)

    for name in FINISHED[:9]:
        settings = [word for key, value in TINY.get(name, {}).items() for word in ("--set", f"{key}={_spelt(value)}")]
        fit(name, *settings)
        if name in INTERRUPTED:
            fit(name, *settings, is_interrupted=True)
    settings = [
        word for pair in ("epochs=2", "warmup=1", "batch_size=12", "min_agreement=0") for word in ("--set", pair)
    ]
    refine = ["--self-label", str(runs / "secu"), *settings]
    fit("refined", *refine)
    fit("refined", *refine, is_interrupted=True)
    fit("on-features", "--encoder", str(runs / "dbc"))


def _spelt(value: object) -> str:
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value).lower()


_ABOUT = {None: (0, 10), "sources": (0, 3), "runs": (3, 9), "paths": (9, 10)}


# ---- cases -------------------------------------------------------------------------------------------------


def make_case(seed: int, number: int, sound: Path, folder: Path, about: str | None = None) -> Case:
    """Draw a command; the same seed and number give the same one."""
    rng = np.random.default_rng([seed, number])
    kind = int(rng.integers(*_ABOUT[about]))
    stdout = None
    if kind < 2:
        words = _on_source(rng, str(mutated_array_file(rng, folder)), sound)
    elif kind == 2:
        words = _on_source(rng, str(mutated_picture_folder(rng, folder)), sound)
    elif kind < 9:
        words = _on_run(rng, sound, folder)
    else:
        words = _on_odd_paths(rng, sound, folder)
        stdout = "/dev/full" if rng.random() < 0.1 else None
    return Case(number, tuple(words), folder, stdout)


def _draw(rng: np.random.Generator, choices: Sequence[str]) -> str:
    return choices[int(rng.integers(len(choices)))]


def _on_source(rng: np.random.Generator, source: str, sound: Path) -> list[str]:
    if rng.random() < 0.2:
        return ["predict", str(sound / "runs" / _draw(rng, ("kmeans", "dbc"))), source, "--max-bad", "1"]
    words = ["fit", source, "--method", "kmeans", "--clusters", "2", "--max-bad", _draw(rng, ("0", "0.5", "1"))]
    words += ["--size", _draw(rng, ("4", "9"))] if rng.random() < 0.3 else []
    words += ["--gray"] if rng.random() < 0.2 else []
    words += ["--where", _draw(rng, ("labels=1", "images=1", "names=a", "x=", "="))] if rng.random() < 0.2 else []
    return words


def _on_run(rng: np.random.Generator, sound: Path, folder: Path) -> list[str]:
    if rng.random() < 0.3:
        name = _draw(rng, INTERRUPTED) + "-interrupted"
        run = str(mutated_run(rng, sound / "runs" / name, folder))
        source = [str(sound / "photos")] if rng.random() < 0.5 else []
        return ["fit", *source, "--resume", run, "--max-minutes", _draw(rng, ("0", "0.05"))]
    run = str(mutated_run(rng, sound / "runs" / _draw(rng, FINISHED), folder))
    photos = str(sound / "photos")
    choices: list[list[str]] = [
        ["predict", run, photos, "--json"],
        ["score", run],
        ["score", run, "--json", "--labels", str(folder / "run" / "labels.csv")],
        ["report", run],
        ["report", run, str(sound / "runs" / "kmeans")],
        ["export", run, "--to", "csv"],
        ["export", run, "--to", "folders", *(["--link"] if rng.random() < 0.5 else [])],
        ["export", run, "--to", "onnx"],
        ["explore", run, "--no-browser"],
        ["fit", "--self-label", run, "--set", "epochs=1", "--set", "warmup=0", "--max-minutes", "0"],
        ["fit", photos, "--encoder", run, "--method", "kmeans", "--clusters", "2"],
        ["fit", photos, "--start-from", run, "--method", "secu", "--set", "epochs=1", "--max-minutes", "0"],
    ]
    if rng.random() < 0.02:  # seconds of drawing
        return ["report", run, "--figures", str(folder / "figures")]
    return choices[int(rng.integers(len(choices)))]


def _on_odd_paths(rng: np.random.Generator, sound: Path, folder: Path) -> list[str]:
    loop, dangling, closed = folder / "loop", folder / "dangling", folder / "closed"
    loop.symlink_to("loop")
    dangling.symlink_to("nowhere")
    closed.mkdir(mode=0)
    os.mkfifo(folder / "pipe")
    (folder / "empty").touch()
    # Copies: what one case writes must not be there for the next.
    photos = str(shutil.copytree(sound / "photos", folder / "photos"))
    run = str(shutil.copytree(sound / "runs" / "kmeans", folder / "sound"))
    inside = (
        *("~nosuchuser", "~nosuchuser/x", "~", "", ".", "-"),
        *("x" * 300, "x/" * 3000, "caf\udce9", "\u202e", "a\nb", "\x1b[31m", "a:b", ":", "run:"),
        *(str(loop), str(loop / "x"), str(dangling), str(dangling / "x"), str(closed), str(closed / "x")),
        *(str(folder / "empty"), str(folder / "empty" / "x"), photos),
        *(run, run + "/labels.csv", run + "/", f"/{folder}//figures//", "~/nowhere"),
    )
    # Who writes to a pipe waits for a reader, as with any program.
    elsewhere = (
        str(folder / "pipe"),
        "..",
        "/dev/null",
        "/dev/full",
        "/dev/zero",
        "/proc/self/mem",
        "/proc/x",
        "//etc//",
    )
    path, other, out = _draw(rng, inside + elsewhere), _draw(rng, inside + elsewhere), _draw(rng, inside)
    number = _draw(rng, ("0", "-1", "3", "1e3", "nan", "inf", "9" * 400, "99999999999", "", "x", "2:5", "auto"))
    fit = ["--method", "kmeans", "--clusters", "2"]
    choices: list[list[str]] = [
        ["fit", path, *fit],
        ["fit", photos, *fit, "--out", out],
        ["fit", photos, *fit, "--labels", path],
        ["fit", photos, *fit, "--encoder", path],
        ["fit", photos, *fit, "--start-from", path],
        ["fit", path, "--resume", other],
        ["fit", "--self-label", path],
        ["fit", photos, "--method", "kmeans", "--clusters", number],
        ["fit", photos, *fit, _draw(rng, ("--size", "--seed", "--memory", "--max-bad", "--max-minutes")), number],
        ["fit", photos, *fit, "--set", _draw(rng, ("n_init=", "x=1", "=", "n_init", "n_clusters=2", path))],
        ["fit", photos, *fit, "--device", _draw(rng, ("meta", "cuda:99", "", "cpu:0", "xpu", "nowhere", "mps"))],
        ["fit", photos, *fit, "--where", path, "--recipe", other],
        ["predict", path, other],
        ["predict", run, path],
        ["predict", run, photos, "--out", out],
        ["predict", run, photos, "--device", _draw(rng, ("meta", "vulkan", "cpu:1"))],
        ["score", path],
        ["score", run, "--labels", path],
        ["report", path],
        ["report", run, "--out", out],
        ["report", run, "--out", str(folder / "page.html"), "--figures", out],
        ["export", run, "--to", _draw(rng, ("csv", "folders", "npz", "onnx", "x")), "--out", out],
        ["export", path, "--to", "csv"],
        ["explore", path, "--no-browser"],
        ["explore", run, "--no-browser", "--port", number],
        ["methods"],
        ["methods", _draw(rng, ("kmeans", "jul", "", "[/]", "[bold]", path))],
        ["methods", "secu", "--json"],
        [path],
        ["--version"],
    ]
    return choices[int(rng.integers(len(choices)))]


# ---- running -----------------------------------------------------------------------------------------------


def import_everything() -> None:
    """Load what any command needs, so that a forked process finds it there."""
    for name in _MODULES:
        importlib.import_module(name)
    import torch

    torch.set_num_threads(1)
    torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.1).step()  # loads a second's worth of modules
    gc.freeze()  # a forked process shares what nobody walks over


@dataclass(frozen=True)
class Running:
    """A command in a process of its own."""

    case: Case
    process: int
    started: float

    def ended(self, block: bool = False) -> Ended | None:
        """Say how it ended, or None while it goes on; who waits for ever is killed."""
        if time.monotonic() > self.started + 10 * SECONDS:
            os.kill(self.process, signal.SIGKILL)
        found, status, usage = os.wait4(self.process, 0 if block else os.WNOHANG)
        if not found:
            return None
        errors = self.case.folder / "stderr.txt"
        err = errors.read_text(encoding="utf-8", errors="replace") if errors.exists() else ""
        return Ended(os.waitstatus_to_exitcode(status), err, usage.ru_maxrss * 1024)


def start(case: Case, *, is_debug: bool = False) -> Running:
    """Run a command in a forked process that stands in its folder."""
    started = time.monotonic()
    child = os.fork()
    if not child:
        code = 70
        try:
            code = _in_child(case, is_debug)
        finally:
            os._exit(code)
    return Running(case, child, started)


def run_case(case: Case, *, is_debug: bool = False) -> Ended:
    """Run one command to its end."""
    ended = start(case, is_debug=is_debug).ended(block=True)
    assert ended is not None
    return ended


def _in_child(case: Case, is_debug: bool) -> int:
    """Be the command line: its own folder, its own streams, no server that waits for visitors."""
    import uvicorn

    from selfsort.cli.main import main

    # Seconds of work, not of waiting for others; who waits for ever is killed all the same.
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
    os.chdir(case.folder)
    out = os.open(case.stdout or "stdout.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    err = os.open("stderr.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((nothing, 0), (out, 1), (err, 2)):
        os.dup2(source, target)
    sys.stdout, sys.stderr = (open(n, "w", encoding="utf-8", closefd=False) for n in (1, 2))  # noqa: SIM115
    sys.stderr.reconfigure(errors="backslashreplace")
    uvicorn.Server.run = lambda self, sockets=None: None  # type: ignore[method-assign]
    os.environ["HOME"] = os.environ["TMPDIR"] = tempfile.tempdir = str(case.folder)
    os.environ["SELFSORT_CACHE"] = str(case.folder / "cache")
    sys.dont_write_bytecode = True
    sys.addaudithook(partial(_stay_inside, os.path.realpath(case.folder)))
    sys.argv = ["selfsort", *(["--debug"] if is_debug else []), *case.words]
    code: object = 0
    try:
        main()
    except SystemExit as end:
        code = end.code or 0
    # What the interpreter does on its way out, and what it answers if that fails.
    try:
        sys.stdout.flush()
    except OSError:
        code = 120
    sys.stderr.flush()
    return code if isinstance(code, int) else 1


_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_CHANGED: dict[str, slice] = {
    **dict.fromkeys(("os.mkdir", "os.remove", "os.rmdir", "os.truncate", "os.chmod", "shutil.rmtree"), slice(1)),
    **{"os.rename": slice(2), "os.link": slice(1, 2), "os.symlink": slice(1, 2)},
}
"""Which arguments of an event name something that changes."""


def _stay_inside(folder: str, event: str, arguments: tuple[Any, ...]) -> None:
    """End this process before it writes elsewhere; an error would be answered as a disk's, and nobody would know."""
    if event == "open":
        changed = arguments[:1] if arguments[2] & _WRITING else ()
    else:
        changed = arguments[_CHANGED.get(event, slice(0))]
    for path in changed:
        # A number is open already. A lone name stands in a folder that is open: see shutil.rmtree.
        if isinstance(path, int) or (event in ("os.remove", "os.rmdir") and os.path.basename(path) == path):  # noqa: PTH119
            continue
        found = Path(os.path.realpath(os.fsdecode(path)))
        # Kernels are compiled once and kept beside their source.
        is_harmless = str(found) == os.devnull or "__pycache__" in found.parts
        if not is_harmless and not found.is_relative_to(folder):
            os.write(2, f"{event} {str(found)!r} is outside of {folder!r}\n".encode("utf-8", "backslashreplace"))
            os._exit(OUTSIDE)


def loop(seed: int, sound: Path, scratch: Path, *, minutes: float, about: str | None = None, n_jobs: int = 1) -> Tally:
    """Run cases until the time is up; print every fault with what it takes to see it again."""
    tally, number = Tally(), 0
    running: list[Running] = []
    until = time.monotonic() + 60 * minutes
    while running or time.monotonic() < until:
        while len(running) < n_jobs and time.monotonic() < until:
            folder = scratch / str(number)
            folder.mkdir()
            running.append(start(make_case(seed, number, sound, folder, about)))
            number += 1
        time.sleep(0.002)
        for one in list(running):
            ended = one.ended()
            if ended is None:
                continue
            running.remove(one)
            tally.codes[ended.code] += 1
            if ended.fault is not None:
                tally.faults.append(_told(seed, one.case, ended, about))
                print(tally.faults[-1], flush=True)
            _take_away(one.case.folder)
    return tally


def _told(seed: int, case: Case, ended: Ended, about: str | None) -> str:
    words = shlex.join(case.words).encode("utf-8", "backslashreplace").decode()
    last = (ended.err.strip().splitlines() or [""])[-1]
    return (
        f"{ended.fault}: selfsort {words[:400]}\n    {last[:400]}\n"
        f"    again: python -m tests.attacks.fuzz --seed {seed} --case {case.number}"
        + (f" --about {about}" if about else "")
    )


def _take_away(folder: Path) -> None:
    if (folder / "closed").is_dir():
        (folder / "closed").chmod(0o700)
    shutil.rmtree(folder, ignore_errors=True)


def main() -> None:
    """Run the loop, or one case of it again."""
    parser = argparse.ArgumentParser(description="random commands on damaged input")
    parser.add_argument("--minutes", type=float, default=1)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(2**31))
    parser.add_argument("--case", type=int, help="only this one, with its traceback")
    parser.add_argument("--about", choices=[about for about in _ABOUT if about], help="only commands on these")
    parser.add_argument("--sound", type=Path, help="keep the sound runs here for the next time")
    asked = parser.parse_args()
    import_everything()
    with tempfile.TemporaryDirectory(prefix="selfsort-fuzz-") as scratch:
        sound = (asked.sound or Path(scratch) / "sound").absolute()
        if not sound.exists():
            sound.mkdir()
            write_sound_runs(sound)
        if asked.case is not None:
            folder = Path(scratch) / "again"
            folder.mkdir()
            case = make_case(asked.seed, asked.case, sound, folder, asked.about)
            ended = run_case(case, is_debug=True)
            print(ended.err, "\n", shlex.join(case.words).encode("utf-8", "backslashreplace").decode(), ended.code)
            _take_away(folder)
            return
        print(f"seed {asked.seed}", flush=True)
        tally = loop(
            asked.seed, sound, Path(scratch), minutes=asked.minutes, about=asked.about, n_jobs=os.cpu_count() or 1
        )
    codes = ", ".join(f"{code}: {count}" for code, count in sorted(tally.codes.items()))
    print(f"{tally.codes.total()} commands, exit codes {codes}; {len(tally.faults)} faults (seed {asked.seed})")
    sys.exit(1 if tally.faults else 0)


if __name__ == "__main__":
    main()
