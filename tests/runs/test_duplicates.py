from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.conftest import Command
from tests.stacks.scenes import album, frame, save, scene

from selfsort import duplicates
from selfsort.errors import InvalidInput
from selfsort.runs.duplicates import find_duplicates
from selfsort.runs.folder import RunFolder
from selfsort.runs.stacks import load_stacks

CPU = torch.device("cpu")


def before(root: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


def test_a_source_is_searched_and_left_alone(tmp_path: Path) -> None:
    root = album(tmp_path / "album")
    was = before(root)
    found = find_duplicates(str(root), encoder="none", device=CPU)
    assert (len(found.stacks), found.n_spare) == (2, 7)
    assert found.counts() == {"copy": 1, "re-encoded": 1, "resized": 1, "other light": 1, "burst": 3}
    assert before(root) == was
    table = found.to_csv().decode().splitlines()
    assert table[0] == '"stack","name","is_best","kind"'
    assert table[1] == '0,"00.jpg",1,"best"'
    assert len(table) == 1 + 9


def test_too_many_unreadable_files_are_refused(tmp_path: Path) -> None:
    root = album(tmp_path / "album", 3)
    for number in range(3):
        (root / f"torn-{number}.jpg").write_bytes(b"\xff\xd8\xff\xe0 no picture")
    with pytest.raises(InvalidInput, match="unreadable pictures"):
        find_duplicates(str(root), encoder="none", device=CPU)
    assert find_duplicates(str(root), encoder="none", max_bad=0.5, device=CPU).n_spare == 7


def test_arrays_have_copies_only(npz: Path) -> None:
    found = find_duplicates(str(npz), device=CPU)
    assert set(found.counts()) == {"copy", "re-encoded", "resized", "other light", "burst"}
    assert found.counts()["burst"] == 0


class TestRun:
    def fitted(self, tmp_path: Path, selfsort: Command, *options: str) -> RunFolder:
        root = album(tmp_path / "album")
        run = tmp_path / "run"
        words = ("fit", root, "--method", "kmeans", "--encoder", "none", "--clusters", "3", "--out", run, *options)
        assert selfsort(*map(str, words)).code == 0
        return RunFolder.open(run)

    def test_a_run_keeps_its_stacks(self, tmp_path: Path, selfsort: Command) -> None:
        folder = self.fitted(tmp_path, selfsort)
        names = folder.label_table().names
        assert load_stacks(folder, len(names)) is None
        found = duplicates(folder.path, encoder="none")
        assert load_stacks(folder, len(names)) == found.stacks
        assert found.names == names
        assert names[found.stacks[0].best] == "00.jpg"

    def test_what_is_stacked_counts_once_and_stays_together(self, tmp_path: Path, selfsort: Command) -> None:
        root = tmp_path / "album"
        for number in range(6):
            save(scene(number), root / f"{number}.jpg")
        for shift in range(-5, 5):  # a burst that outnumbers all else
            taken = f"2024:05:01 10:00:{shift + 10:02d}"
            save(frame(scene(7), shift, zoom=0.9), root / f"burst{shift + 10:02d}.jpg", taken=taken)
        run = tmp_path / "run"
        done = selfsort(
            "fit", str(root), "--method", "kmeans", "--encoder", "none", "--clusters", "6", "--stack-duplicates",
            "--out", str(run),
        )  # fmt: skip
        assert done.code == 0, done.err
        assert "16 images show 7 pictures" in done.err
        folder = RunFolder.open(run)
        table = folder.label_table()
        in_burst = np.array([name.startswith("burst") for name in table.names])
        assert len(set(table.labels[in_burst].tolist())) == 1
        assert len(set(table.labels.tolist())) == 6  # without stacks half of them would be parts of the burst
        assert len(folder.result().features) == 16

    def test_a_stacked_run_needs_enough_pictures(self, tmp_path: Path, selfsort: Command) -> None:
        root = album(tmp_path / "album", 3)
        done = selfsort(
            "fit", str(root), "--method", "kmeans", "--encoder", "none", "--clusters", "5", "--stack-duplicates",
            "--out", str(tmp_path / "run"),
        )  # fmt: skip
        assert done.code == 2
        assert "the number of images (3)" in done.err


def test_a_stacked_run_goes_on_after_a_stop(tmp_path: Path, selfsort: Command) -> None:
    root = album(tmp_path / "album", 6)
    options = ("--method", "dac", "--clusters", "2", "--encoder", "none", "--size", "16", "--stack-duplicates")

    whole, stopped = tmp_path / "whole", tmp_path / "stopped"
    assert selfsort("fit", str(root), *options, "--out", str(whole)).code == 0
    assert selfsort("fit", str(root), *options, "--out", str(stopped), "--max-minutes", "0").code == 3
    assert selfsort("fit", "--resume", str(stopped)).code == 0
    assert (whole / "labels.csv").read_bytes() == (stopped / "labels.csv").read_bytes()


def test_importing_it_is_light() -> None:
    code = "import sys, selfsort; 'duplicates' in dir(selfsort); assert 'torch' not in sys.modules"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
