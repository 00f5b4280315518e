from __future__ import annotations

from pathlib import Path

import pytest
from tests.report.folders import make_run
from tests.report.pages import Page, parse_text

from selfsort.report.read import RunData, read_run
from selfsort.report.render.svg import draw_panels
from selfsort.report.sections.curves import MAX_POINTS, curves, event_lines
from selfsort.runs.folder import RunFolder


def page_of(run: RunData) -> Page:
    found = curves(run)
    assert found is not None
    return parse_text(draw_panels(found))


def test_each_changing_number_has_a_chart_and_the_others_a_note(tmp_path: Path) -> None:
    path = make_run(tmp_path / "run", n_events=4)
    page = page_of(read_run(path))
    assert [e.text for e in page.all("figcaption")] == ["Loss"]
    assert "The same at every step: clusters 3." in page.text_of_all


def test_scores_share_a_chart_and_bookkeeping_has_none(tmp_path: Path) -> None:
    path = make_run(tmp_path / "run", n_events=0)
    for step in (1, 2, 3):
        score = {"acc": step / 4, "nmi_max": step / 5, "ari": step / 6}
        RunFolder.open(path).append_event({"step": step, "elapsed": step * 1.0, "upper": step / 9, **score})
    page = page_of(read_run(path))
    assert [e.text for e in page.all("figcaption")] == ["ScoresACCNMI (max)ARI"]


def test_a_method_of_one_step_has_no_curves(tmp_path: Path) -> None:
    assert curves(read_run(make_run(tmp_path / "run", n_events=1))) is None


def test_numbers_of_some_steps_only_are_joined(tmp_path: Path) -> None:
    path = make_run(tmp_path / "run", n_events=0)
    folder = RunFolder.open(path)
    for step in range(1, 6):
        folder.append_event({"step": step, **({"merged": step * 2} if step % 2 else {"loss": float("nan")})})
    lines = event_lines(read_run(path))
    assert list(lines) == ["merged"]
    assert (list(lines["merged"].x), list(lines["merged"].y)) == ([1, 3, 5], [2, 6, 10])


def test_a_long_history_is_thinned_and_keeps_its_ends(tmp_path: Path) -> None:
    path = make_run(tmp_path / "run", n_events=MAX_POINTS * 3)
    line = event_lines(read_run(path))["loss"]
    assert len(line.x) == MAX_POINTS
    assert (line.x[0], line.x[-1]) == (1, MAX_POINTS * 3)


@pytest.mark.parametrize("name", ["stability", "steadiness"])  # the second is that of older runs
def test_of_several_starts_the_one_that_went_on_is_drawn(tmp_path: Path, name: str) -> None:
    path = make_run(tmp_path / "run", n_events=0)
    folder = RunFolder.open(path)
    for step, (start, loss, more) in enumerate(
        [
            (1, 9.0, {}),
            (1, 8.0, {name: 1.5}),
            (2, 5.0, {}),
            (2, 4.0, {name: 2.0}),
            (3, 7.0, {}),
            (3, 6.0, {name: 0.5}),
            (2, 3.0, {}),
        ],
        start=1,
    ):
        folder.append_event({"step": step, "start": start, "loss": loss, **more})
    run = read_run(path)
    assert run.starts == {1: 1.5, 2: 2.0, 3: 0.5}
    lines = event_lines(run)
    assert list(lines) == ["loss"]
    assert (list(lines["loss"].x), list(lines["loss"].y)) == ([3, 4, 7], [5, 4, 3])
    page = page_of(run)
    assert "Start 2 went on" in page.text_of_all
    assert [e.text for e in page.all("figcaption")] == ["Loss", "Stability of the starts"]


@pytest.mark.parametrize("name", ["regrouping_gain", "mending_gain"])  # the second is that of older runs
def test_regrouping_is_called_by_one_name(tmp_path: Path, name: str) -> None:
    path = make_run(tmp_path / "run", n_events=0)
    for step in (1, 2):
        RunFolder.open(path).append_event({"step": step, name: step / 10})
    assert [e.text for e in page_of(read_run(path)).all("figcaption")] == ["Regrouping gain"]
