from __future__ import annotations

import os
import tempfile
from pathlib import Path

import numpy as np
import pytest

from selfsort.data import store
from selfsort.errors import InvalidInput


def test_the_budget_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    assert store.allocate((2, 3, 4, 1), 24)[1] == "memory"
    mapped, where = store.allocate((2, 3, 4, 1), 23)
    assert where == "memory-mapped"
    assert mapped.shape == (2, 3, 4, 1)
    assert (mapped == 0).all()
    mapped[...] = 7
    assert (mapped == 7).all()
    monkeypatch.setattr(store, "total_memory", lambda: 40)
    assert store.allocate((2, 3, 4, 1), None)[1] == "memory-mapped"
    assert store.allocate((2, 3, 3, 1), None)[1] == "memory"


def test_systems_without_reservation_write_instead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "posix_fallocate")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    mapped, _ = store.allocate((3, 1_000_001), 0)
    mapped[2, -1] = 9
    assert int(mapped.sum()) == 9
    assert list(tmp_path.iterdir()) == []


def test_an_absurd_size_is_an_error_not_a_crash() -> None:
    with pytest.raises(InvalidInput, match=r"must have room for the decoded images \(1000000000000000.00 GB\)"):
        store.allocate((10**8, 10**8, 10**8, 1), 0)


def test_memory_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object) -> None:
        raise MemoryError

    monkeypatch.setattr(np, "empty", refuse)
    with pytest.raises(InvalidInput, match=r"memory must have room for the decoded images .* Choose a smaller --size"):
        store.allocate((10, 10), None)


def test_total_memory_respects_the_container(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = store.total_memory()
    assert real > 1 << 26
    limit = tmp_path / "memory.max"
    monkeypatch.setattr(store, "_CONTAINER_LIMITS", (str(limit),))
    limit.write_text("1000\n")
    assert store.total_memory() == 1000
    assert store.default_budget() == 500
    limit.write_text("max\n")
    assert store.total_memory() >= real


def test_scratch_is_not_in_memory_unless_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TMPDIR", "TEMP", "TMP"):
        monkeypatch.delenv(name, raising=False)
    if os.access("/var/tmp", os.W_OK):
        assert store.scratch_folder() == Path("/var/tmp")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    assert store.scratch_folder() == tmp_path


def test_arrays_share_the_budget_of_the_process() -> None:
    store.limit_memory(100)
    try:
        before = store.memory_left()
        first, where = store.allocate((60,), None)
        assert where == "memory"
        assert store.memory_left() == before - 60
        assert isinstance(store.allocate_floats((20, 2)), np.memmap)  # 160 bytes
        view = first[:5]
        del first
        assert store.memory_left() == before - 60, "a view keeps its array"
        del view
        assert store.memory_left() == before
        assert not isinstance(store.allocate_floats((2, 2), "<f2"), np.memmap)
    finally:
        store.limit_memory(None)
    with pytest.raises(InvalidInput, match="--memory"):
        store.limit_memory(-1)
