from __future__ import annotations

from pathlib import Path

import pytest
from tests.report.folders import make_run
from tests.report.pages import parse_text

from selfsort.report.read import read_run
from selfsort.report.sections.arrivals import arrivals
from selfsort.report.sections.pictures import Pictures


@pytest.mark.parametrize("told", [None, 1, {}, {"n_before": "x"}, {"n_before": 60}, {"n_before": True}])
def test_other_runs_show_nothing(tmp_path: Path, told: object) -> None:
    run = read_run(make_run(tmp_path / "run", n=60, config={"update": told}))
    assert arrivals(run, Pictures(run), budget=10**6) is None


def test_new_pictures_by_group_and_new_groups_first(tmp_path: Path) -> None:
    run = read_run(make_run(tmp_path / "run", n=60, k=3, config={"update": {"n_before": 40, "new_groups": [2]}}))
    found = arrivals(run, Pictures(run), budget=10**6)
    assert found is not None
    page = parse_text(found)
    assert "20 pictures came in: 20 found a group, 0 were put aside. 1 group" in page.all("p")[0].text
    assert "in Cluster 2, a new group" in page.all("h4")[0].text
    assert all(int(image.attributes["data-row"]) >= 40 for image in page.all("img"))
