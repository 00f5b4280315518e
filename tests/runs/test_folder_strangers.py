"""A run folder from a stranger can be opened safely: damage and tricks end in our errors, never in anything else."""

from __future__ import annotations

import io
import json
import os
import pickle
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tiny_run import CONFIG, RESULT, SOFT, files_of, fill, read_everything

from selfsort.errors import InvalidInput, MissingData, SelfsortError
from selfsort.runs.folder import FORMAT, RunFolder
from selfsort.types import State


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    return fill(RunFolder.create(tmp_path / "run", CONFIG))


REFUSED = (InvalidInput, MissingData)


def npy(header: str, body: bytes = bytes(64), version: bytes = b"\x01\x00") -> bytes:
    encoded = header.encode("latin-1")
    return b"\x93NUMPY" + version + struct.pack("<H", len(encoded)) + encoded + body


def npy_of(shape: str, descr: str = "'<f4'") -> bytes:
    return npy(f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}}}\n")


def tensors(header: object, body: bytes = b"", length: int | None = None) -> bytes:
    encoded = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(encoded) if length is None else length) + encoded + body


def tensor(dtype: str, shape: list[int], end: int) -> dict[str, object]:
    return {"a": {"dtype": dtype, "shape": shape, "data_offsets": [0, end]}}


def described(text: str) -> bytes:
    return tensors({"__metadata__": {"json": text}})


def array_bytes(array: np.ndarray[Any, Any]) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def npz_bytes(**arrays: Any) -> bytes:
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


def table(*rows: str, header: str = "name,cluster,confidence") -> bytes:
    return "\n".join([header, *rows, ""]).encode()


DEEP = "[" * 100_000
WRONG_ENTRIES: list[tuple[str, object]] = [
    ("format", 0),
    ("format", True),
    ("format", "1"),
    ("format", None),
    ("method", 5),
    ("settings", []),
    ("settings", {}),
    ("settings", {"n_clusters": 0}),
    ("settings", {"n_clusters": "2"}),
    ("seed", True),
    ("seed", 0.5),
    ("image", None),
    ("features_from", "elsewhere"),
]
FOUR = ("a,0,1", "b,1,1", "c,0,1", "d,0,1")
TAMPERED: dict[str, list[bytes]] = {
    "features.npy": [
        b"",
        b"\x93NUMPY",
        b"PK\x03\x04 not a zip file",
        npz_bytes(a=np.zeros(3)),
        array_bytes(RESULT.features)[:-1],
        array_bytes(RESULT.features[:3]),
        array_bytes(RESULT.features.astype(np.float64)),
        array_bytes(RESULT.features[0]),
        npy_of("(4, 1000000000000)"),
        npy_of(f"({2**62}, 4)"),
        npy_of(f"({2**70}, 4)"),
        npy_of("(-4, 3)"),
        npy_of("(True, 3)"),
        npy_of("(4, 3", "'<f4'"),
        npy_of("(4L, 3)"),
        npy_of("(4, 3)", "'|O'"),
        npy_of("(4, 3)", "5"),
        npy_of("(4, 3)", "[('a', '<f4'), ('a', '<f4')]"),
        npy("(" * 5000),
        npy("{'x" + " " * 60_000),
        npy("{}", version=b"\x09\x00"),
        b"\x93NUMPY\x02\x00" + struct.pack("<I", 2**32 - 1) + b"x",
    ],
    "soft.npy": [array_bytes(SOFT[:, :1]), array_bytes(SOFT.astype(np.int64)), array_bytes(SOFT[:, :, None])],
    "truth.npy": [array_bytes(np.array(["x"])), array_bytes(np.zeros((2, 2), dtype=np.int64)), b"nonsense"],
    "model.safetensors": [
        b"",
        b"\x01",
        tensors(b"{}", length=2**63),
        tensors(b"{}", length=99 * 2**20),
        tensors(b"{{{"),
        tensors([1]),
        tensors(b'{"a":' + DEEP.encode()),
        tensors(b'{"\xff": 1}'),
        tensors(tensor("F32", [2], 8), bytes(4)),
        tensors(tensor("F32", [2**33, 2**33], 8), bytes(8)),
        tensors(tensor("F8_E4M3", [1], 1), bytes(1)),
        tensors(tensor("BF16", [1], 2), bytes(2)),
        tensors(tensor("F4", [2], 1), bytes(1)),
        tensors({"__metadata__": {"json": 5}}),
        described("[1]"),
        described("{"),
        described(DEEP),
        described('{"a": ' + "9" * 5000 + "}"),
    ],
    "history/step-000001.safetensors": [b"", tensors(b"{{")],
    "labels.csv": [
        b"",
        b"\n",
        table(*FOUR, header="name,label,confidence"),
        table(),
        table(*FOUR[:3]),
        table("a,0", *FOUR[1:]),
        table("a,0,1,2", *FOUR[1:]),
        table("a,-1,1", *FOUR[1:]),
        table("a,4,1", *FOUR[1:]),
        table("a,2,1", *FOUR[1:]),
        table("a,1000000000000,1", *FOUR[1:]),
        table("a,1" + "0" * 40 + ",1", *FOUR[1:]),
        table("a," + "9" * 5000 + ",1", *FOUR[1:]),
        table("a,0.5,1", *FOUR[1:]),
        table("a,0,nan", *FOUR[1:]),
        table("a,0,1e300", *FOUR[1:]),
        table("a,0,sure", *FOUR[1:]),
        table("a" * 200_000 + ",0,1", *FOUR[1:]),
        table('"a,0,1', *FOUR[1:]),
        bytes(1000),
    ],
    "config.json": [
        b"",
        b"[]",
        b"null",
        b"{",
        DEEP.encode(),
        b"\xff\xfe",
        b'{"format": ' + b"9" * 5000 + b"}",
        *(json.dumps({"format": FORMAT, **CONFIG, key: value}).encode() for key, value in WRONG_ENTRIES),
    ],
    "ingest.json": [b"[]", DEEP.encode(), b"{'a': 1}", b"1e999"],
    "metrics.json": [b"5"],
    "truth.json": [b"{}", b'{"names": 5}', b'{"names": ["a", 5]}'],
    "events.jsonl": [
        b'{"step": "1"}\n',
        b'{"step": true}\n',
        b'{"elapsed": []}\n',
        b'{"step": 1, "warnings": 5}\n',
        b'{"step": 1, "warnings": [["not", "a", "sentence"]]}\n',
        b'{"kind": "end", "seconds": "long"}\n',
        b'{"step": 1, "collapse": "yes"}\n',
    ],
    "thumbnails.npz": [
        b"",
        b"PK\x03\x04",
        npz_bytes(rows=np.array([0])),
        npz_bytes(rows=np.array([0]), pixels=np.zeros((2, 4, 4, 3), dtype=np.uint8)),
        npz_bytes(rows=np.array([0]), pixels=np.zeros((1, 4, 4, 2), dtype=np.uint8)),
        npz_bytes(rows=np.array([0]), pixels=np.zeros((1, 4, 4, 3))),
        npz_bytes(rows=np.array([-1]), pixels=np.zeros((1, 4, 4, 3), dtype=np.uint8)),
        npz_bytes(rows=np.array(["0"]), pixels=np.zeros((1, 4, 4, 3), dtype=np.uint8)),
        array_bytes(np.zeros(3)),
    ],
}


@pytest.mark.parametrize(
    ("name", "case"), [(name, case) for name, cases in TAMPERED.items() for case in range(len(cases))]
)
def test_a_changed_file_is_refused_in_one_sentence(run: RunFolder, name: str, case: int) -> None:
    (run.path / name).write_bytes(TAMPERED[name][case])
    with pytest.raises(REFUSED, match=r"\. (Expected|This selfsort reads)") as caught:
        read_everything(run.path)
    assert caught.value.exit_code == 2
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 600


@pytest.mark.parametrize(
    "payload",
    [
        tensors({"__metadata__": {"json": "{}"}}),
        described('{"step": 1}'),
        described('{"step": "1", "state": {}}'),
        described('{"step": true, "state": {}}'),
        described('{"step": 1, "state": []}'),
        b"torn",
    ],
)
def test_a_changed_resume_state_is_refused(tmp_path: Path, payload: bytes) -> None:
    run = RunFolder.create(tmp_path / "run", CONFIG)
    run.save_resume(1, State())
    (run.path / "resume/state.safetensors").write_bytes(payload)
    with pytest.raises(InvalidInput, match="cannot be used"):
        run.load_resume()


@pytest.mark.parametrize("name", ["features.npy", "soft.npy", "model.safetensors"])
def test_a_missing_file_is_named(run: RunFolder, name: str) -> None:
    (run.path / name).unlink()
    with pytest.raises(InvalidInput, match=rf"{name} cannot be used \(it is missing\)"):
        run.result()


class Bomb:
    """Leaves a mark when unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Callable[[Path], None], tuple[Path]]:
        return Path.touch, (self.mark,)


def test_pickles_are_never_executed(run: RunFolder, tmp_path: Path) -> None:
    mark = tmp_path / "executed"
    bomb = np.array([Bomb(mark)], dtype=object)
    loaded = io.BytesIO()
    np.save(loaded, bomb)
    np.load(io.BytesIO(loaded.getvalue()), allow_pickle=True)
    assert mark.exists()  # the bomb works
    mark.unlink()
    for payload in (pickle.dumps(Bomb(mark)), loaded.getvalue(), npz_bytes(rows=bomb, pixels=bomb)):
        for file in [path for path in run.path.rglob("*") if path.is_file()]:
            saved = file.read_bytes()
            file.write_bytes(payload)
            if file.name != "events.jsonl":  # there it is a line that cannot be read, as a torn one
                with pytest.raises(REFUSED):
                    read_everything(run.path)
            file.write_bytes(saved)
    read_everything(run.path)
    assert not mark.exists()


def test_an_archive_that_would_fill_the_memory_is_refused_unread(
    run: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    zeros = io.BytesIO()
    np.savez_compressed(zeros, rows=np.array([0]), pixels=np.zeros((1, 512, 512, 3), dtype=np.uint8))
    assert len(zeros.getvalue()) < 5000
    (run.path / "thumbnails.npz").write_bytes(zeros.getvalue())
    run.thumbnails()
    monkeypatch.setattr("selfsort.runs.folder._THUMBNAILS_LIMIT", 500_000)
    with pytest.raises(InvalidInput, match="it is larger than such a file can be"):
        run.thumbnails()


def test_a_text_that_would_fill_the_memory_is_refused_unread(run: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("selfsort.runs.files._TEXT_LIMIT", 10)
    for reader in (run.events, lambda: RunFolder.open(run.path)):
        with pytest.raises(InvalidInput, match="it is larger than such a file can be"):
            reader()


@pytest.mark.parametrize("name", ["labels.csv", "resume", "history", "history/step-000009.safetensors", "new.txt"])
def test_links_out_of_the_folder_are_refused(run: RunFolder, tmp_path: Path, name: str) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    inside = run.path / name
    if inside.is_dir():
        shutil.rmtree(inside)
    inside.unlink(missing_ok=True)
    inside.symlink_to(outside)
    with pytest.raises(InvalidInput, match="is a link or a device"):
        RunFolder.open(run.path)
    assert files_of(outside) == {}


def test_a_pipe_in_the_folder_does_not_make_us_wait(run: RunFolder) -> None:
    (run.path / "report.html").unlink(missing_ok=True)
    os.mkfifo(run.path / "report.html")
    with pytest.raises(InvalidInput, match="is a link or a device"):
        RunFolder.open(run.path)


def test_a_run_reached_through_a_link_is_fine(run: RunFolder, tmp_path: Path) -> None:
    (tmp_path / "latest").symlink_to(run.path)
    read_everything(tmp_path / "latest")


def test_a_run_from_the_future_says_to_update(run: RunFolder) -> None:
    run.write_json("config.json", {**run.config, "format": FORMAT + 1})
    with pytest.raises(InvalidInput, match=rf"has format {FORMAT + 1}. This selfsort reads formats 1 to .* Update"):
        RunFolder.open(run.path)


def test_what_is_no_run_is_said_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "nowhere", tmp_path, tmp_path / "file", tmp_path / ("x" * 300), "nul\0byte"):
        with pytest.raises(MissingData, match=r"is not a run folder .* Expected .* Check the path."):
            RunFolder.open(path)


@settings(derandomize=True, deadline=None, max_examples=150)
@given(data=st.data())
def test_random_damage_never_raises_another_error(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.getbasetemp() / "damaged"
    if not folder.exists():
        fill(RunFolder.create(folder, CONFIG))
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    file = data.draw(st.sampled_from(files))
    saved = file.read_bytes()
    damaged = bytearray(saved[: data.draw(st.integers(0, len(saved)))] if data.draw(st.booleans()) else saved)
    for place in data.draw(st.lists(st.integers(0, max(len(damaged) - 1, 0)), max_size=4)) if damaged else []:
        damaged[place] = data.draw(st.integers(0, 255))
    try:
        file.write_bytes(damaged)
        read_everything(folder)
    except SelfsortError:
        pass
    finally:
        file.write_bytes(saved)
