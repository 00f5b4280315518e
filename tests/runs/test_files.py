"""Files of a run: written whole, byte for byte as the libraries do, and locked."""

from __future__ import annotations

import io
import os
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save
from tests.tiny_run import files_of

from selfsort.errors import CannotWrite, InvalidInput
from selfsort.runs.files import is_locked, locked, save_tensors, write_whole


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs the device that is always full")
def test_a_really_full_device_is_reported(tmp_path: Path) -> None:
    with pytest.raises(CannotWrite, match="No space left on device"):
        write_whole(Path("/dev/full"), lambda file: file.write(b"x" * 100_000))
    assert not Path("/dev/full").is_file()


def test_a_pipe_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        write_whole(pipe, lambda file: file.write(b"labels"))
        assert os.read(reader, 100) == b"labels"
    finally:
        os.close(reader)
    assert pipe.is_fifo()


def test_a_file_in_a_place_that_cannot_be_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file" / "labels.csv", tmp_path / ("x" * 300), tmp_path):
        with pytest.raises(CannotWrite, match=r"could not be written"):
            write_whole(path, lambda file: file.write(b""))
    assert files_of(tmp_path) == {"file": b""}


def test_names_are_brought_to_the_disk_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    monkeypatch.setattr("os.fsync", lambda handle: synced.append(os.fstat(handle).st_ino))
    file = tmp_path / "a" / "b" / "file"
    write_whole(file, lambda opened: opened.write(b"x"))
    assert synced == [path.stat().st_ino for path in (tmp_path / "a", tmp_path, file, file.parent)]


def test_tensors_are_written_as_the_library_does(tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    kinds = ["<f4", "<f2", "<f8", "|u1", "|b1", "<i8", "<i4", "|i1", "<u8", "<u4", "<u2", "<i2"]
    for _ in range(20):
        arrays = {
            f"{name}é": draw.integers(0, 2, draw.integers(1, 5, draw.integers(0, 4))).astype(kind)
            for name, kind in zip("lkjihgfedcba", draw.permutation(kinds), strict=True)
        }
        stream = io.BytesIO()
        save_tensors(stream, arrays, {"json": '{"a": "b\\"\\n"}'})
        assert stream.getvalue() == save(arrays, {"json": '{"a": "b\\"\\n"}'})
    with pytest.raises(KeyError):
        save_tensors(io.BytesIO(), {"x": np.zeros(2, np.complex64)}, {})


def test_a_lock_is_seen_by_others_and_goes_with_its_block(tmp_path: Path) -> None:
    assert not is_locked(tmp_path / "lock")
    with locked(tmp_path, "lock"):
        assert is_locked(tmp_path / "lock")
        with pytest.raises(InvalidInput, match="another process is working on"), locked(tmp_path, "lock"):
            pass
    assert not is_locked(tmp_path / "lock")
