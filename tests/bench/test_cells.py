from __future__ import annotations

import json
import os
import platform
import signal
import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.bench.drawn import write_umist
from tests.encoders.small import SmallEncoder, blobs

from selfsort.bench import cells
from selfsort.bench.cells import CURVE_POINTS, Cell, as_of_today, digest, key_of, measure, peak_memory_mb
from selfsort.bench.datasets import DATASETS
from selfsort.bench.records import SHIPPED, read_records
from selfsort.bench.scripts import SCRIPTS
from selfsort.errors import TrainingFailed
from selfsort.types import Json

KMEANS = Cell(dataset="umist", method="kmeans", seed=3, settings={"n_restarts": 2})


def test_saying_a_default_aloud_makes_no_other_cell() -> None:
    plain = Cell(dataset="umist", method="ac-gdl", seed=0)
    aloud = Cell(dataset="umist", method="ac-gdl", seed=0, settings={"K_s": 20})
    assert plain.content() == aloud.content()
    assert plain.name != aloud.name


@pytest.mark.parametrize(
    "change", [{"seed": 1}, {"method": "ncuts"}, {"dataset": "usps"}, {"settings": {"absorb": False}}, {"encoder": "x"}]
)
def test_anything_else_does(change: dict[str, object]) -> None:
    plain = Cell(dataset="umist", method="ac-gdl", seed=0)
    other = Cell(**{**vars(plain), **change})
    assert key_of(plain.content(), "pixels") != key_of(other.content(), "pixels")
    assert key_of(plain.content(), "pixels") != key_of(plain.content(), "other pixels")


def test_limits_that_the_images_do_not_reach_make_no_other_cell() -> None:
    def content(method: str, **settings: object) -> Json:
        return Cell(dataset="umist", method=method, seed=0, settings=settings).content()

    assert content("leiden", exact_search_limit=575) == content("leiden", exact_search_limit=0) == content("leiden")
    assert content("leiden", exact_search_limit=574) != content("leiden")
    assert content("sc-njw", n_sparse=20) == content("sc-njw")
    assert content("sc-njw", n_sparse=20, max_images=500) != content("sc-njw", max_images=500)


@pytest.mark.parametrize("encoder", ["none", "efficientnet-lite0"])
def test_a_setting_that_is_new_since_makes_no_record_stale_and_a_changed_default_does(encoder: str) -> None:
    cell = Cell(dataset="umist", method="leiden", seed=0, encoder=encoder)
    today = cell.full_settings()
    key = key_of(cell.content(), "pixels")

    def key_of_record(settings: Json) -> str:
        written = cell.content() | {"settings_digest": digest(settings), "all_settings": settings}
        read: str = as_of_today({**written, "key": "of its day", "fingerprint": "pixels"})["key"]
        return read

    assert key_of_record(today) == key
    assert key_of_record({name: value for name, value in today.items() if name != "neighbours"}) == key
    assert key_of_record({**today, "neighbours": 3}) != key
    if encoder != "none":
        assert key_of_record({**today, "encoder": {}}) == key
        assert key_of_record({**today, "encoder": {"mirror": "no"}}) != key


def test_a_record_holds_what_was_measured_and_nothing_about_whose_machine_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_umist(tmp_path)
    monkeypatch.setenv("SELFSORT_DATA", str(tmp_path))
    record = measure(KMEANS, "pixels")
    assert record["key"] == key_of(KMEANS.content(), "pixels")
    assert record["settings"] == {"n_restarts": 2}
    assert record["settings_digest"] == digest(record["all_settings"]) == digest(KMEANS.full_settings())
    assert record["scores"]["acc"] > 0.5
    assert {"acc", "ari", "nmi_geometric", "nmi_arithmetic", "nmi_max"} <= set(record["scores"])
    assert (record["clusters_asked"], record["seed"], record["threads"]) == (20, 3, 1)
    assert 0 < record["clusters_found"] <= 20
    assert 50 < record["peak_memory_mb"] < 2000
    assert 0 < record["seconds"] < record["total_seconds"]
    assert record["method_from"]["package"] == "selfsort"
    text = json.dumps(record)
    for secret in {str(tmp_path), str(Path.home()), socket.gethostname(), platform.node()} - {"", "/", "localhost"}:
        assert secret not in text


def test_an_encoder_stands_before_the_method(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The encoder is a table here: one of ours would take a minute for these images."""
    labels = np.load(write_umist(tmp_path))["labels"]
    np.save(tmp_path / "truth.npy", np.eye(20, dtype=np.float32)[labels])
    monkeypatch.setenv("SELFSORT_DATA", str(tmp_path))
    cell = Cell(dataset="umist", method="ac-gdl", seed=0, encoder=str(tmp_path / "truth.npy"))
    assert "with" in cell.name
    assert cell.full_settings()["encoder"]["mirror"] == "auto"
    measured = cells.fit_and_score(cell)
    assert measured["scores"]["acc"] == 1.0
    assert (measured["dimension"], measured["encode_ms"]) == (20, 0.0)


def test_encoding_is_timed_on_a_few_images() -> None:
    encoder = SmallEncoder()
    assert cells.encode_milliseconds(encoder, blobs(100, side=12)) > 0
    assert 0 < encoder.seen < 100


def test_a_refusal_is_a_measurement(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_umist(tmp_path)
    monkeypatch.setenv("SELFSORT_DATA", str(tmp_path))
    monkeypatch.setattr("selfsort.classic.linkage._most_images", lambda: 100)
    refused = cells.fit_and_score(Cell(dataset="umist", method="ac-link", seed=0, settings={"max_images": 100}))
    assert set(refused) == {"refused"}
    assert "at most 100" in refused["refused"]


def test_what_another_method_has_learned_is_fitted_once_and_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_umist(tmp_path)
    monkeypatch.setenv("SELFSORT_DATA", str(tmp_path))
    monkeypatch.setenv("SELFSORT_CACHE", str(tmp_path / "cache"))
    cell = Cell(dataset="umist", method="ac-gdl", seed=0, encoder="kmeans@umist")
    assert cell.base == Cell(dataset="umist", method="kmeans", seed=0)
    assert "encoder_settings_digest" in cell.content()
    first = cells.learned_encoder(cell)
    changed = Path(first).stat().st_mtime_ns
    assert cells.learned_encoder(cell) == first
    assert Path(first).stat().st_mtime_ns == changed
    assert cells.fit_and_score(cell)["scores"]["acc"] > 0.9
    layer = Cell(dataset="umist", method="ac-gdl", seed=0, encoder="kmeans@umist:top-1")
    assert cells.learned_encoder(layer) == f"{first}:top-1"
    assert Cell(dataset="umist", method="ac-gdl", seed=0, encoder="a@b.npy").base is None


def test_held_out_images_are_scored_by_the_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_umist(tmp_path)
    monkeypatch.setenv("SELFSORT_DATA", str(tmp_path))
    monkeypatch.setitem(DATASETS, "umist", replace(DATASETS["umist"], held_out="umist"))
    cell = Cell(dataset="umist", method="kmeans", seed=0)
    same, other = (cells.fit_and_score(replace(cell, protocol=name)) for name in ("same-images", "held-out"))
    assert other["scores"]["acc"] == same["scores"]["acc"]


def test_a_recipe_is_part_of_the_name_and_of_the_settings() -> None:
    plain, paper = (Cell(dataset="umist", method="jule", seed=0, recipe=recipe) for recipe in ("auto", "paper-faces"))
    assert paper.name == "umist jule (recipe paper-faces) seed 0"
    assert paper.full_settings()["gamma"] == 2.0
    assert plain.content()["settings_digest"] != paper.content()["settings_digest"]


def test_a_child_that_fails_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SELFSORT_DATA", raising=False)
    with pytest.raises(
        TrainingFailed, match=r"umist kmeans \(n_restarts=2\) seed 3 ended with code 1 \(.*SELFSORT_DATA"
    ):
        measure(KMEANS, "pixels")


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="only Linux keeps the account this test compares")
def test_the_peak_of_a_child_is_its_own() -> None:
    code = "from selfsort.bench.cells import peak_memory_mb; print(peak_memory_mb())"
    ballast = bytearray(os.urandom(1)) * 900_000_000  # a large parent, which a child must not be charged for
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert len(ballast) > 0
    assert float(done.stdout) < 700 < 900 < (peak_memory_mb() or 0)


def test_shipped_records_hold_nothing_else() -> None:
    allowed = {
        *("key", "dataset", "split", "size", "protocol", "method", "encoder", "settings_digest", "seed", "settings"),
        *("fingerprint", "scores", "refused", "clusters_asked", "clusters_found", "seconds", "cpu_seconds"),
        *("peak_memory_mb", "threads", "total_seconds", "method_from", "versions", "cpu", "date"),
        *("dimension", "encode_ms", "all_settings", "scores_sf", "cpu_limit", "curve"),
    }
    records = read_records([SHIPPED])
    assert records
    for key, record in records.items():
        if "trial" in record:  # of a script: its key stands for its commands
            assert set(record) <= {*allowed, "trial"}
            assert key in {trial.key() for table in SCRIPTS.values() for trial in table.trials}
            continue
        assert set(record) <= allowed
        content = {name: record[name] for name in Cell(dataset="umist", method="kmeans", seed=0).content()}
        assert key == key_of(content, record["fingerprint"])


def test_a_fit_that_takes_too_long_leaves_the_states_it_went_through(monkeypatch: pytest.MonkeyPatch) -> None:
    states = [{"step": step, "total": 90, "acc": step / 100, "nmi_geometric": 0.5} for step in range(60)]
    told = "\n".join([*map(json.dumps, states), '{"step": 60, "to'])

    def stopped(*words: object, **options: object) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess([], -signal.SIGXCPU, told, "")

    monkeypatch.setattr(subprocess, "run", stopped)
    record = measure(KMEANS, "pixels", cpu_limit=90)
    assert record["refused"] == "stopped after 1.5 minutes of processor time, at step 59 of 90: ACC 0.590, NMI 0.500"
    assert (record["cpu_limit"], record["curve"][0], record["curve"][-1]) == (90, states[0], states[-1])
    assert len(record["curve"]) == CURVE_POINTS
