"""The page as a whole, on tiny run folders made here."""

from __future__ import annotations

from pathlib import Path

from tests.report.folders import make_run
from tests.report.pages import parse

from selfsort.report.build import write_report


def test_a_run_gets_its_page_inside_its_folder(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    assert write_report([run], None) == run / "report.html"
    page = parse(run / "report.html")
    assert {"summary", "clusters", "sizes", "scores"} <= page.ids


def test_the_same_folder_gives_the_same_bytes(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    first = write_report([run], tmp_path / "a.html").read_bytes()
    assert first == write_report([run], tmp_path / "b.html").read_bytes()
