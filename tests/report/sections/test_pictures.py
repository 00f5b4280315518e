from __future__ import annotations

from pathlib import Path

import numpy as np
from tests.report.folders import make_run
from tests.report.pages import parse_text

from selfsort.report.read import RunData, read_run
from selfsort.report.sections.pictures import STRIP_LENGTH, Pictures, choose_strips, fit_strips


def run_with(tmp_path: Path, **options: int) -> RunData:
    return read_run(make_run(tmp_path / "run", n=options.pop("n", 120), k=options.pop("k", 3), **options))  # type: ignore[arg-type]


def test_typical_is_surest_borderline_least_sure_and_none_twice(tmp_path: Path) -> None:
    run = run_with(tmp_path)
    for cluster, strips in choose_strips(run, Pictures(run), 4).items():
        chosen = [*strips.typical, *strips.borderline, *strips.others]
        assert len(set(chosen)) == len(chosen) == 12
        sure = run.table.confidence
        members = np.flatnonzero(run.table.labels == cluster)
        assert sure[strips.typical].tolist() == sorted(sure[members])[::-1][:4]
        assert sure[strips.borderline].tolist() == sorted(sure[members])[:4]
        assert set(chosen) <= set(members.tolist())


def test_a_cluster_of_one_picture_shows_it_once(tmp_path: Path) -> None:
    run = run_with(tmp_path, n=3)
    strips = choose_strips(run, Pictures(run), 8)
    assert [len(s.typical) + len(s.borderline) + len(s.others) for s in strips.values()] == [1, 1, 1]


def test_a_small_budget_shortens_the_strips_then_leaves_only_the_typical_then_only_the_largest(tmp_path: Path) -> None:
    run = run_with(tmp_path)
    each = Pictures(run).mean_bytes()
    counts = []
    for n_pictures in (1000, 18.5, 7.5, 2.5, 0):
        strips = fit_strips(run, Pictures(run), int(each * n_pictures))
        counts.append(sorted((len(s.typical), len(s.borderline), len(s.others)) for s in strips.values()))
    assert counts == [
        [(STRIP_LENGTH,) * 3] * 3,
        [(2, 2, 2)] * 3,
        [(2, 0, 0)] * 3,
        [(0, 0, 0), (1, 0, 0), (1, 0, 0)],
        [(0, 0, 0)] * 3,
    ]


def test_a_picture_knows_its_name_and_that_it_is_shown(tmp_path: Path) -> None:
    run = run_with(tmp_path, n=12)
    pictures = Pictures(run)
    assert not pictures.is_shown(5)
    (image,) = parse_text(pictures.image(5)).all("img")
    assert image.attributes["alt"] == "5.png"
    assert image.attributes["data-row"] == "5"
    assert pictures.is_shown(5)
    assert 5 in pictures
    assert pictures.pixels(5).shape == (8, 8, 1)


def test_a_run_without_pictures_has_none(tmp_path: Path) -> None:
    run = run_with(tmp_path, n_thumbnails=0)
    pictures = Pictures(run)
    assert 0 not in pictures
    assert all(not s.typical for s in fit_strips(run, pictures, 10**9).values())
