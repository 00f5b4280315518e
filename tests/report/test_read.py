from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from tests.report.folders import make_run

from selfsort.errors import InvalidInput, MissingData
from selfsort.report.read import number, read_run, read_runs
from selfsort.runs.folder import RunFolder


def read_all(path: Path) -> None:
    run = read_run(path)
    run.features(np.arange(3))
    run.soft(np.arange(3))


def test_a_run_is_read_as_it_was_written(tmp_path: Path) -> None:
    run = read_run(make_run(tmp_path / "run", n=30, k=3, warnings=["Look out."], class_names=["a", "b", "c"]))
    assert (run.name, run.method, run.source) == ("run", "kmeans", "shapes")
    assert (run.n_images, run.n_asked, run.n_clusters) == (30, 3, 3)
    assert run.sizes.sum() == 30
    assert run.warnings == ["Look out."]
    assert run.class_name(1) == "b"
    assert run.class_name(7) == "7"
    assert [event["step"] for event in run.events] == [1, 2, 3, 4, 5]


def test_scores_come_from_the_labels_not_from_a_file(tmp_path: Path) -> None:
    path = make_run(tmp_path / "run")
    expected = read_run(path).scores
    (path / "metrics.json").write_text('{"acc": 1.0, "metrics_sf": {"acc": 0.5}}')
    run = read_run(path)
    assert run.scores == expected
    assert run.scores["acc"] < 1
    assert run.scores_sf == {"acc": 0.5}


def test_an_unfinished_run_is_refused(tmp_path: Path) -> None:
    path = make_run(tmp_path / "run")
    (path / "labels.csv").unlink()
    with pytest.raises(MissingData, match="not finished"):
        read_run(path)


def test_a_folder_that_is_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(MissingData, match="not a run folder"):
        read_run(tmp_path)


@pytest.mark.parametrize("name", ["truth.npy", "features.npy", "soft.npy"])
def test_arrays_of_another_length_are_refused(tmp_path: Path, name: str) -> None:
    path = make_run(tmp_path / "run")
    array = np.load(path / name)
    np.save(path / name, array[:-1])
    with pytest.raises(InvalidInput, match=f"{name} speaks of 59 images"):
        read_all(path)


def test_a_thumbnail_of_an_image_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    path = make_run(tmp_path / "run", n=10)
    other = make_run(tmp_path / "other", n=20)
    shutil.copy(other / "thumbnails.npz", path / "thumbnails.npz")
    with pytest.raises(InvalidInput, match=r"thumbnails\.npz speaks of 20 images"):
        read_run(path)


def test_an_absurd_number_of_clusters_takes_no_memory(tmp_path: Path) -> None:
    path = make_run(tmp_path / "run", n=20)
    config = json.loads((path / "config.json").read_text())
    config["settings"]["n_clusters"] = 10**12
    (path / "config.json").write_text(json.dumps(config))
    assert len(read_run(path).sizes) == 20


def test_runs_of_the_same_name_are_told_apart(tmp_path: Path) -> None:
    paths = [make_run(tmp_path / folder / "run", n=12) for folder in ("a", "b")] + [make_run(tmp_path / "x", n=12)]
    assert [run.name for run in read_runs(paths)] == ["run (1)", "run (2)", "x"]


def test_a_run_without_source_or_extras_is_read(tmp_path: Path) -> None:
    run = read_run(make_run(tmp_path / "run", config={"source": {}}, has_truth=False))
    assert run.source == "the given images"
    assert run.extras == {}
    assert run.scores == {}


def test_events_are_those_of_the_folder(tmp_path: Path) -> None:
    path = make_run(tmp_path / "run", n_events=2)
    RunFolder.open(path).append_event({"step": 3, "loss": 1.0})
    assert len(read_run(path).events) == 3


@pytest.mark.parametrize("value", [None, True, "1", float("nan"), float("inf"), [1]])
def test_only_finite_numbers_are_numbers(value: object) -> None:
    assert number(value) is None
