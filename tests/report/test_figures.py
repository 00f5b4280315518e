from __future__ import annotations

from pathlib import Path

from PIL import Image
from tests.report.folders import make_run

from selfsort.report.figures import FIGURES, write_figures

GENERAL = ["curves", "sizes", "map", "samples", "confusion", "mistakes", "reliability"]


def test_each_figure_is_written_as_png_and_svg_and_always_the_same(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", n=40, class_names=["$x$", "b", "c"])
    first = write_figures(run, tmp_path / "a")
    assert [path.name for path in first] == [f"{name}.{kind}" for name in GENERAL for kind in ("png", "svg")]
    with Image.open(tmp_path / "a" / "confusion.png") as picture:
        assert min(picture.size) > 300
    second = write_figures(run, tmp_path / "b")
    assert [
        path.name for path, other in zip(first, second, strict=True) if path.read_bytes() != other.read_bytes()
    ] == []


def test_without_labels_pictures_or_steps_fewer_apply(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", n=2, k=2, has_truth=False, n_thumbnails=0, n_events=1)
    assert [path.name for path in write_figures(run, tmp_path)] == ["sizes.png", "sizes.svg"]


def test_names_of_figures_are_names_of_files() -> None:
    assert all(name.replace("-", "").isalpha() for name in FIGURES)
