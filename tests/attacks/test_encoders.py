"""Encoders in the hands of others: runs whose description was changed, cache folders with strange things in them."""

from __future__ import annotations

import json
import multiprocessing
import os
import resource
import shutil
import socket
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from safetensors.numpy import save_file
from tests.encoders import onnx_files
from tests.encoders.small import SmallEncoder, blobs
from tests.encoders.test_registry import CARD

from selfsort.data.options import ReadOptions
from selfsort.encoders import cache, registry
from selfsort.encoders.cache import Rows, Wanted, clear, computed_rows, list_kept
from selfsort.encoders.table import open_table
from selfsort.errors import InvalidInput, MissingData, SelfsortError
from selfsort.estimator import load
from selfsort.runs.encoder import open_encoder
from selfsort.runs.export.table import export_run
from selfsort.runs.folder import RunFolder
from selfsort.runs.labels import current_labels
from selfsort.runs.launch import launch
from selfsort.runs.model import apply_in_chunks, load_model
from selfsort.runs.request import Request
from selfsort.types import Arrays, Json

CPU = torch.device("cpu")
IMAGES = blobs(30)
QUICK = {"gatcluster": ("iterations=2", "eval_every=1", "m2=8")}


# ---- runs whose description was changed ---------------------------------------------------------------------


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    card = replace(CARD, name="small", is_installed=lambda: True, open=lambda device, engine: SmallEncoder())
    monkeypatch.setitem(registry.OWN, "small", card)
    monkeypatch.setenv("SELFSORT_CACHE", "")
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sound")
    np.savez(folder / "blobs.npz", images=IMAGES.pixels)
    np.save(folder / "v.npy", IMAGES.pixels.mean(axis=(1, 2)) / 255)
    onnx.save(onnx_files.conv_model(), str(folder / "m.onnx"))
    card = replace(CARD, name="small", is_installed=lambda: True, open=lambda device, engine: SmallEncoder())
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(registry.OWN, "small", card)
        patch.setenv("SELFSORT_CACHE", "")
        for name, method, encoder in (
            ("name", "kmeans", "small"),
            ("two", "kmeans", "small+small"),
            ("maps", "gatcluster", "small"),
            ("table", "kmeans", str(folder / "v.npy")),
            ("onnx", "kmeans", str(folder / "m.onnx")),
            ("run", "kmeans", str(folder / "name")),
        ):
            request = Request(
                source=ReadOptions(path=str(folder / "blobs.npz")),
                clusters=3,
                method=method,
                encoder=encoder,
                settings=QUICK.get(method, ()),
                device="cpu",
                out=folder / name,
            )
            launch(request).fit.run()
    return folder


def copied(sound: Path, name: str) -> Path:
    return Path(shutil.copytree(sound / name, "run"))


def change(run: Path, encoder: Any) -> None:
    config = json.loads((run / "config.json").read_text())
    config["encoder"] = encoder(config["encoder"])
    (run / "config.json").write_text(json.dumps(config))


def predict(run: Path) -> None:
    apply_in_chunks(load_model(RunFolder.open(run), CPU), IMAGES, names=tuple(map(str, range(len(IMAGES)))))


def export(run: Path) -> None:
    folder = RunFolder.open(run)
    export_run(folder, current_labels(folder), "onnx", Path("model.onnx"))


@pytest.fixture
def nobody_calls(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    called: list[Any] = []

    def refused(*words: Any, **more: Any) -> Any:
        called.append(words)
        raise OSError("no network here")

    monkeypatch.setattr(socket, "getaddrinfo", refused)
    monkeypatch.setattr(socket.socket, "connect", refused)
    yield
    assert not called


def part(**entries: Any) -> Callable[[Json], Json]:
    return lambda told: told | {"parts": [told["parts"][0] | entries]}


@pytest.mark.parametrize("settings", [None, 3, [], [[]], "views", {"views": 2**60}, {"side": -1}, {"nothing": 1}])
def test_settings_of_any_kind_are_refused(sound: Path, settings: Any) -> None:
    run = copied(sound, "name")
    change(run, lambda told: told | {"settings": settings})
    for use in (predict, export, load):
        with pytest.raises(InvalidInput):
            use(run)


@pytest.mark.parametrize("kind", ["onnx", "hf", "table"])
@pytest.mark.parametrize(
    "at",
    [
        *("/etc/passwd", "/dev/zero", "{tmp}/pipe.onnx", "{tmp}/pipe.npy", "{tmp}/folder", "m.onnx", "a\0b"),
        *("/a\0b.npy", "//server/share/m.onnx", "\\\\server\\share\\m.onnx", "/" + "x" * 5000, "", "~/m.onnx"),
    ],
)
@pytest.mark.usefixtures("nobody_calls")
def test_paths_that_a_run_names_are_looked_at_with_care(sound: Path, tmp_path: Path, kind: str, at: str) -> None:
    for name in ("pipe.onnx", "pipe.npy", "folder/config.json", "folder/preprocessor_config.json"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        os.mkfifo(tmp_path / name)  # whoever opens it waits for ever
    run = copied(sound, "onnx")
    change(run, part(kind=kind, at=at.format(tmp=tmp_path)))
    with pytest.raises((InvalidInput, MissingData, OSError)):
        predict(run)


@pytest.mark.parametrize("at", ["hf:facebook/dinov2-small", "hf:../../etc", "facebook/dinov2-small"])
@pytest.mark.usefixtures("nobody_calls")
def test_a_stored_run_never_asks_the_hub(sound: Path, at: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    run = copied(sound, "name")
    change(run, part(kind="hf", at=at))
    with pytest.raises(SelfsortError, match=r"fetches nothing by itself|does not say which encoder"):
        predict(run)


def test_a_name_of_the_hub_reaches_the_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("transformers")
    asked: list[tuple[str, bool]] = []

    def snapshot(name: str, may_fetch: bool) -> Path:
        asked.append((name, may_fetch))
        return Path("nowhere")

    monkeypatch.setattr("selfsort.encoders._hub._snapshot", snapshot)
    with pytest.raises(MissingData):
        open_encoder("hf:facebook/dinov2-small", CPU)
    assert asked == [("facebook/dinov2-small", True)]


@pytest.mark.parametrize("engine", [None, 3, [], "magic", "torch", "onnxruntime 0.1"])
def test_an_engine_of_any_kind(sound: Path, engine: Any) -> None:
    run = copied(sound, "name")
    change(run, part(engine=engine))
    load_model(RunFolder.open(run), CPU)
    load_model(RunFolder.open(run), CPU, "small")


def test_features_and_maps_are_not_mistaken_for_each_other(sound: Path) -> None:
    for name, on in (("name", "maps"), ("maps", "features"), ("table", "maps"), ("two", "maps")):
        run = copied(sound, name)
        change(run, lambda told, on=on: told | {"on": on})
        for use in (predict, export):
            with pytest.raises(InvalidInput, match="does not say which encoder"):
                use(run)
        shutil.rmtree(run)


def test_a_table_has_no_maps(sound: Path) -> None:
    run = copied(sound, "maps")
    np.save("v.npy", np.zeros((len(IMAGES), 12)))
    change(run, part(kind="table", at=str(Path("v.npy").absolute()), digest=open_table(Path("v.npy")).digest))
    for use in (predict, export):
        with pytest.raises(InvalidInput, match="does not belong to the encoder"):
            use(run)


DAMAGE: dict[str, Callable[[Arrays], Arrays]] = {
    "empty": lambda arrays: {},
    "nan": lambda arrays: {name: array * np.float32(np.nan) for name, array in arrays.items()},
    "short": lambda arrays: {name: array[:-1] for name, array in arrays.items()},
    "nothing": lambda arrays: {name: array[:0] for name, array in arrays.items()},
    "single": lambda arrays: {name: np.array(1, np.float32) for name in arrays},
    "deep": lambda arrays: {name: array[None] for name, array in arrays.items()},
    "whole": lambda arrays: {name: array.astype(np.int64) for name, array in arrays.items()},
    "truth": lambda arrays: {name: array > 0 for name, array in arrays.items()},
    "huge": lambda arrays: {name: array.astype(np.float64) * 1e300 for name, array in arrays.items()},
    "more": lambda arrays: arrays | {"forward": np.zeros(3, np.float32)},
}


@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("name", ["name", "two", "maps"])
def test_centres_of_another_form_are_refused(sound: Path, name: str, damage: str) -> None:
    run = copied(sound, name)
    arrays = RunFolder.open(run).read_state("encoder.safetensors").arrays
    save_file(DAMAGE[damage](dict(arrays)), str(run / "encoder.safetensors"))
    for use in (predict, export):
        with pytest.raises(InvalidInput, match=r"encoder\.safetensors"):
            use(run)


def test_a_missing_file_of_centres_or_weights_is_said(sound: Path) -> None:
    for name, file in (
        ("name", "encoder.safetensors"),
        ("run", "features_from/model.safetensors"),
        ("name", "model.safetensors"),
    ):
        run = copied(sound, name)
        (run / file).unlink()
        with pytest.raises(InvalidInput, match="it is missing"):
            predict(run)
        with pytest.raises(InvalidInput, match="it is missing"):
            open_encoder(str(run), CPU)
        shutil.rmtree(run)


def test_runs_inside_runs_inside_runs_are_refused(sound: Path) -> None:
    run = copied(sound, "run")
    shutil.copytree(sound / "name", run / "features_from" / "features_from")
    with pytest.raises(InvalidInput, match="does not say which encoder"):
        predict(run)


def test_a_model_file_that_claims_terabytes_is_not_read(sound: Path) -> None:
    run = copied(sound, "name")
    with (run / "model.safetensors").open("ab") as file:
        file.truncate(1 << 40)
    with pytest.raises(InvalidInput, match=r"model\.safetensors"):
        open_encoder(str(run), CPU)


def test_a_folder_whose_description_is_a_pipe_is_no_model(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "folder" / "config.json")
    with pytest.raises(MissingData, match="is not a run folder"):
        open_encoder(str(tmp_path / "folder"), CPU)


# ---- cache folders --------------------------------------------------------------------------------------------

WANTED = Wanted(10, (3,), "<f4", {"encoder": "small"})
EXPECTED = np.arange(10, dtype=np.float32)[:, None] * np.ones((1, 3), np.float32)


def compute(first: int, last: int) -> Rows:
    return EXPECTED[first:last]


def rows(folder: Path) -> Rows:
    return computed_rows(WANTED, compute, folder=folder, what="testing", block=4)


@pytest.mark.parametrize("ending", ["npy", "npy.part", "json", "json.part"])
@pytest.mark.parametrize("thing", ["link", "dangling", "pipe", "folder", "device", "garbage", "empty"])
def test_whatever_lies_in_the_cache_features_are_computed(tmp_path: Path, ending: str, thing: str) -> None:
    folder, mine = tmp_path / "cache", tmp_path / "mine.txt"
    folder.mkdir()
    mine.write_text("precious")
    path = folder / f"features-{WANTED.key}.{ending}"
    if thing == "pipe":
        os.mkfifo(path)
    elif thing == "folder":
        path.mkdir()
    elif thing in ("garbage", "empty"):
        path.write_bytes(b"\x93NUMPY\1\0nothing" * 50 if thing == "garbage" else b"")
    else:
        path.symlink_to({"link": mine, "dangling": tmp_path / "nowhere", "device": Path("/dev/zero")}[thing])
    for _ in range(2):
        np.testing.assert_array_equal(rows(folder), EXPECTED)
    list_kept(folder)
    clear(folder)
    assert mine.read_text() == "precious"
    assert not (tmp_path / "nowhere").exists()


def test_files_of_others_are_neither_listed_nor_removed(tmp_path: Path) -> None:
    (tmp_path / "features-of-mine.npy").write_bytes(b"precious")
    (tmp_path / "features-train.json").write_text("{}")
    rows(tmp_path)
    assert len(list_kept(tmp_path)) == 1
    clear(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["features-of-mine.npy", "features-train.json"]


def test_a_header_that_promises_something_else_is_not_believed(tmp_path: Path) -> None:
    rows(tmp_path)
    (kept,) = tmp_path.glob("*.npy")
    content = kept.read_bytes().replace(b"'<f4'", b"'|O' ", 1)
    kept.write_bytes(content)
    described = tmp_path / f"{kept.stem}.json"
    described.write_text(json.dumps(json.loads(described.read_text()) | {"checksum": cache._checksum(kept)}))
    np.testing.assert_array_equal(rows(tmp_path), EXPECTED)


def test_a_cache_cleared_meanwhile_costs_nothing(tmp_path: Path) -> None:
    def compute_and_clear(first: int, last: int) -> Rows:
        clear(tmp_path)
        return compute(first, last)

    found = computed_rows(WANTED, compute_and_clear, folder=tmp_path, what="testing", block=4)
    np.testing.assert_array_equal(found, EXPECTED)


def test_a_file_that_got_its_name_meanwhile_is_not_changed_any_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows(tmp_path)
    (kept,) = tmp_path.glob("*.npy")
    content, mapped = kept.read_bytes(), rows(tmp_path)
    # A process that saw the file under its first name, and opens it when it has its last.
    monkeypatch.setattr(cache, "_whole_file", lambda folder, wanted: None)
    opened = cache._opened
    monkeypatch.setattr(cache, "_opened", lambda path, mode: opened(kept if "npy" in path.name else path, mode))
    np.testing.assert_array_equal(rows(tmp_path), EXPECTED)
    assert kept.read_bytes() == content
    np.testing.assert_array_equal(mapped, EXPECTED)


def _limited(folder: str, n_bytes: int) -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, n_bytes))
    np.testing.assert_array_equal(rows(Path(folder)), EXPECTED)


@pytest.mark.parametrize("n_bytes", [0, 64, 150, 200, 247])
def test_a_disk_that_becomes_full_costs_nothing(tmp_path: Path, n_bytes: int) -> None:
    process = multiprocessing.get_context("fork").Process(target=_limited, args=(str(tmp_path), n_bytes))
    process.start()
    process.join(60)
    assert process.exitcode == 0
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= 64  # what is left of the disk is for the run
    np.testing.assert_array_equal(rows(tmp_path), EXPECTED)
    assert [kept.is_whole for kept in list_kept(tmp_path)] == [True]


def _encode(folder: str) -> None:
    for number in range(40):
        wanted = replace(WANTED, depends_on={"number": number})
        found = computed_rows(wanted, compute, folder=Path(folder), what="testing", block=4)
        np.testing.assert_array_equal(found, EXPECTED)


def test_processes_that_encode_the_same_at_once_agree(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=_encode, args=(str(tmp_path),)) for _ in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(120)
    assert [process.exitcode for process in processes] == [0, 0, 0]
    assert sum(kept.is_whole for kept in list_kept(tmp_path)) == 40


@pytest.mark.parametrize("limit", ["many", "-1", "1e9", "\u00b2", "9" * 5000])
def test_a_limit_that_is_no_number_is_refused(tmp_path: Path, limit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(cache.LIMIT, limit)
    with pytest.raises(InvalidInput, match="whole number of bytes"):
        rows(tmp_path)


def test_the_cache_of_nobody_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(cache.PLACE, "~nobody-of-that-name/cache")
    with pytest.raises(InvalidInput, match="SELFSORT_CACHE must be a folder"):
        cache.cache_folder()
