"""Kills the command line at every moment that touches the disk, goes on, and compares with a run left in peace.

Run as a program: `python tests/killing.py SOURCE all|MOMENTS METHOD...`, standing in an empty folder, with how many
moments to try of each kind, drawn by lot. Prints one JSON object.
Each run is a forked child, so that the heavy imports are paid for once, and a kill is a real SIGKILL: no handler, no
clean-up. A moment is counted before each call by which a file or a folder comes, goes or is brought to the disk,
half-way through each line added to events.jsonl, and at the end. After that the power fails, at every moment and in
several ways: see tests/power_loss.py.
"""

from __future__ import annotations

import functools
import json
import os
import random
import re
import shutil
import signal
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from tests.contract.tiny import TINY
from tests.power_loss import WAYS, Recorder, disk_after, write_disk
from tests.tiny_run import files_of
from tests.toy import install

from selfsort.cli import main as cli
from selfsort.runs.folder import RunFolder

CALLS = ("fsync", "replace", "rename", "mkdir", "unlink", "rmdir")
SETTINGS: dict[str, dict[str, Any]] = {
    **TINY,
    "toy": {"steps": 3},
    "self-label": {"epochs": 3, "warmup": 1, "batch_size": 12, "threshold": 0.3, "min_agreement": 0.0},
}
TIMED = ("events.jsonl", "ingest.json")
_TIME = re.compile(rb'"(elapsed|seconds|peak_memory_mb)": [\d.]*')
_RANDOM = re.compile(r"\.[0-9a-f]{16}(?=\.)")
REFERENCE, RUN, FIRST, DISKS = Path("reference"), Path("run"), Path("first"), Path("disks")
PHOTOS, MORE = Path("photos"), Path("more")
SCRATCH = ".selfsort-export-"


def watch(before: Callable[[], None]) -> None:
    """Have something done before each call that changes what is on the disk."""
    for name in CALLS:
        call = getattr(os, name)

        def watched(*arguments: Any, call: Callable[..., Any] = call, **options: Any) -> Any:
            before()
            return call(*arguments, **options)

        setattr(os, name, watched)


class Clock:
    """Counts moments and, when the hour has come, kills."""

    def __init__(self, dies_at: int | None) -> None:
        self.dies_at = dies_at
        self.moments = 0

    def tick(self) -> None:
        self.moments += 1
        if self.moments == self.dies_at:
            os.kill(os.getpid(), signal.SIGKILL)

    def install(self) -> None:
        watch(self.tick)
        append = RunFolder.append_event

        def torn(folder: RunFolder, event: dict[str, Any]) -> None:
            path, line = folder.path / "events.jsonl", json.dumps(event).encode()
            before = path.read_bytes() if path.exists() else b""
            path.write_bytes(before + line[: len(line) // 2])
            self.tick()
            path.write_bytes(before)
            append(folder, event)

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


def in_child(work: Callable[[], tuple[int, Any]]) -> tuple[int, Any]:
    """Do something in a child; return its wait status, and what else it has to say if it lived."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        code, answer = work()
        with os.fdopen(writer, "w") as file:
            json.dump(answer, file)
        os._exit(code)
    os.close(writer)
    with os.fdopen(reader) as file:
        answer = file.read()
    _, status = os.waitpid(child, 0)
    return status, json.loads(answer or "null")


def command(words: list[str], dies_at: int | None = None) -> tuple[int, Any]:
    """Run the command line in a child; return its wait status and how many moments it lived through."""

    def work() -> tuple[int, int]:
        clock = Clock(dies_at)
        clock.install()
        code = selfsort(words)
        clock.tick()
        return code, clock.moments

    return in_child(work)


def recorded(words: list[str], root: Path) -> tuple[int, Any]:
    """Run the command line in a child, and write down every disk that a loss of power can leave.

    Returns the child's wait status, and how many disks there are.
    """

    def work() -> tuple[int, int]:
        recorder = Recorder(root)
        recorder.install()
        watch(recorder.look)
        code = selfsort(words)
        recorder.look()
        left = (disk_after(moment, way) for moment in recorder.moments for way in WAYS)
        disks = {tuple(disk.items()): disk for disk in left}  # many are the same
        for number, disk in enumerate(disks.values()):
            write_disk(disk, DISKS / str(number))
        return code, len(disks)

    return in_child(work)


def go_on(again: list[str]) -> tuple[str, object]:
    """Go on with what is left of a run, as its user would; return how, and what is wrong with the end of it."""
    is_begun, is_finished = (RUN / "config.json").exists(), (RUN / "labels.csv").exists()
    status, _ = command(["fit", "--resume", str(RUN)] if is_begun else again)
    code = os.waitstatus_to_exitcode(status)
    how = "finished" if is_finished else "resumed" if is_begun else "started again"
    if code != (2 if is_finished else 0):
        return how, {"code": code}
    return how, compare(may_have_more=is_finished)


def compare(*, may_have_more: bool) -> list[str]:
    """Name everything in which a run differs from one left in peace."""
    wanted, found = files_of(REFERENCE), files_of(RUN)
    differences = [name for name in wanted if name not in TIMED and wanted[name] != found.get(name)]
    if not may_have_more:
        differences += sorted(set(found) - set(wanted))
    expected, events = RunFolder.open(REFERENCE).events(), RunFolder.open(RUN).events()
    for key in ("step", "kind", "loss", "acc"):
        if [event.get(key) for event in events] != [event.get(key) for event in expected]:
            differences.append(f"events: {key}")
    return differences


def left_behind() -> frozenset[tuple[str, bytes]]:
    """Return all that a run that goes on can know of the one before: files by name, without times and random names."""
    named = {_RANDOM.sub(".", name): content for name, content in files_of(RUN).items()}
    for place in scratch():  # where an update is built
        named |= {f"scratch/{_RANDOM.sub('.', name)}": content for name, content in files_of(place).items()}
    return frozenset((name, _TIME.sub(b"", content) if name in TIMED else content) for name, content in named.items())


def scratch() -> list[Path]:
    """Return what runs that were being built have left."""
    return [path for path in Path().iterdir() if path.is_dir() and path.name.startswith(SCRATCH)]


def attack(leave: Callable[[int], bool], moments: Iterable[int], again: list[str]) -> dict[str, Any]:
    """Leave a run behind at each of some moments and go on with it; return how many ended how.

    Where the same is left behind as at an earlier moment, it is not gone on with again: it would end the same.
    """
    ends: dict[frozenset[tuple[str, bytes]], str] = {}
    tried: Counter[str] = Counter()
    wrong: dict[int, object] = {}
    for moment in moments:
        if not leave(moment):
            wrong[moment] = "was not left behind"
        left = left_behind()
        if left not in ends:
            ends[left], problem = go_on(again)
            if problem:
                wrong[moment] = problem
        tried[ends[left]] += 1
        for path in (RUN, *scratch()):
            shutil.rmtree(path, ignore_errors=True)
    return {"tried": tried.total(), "different": len(ends), "ends": tried, "wrong": wrong}


def words_for(method: str, source: str) -> list[str]:
    """Spell a small fit by a method; --out is missing."""
    if method == "update":
        return _update_words(source)
    settings = [f"--set={key}={_spelt(value)}" for key, value in SETTINGS[method].items()]
    if method == "self-label":
        assert selfsort([*words_for("secu", source), str(FIRST)]) == 0
        return ["fit", "--self-label", str(FIRST), *settings, "--out"]
    return ["fit", source, "--clusters", "3", "--method", method, "--recipe", "default", *settings, "--out"]


def _update_words(source: str) -> list[str]:
    """Make a run of two thirds of the images as files, and spell the update by the others."""
    with np.load(source) as arrays:
        for i, pixels in enumerate(arrays["images"]):
            path = (PHOTOS if i % 3 else MORE) / f"{i:03d}.png"
            path.parent.mkdir(exist_ok=True)
            Image.fromarray(pixels.squeeze()).save(path)
    assert selfsort(["fit", str(PHOTOS), "--clusters", "3", "--method", "kmeans", "--out", str(FIRST)]) == 0
    return ["update", str(FIRST), str(MORE), "--out"]


def _spelt(value: object) -> str:
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


def killed(again: list[str], moment: int) -> bool:
    status, _ = command(again, dies_at=moment)
    return os.WIFSIGNALED(status)


def powerless(number: int) -> bool:
    if (DISKS / str(number) / RUN).exists():
        (DISKS / str(number) / RUN).rename(RUN)
    return True


def try_method(method: str, source: str, how_many: int | None) -> dict[str, Any]:
    """Attack runs of one method in both ways."""
    fit = words_for(method, source)
    assert selfsort([*fit, str(REFERENCE)]) == 0  # here, so that no child has to import or compile anything
    shutil.rmtree(REFERENCE)
    status, moments = command([*fit, str(REFERENCE)])
    assert status == 0, status
    again, lot = [*fit, str(RUN)], random.Random(method)
    chosen = list(range(1, moments + 1))
    if how_many:
        chosen = [*lot.sample(chosen[:-1], how_many - 1), moments]
    kills = attack(functools.partial(killed, again), chosen, again)

    root = Path("recording")
    root.mkdir()
    status, disks = recorded([*fit, str(root / RUN)], root)
    assert status == 0, status
    losses = attack(powerless, lot.sample(range(disks), how_many) if how_many else range(disks), again)
    for folder in (REFERENCE, FIRST, DISKS, PHOTOS, MORE, root):
        shutil.rmtree(folder, ignore_errors=True)
    return {"kills": {"moments": moments, **kills}, "losses": {"moments": disks, **losses}}


def main() -> None:
    install()
    setattr(os, "fsync", lambda handle: None)  # noqa: B010 (no kill depends on it, and disks are slow)
    source, how_many, *methods = sys.argv[1:]
    number = None if how_many == "all" else int(how_many)
    print(json.dumps({method: try_method(method, source, number) for method in methods}))


if __name__ == "__main__":
    main()
