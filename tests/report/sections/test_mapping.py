from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.report.folders import make_run
from tests.report.pages import Page, parse_text

from selfsort.report.drawings import Scatter
from selfsort.report.read import RunData, read_run
from selfsort.report.sections import mapping
from selfsort.report.sections.mapping import GRID, map_panels, map_section, on_grid, sample_rows, weights
from selfsort.report.sections.pictures import Pictures


def section(run: RunData, **options: Any) -> tuple[Page, dict[str, Any]]:
    page = parse_text(map_section(run, Pictures(run), **{"budget": 10**6, **options}))
    (block,) = page.all("script")
    return page, json.loads(block.text)


def test_every_point_has_a_place_a_cluster_and_a_name(tmp_path: Path) -> None:
    run = read_run(make_run(tmp_path / "run", class_names=["a", "b", "c"]))
    _, data = section(run)
    assert data["row"] == list(range(60))
    assert data["cluster"] == run.table.labels.tolist()
    assert data["name"][7] == "7.png"
    assert data["classes"] == ["a", "b", "c"]
    for layout in ("neighbours", "components"):
        assert all(len(axis) == 60 and min(axis) >= 0 and max(axis) <= GRID for axis in data[layout])
    right = [data["matched"][str(c)] == t for c, t in zip(data["cluster"], data["truth"], strict=True)]
    assert np.mean(right) == run.scores["acc"]


def test_without_labels_only_clusters_and_confidence_give_colours(tmp_path: Path) -> None:
    page, data = section(read_run(make_run(tmp_path / "run", has_truth=False)))
    assert "truth" not in data
    assert [e.attributes["value"] for e in page.all("option")] == ["cluster", "sure", "neighbours", "components"]


def test_class_numbers_need_not_be_small(tmp_path: Path) -> None:
    path = make_run(tmp_path / "run")
    truth = np.load(path / "truth.npy")
    np.save(path / "truth.npy", np.where(truth == 1, -7, truth * 10**12))
    _, data = section(read_run(path))
    assert data["classes"] == ["-7", "0", str(2 * 10**12)]
    assert set(data["truth"]) == {0, 1, 2}


def test_images_with_pictures_are_drawn_first_and_others_fill_up(tmp_path: Path) -> None:
    run = read_run(make_run(tmp_path / "run", n=100, n_thumbnails=20))
    rows = sample_rows(run, Pictures(run), 50)
    assert len(rows) == len(set(rows.tolist())) == 50
    assert set(range(20)) <= set(rows.tolist())
    assert len(sample_rows(run, Pictures(run), 7)) == 7
    assert sample_rows(run, Pictures(run), 1000).tolist() == list(range(100))


def test_only_pictures_that_the_page_lacks_are_embedded_and_only_within_the_budget(tmp_path: Path) -> None:
    run = read_run(make_run(tmp_path / "run"))
    pictures = Pictures(run)
    pictures.image(3)
    _, data = (None, json.loads(parse_text(map_section(run, pictures, budget=10**6)).all("script")[0].text))
    assert len(data["pictures"]) == 59
    assert "3" not in data["pictures"]
    _, data = section(run, budget=1000)
    assert 0 < len(data["pictures"]) < 10


def test_the_map_can_be_used_by_keyboard_and_has_words(tmp_path: Path) -> None:
    page, _ = section(read_run(make_run(tmp_path / "run")))
    (canvas,) = page.all("canvas")
    assert canvas.attributes["tabindex"] == "0"
    assert "60 images" in canvas.attributes["aria-label"]
    assert all(e.attributes.get("aria-label") or e.text for e in page.all("button"))


def test_many_clusters_get_no_wall_of_buttons(tmp_path: Path) -> None:
    page, _ = section(read_run(make_run(tmp_path / "run", k=45, n_thumbnails=0)))
    assert not [e for e in page.all("button") if "data-cluster" in e.attributes]


def test_two_images_are_no_map(tmp_path: Path) -> None:
    run = read_run(make_run(tmp_path / "run", n=2, k=2))
    assert "at least three" in map_section(run, Pictures(run), budget=0)


def test_the_grid_keeps_proportions() -> None:
    x, y = on_grid(np.array([[0.0, 0.0], [2.0, 1.0]]))
    assert x == [0, GRID]
    assert abs((y[0] - y[1]) - GRID / 2) <= 1
    assert on_grid(np.zeros((2, 2))) == [[2048, 2048], [2047, 2047]]


def test_the_figure_has_the_places_of_the_page(tmp_path: Path) -> None:
    run = read_run(make_run(tmp_path / "run"))
    found, (_, data) = map_panels(run), section(run)
    assert found is not None
    by_cluster, by_class = found.drawings
    assert isinstance(by_cluster, Scatter)
    assert isinstance(by_class, Scatter)
    assert on_grid(by_cluster.place) == data["neighbours"]
    assert by_cluster.groups.tolist() == data["cluster"]
    assert by_class.groups.tolist() == data["truth"]


def test_a_sample_is_shaded_by_what_it_stands_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = read_run(make_run(tmp_path / "run", n=100, n_thumbnails=20))
    page, data = section(run, most=30)
    assert len(data["weight"]) == 30
    assert sum(data["weight"]) == 100
    assert "all images" in [e.text for e in page.all("option")]
    rows = np.array(data["row"])
    features, labels = run.features(np.arange(100)), run.table.labels
    expected = np.zeros(30, int)
    for image in range(100):
        away = ((features[rows] - features[image]) ** 2).sum(axis=1)
        away[labels[rows] != labels[image]] = np.inf
        expected[away.argmin()] += 1
    assert data["weight"] == expected.tolist()
    monkeypatch.setattr(mapping, "_BLOCK", 7)
    assert weights(run, rows).tolist() == expected.tolist()
    monkeypatch.setattr(mapping, "MAX_WEIGHED", 50)
    assert abs(int(weights(run, rows).sum()) - 100) < 4
    _, whole = section(run)
    assert "weight" not in whole
