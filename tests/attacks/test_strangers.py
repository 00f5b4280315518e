"""A run folder from a stranger takes neither the memory nor the time of whoever opens it, nor a walk over the disk."""

from __future__ import annotations

import io
import json
import os
import shutil
import struct
import subprocess
import sys
import time
import tracemalloc
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.conftest import Command, write_photos
from tests.contract.tiny import TINY

from selfsort.data.datasets import ImageSpec
from selfsort.data.detect import Recorded, open_recorded
from selfsort.data.options import ReadOptions
from selfsort.errors import InvalidInput
from selfsort.runs.folder import RunFolder

SECONDS = 20
MEMORY_MB = 1536


# ---- bombs -------------------------------------------------------------------------------------------------


def sparse_array(path: Path, shape: tuple[int, int]) -> None:
    """Write a header and let the file end where the array would: it claims gigabytes and takes none."""
    header = np.lib.format.header_data_from_array_1_0(np.zeros((1, 1), np.float32)) | {"shape": shape}
    with path.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, header)
        file.truncate(file.tell() + 4 * shape[0] * shape[1])


def packed_pictures(path: Path, n: int, side: int) -> None:
    """Write thumbnails that unpack to far more than their file: the same packed block of zeros over and over."""
    rows, pixels = _npy(np.arange(n)), _npy(np.zeros((0, side, side, 3), np.uint8), shape=(n, side, side, 3))
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    head = packer.compress(pixels) + packer.flush(zlib.Z_FULL_FLUSH)
    block_bytes = n * side * side * 3 // 64
    block = packer.compress(bytes(block_bytes)) + packer.flush(zlib.Z_FULL_FLUSH)
    members = [
        (b"rows.npy", rows, len(rows), 0),
        (b"pixels.npy", head + 64 * block + b"\x03\x00", len(pixels) + 64 * block_bytes, zlib.DEFLATED),
    ]
    content, directory = b"", b""
    for name, data, size, method in members:
        extra = struct.pack("<HHQQ", 1, 16, size, len(data))  # sizes of eight bytes: there may be more than 4 GB
        sizes = (zlib.crc32(data), 2**32 - 1, 2**32 - 1, len(name), len(extra))
        fields = struct.pack("<HHHHHLLLHH", 45, 0, method, 0, 0, *sizes)
        directory += b"PK\x01\x02\x2d\x00" + fields + struct.pack("<HHHLL", 0, 0, 0, 0, len(content)) + name + extra
        content += b"PK\x03\x04" + fields + name + extra + data
    end = struct.pack("<HHHHLLH", 0, 0, 2, 2, len(directory), len(content), 0)
    path.write_bytes(content + directory + b"PK\x05\x06" + end)


def _npy(array: Any, shape: tuple[int, ...] | None = None) -> bytes:
    stream = io.BytesIO()
    header = np.lib.format.header_data_from_array_1_0(array)
    np.lib.format.write_array_header_1_0(stream, header | ({} if shape is None else {"shape": shape}))
    stream.write(array.tobytes())
    return stream.getvalue()


def change(run: Path, name: str, **changes: object) -> None:
    """Change entries of config.json or ingest.json."""
    values = json.loads((run / name).read_text())
    for key, value in changes.items():
        values[key] = {**values[key], **value} if isinstance(value, dict) else value
    (run / name).write_text(json.dumps(values))


def claims_many_rows(run: Path, n: int) -> None:
    """Write a label table of n rows, and claim as many images everywhere."""
    change(run, "config.json", n_images=n)
    (run / "labels.csv").write_bytes(b"name,cluster,confidence\n" + b"image.png,0,1\n" * (n - 1) + b"image.png,1,1\n")
    (run / "truth.npy").unlink(missing_ok=True)


# ---- runs --------------------------------------------------------------------------------------------------


def fit(out: Path, photos: Path, method: str, *words: str, code: int = 0) -> None:
    settings = [word for key, value in TINY.get(method, {}).items() for word in ("--set", f"{key}={value}")]
    done = run_command("fit", photos, "--method", method, "--clusters", "3", "--out", out, *settings, *words)
    assert done.code == code, done.err


class Measured:
    """How a command in a process of its own ended, and what it took."""

    def __init__(self, code: int, err: str, seconds: float, peak_mb: float) -> None:
        self.code, self.err, self.seconds, self.peak_mb = code, err, seconds, peak_mb


def run_command(*words: object) -> Measured:
    started = time.monotonic()
    command = [sys.executable, "-m", "selfsort", *map(str, words)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        err = process.stderr.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    # Seconds of work: what a busy machine adds is not ours.
    seconds = min(time.monotonic() - started, usage.ru_utime + usage.ru_stime)
    return Measured(process.returncode, err, seconds, usage.ru_maxrss / 1024)


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sound")
    photos = write_photos(folder / "photos")
    fit(folder / "kmeans", photos, "kmeans", "--labels-from-folders")
    fit(folder / "secu", photos, "secu")
    fit(folder / "secu-interrupted", photos, "secu", "--max-minutes", "0", code=3)
    return folder


def _thumbnails(run: Path) -> None:
    packed_pictures(run / "thumbnails.npz", 650_000, 64)  # 8 GB


def _thumbnails_of_many(run: Path) -> None:
    claims_many_rows(run, 300_000)
    sparse_array(run / "features.npy", (300_000, 4))
    packed_pictures(run / "thumbnails.npz", 300_000, 64)  # 3.7 GB


def _wide_features(run: Path) -> None:
    sparse_array(run / "features.npy", (18, 2**30 // 18))


def _tall_features(run: Path) -> None:
    claims_many_rows(run, 2**20)
    sparse_array(run / "features.npy", (2**20, 2**10))


def _two_wide_rows(run: Path) -> None:
    claims_many_rows(run, 2)
    sparse_array(run / "features.npy", (2, 2**29))


def _many_labels(run: Path) -> None:
    claims_many_rows(run, 95 * 2**20 // 14)
    sparse_array(run / "features.npy", (95 * 2**20 // 14, 4))


def _one_long_label(run: Path) -> None:
    (run / "labels.csv").write_bytes(b"name,cluster,confidence\n" + b"a" * (95 * 2**20))


def _confusion(run: Path) -> None:
    n = 12_000
    change(run, "config.json", n_images=2 * n)
    rows = "".join(f"{i},{i % n},1\n" for i in range(2 * n))
    (run / "labels.csv").write_text("name,cluster,confidence\n" + rows)
    shift = np.random.default_rng(0).integers(0, n, 2 * n)
    np.save(run / "truth.npy", np.where(np.arange(2 * n) < n, np.arange(2 * n), shift))
    sparse_array(run / "features.npy", (2 * n, 4))


def _heads(run: Path) -> None:
    change(run, "config.json", settings={"n_heads": 100_000})


def _width(run: Path) -> None:
    change(run, "config.json", settings={"width": 2**40})


def _everything_in_root(run: Path) -> None:
    change(run, "config.json", source={"path": "/"})


def _everything_in_proc(run: Path) -> None:
    change(run, "config.json", source={"path": "/proc"})


def _kind_of_a_tar(run: Path) -> None:
    _everything_in_root(run)
    change(run, "ingest.json", kind="webdataset")


READING = (("score",), ("report", "--out", "{tmp}/page.html"), ("export", "--to", "csv", "--out", "{tmp}/out.csv"))
BOMBS: list[tuple[Callable[[Path], None], str, tuple[str, ...]]] = [
    *((bomb, "kmeans", ("report", "--out", "{tmp}/page.html")) for bomb in (_thumbnails, _thumbnails_of_many)),
    *((bomb, "kmeans", READING[1]) for bomb in (_wide_features, _tall_features, _two_wide_rows)),
    *((_many_labels, "kmeans", words) for words in READING),
    (_one_long_label, "kmeans", ("score",)),
    *((_confusion, "kmeans", words) for words in READING[:2]),
    *((bomb, "secu", ("predict", "{photos}", "--out", "{tmp}/out.csv")) for bomb in (_heads, _width)),
    *((bomb, "secu-interrupted", ("fit", "--resume")) for bomb in (_heads, _width)),
    *((bomb, "kmeans", ("export", "--to", "folders")) for bomb in (_everything_in_root, _everything_in_proc)),
    *((bomb, "secu-interrupted", ("fit", "--resume")) for bomb in (_everything_in_root, _everything_in_proc)),
    *((bomb, "secu", ("fit", "--self-label")) for bomb in (_everything_in_root, _everything_in_proc)),
    (_kind_of_a_tar, "kmeans", ("export", "--to", "folders", "--out", "{tmp}/out")),
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("bomb", "name", "words"), [pytest.param(*b, id=f"{b[0].__name__.strip('_')}-{b[2][0]}") for b in BOMBS]
)
def test_a_bomb_takes_neither_memory_nor_time(
    sound: Path, tmp_path: Path, bomb: Callable[[Path], None], name: str, words: tuple[str, ...]
) -> None:
    run = tmp_path / "run"
    shutil.copytree(sound / name, run)
    bomb(run)
    filled = [word.format(tmp=tmp_path, photos=sound / "photos") for word in words]
    done = run_command(*([*filled, run] if words[0] == "fit" else [filled[0], run, *filled[1:]]))
    print(
        f"\n{bomb.__name__} {words[0]}: exit {done.code}, {done.peak_mb:.0f} MB, {done.seconds:.1f} s: {done.err[:150]}"
    )
    assert done.code in (0, 2), done.err
    assert done.peak_mb < MEMORY_MB
    assert done.seconds < SECONDS


@pytest.mark.slow
@pytest.mark.parametrize("bomb", [_thumbnails, _wide_features, _tall_features, _many_labels, _everything_in_root])
def test_a_bomb_can_be_looked_at(sound: Path, tmp_path: Path, bomb: Callable[[Path], None]) -> None:
    run = tmp_path / "run"
    shutil.copytree(sound / "kmeans", run)
    bomb(run)
    code = (
        "import sys; from pathlib import Path; from selfsort.explore.editor import Editor; "
        "from selfsort.explore.pictures import Pictures; editor = Editor.open(Path(sys.argv[1])); "
        "Pictures.open(editor.folder, editor.table.names); editor.overview(); editor.similar([0], 5); "
        "import resource; print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(run)], capture_output=True, text=True, check=True)
    print(f"\n{bomb.__name__} explore: {done.stdout.strip()} MB")
    assert int(done.stdout) < MEMORY_MB


# ---- the same rules, small -----------------------------------------------------------------------------------


def test_no_more_pictures_are_unpacked_than_are_kept(
    sound: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = tmp_path / "run"
    shutil.copytree(sound / "kmeans", run)
    packed_pictures(run / "thumbnails.npz", 6400, 64)
    assert (run / "thumbnails.npz").stat().st_size < 2**18
    monkeypatch.setattr("selfsort.runs.folder._THUMBNAILS_LIMIT", 2**20)
    tracemalloc.start()
    found = RunFolder.open(run).thumbnails()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found is not None
    assert len(found.rows) == len(found.pixels) == 2**20 // (64 * 64 * 3)
    assert peak < 8 * 2**20


def test_more_rows_than_images_are_refused(sound: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(sound / "kmeans", run)
    with (run / "labels.csv").open("a") as file:
        file.write("one-more.png,0,1\n")
    with pytest.raises(InvalidInput, match="more rows than the 18 images"):
        RunFolder.open(run).label_table()


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("secu-interrupted", ("fit", "--resume")),
        ("secu", ("fit", "--self-label")),
        ("kmeans", ("export", "--to", "folders", "--out", "out")),
    ],
)
def test_a_path_that_only_the_run_names_is_never_listed(
    sound: Path, tmp_path: Path, name: str, words: tuple[str, ...], selfsort: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = tmp_path / "run"
    shutil.copytree(sound / name, run)
    elsewhere = write_photos(tmp_path / "mine")
    change(run, "config.json", source={"path": str(elsewhere)})
    for file in elsewhere.rglob("*.png"):
        file.rename(file.with_stem("other" + file.stem))
    listed: list[str] = []
    scandir = os.scandir

    def watched(path: Any = ".") -> Any:
        listed.append(os.fspath(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", watched)
    done = selfsort(*words, run) if words[0] == "fit" else selfsort(words[0], run, *words[1:])
    assert done.code == 2, done
    assert not [path for path in listed if str(elsewhere) in path]


def test_a_resumed_run_finds_its_own_pictures_among_new_ones(sound: Path, tmp_path: Path, selfsort: Command) -> None:
    photos = write_photos(tmp_path / "photos")
    odd = os.fsdecode(b"caf\xe9 \\x41.png")
    shutil.copy(photos / "a" / "00.png", photos / odd)
    fit(tmp_path / "run", photos, "secu", "--max-minutes", "0", "--labels-from-folders", code=3)
    shutil.copy(photos / "a" / "00.png", photos / "a" / "a-new-one.png")
    done = selfsort("fit", "--resume", tmp_path / "run")
    assert done.code == 0, done
    names = RunFolder.open(tmp_path / "run").label_table().names
    assert len(names) == 19
    assert "a/a-new-one.png" not in names
    assert selfsort("export", tmp_path / "run", "--to", "folders", "--out", "out").code == 0
    assert len([file for file in Path("out").rglob("*") if file.is_file()]) == 19


def test_an_older_unfinished_run_asks_for_its_source(sound: Path, tmp_path: Path, selfsort: Command) -> None:
    run = tmp_path / "run"
    shutil.copytree(sound / "secu-interrupted", run)
    (run / "resume" / "names.csv").unlink()
    done = selfsort("fit", "--resume", run)
    assert done.code == 2
    assert f"Name it: selfsort fit SOURCE --resume {run}." in done.err
    assert selfsort("fit", sound / "photos", "--resume", run).code == 0


@pytest.mark.parametrize(
    "name", ["../secret.png", "/etc/hostname", "a/../../secret.png", "", ".", "pipe", "empty", "a\0b"]
)
def test_a_recorded_name_stays_below_its_source_and_is_a_file(tmp_path: Path, name: str) -> None:
    inside = tmp_path / "inside"
    inside.mkdir()
    (tmp_path / "secret.png").write_bytes(b"x")
    (inside / "empty").touch()
    os.mkfifo(inside / "pipe")
    opened = open_recorded(str(inside), Recorded("folder", [name], ImageSpec(4, 4, 3)))
    assert not getattr(opened, "items", None)


def test_what_a_run_recorded_is_not_written_down_again() -> None:
    reading = ReadOptions.from_run({"path": "x"}, "folder", ["a"], ImageSpec(4, 4, 3).to_json())
    assert "recorded" not in reading.to_json()
