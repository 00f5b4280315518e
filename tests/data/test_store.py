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


def test_a_pass_holds_a_block(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "_PASS_BYTES", 40)
    array = np.arange(14, dtype=np.float32)
    assert list(store.passes(array)) == [slice(0, 10), slice(10, 14)]
    assert list(store.passes(array, multiple=4)) == [slice(0, 8), slice(8, 14)]
    assert store.all_finite(array)
    array[13] = np.nan
    assert not store.all_finite(array)


def test_forgotten_pages_are_still_in_the_file() -> None:
    mapped, _ = store.allocate((1 << 20,), 0)
    mapped[:] = 3
    store.forget(mapped)
    store.forget(np.zeros(3))
    assert (mapped == 3).all()
    store.forget(mapped[5:].view(np.ndarray)[:100])
    assert (mapped == 3).all()


def test_what_only_memory_holds_is_not_forgotten(tmp_path: Path) -> None:
    (tmp_path / "nine").write_bytes(bytes(9))
    private = np.memmap(tmp_path / "nine", np.uint8, mode="c")
    private[:] = 3
    store.forget(private)
    store.forget(private.view(np.ndarray)[1:])
    assert (private == 3).all()


def test_rows_from_all_over_a_file_are_taken_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    mapped, _ = store.allocate((200, 5000), 0)
    mapped[:] = np.arange(200, dtype=np.uint8)[:, None]
    rows = np.arange(0, 200, 2)
    forgotten = []
    monkeypatch.setattr(store, "forget", lambda array: forgotten.append(array is mapped))
    np.testing.assert_array_equal(store.take(mapped, rows)[:, 0], rows)
    # Whatever the width of a row, a system may map megabytes to read it.
    assert len(forgotten) >= len(rows) * store._MAPPED_FOR_ONE / store._PASS_BYTES
    assert all(forgotten)
    held = np.array(mapped)
    np.testing.assert_array_equal(store.take(held, rows), held[rows])


def test_a_sample_of_wide_rows_is_small() -> None:
    assert store.n_held(np.zeros((1, 160), np.float32), 4000) == 4000
    assert store.n_held(np.zeros((1, 96 * 96 * 3), np.float32), 4000) == 1213
    assert store.n_held(np.zeros((1, 1024 * 1024), np.float32), 4000) == 500
    assert store.n_held(np.zeros((0, 160), np.float32), 4000) == 4000
