from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cli.conftest import assert_refused
from tests.conftest import Command
from tests.explore.serving import Visitor

from selfsort.explore import serve


def test_ends_with_what_was_found_how_far_to_trust_it_and_what_to_do(selfsort: Command, photos: Path) -> None:
    done = selfsort("sort", photos, "--out", "run", "--no-page")
    assert done.code == 0, done.err
    found, trust, after = done.out.splitlines()[-3:]
    assert found.startswith("Found: ")
    assert "of 18 pictures, of " in found
    assert trust.startswith("Trust: ")
    assert after == (
        "Next: look at run/report.html, correct with selfsort explore run, then selfsort export run --to folders."
    )
    assert Path("run/report.html").exists()


def test_without_the_extra_it_sorts_all_the_same(
    selfsort: Command, photos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    done = selfsort("sort", photos, "--out", "run")
    assert done.code == 0
    assert "selfsort[explore]" in done.err
    assert done.out.splitlines()[-1].startswith("Next: ")


def test_a_folder_that_is_not_there_opens_no_page(selfsort: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serve, "listening_at", pytest.fail)
    assert_refused(selfsort("sort", "nowhere", "--no-page"), "nowhere is not there")


@pytest.fixture
def sorting(photos: Path, _ctrl_c_is_heard: None) -> Iterator[subprocess.Popen[str]]:
    command = [
        sys.executable,
        "-m",
        "selfsort",
        "sort",
        str(photos),
        "--no-browser",
        "--out",
        str(photos.parent / "run"),
    ]
    pipe, environ = subprocess.PIPE, {**os.environ, "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=environ) as process:
        yield process
        process.kill()


def test_the_page_is_there_at_once_and_editable_at_the_end(sorting: subprocess.Popen[str]) -> None:
    assert sorting.stdout is not None
    link = sorting.stdout.readline().split()[1]
    home, visitor = link.partition("/open/")[0], Visitor()
    visitor.get(link)
    states = [visitor.ask(f"{home}/api/run")["state"]]
    deadline = time.monotonic() + 120
    while states[-1] != "finished" and time.monotonic() < deadline:
        time.sleep(0.1)
        states.append(visitor.ask(f"{home}/api/run")["state"])
    assert (states[0], states[-1]) == ("starting", "finished")
    cluster = visitor.ask(f"{home}/api/clusters")["clusters"][0]["id"]
    edited = visitor.ask(f"{home}/api/edits", {"kind": "rename", "cluster": cluster, "name": "cats"})
    assert json.dumps(edited).count("cats") >= 1
    while not sorting.stdout.readline().startswith("Next: "):
        assert time.monotonic() < deadline
    sorting.send_signal(signal.SIGINT)
    assert sorting.wait(timeout=120) == 0
