from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.data.samples import save_many
from tests.data.test_shards import members, save_shard

from selfsort.data import gallery, lasting, read_source
from selfsort.data.datasets import Dataset


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "scratch"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(gallery, "_BLOCK_BYTES", 1)  # every chunk is a block
    monkeypatch.setattr(gallery, "_CHUNK", 2)
    return folder


class Broken(BaseException):
    """As good as a kill, for whoever decodes."""


def stop_after(monkeypatch: pytest.MonkeyPatch, most: int | None) -> list[str]:
    """Count what is decoded, and break off where it is too much."""
    decoded: list[str] = []
    decode_one = gallery._decode_one

    def counting(item: gallery.Item, *rest: object) -> object:
        if most is not None and int(Path(item.name).stem) >= most:
            raise Broken
        decoded.append(item.name)
        return decode_one(item, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(gallery, "_decode_one", counting)
    return decoded


def read(source: Path) -> Dataset:
    return read_source(source, max_bad=0.5, memory_bytes=100)


def break_off(source: Path, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Read a source until it is too much, and leave what a kill leaves."""
    with monkeypatch.context() as patched:
        stop_after(patched, most)
        with pytest.raises(Broken):
            read(source)


def test_a_broken_ingest_goes_on_where_it_stopped(
    scratch: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "source"
    save_many(source, 20)
    for name in ("003.png", "015.png"):
        (source / name).write_text("broken")
    whole = read_source(source, max_bad=0.5)
    break_off(source, 12, monkeypatch)
    decoded = stop_after(monkeypatch, None)
    again = read(source)
    assert again.fingerprint == whole.fingerprint
    assert again.names == whole.names
    left_out = ("seconds", "stored", "settings")
    assert {k: v for k, v in again.ingest.items() if k not in left_out} == {
        k: v for k, v in whole.ingest.items() if k not in left_out
    }
    assert sorted(decoded) == [f"{number:03d}.png" for number in range(12, 20)]
    del again
    assert list(scratch.iterdir()) == []


def test_other_pictures_begin_anew(scratch: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = tmp_path / "source"
    save_many(source, 8)
    break_off(source, 6, monkeypatch)
    os.utime(source / "001.png", (1, 1))
    decoded = stop_after(monkeypatch, None)
    found = read(source)
    assert len(decoded) == len(found.images) == 8


@pytest.mark.parametrize("damage", ["", "x\n", '{"items": 3}\n', '{"items": 2, "skipped": [], "sizes": [[9, 9, 1]]}\n'])
def test_a_damaged_list_begins_anew(
    scratch: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: str
) -> None:
    source = tmp_path / "source"
    save_many(source, 8)
    break_off(source, 6, monkeypatch)
    (listed,) = scratch.rglob("*.jsonl")
    listed.write_text(damage)
    assert read(source).fingerprint == read_source(source).fingerprint


def test_two_at_a_time_do_not_meet(scratch: Path, tmp_path: Path) -> None:
    source = tmp_path / "source"
    save_many(source, 6)
    one, two = read(source), read(source)
    assert len(list(scratch.rglob("*.u8"))) == 2
    one.images.pixels[...] = 0
    assert two.fingerprint == read_source(source).fingerprint
    assert two.images.pixels.any()


def test_what_was_left_long_ago_is_removed(scratch: Path, tmp_path: Path) -> None:
    source = tmp_path / "source"
    save_many(source, 6)
    folder = scratch / f"selfsort-{os.getuid()}"
    folder.mkdir(mode=0o700)
    for name, age in (("pixels-a-0", lasting._KEPT_SECONDS + 9), ("pixels-b-0", 9)):
        for suffix in ("u8", "jsonl"):
            (folder / f"{name}.{suffix}").write_text("x")
            os.utime(folder / f"{name}.{suffix}", (time.time() - age,) * 2)
    (folder / "other.u8").write_text("mine")
    read(source)
    assert sorted(path.name for path in folder.iterdir()) == ["other.u8", "pixels-b-0.jsonl", "pixels-b-0.u8"]


def test_a_folder_that_others_may_enter_is_not_used(scratch: Path, tmp_path: Path) -> None:
    source = tmp_path / "source"
    save_many(source, 6)
    folder = scratch / f"selfsort-{os.getuid()}"
    folder.mkdir()
    folder.chmod(0o777)
    found = read(source)
    assert found.ingest["stored"] == "memory-mapped"
    assert list(folder.iterdir()) == []


KILLED = """
import os, signal, sys
from selfsort.data import gallery, read_source
gallery._BLOCK_BYTES, gallery._CHUNK, n = 1, 2, [0]
decode_one = gallery._decode_one
def counting(*given):
    n[0] += 1
    if n[0] == int(sys.argv[2]):
        os.kill(os.getpid(), signal.SIGKILL)
    return decode_one(*given)
gallery._decode_one = counting
print(n[0], read_source(sys.argv[1], memory_bytes=0).fingerprint, n[0])
"""


def as_files(source: Path) -> None:
    save_many(source, 200)


def as_shards(source: Path) -> None:
    source.mkdir()
    for first in (0, 100):
        save_shard(source / f"{first:03d}.tar", members(first, first + 100))


def as_parquet(source: Path) -> None:
    pytest.importorskip("pyarrow")
    from tests.data.test_parquet import save

    for first in (0, 100):
        save(source / "data" / f"train-{first:03d}.parquet", first, first + 100)


@pytest.mark.parametrize("write", [as_files, as_shards, as_parquet])
def test_a_killed_process_is_taken_over(scratch: Path, tmp_path: Path, write: Callable[[Path], None]) -> None:
    source = tmp_path / "source"
    write(source)

    def child(kill_at: int) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", KILLED, str(source), str(kill_at)], capture_output=True, text=True, check=False
        )

    assert child(190).returncode == -signal.SIGKILL
    done = child(0)
    assert done.returncode == 0, done.stderr
    _, fingerprint, n_decoded = done.stdout.split()
    assert fingerprint == read_source(source).fingerprint
    assert 10 < int(n_decoded) < 190
    assert list(scratch.iterdir()) == []
