from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.report.folders import make_run
from tests.report.pages import parse_text

from selfsort.report.drawings import Matrix, Picture
from selfsort.report.read import RunData, read_run
from selfsort.report.sections import scores as room
from selfsort.report.sections.pictures import Pictures
from selfsort.report.sections.scores import (
    agreement,
    confident_mistakes,
    confusion,
    mistake_pictures,
    mistakes,
    purity_lines,
)
from selfsort.report.stages import Stage


@pytest.fixture
def run(tmp_path: Path) -> RunData:
    return read_run(make_run(tmp_path / "run", n=90, k=4, class_names=["a", "b", "c", "d"]))


def matrix(run: RunData) -> Matrix:
    found = confusion(run)
    assert found is not None
    (chart,) = found.drawings
    assert isinstance(chart, Matrix)
    return chart


def counts(chart: Matrix) -> np.ndarray:
    return np.array([[int(text.replace(",", "")) for text in row] for row in chart.texts])


def test_every_score_names_its_variant(run: RunData) -> None:
    page = parse_text(agreement(run))
    rows = [(e.text) for e in page.all("th") if e.attributes["scope"] == "row"]
    assert rows == ["ACC", "NMI (geometric)", "NMI (arithmetic)", "NMI (max)", "ARI"]
    assert f"{run.scores['nmi_max']:.4f}" in [e.text for e in page.all("td")]


def test_straight_forward_labels_get_a_column(tmp_path: Path) -> None:
    path = make_run(tmp_path / "sf")
    (path / "metrics.json").write_text('{"metrics_sf": {"acc": 0.25}}')
    page = parse_text(agreement(read_run(path)))
    assert "straight-forward" in [e.text for e in page.all("th")]
    assert "0.2500" in [e.text for e in page.all("td")]


def test_what_is_right_lies_on_the_diagonal(run: RunData) -> None:
    found = matrix(run)
    assert np.trace(counts(found)) / run.n_images == run.scores["acc"]
    assert counts(found).sum() == run.n_images
    assert found.columns == ["a", "b", "c", "d"]


def test_clusters_that_stand_for_no_class_come_last_and_are_wrong(tmp_path: Path) -> None:
    path = make_run(tmp_path / "more", n=40, k=4)
    np.save(path / "truth.npy", np.load(path / "truth.npy") // 2)
    run = read_run(path)
    found = matrix(run)
    assert found.strength.shape == (4, 2)
    assert {int(c) for c in found.rows[:2]} == set(run.matching)
    assert len(confident_mistakes(run)) == run.n_images - np.trace(counts(found))


def test_a_matrix_nobody_could_read_is_left_out(run: RunData, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "MAX_MATRIX", 3)
    assert confusion(run) is None
    assert "too large to read" in agreement(run)


def test_mistakes_are_the_wrong_images_the_surest_first(run: RunData) -> None:
    wrong = confident_mistakes(run)
    assert len(wrong) == round(run.n_images * (1 - run.scores["acc"]))
    assert (np.diff(run.table.confidence[wrong]) <= 0).all()
    page = parse_text(mistakes(run, Pictures(run)) or "")
    first = page.all("figure")[0]
    assert run.truth is not None
    assert f"is {run.class_name(int(run.truth[wrong[0]]))}" in first.text
    assert page.all("img")[0].attributes["data-row"] == str(wrong[0])


def test_the_figure_shows_the_same_mistakes_with_the_class_of_their_cluster(run: RunData) -> None:
    table, wrong = mistake_pictures(run), confident_mistakes(run)
    assert table is not None
    assert len(table.cells) == len(wrong)
    first = table.cells[0]
    assert isinstance(first, Picture)
    assert first.title == run.class_name(run.matching[int(run.table.labels[wrong[0]])])


def test_mistakes_without_pictures_are_said_to_be_missing(tmp_path: Path) -> None:
    run = read_run(make_run(tmp_path / "run", n=200, n_thumbnails=20))
    assert "Only those of which the run kept a picture" in (mistakes(run, Pictures(run)) or "")


def test_no_mistake_is_said_too(tmp_path: Path) -> None:
    path = make_run(tmp_path / "run")
    np.save(path / "truth.npy", read_run(path).table.labels)
    run = read_run(path)
    assert "Every image" in (mistakes(run, Pictures(run)) or "")


def test_purity_is_the_share_of_neighbours_of_the_same_class(run: RunData) -> None:
    assert run.truth is not None
    rows = np.array([0, 1])
    same, other = (np.flatnonzero(run.truth == c)[-2:] for c in (0, 1))
    near = np.array([[same[0], other[0]], [other[0], other[1]]])
    stages = [Stage(1, rows, neighbours=near), Stage(2, rows), Stage(9, rows, neighbours=near[:, :1])]
    first, last = purity_lines(run, stages)
    assert (first.name, list(first.y)) == ("step 1", [1.0, 0.75])
    assert (last.name, list(last.y)) == ("step 9", [1.0])


def test_purity_of_the_result_needs_no_history(run: RunData) -> None:
    (line,) = purity_lines(run, [])
    assert line.y[0] is not None
    assert line.y[0] > 0.9  # the features of the test's run are blobs, one per class
    assert len(line.x) == 89


def test_purity_of_many_images_is_that_of_all_asked_of_some(run: RunData, monkeypatch: pytest.MonkeyPatch) -> None:
    (whole,) = purity_lines(run, [])
    monkeypatch.setattr(room, "PURITY_QUERIES", 60)
    monkeypatch.setattr(room, "PURITY_QUERIES_OF_MANY", 45)
    (some,) = purity_lines(run, [])
    assert some.x == whole.x
    assert np.abs(np.array(some.y, float) - np.array(whole.y, float)).max() < 0.1


def test_a_fall_that_cannot_be_helped_is_explained(run: RunData, tmp_path: Path) -> None:
    reason = "It has to fall where K exceeds the images of a class."
    assert reason in agreement(run)
    assert reason not in agreement(read_run(make_run(tmp_path / "two", n=240, k=2)))
