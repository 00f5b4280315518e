"""Images as thin as 1:10,000, through everything that shows them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from tests.conftest import Command

from selfsort.explore.pictures import Pictures
from selfsort.runs.folder import RunFolder

SHAPES = [(1, 66), (5000, 1), (1, 10_000), (10_000, 1), (3, 30_000), (1, 1)]


def write_source(kind: str, shape: tuple[int, int], folder: Path) -> Path:
    pixels = np.random.default_rng(0).integers(0, 256, (8, *shape), dtype=np.uint8)
    pixels[:4] //= 4
    if kind == "npz":
        np.savez(folder / "thin.npz", images=pixels, labels=np.arange(8) // 4)
        return folder / "thin.npz"
    (folder / "thin").mkdir()
    for number, picture in enumerate(pixels):
        Image.fromarray(picture).save(folder / "thin" / f"{number}.{kind}")
    return folder / "thin"


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize(("kind", "fit"), [("npz", "crop"), ("png", "crop"), ("png", "stretch"), ("jpg", "pad")])
def test_thin_images_can_be_fitted_shown_and_exported(
    selfsort: Command, tmp_path: Path, kind: str, fit: str, shape: tuple[int, int]
) -> None:
    source = write_source(kind, shape, tmp_path)
    done = selfsort("fit", source, "--clusters", 2, "--method", "kmeans", "--fit", fit, "--out", "run")
    assert done.code == 0, done.err
    run = RunFolder.open(tmp_path / "run")
    thumbnails = run.thumbnails()
    assert thumbnails is not None
    assert thumbnails.pixels.size
    done = selfsort("report", "run", "--out", "report.html")
    assert done.code == 0, done.err
    for how in ("csv", "folders") if kind != "npz" else ("csv",):
        done = selfsort("export", "run", "--to", how, "--out", f"{how}-out")
        assert done.code == 0, done.err
    pictures = Pictures.open(run, run.label_table().names)
    assert pictures.origin == "source"
    assert pictures.sheet(range(8)).missing == ()
    assert all(pictures.large(row) is not None for row in range(8))


def test_the_figures_of_thin_images(selfsort: Command, tmp_path: Path) -> None:
    source = write_source("npz", (1, 10_000), tmp_path)
    selfsort("fit", source, "--clusters", 2, "--method", "kmeans", "--out", "run")
    done = selfsort("report", "run", "--out", "report.html", "--figures", "figures")
    assert done.code == 0, done.err
    assert (tmp_path / "figures" / "samples.png").is_file()


def test_the_small_copies_of_thin_images_can_be_shown_alone(selfsort: Command, tmp_path: Path) -> None:
    source = write_source("npz", (1, 66), tmp_path)
    selfsort("fit", source, "--clusters", 2, "--method", "kmeans", "--out", "run")
    source.unlink()
    run = RunFolder.open(tmp_path / "run")
    pictures = Pictures.open(run, run.label_table().names)
    assert pictures.origin == "thumbnails"
    assert pictures.sheet(range(8)).missing == ()
