from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.paging import mapped

from selfsort import pages
from selfsort.data.store import allocate


def test_a_pass_holds_a_block(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "_PASS_BYTES", 40)
    array = np.arange(14, dtype=np.float32)
    assert list(pages.passes(array)) == [slice(0, 10), slice(10, 14)]
    assert list(pages.passes(array, multiple=4)) == [slice(0, 8), slice(8, 14)]
    assert pages.all_finite(array)
    array[13] = np.nan
    assert not pages.all_finite(array)


def test_forgotten_pages_are_still_in_the_file() -> None:
    mapped, _ = allocate((1 << 20,), 0)
    mapped[:] = 3
    pages.forget(mapped)
    pages.forget(np.zeros(3))
    assert (mapped == 3).all()
    pages.forget(mapped[5:].view(np.ndarray)[:100])
    assert (mapped == 3).all()


def test_what_only_memory_holds_is_not_forgotten(tmp_path: Path) -> None:
    (tmp_path / "nine").write_bytes(bytes(9))
    private = np.memmap(tmp_path / "nine", np.uint8, mode="c")
    private[:] = 3
    pages.forget(private)
    pages.forget(private.view(np.ndarray)[1:])
    assert (private == 3).all()


def test_rows_from_all_over_a_file_are_taken_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "_PASS_BYTES", 80_000)
    monkeypatch.setattr(pages, "_MAPPED_FOR_ONE", 10_000)
    kept, _ = allocate((200, 5000), 0)
    kept[:] = np.arange(200, dtype=np.uint8)[:, None]
    rows = np.arange(0, 200, 2)
    forgotten = []
    monkeypatch.setattr(pages, "forget", lambda array: forgotten.append(array is kept))
    np.testing.assert_array_equal(pages.take(kept, rows)[:, 0], rows)
    assert forgotten == [True] * 13  # eight rows at a time
    held = np.array(kept)
    np.testing.assert_array_equal(pages.take(held, rows), held[rows])


def test_rows_of_files_are_replaced_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "_PASS_BYTES", 80)
    monkeypatch.setattr(pages, "_MAPPED_FOR_ONE", 20)
    target, values = mapped(np.zeros((30, 5), np.float32)), mapped(np.ones((7, 5), np.float32))
    sizes: list[int] = []
    monkeypatch.setattr(pages, "forget", lambda array: sizes.append(len(array)))
    rows = np.arange(0, 28, 4)
    pages.put(target, rows, values)
    assert np.flatnonzero(target[:, 0]).tolist() == rows.tolist()
    assert sizes == [7, 30, 7, 30]
    pages.fill(target[20:27], 2 * values)
    assert target[:, 4].tolist() == [float(row in rows) for row in range(20)] + [2.0] * 7 + [0.0] * 3
    assert sizes.count(7) >= 4


def test_a_sample_of_wide_rows_is_small() -> None:
    assert pages.n_held(np.zeros((1, 160), np.float32), 4000) == 4000
    assert pages.n_held(np.zeros((1, 96 * 96 * 3), np.float32), 4000) == 1213
    assert pages.n_held(np.zeros((1, 1024 * 1024), np.float32), 4000) == 500
    assert pages.n_held(np.zeros((0, 160), np.float32), 4000) == 4000


def test_items_that_read_here_and_there_are_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    kept, _ = allocate((50, 40), 0)
    assert list(pages.scattered(kept, 5, 1000)) == [(0, 5)]  # a small file
    monkeypatch.setattr(pages, "_PASS_BYTES", 800)
    monkeypatch.setattr(pages, "_MAPPED_FOR_ONE", 100)
    assert list(pages.scattered(kept, 5, 4)) == [(0, 2), (2, 4), (4, 5)]
    assert list(pages.scattered(kept, 2, 80)) == [(0, 1), (1, 2)]
    assert list(pages.scattered(np.array(kept), 5, 80)) == [(0, 5)]
    assert list(pages.scattered(kept, 0, 1)) == []


def test_a_block_of_a_mapped_file_is_what_a_pass_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "_PASS_BYTES", 100)
    mapped, _ = allocate((50, 40), 0)
    assert pages.n_at_once(mapped) == 2
    assert pages.n_at_once(np.array(mapped)) == 50
    assert pages.n_at_once(mapped[:1]) == 1
