"""`fit --outliers`: what belongs nowhere is cluster -1, from the label file to the report."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from tests.conftest import Command

from selfsort import ImageClusterer, load
from selfsort.errors import InvalidInput
from selfsort.report.read import read_run
from selfsort.report.sections.trees import merge_tree
from selfsort.runs.folder import RunFolder
from selfsort.types import I64, U8

N_EACH, N_FAR = 40, 5
FAR = list(range(3 * N_EACH, 3 * N_EACH + N_FAR))


def pictures() -> tuple[U8, I64]:
    """Draw three kinds of pictures, much alike within a kind, and a few that are like nothing."""
    draw = np.random.default_rng(0)
    kinds = draw.integers(60, 196, (3, 8, 8))
    truth = np.repeat(np.arange(3), N_EACH)
    alike = kinds[truth] + draw.integers(-20, 21, (len(truth), 8, 8))
    unlike = 255 * draw.integers(0, 2, (N_FAR, 8, 8))
    return np.concatenate([alike, unlike]).astype(np.uint8), np.concatenate([truth, np.arange(N_FAR) % 3])


@pytest.fixture
def source(tmp_path: Path) -> Path:
    images, truth = pictures()
    np.savez(tmp_path / "pictures.npz", images=images, labels=truth)
    return tmp_path / "pictures.npz"


@pytest.fixture
def run(selfsort: Command, source: Path) -> Path:
    done = selfsort("fit", source, "--clusters", 3, "--method", "kmeans", "--outliers", "--out", "run")
    assert done.code == 0, done.err
    assert "3 clusters and 5 outliers found in" in done.out
    assert "5 outliers, counted as wrong" in done.out
    return Path("run")


def clusters_in(path: Path) -> list[int]:
    with path.open(newline="") as file:
        return [int(line["cluster"]) for line in csv.DictReader(file)]


def test_the_label_file(run: Path) -> None:
    labels = clusters_in(run / "labels.csv")
    assert np.flatnonzero(np.array(labels) == -1).tolist() == FAR
    assert set(labels) == {-1, 0, 1, 2}
    assert json.loads((run / "config.json").read_text())["format"] == 2


def test_off_by_default(selfsort: Command, source: Path) -> None:
    assert selfsort("fit", source, "--clusters", 3, "--method", "kmeans", "--out", "plain").code == 0
    assert min(clusters_in(Path("plain/labels.csv"))) == 0
    config = json.loads(Path("plain/config.json").read_text())
    assert (config["format"], "outliers" in config) == (1, False)
    assert "n_outliers" not in json.loads(Path("plain/metrics.json").read_text())
    assert "outlier" not in selfsort("score", "plain").out


def test_scores_count_them_as_wrong(selfsort: Command, run: Path) -> None:
    metrics = json.loads((run / "metrics.json").read_text())
    assert metrics["n_outliers"] == N_FAR
    assert metrics["acc"] == pytest.approx(3 * N_EACH / (3 * N_EACH + N_FAR))
    lines = selfsort("score", run).out.splitlines()
    assert lines[0].startswith("clusters 3, ")
    assert lines[0].endswith(", 5 outliers")
    assert lines[1].endswith("5 outliers, counted as wrong")
    answer = json.loads(selfsort("score", run, "--json").out)
    assert (answer["n_outliers"], answer["sizes"]["used"]) == (N_FAR, 3)
    assert answer["metrics"] == pytest.approx(metrics)


def test_as_json(selfsort: Command, source: Path) -> None:
    done = selfsort("fit", source, "--clusters", 3, "--method", "kmeans", "--outliers", "--out", "run", "--json")
    answer = json.loads(done.out)
    assert (answer["clusters_found"], answer["n_outliers"], answer["metrics"]["n_outliers"]) == (3, 5, 5)


def test_the_report_names_them(selfsort: Command, run: Path) -> None:
    assert selfsort("report", run, "--figures", "figures").code == 0
    page = (run / "report.html").read_text()
    assert "</i>Outliers</h3>" in page
    assert "</i>Outliers</button>" in page
    assert "Images that belong nowhere are a group of their own: 5 outliers." in page
    assert "<dt>outliers</dt><dd>5</dd>" in page
    assert "<dt>clusters</dt><dd>3</dd>" in page
    assert "Cluster 3" not in page


def test_the_tree_of_a_report_has_no_outliers(selfsort: Command, source: Path) -> None:
    done = selfsort("fit", source, "--clusters", 3, "--method", "ac-gdl", "--outliers", "--out", "tree")
    assert done.code == 0, done.err
    assert clusters_in(Path("tree/labels.csv")).count(-1) > 0
    data = read_run(Path("tree"))
    assert set(data.method_labels.tolist()) == {0, 1, 2}
    tree, merges = merge_tree(data), data.extras["merges"]
    assert tree is not None
    assert tree.n_start == len(merges) + 3


def test_exports(selfsort: Command, run: Path, source: Path) -> None:
    assert selfsort("export", run, "--to", "csv", "--out", "people.csv").code == 0
    assert clusters_in(Path("people.csv")) == clusters_in(run / "labels.csv")
    assert selfsort("export", run, "--to", "folders", "--out", "sorted").code == 0
    sizes = {folder.name: len(list(folder.iterdir())) for folder in Path("sorted").iterdir()}
    assert sizes == {"cluster-00": N_EACH, "cluster-01": N_EACH, "cluster-02": N_EACH, "outliers": N_FAR}
    assert selfsort("export", run, "--to", "npz", "--out", "train.npz").code == 0
    assert np.load("train.npz")["names"].tolist() == ["Cluster 0", "Cluster 1", "Cluster 2", "Outliers"]


def test_new_images_always_get_a_cluster(selfsort: Command, run: Path, source: Path) -> None:
    assert selfsort("predict", run, source, "--out", "new.csv").code == 0
    new, old = np.array(clusters_in(Path("new.csv"))), np.array(clusters_in(run / "labels.csv"))
    assert set(new.tolist()) == {0, 1, 2}
    np.testing.assert_array_equal(new[old >= 0], old[old >= 0])


def test_a_run_that_was_stopped_goes_on_looking(selfsort: Command, source: Path) -> None:
    words = ["--clusters", 3, "--method", "toy", "--outliers"]
    stopped = selfsort("fit", source, *words, "--out", "half", "--max-minutes", 0)
    assert stopped.code == 3, stopped.err
    done = selfsort("fit", "--resume", "half")
    assert done.code == 0, done.err
    assert selfsort("fit", source, *words, "--out", "whole").code == 0
    assert Path("half/labels.csv").read_bytes() == Path("whole/labels.csv").read_bytes()
    assert clusters_in(Path("half/labels.csv")).count(-1) > 0


def test_too_few_to_judge_have_none(selfsort: Command, photos: Path) -> None:
    done = selfsort("fit", photos, "--clusters", 3, "--method", "kmeans", "--outliers", "--out", "few")
    assert (done.code, "3 clusters and 0 outliers found" in done.out) == (0, True)
    assert min(clusters_in(Path("few/labels.csv"))) == 0
    assert selfsort("report", "few").code == 0


def test_in_python(tmp_path: Path) -> None:
    images, _ = pictures()
    model = ImageClusterer("kmeans", 3, outliers=True, encoder="none").fit(images)
    assert np.flatnonzero(model.labels_ == -1).tolist() == FAR
    assert model.predict(images).min() == 0
    model.save(tmp_path / "run")
    again = load(tmp_path / "run")
    np.testing.assert_array_equal(again.labels_, model.labels_)
    assert again.outliers is True
    assert RunFolder.open(tmp_path / "run").has_outliers
    assert ImageClusterer("kmeans", 3, encoder="none").fit(images).labels_.min() == 0
    with pytest.raises(InvalidInput, match="outliers must be True or False"):
        ImageClusterer("kmeans", 3, outliers="yes").fit(images)  # type: ignore[arg-type]


def test_where_there_are_none_a_run_can_be_cut(selfsort: Command, tmp_path: Path) -> None:
    images, truth = pictures()
    np.savez(tmp_path / "alike.npz", images=images[: FAR[0]], labels=truth[: FAR[0]])
    done = selfsort("fit", "alike.npz", "--clusters", 3, "--method", "kmeans", "--outliers", "--out", "run")
    assert "0 outliers found" in done.out
    assert "counted as wrong" not in done.out
    assert selfsort("cut", "run", "--clusters", 2, "--out", "two").code == 0
    assert not RunFolder.open(Path("two")).has_outliers


def test_they_have_no_place_in_another_cut(selfsort: Command, run: Path) -> None:
    done = selfsort("cut", run, "--clusters", 2)
    assert done.code == 2
    assert "has outliers, which no number of clusters has a place for" in done.err
    model = ImageClusterer("kmeans", 3, encoder="none", outliers=True).fit(pictures()[0])
    with pytest.raises(InvalidInput, match="a model with outliers cannot be cut"):
        model.cut(2)
