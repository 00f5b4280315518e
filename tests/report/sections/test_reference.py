from __future__ import annotations

from pathlib import Path

import pytest
from tests.report.folders import make_run
from tests.report.pages import parse_text

from selfsort.metrics.published import SCORES
from selfsort.report.read import read_run
from selfsort.report.sections.reference import dataset_of, published_for, published_table


@pytest.mark.parametrize(
    ("source", "n_images", "expected"),
    [
        ("coil20.npz", 1440, "coil20"),
        ("COIL20", 1440, "coil20"),
        ("coil20.npz", 1439, None),
        ("coil100-64.npz", 7200, None),
        ("usps-9298.npz", 9298, None),
        ("holiday", 1440, None),
        ("", 1440, None),
    ],
)
def test_a_data_set_is_recognised_only_without_doubt(source: str, n_images: int, expected: str | None) -> None:
    assert dataset_of(source, n_images) == expected


def test_printed_scores_stand_beside_their_source(tmp_path: Path) -> None:
    config = {"source": {"path": "data/coil20.npz"}}
    run = read_run(make_run(tmp_path / "run", n=1440, k=20, n_thumbnails=0, config=config))
    found = published_for(run)
    assert {(s.method, s.dataset) for s in found} == {("kmeans", "coil20")}
    page = parse_text(published_table(run) or "")
    jule = next(s for s in SCORES if s.method == "kmeans" and s.dataset == "coil20" and s.features == "pixels")
    assert f"{jule.nmi:.3f} ({jule.nmi_variant})" in [e.text for e in page.all("td")]
    assert jule.source in page.text_of_all


def test_scores_on_learned_features_belong_to_runs_on_features(tmp_path: Path) -> None:
    config = {"source": {"path": "coil20.npz"}, "features_from": "some run"}
    path = make_run(tmp_path / "run", n=1440, k=20, n_thumbnails=0, config=config)
    (path / "features_from").mkdir()
    assert {s.features for s in published_for(read_run(path))} == {"jule"}


def test_other_images_have_no_published_scores(tmp_path: Path) -> None:
    assert published_table(read_run(make_run(tmp_path / "run"))) is None


@pytest.mark.parametrize(("thresholds", "expected"), [("adaptive", "dac"), ("single", "dac-star")])
def test_one_threshold_makes_it_another_method_in_print(tmp_path: Path, thresholds: str, expected: str) -> None:
    settings = {"n_clusters": 3, "thresholds": thresholds}
    config = {"method": "dac", "settings": settings, "source": {"path": "cifar10.npz"}}
    run = read_run(make_run(tmp_path / "run", config=config))
    assert {score.method for score in published_for(run)} == {expected}
    assert f"Published for {expected}" in parse_text(published_table(run) or "").text_of_all
