"""Compiled code that cannot be kept, and kept code that was cut short: never a reason to fail."""

from __future__ import annotations

import importlib.util
import os
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest
from numba.core import caching, dispatcher

from selfsort.graph import _jit

SRC = Path(__file__).parents[2] / "src"
NOTE = "compiled code could not be kept"

KERNELS = """
from selfsort.graph._jit import kernel

@kernel
def _twice(x):
    return x + x

@kernel
def total(values):
    answer = 0
    for value in values:
        answer += _twice(value)
    return answer
"""
# Stands for a user who may write nowhere: permissions would not do, because they do not bind root.
NO_PLACE = """
import sys, runpy
import numba.core.caching as caching
def refuse(self): raise PermissionError(13, "Permission denied")
caching._CacheLocator.ensure_cache_path = refuse
sys.argv = ["selfsort", *sys.argv[1:]]
runpy.run_module("selfsort", run_name="__main__", alter_sys=True)
"""


@pytest.fixture
def total(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], Any]:
    """Load the kernels afresh, as a new process would."""
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path / "cache"))
    source = tmp_path / "kernels.py"
    source.write_text(KERNELS)

    def load() -> Any:
        spec = importlib.util.spec_from_file_location("kernels", source)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module.total

    return load


def call(total: Any) -> bool:
    """Use a kernel; True if its code came from the cache."""
    assert total(np.arange(4)) == 12
    return bool(total.stats.cache_hits)


def cut(to: int) -> Callable[[bytes], bytes]:
    return lambda data: data[:to]


def halve(data: bytes) -> bytes:
    return data[: len(data) // 2]


def garble(data: bytes) -> bytes:
    return random.Random(0).randbytes(len(data))


@pytest.mark.parametrize("suffix", [".nbi", ".nbc"])
@pytest.mark.parametrize("damage", [cut(0), cut(1), cut(10), halve, cut(-1), garble])
def test_damaged_files_are_compiled_again_and_replaced(
    total: Callable[[], Any], tmp_path: Path, suffix: str, damage: Callable[[bytes], bytes]
) -> None:
    call(total())
    assert call(total())
    files = list((tmp_path / "cache").rglob(f"*{suffix}"))
    assert files
    for file in files:
        file.write_bytes(damage(file.read_bytes()))
    assert not call(total())
    assert call(total())


@pytest.fixture
def notes(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    _jit._say_nothing_is_kept.cache_clear()
    return lambda: [record.getMessage() for record in caplog.records if record.name == "selfsort"]


def test_a_disk_that_fills_up_costs_a_note(
    total: Callable[[], Any], monkeypatch: pytest.MonkeyPatch, notes: Callable[[], list[str]]
) -> None:
    def refuse(*args: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(caching.IndexDataCacheFile, "_save_data", refuse)
    call(total())
    call(total())
    assert len(notes()) == 1
    assert NOTE in notes()[0]


def test_no_writable_folder_costs_one_note_on_the_first_call(
    total: Callable[[], Any], monkeypatch: pytest.MonkeyPatch, notes: Callable[[], list[str]]
) -> None:
    def refuse(self: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(caching._CacheLocator, "ensure_cache_path", refuse)
    loaded = total()
    assert notes() == []
    assert not call(loaded)
    assert not call(total())
    assert len(notes()) == 1


def test_other_packages_keep_the_caches_they_know() -> None:
    with _jit.forgiving_caches():
        pass
    assert dispatcher.FunctionCache is caching.FunctionCache  # type: ignore[attr-defined]


def run_without_a_place(*words: str) -> subprocess.CompletedProcess[str]:
    around = {**os.environ, "PYTHONPATH": str(SRC), "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [sys.executable, "-c", NO_PLACE, *words], capture_output=True, text=True, check=False, env=around
    )


def test_the_command_line_works_where_nothing_can_be_written() -> None:
    listed = run_without_a_place("methods")
    assert (listed.returncode, listed.stderr) == (0, "")


@pytest.mark.slow  # the packages under UMAP compile for a minute or two
@pytest.mark.parametrize("method", ["jule", "ac-pic", "umap-kmeans"])
def test_methods_that_compile_work_there_too(method: str, photos: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    fitted = run_without_a_place("fit", str(photos), "--clusters", "3", "--method", method, "--out", str(out))
    assert fitted.returncode == 0, fitted.stderr
    assert fitted.stderr.count(NOTE) == 1
    assert (out / "labels.csv").is_file()
