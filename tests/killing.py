"""Kills the command line at every moment that touches the disk, resumes it, and compares with a run left in peace.

Run as a program: `python tests/killing.py SOURCE [MOMENTS]`, standing in an empty folder, with how many moments to
try (drawn by lot; all of them by default). Prints one JSON object.
Each run is a forked child, so that the heavy imports are paid for once, and a kill is a real SIGKILL: no handler, no
clean-up. A moment is counted before and after each of the calls by which a file comes into being, and half-way through
each line added to events.jsonl.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import sys
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

from tests.tiny_run import files_of
from tests.toy import install

from selfsort.cli import main as cli
from selfsort.runs.folder import RunFolder

UNTIMED = ("labels.csv", "features.npy", "soft.npy", "model.safetensors", "metrics.json", "thumbnails.npz")


class Clock:
    """Counts moments and, when the hour has come, kills."""

    def __init__(self, dies_at: int | None) -> None:
        self.dies_at = dies_at
        self.moments = 0

    def tick(self) -> None:
        self.moments += 1
        if self.moments == self.dies_at:
            os.kill(os.getpid(), signal.SIGKILL)

    def around(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def watched(*arguments: Any, **options: Any) -> Any:
            self.tick()
            value = call(*arguments, **options)
            self.tick()
            return value

        return watched

    def install(self) -> None:
        os.fsync = self.around(os.fsync)
        os.replace = self.around(os.replace)
        os.mkdir = self.around(os.mkdir)
        append = RunFolder.append_event

        def torn(folder: RunFolder, event: dict[str, Any]) -> None:
            path, line = folder.path / "events.jsonl", json.dumps(event).encode()
            before = path.read_bytes() if path.exists() else b""
            path.write_bytes(before + line[: len(line) // 2])
            self.tick()
            path.write_bytes(before)
            append(folder, event)
            self.tick()

        setattr(RunFolder, "append_event", torn)  # noqa: B010


def selfsort(words: list[str]) -> int:
    """Run the command line in this process, in silence; return its exit code."""
    sys.argv = ["selfsort", *words]
    with Path(os.devnull).open("w") as silence, redirect_stdout(silence), redirect_stderr(silence):
        try:
            cli.main()
        except SystemExit as end:
            return int(end.code or 0)
    return 0


def command(words: list[str], dies_at: int | None = None) -> tuple[int, int]:
    """Run the command line in a child; return its wait status and how many moments it lived through."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        clock = Clock(dies_at)
        clock.install()
        code = selfsort(words)
        os.write(writer, str(clock.moments).encode())
        os._exit(code)
    os.close(writer)
    moments = os.read(reader, 100)
    os.close(reader)
    _, status = os.waitpid(child, 0)
    return status, int(moments or 0)


def compare(reference: Path, run: Path) -> list[str]:
    """Name everything in which a resumed run differs from one left in peace."""
    wanted, found = files_of(reference), files_of(run)
    differences = [name for name in UNTIMED if wanted[name] != found.get(name)]
    differences += sorted(set(wanted) ^ set(found))
    expected, events = RunFolder.open(reference).events(), RunFolder.open(run).events()
    for key in ("step", "kind", "loss", "acc"):
        if [event.get(key) for event in events] != [event.get(key) for event in expected]:
            differences.append(f"events: {key}")
    return differences


def main() -> None:
    install()
    source, *how_many = sys.argv[1:]
    fit = ["fit", source, "--clusters", "3", "--method", "toy", "--set", "steps=3", "--out"]
    reference, run = Path("reference"), Path("run")
    assert selfsort([*fit, str(reference)]) == 0  # here, so that no child has to import anything
    shutil.rmtree(reference)
    status, moments = command([*fit, str(reference)])
    assert status == 0, status
    wrong: dict[str, object] = {}
    ends = {"not begun": 0, "resumed": 0, "finished": 0}
    chosen = list(range(1, moments + 1))
    if how_many:
        chosen = [*random.Random(0).sample(chosen[:-1], int(how_many[0]) - 1), moments]
    for moment in chosen:
        status, _ = command([*fit, str(run)], dies_at=moment)
        if not os.WIFSIGNALED(status):
            wrong[str(moment)] = f"was not killed: {status}"
        if not (run / "config.json").exists():
            ends["not begun"] += 1
            shutil.rmtree(run, ignore_errors=True)
            continue
        was_finished = (run / "labels.csv").exists()
        ends["finished" if was_finished else "resumed"] += 1
        status, _ = command(["fit", "--resume", str(run)])
        code = os.waitstatus_to_exitcode(status)
        differences = [] if code else compare(reference, run)
        if was_finished:  # nothing to do, and the labels are those
            differences = ["labels.csv"] * (files_of(run)["labels.csv"] != files_of(reference)["labels.csv"])
        if code != (2 if was_finished else 0) or differences:
            wrong[str(moment)] = {"code": code, "differences": differences}
        shutil.rmtree(run)
    print(json.dumps({"moments": moments, "tried": len(chosen), "ends": ends, "wrong": wrong}))


if __name__ == "__main__":
    main()
