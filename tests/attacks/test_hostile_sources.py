"""Damaged sources end in images or in one clear sentence, whatever the damage."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.attacks.hostile_sources import mutated_array_file, mutated_picture_folder
from tests.conftest import Command
from tests.data.samples import save_many

from selfsort.data import read_source
from selfsort.errors import SelfsortError

N_EACH = 150


def refusals(path: Path, **options: Path | None) -> list[str]:
    """Read a source; anything but images or a refusal is raised."""
    try:
        read_source(path, max_bad=1.0, labels=options.get("labels"))
    except SelfsortError as error:
        return [str(error)]
    return []


def test_damaged_array_files(tmp_path: Path) -> None:
    said = []
    for seed in range(N_EACH):
        path = mutated_array_file(np.random.default_rng(seed), tmp_path)
        said += refusals(path)
        said += refusals(path, labels=path)
    assert 0 < len(said) < 2 * N_EACH, "some files must be sound and some damaged"
    assert not [text for text in said if len(text) > 500]


def test_damaged_pictures(tmp_path: Path) -> None:
    n_skipped = 0
    for seed in range(N_EACH):
        folder = mutated_picture_folder(np.random.default_rng(seed), tmp_path)
        n_skipped += len(read_source(folder, max_bad=1.0).ingest["skipped"])
    assert 0 < n_skipped < N_EACH, "some pictures must be sound and some damaged"


def test_a_list_file_with_a_nul_far_behind(selfsort: Command, tmp_path: Path) -> None:
    save_many(tmp_path / "s", 4)
    lines = "\n".join(f"s/{number % 4:03d}.png" for number in range(1000))
    (tmp_path / "list.txt").write_text(f"{lines}\ns/00\0.png\n")
    done = selfsort("fit", "list.txt", "--clusters", 2, "--method", "kmeans")
    assert done.code == 2
    assert "the list file list.txt must be text, one path a line; got other bytes in line 1001" in done.err


def test_a_path_no_file_can_have(tmp_path: Path) -> None:
    save_many(tmp_path, 3)
    paths = [tmp_path / f"{number:03d}.png" for number in range(3)]
    read = read_source([*paths, f"{tmp_path}/a\0b.png"], max_bad=0.5)
    assert read.ingest["skipped"][0]["reason"] == "no file can have such a name"


@pytest.mark.parametrize(
    ("name", "text", "code"),
    [
        ("l.txt", "1\n2\n3\n99999999999999999999999\n", 0),
        ("l.txt", "1\n2\n3\n" + "9" * 5000 + "\n", 0),
        ("l.txt", "1\n2\n3\n\0\n", 2),
        ("l.txt", "1" * 2_000_000, 2),
        ("l.csv", "name,label\n0,1\n1,2\n2,3\n3," + "9" * 30 + "\n", 0),
        ("l.csv", "name,label\n0,1\n1,2\n2,3\n3," + "x" * 200_000 + "\n", 2),
        ("l.csv", 'name,label\n0,1\n1,2\n2,3\n3,"' + "x\n" * 200_000, 2),
        ("l.csv", "name,label\n0,1\n1,2\n2,3\n3,\0\n", 2),
        ("l.csv", "x" * 100_000 + "\n", 2),
    ],
)
def test_odd_label_files(selfsort: Command, tmp_path: Path, name: str, text: str, code: int) -> None:
    rng = np.random.default_rng(0)
    np.save(tmp_path / "images.npy", rng.integers(0, 256, (4, 6, 6), dtype=np.uint8))
    (tmp_path / name).write_text(text)
    done = selfsort("fit", "images.npy", "--clusters", 2, "--method", "kmeans", "--labels", name, "--out", "run")
    assert done.code == code, done.err
    assert len(done.err) < 1000
