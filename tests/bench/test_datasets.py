from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from tests.bench.drawn import write_umist

from selfsort.bench.datasets import DATASETS, find, missing, read
from selfsort.errors import InvalidInput, MissingData
from selfsort.metrics import published

ROOT = Path(__file__).parents[2]


def test_a_data_set_is_found_by_its_name_and_by_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_umist(tmp_path)
    monkeypatch.setenv("SELFSORT_DATA", str(tmp_path))
    assert find("umist") == find("umist-32.npz") == find(path) == path
    dataset = read("umist")
    assert len(dataset) == 575
    assert dataset.labels is not None


@pytest.mark.parametrize("name", ["mnist-test", "mnist.npz"])
def test_missing_data_name_the_variable_and_their_source(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SELFSORT_DATA", raising=False)
    with pytest.raises(MissingData, match=r"SELFSORT_DATA is not set, .*mnist.npz: the MNIST database of LeCun"):
        find(name)
    monkeypatch.setenv("SELFSORT_DATA", str(tmp_path))
    with pytest.raises(MissingData, match=r"SELFSORT_DATA names .*, which lacks mnist\.npz\."):
        find(name)


def test_several_missing_sets_make_one_message() -> None:
    said = str(missing(["umist", "mnist", "mnist-test"]))
    assert said.count("mnist.npz:") == said.count("umist-32.npz:") == 1


def test_an_unknown_name_lists_the_known() -> None:
    with pytest.raises(MissingData, match=r"nothing.npz is not there. Expected a file, or one of the data sets umist"):
        find("nothing.npz")


def test_other_data_under_that_name_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SELFSORT_DATA", str(tmp_path))
    np.savez(tmp_path / "umist-32.npz", images=np.zeros((4, 32, 32), np.uint8), labels=np.arange(4))
    with pytest.raises(InvalidInput, match=r"must hold 575 images .*; got 4 of shape \(32, 32, 1\) in 4"):
        read("umist")
    np.savez(tmp_path / "umist-32.npz", images=np.zeros((575, 32, 32), np.uint8))
    with pytest.raises(InvalidInput, match="has no labels"):
        read("umist")


def test_a_folder_of_pictures_is_decoded_to_the_side_an_encoder_wants(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = replace(DATASETS["photos-mixed"], n_images=4, n_classes=2)
    monkeypatch.setitem(DATASETS, "photos-mixed", known)
    monkeypatch.setenv("SELFSORT_DATA", str(tmp_path))
    (tmp_path / known.file).mkdir()
    for row in range(4):
        pixels = np.random.default_rng(row).integers(0, 256, (120, 150 + row, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(tmp_path / known.file / f"{row}.png")
    (tmp_path / str(known.labels)).write_text("name,label\n0.png,a\n1.png,b\n2.png,a\n3.png,b\n")
    assert read("photos-mixed").images.shape == known.shape == (96, 96, 3)
    assert read("photos-mixed", 64).images.shape == (64, 64, 3)
    assert DATASETS["coil20"].shape_for(64) == (128, 128, 1)  # equal pictures stay as they are


def test_published_numbers_use_the_same_names() -> None:
    known = set(published.DATASETS)
    parts = {name for name in DATASETS if name.endswith(("-train", "-held-out", "-128", "-160", "-192"))}
    assert set(DATASETS) - known - parts == {"cifar10-test", "tinyimagenet-10", "photos-mixed"}  # not a paper's
    assert all(name.rsplit("-", 2 if name.endswith("-held-out") else 1)[0] in known for name in parts)


@pytest.mark.parametrize(
    "words",
    [
        ["benchmarks.graph"],
        ["benchmarks.classic_pictures"],
        ["benchmarks.jule", "figures", "usps"],
        ["experiments.embedding", "mnist.npz"],
    ],
)
def test_scripts_say_it_in_one_message(words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SELFSORT_DATA", raising=False)
    done = subprocess.run(
        [sys.executable, "-m", *words], cwd=ROOT, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 2, done.stderr
    assert done.stderr.startswith("the variable SELFSORT_DATA is not set")
    assert done.stderr.count("\n") == 1
