from __future__ import annotations

from pathlib import Path

from tests.report.folders import make_run
from tests.report.pages import parse_text

from selfsort.report.read import read_run
from selfsort.report.sections.pictures import Pictures
from selfsort.report.sections.stacks import MAX_STACKS, stacks
from selfsort.runs.folder import RunFolder
from selfsort.runs.stacks import save_stacks
from selfsort.stacks.stack import Member, Stack


def test_a_run_without_stacks_shows_none(tmp_path: Path) -> None:
    path = make_run(tmp_path / "run")
    run = read_run(path)
    assert stacks(run, Pictures(run), budget=10**6) is None
    save_stacks(RunFolder.open(path), [])
    assert stacks(run, Pictures(run), budget=10**6) is None


def test_the_best_comes_first_and_the_others_say_why(tmp_path: Path) -> None:
    path = make_run(tmp_path / "run", n=40, n_thumbnails=20)
    save_stacks(
        RunFolder.open(path), [Stack(5, (Member(2, "copy"), Member(30, "burst"))), Stack(8, (Member(9, "resized"),))]
    )
    run = read_run(path)
    found = stacks(run, Pictures(run), budget=10**6)
    assert found is not None
    page = parse_text(found)
    assert [image.attributes["data-row"] for image in page.all("img")] == ["5", "2", "8", "9"]
    assert page.all("img")[1].attributes["alt"].endswith(": copy")
    assert "2 stacks; 3 pictures are spare (1 from a burst, 1 copy, 1 resized)" in page.all("div")[0].text
    assert [title.text for title in page.all("h4")] == ["The best, 1 from a burst, 1 copy", "The best, 1 resized"]
    assert "(burst)" in page.all("div")[0].text  # of what has no small copy, the name


def test_many_stacks_are_counted(tmp_path: Path) -> None:
    path = make_run(tmp_path / "run", n=200)
    save_stacks(RunFolder.open(path), [Stack(2 * i, (Member(2 * i + 1, "copy"),)) for i in range(100)])
    run = read_run(path)
    found = stacks(run, Pictures(run), budget=10**7)
    assert found is not None
    assert f"Not shown: {100 - MAX_STACKS}" in parse_text(found).all("div")[0].text
    little = stacks(run, Pictures(run), budget=0)
    assert little is not None
    assert "Not shown: 100" in parse_text(little).all("div")[0].text
