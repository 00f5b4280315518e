"""`selfsort fit` and `selfsort demo`: words in, a run folder out."""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits
from tests.cli.conftest import assert_refused
from tests.conftest import Command, Done
from tests.toy import TOY

from selfsort import progress
from selfsort.cli.fit import Limit
from selfsort.errors import TrainingFailed, missing_extra
from selfsort.methods import registry
from selfsort.runs.folder import RunFolder
from selfsort.types import Snapshot


class TestTrainOn:
    """`--train-on N`: learn from some, sort all."""

    @pytest.fixture
    def source(self, tmp_path: Path) -> Path:
        digits = load_digits()
        pixels = np.rint(digits.images[:150] * 15.9).astype(np.uint8)
        np.savez(tmp_path / "digits.npz", images=pixels[..., None], labels=digits.target[:150])
        return tmp_path / "digits.npz"

    def test_the_run_and_its_report_say_so(self, selfsort: Command, source: Path) -> None:
        done = selfsort("fit", source, "--clusters", 5, "--method", "kmeans", "--train-on", 90, "--out", "run")
        assert done.code == 0, done.err
        assert json.loads(Path("run/config.json").read_text())["train_on"] == 90
        assert len(Path("run/labels.csv").read_text().splitlines()) == 151
        assert selfsort("report", "run", "--out", "page.html").code == 0
        assert "Learned from 90 of 150 images" in Path("page.html").read_text()

    def test_a_run_that_was_stopped_ends_in_the_same_labels(self, selfsort: Command, source: Path) -> None:
        words = ["--clusters", 3, "--method", "toy", "--train-on", 90]
        stopped = selfsort("fit", source, *words, "--out", "half", "--max-minutes", 0)
        assert stopped.code == 3, stopped.err
        assert selfsort("fit", "--resume", "half").code == 0
        assert selfsort("fit", source, *words, "--out", "whole").code == 0
        assert Path("half/labels.csv").read_bytes() == Path("whole/labels.csv").read_bytes()

    def test_the_number_of_clusters_is_found_in_those_drawn(self, selfsort: Command, source: Path) -> None:
        done = selfsort("fit", source, "--method", "leiden", "--train-on", 90, "--out", "run")
        assert done.code == 0, done.err

    def test_too_few_are_refused(self, selfsort: Command, source: Path) -> None:
        words = ["--clusters", 9, "--method", "kmeans", "--train-on", 5]
        assert_refused(selfsort("fit", source, *words), "--train-on must be at least the number of clusters (9); got 5")


class TestRefusals:
    @pytest.mark.parametrize(
        ("words", "parts"),
        [
            ([], ["SOURCE is missing", "Name one."]),
            (
                ["photos", "--clusters", "30:5"],
                ["--clusters must be a range LOW:HIGH with 2 <= LOW <= HIGH; got '30:5'."],
            ),
            (["photos", "--clusters", "5:30"], ["be at most the number of images (18); got 5:30."]),
            (
                ["photos", "--clusters", "1"],
                ["--clusters must be a whole number of at least 2, auto, or a range; got '1'."],
            ),
            (
                ["photos", "--clusters", "x"],
                ["--clusters must be a whole number of at least 2, auto, or a range; got 'x'."],
            ),
            (["photos", "--clusters", "19"], ["between 2 and the number of images (18); got 19. Lower n_clusters"]),
            (["photos", "--clusters", "3", "--method", "kmean"], ["got 'kmean'. Did you mean kmeans?"]),
            (["photos", "--clusters", "3", "--method", "kmeans", "--set", "n_restart=2"], ["Did you mean n_restarts?"]),
            (["photos", "--clusters", "3", "--set", "n_clusters=4"], ["Use --clusters."]),
            (
                ["photos", "--clusters", "3", "--method", "jule", "--recipe", "imagenet"],
                ["--recipe must be one that", "got 'imagenet'"],
            ),
            (["photos", "--clusters", "3", "--size", "2"], ["--size must be auto or a whole number from 4 to 4096"]),
            (["photos", "--clusters", "3", "--memory", "lots"], ["--memory must be a size such as 500M"]),
            (["photos", "--clusters", "3", "--device", "abacus"], ["device 'abacus' cannot be used here"]),
            (["photos", "--clusters", "3", "--where", "split=1"], ["--where"]),
            (["photos", "--clusters", "3", "--labels", "nowhere.csv"], ["nowhere.csv is not there"]),
            (
                ["photos", "--clusters", "3", "--encoder", "nowhere"],
                ["--encoder must be one of auto, none", "got 'nowhere'"],
            ),
            (["photos", "--clusters", "3", "--out", "photos"], ["photos holds files that are not a run"]),
            (["photos", "--clusters", "3", "--out", "notes.txt"], ["the output notes.txt is a file."]),
            (["nowhere", "--clusters", "3"], ["The source nowhere is not there."]),
            (["empty", "--clusters", "3"], ["empty"]),
            (["--resume", "nowhere"], ["nowhere is not a run folder"]),
        ],
    )
    def test_fit(self, selfsort: Command, photos: Path, tmp_path: Path, words: list[str], parts: list[str]) -> None:
        (tmp_path / "empty").mkdir()
        (tmp_path / "notes.txt").touch()
        before = sorted(tmp_path.rglob("*"))
        assert_refused(selfsort("fit", *words), *parts)
        assert sorted(tmp_path.rglob("*")) == before

    def test_a_finished_run_cannot_be_resumed(self, selfsort: Command, run: Path) -> None:
        assert_refused(selfsort("fit", "--resume", run), "is finished already", "selfsort report run")

    @pytest.mark.parametrize(
        "words",
        [
            ["--clusters", "4"],
            ["--set", "steps=9"],
            ["--seed", "0"],
            ["--out", "other"],
            ["--gray"],
            ["--method", "toy"],
        ],
    )
    def test_a_resumed_run_does_not_ignore_options(self, selfsort: Command, run: Path, words: list[str]) -> None:
        assert_refused(selfsort("fit", "--resume", run, *words), f"{words[0]} cannot be given with --resume")

    def test_training_that_fails_is_no_wrong_use(
        self, selfsort: Command, npz: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def fail(*arguments: object, **options: object) -> None:
            raise TrainingFailed("the loss became nan.")

        monkeypatch.setattr("selfsort.runs.loop.FitRun.run", fail)
        done = selfsort("fit", npz, "--clusters", "3", "--out", "run")
        assert (done.code, done.err) == (1, "selfsort: the loss became nan.\n")


class TestFit:
    def test_a_folder(self, selfsort: Command, photos: Path) -> None:
        done = selfsort("fit", photos, "--clusters", 3, "--method", "kmeans", "--labels-from-folders")
        assert (done.code, done.err) == (0, "")
        assert "18 images into 3 clusters\n" in done.out
        assert "Sorted by kmeans, from their pixels. Its settings are those called default, chosen" in done.out
        assert "3 clusters found in" in done.out
        assert "ACC 1.0000  NMI 1.0000 geometric, 1.0000 arithmetic, 1.0000 max  ARI 1.0000" in done.out
        assert done.out.endswith("run folder: selfsort-runs/photos-kmeans-k3-seed0\n")
        assert "\x1b" not in done.out
        folder = RunFolder.open("selfsort-runs/photos-kmeans-k3-seed0")
        assert folder.label_table().names[0].startswith("a/")
        assert folder.truth_names() == ["a", "b", "c"]

    def test_json(self, selfsort: Command, photos: Path) -> None:
        done = selfsort("fit", photos, "--clusters", 3, "--method", "kmeans", "--json", "--out", "run")
        assert done.code == 0
        assert done.out.count("\n") == 1
        answer = json.loads(done.out)
        assert {"run", "method", "clusters_asked", "clusters_found", "seconds", "peak_memory_mb", "warnings"} <= set(
            answer
        )
        assert "metrics" not in answer
        assert (answer["run"], answer["method"], answer["clusters_asked"], answer["clusters_found"]) == (
            "run",
            "kmeans",
            3,
            3,
        )
        assert answer["warnings"] == []
        assert answer["peak_memory_mb"] > 10
        assert "18 images" in done.err

    def test_json_with_labels(self, selfsort: Command, npz: Path) -> None:
        done = selfsort("fit", npz, "--clusters", 3, "--method", "kmeans", "--json", "--out", "run")
        answer = json.loads(done.out)
        assert set(answer["metrics"]) == {"acc", "nmi_geometric", "nmi_arithmetic", "nmi_max", "ari"}
        assert answer["metrics"] == json.loads(Path("run/metrics.json").read_text())

    def test_where_keeps_rows(self, selfsort: Command, npz: Path) -> None:
        done = selfsort("fit", npz, "--clusters", 2, "--method", "kmeans", "--where", "split=1", "--out", "run")
        assert done.code == 0, done.err
        assert [int(name) for name in RunFolder.open("run").label_table().names] == list(range(1, 18, 2))

    def test_a_run_refused_by_the_method_leaves_no_folder(self, selfsort: Command, photos: Path) -> None:
        done = selfsort("fit", photos, "--clusters", 3, "--method", "jule", "--recipe", "mnist", "--out", "run")
        assert (done.code, Path("run").exists()) == (2, False)
        assert "the image size must be large enough for 2 blocks of convolution; got 12x12" in done.err

    def test_settings_sizes_and_colours_reach_the_run(self, selfsort: Command, photos: Path) -> None:
        words = [
            "--set",
            "n_restarts=2",
            "--set",
            "max_iterations=5",
            "--size",
            "8",
            "--gray",
            "--fit",
            "pad",
            "--seed",
            "3",
        ]
        done = selfsort("fit", photos, "--clusters", 3, "--method", "kmeans", *words, "--out", "run")
        assert done.code == 0, done.err
        config = RunFolder.open("run").config
        assert config["settings"] == {"n_clusters": 3, "centre": False, "n_restarts": 2, "max_iterations": 5}
        assert config["image"] == {"height": 8, "width": 8, "channels": 1, "fit": "pad"}
        assert config["seed"] == 3

    def test_the_same_seed_gives_the_same_files(self, selfsort: Command, photos: Path) -> None:
        for out in ("one", "two"):
            assert selfsort("fit", photos, "--clusters", 3, "--method", "kmeans", "--out", out).code == 0
        for name in ("labels.csv", "features.npy", "soft.npy", "model.safetensors", "thumbnails.npz"):
            assert Path("one", name).read_bytes() == Path("two", name).read_bytes()

    def test_lost_clusters_are_said(self, selfsort: Command, tmp_path: Path) -> None:
        np.savez(tmp_path / "same.npz", images=np.full((6, 8, 8), 100, dtype=np.uint8))
        done = selfsort("fit", "same.npz", "--clusters", 3, "--method", "kmeans", "--out", "run")
        assert done.code == 0
        assert "warning: Only 1 of the 3 clusters asked for hold any image." in done.out
        answer = json.loads(selfsort("fit", "same.npz", "--clusters", 3, "--method", "kmeans", "--json").out)
        assert answer["clusters_found"] == 1
        assert any("Only 1 of the 3" in warning for warning in answer["warnings"])

    def test_unreadable_files_are_counted(self, selfsort: Command, photos: Path) -> None:
        (photos / "broken.jpg").write_bytes(b"not a picture")
        done = selfsort("fit", photos, "--clusters", 3, "--method", "kmeans", "--max-bad", "0.5", "--out", "run")
        assert "18 images into 3 clusters; 1 file could not be read (see ingest.json)" in done.out
        assert_refused(selfsort("fit", photos, "--clusters", 3, "--max-bad", "0"), "broken.jpg")

    def test_features_of_another_run(self, selfsort: Command, npz: Path) -> None:
        assert selfsort("fit", npz, "--clusters", 3, "--method", "toy", "--out", "first").code == 0
        words = ["--clusters", "3", "--method", "kmeans", "--encoder", "first", "--out", "second"]
        assert selfsort("fit", npz, *words).code == 0
        shutil.rmtree("first")  # the second run is complete by itself
        done = selfsort("predict", "second", npz)
        assert done.code == 0, done.err
        assert Path("labels.csv").read_bytes() == Path("second/labels.csv").read_bytes()

    def test_the_old_name_of_encoder(self, selfsort: Command, npz: Path) -> None:
        assert selfsort("fit", npz, "--clusters", 3, "--method", "toy", "--out", "first").code == 0
        words = ["fit", npz, "--clusters", 3, "--method", "kmeans"]
        done = selfsort(*words, "--features", "first", "--out", "old")
        assert (done.code, done.err) == (0, "--features RUN is now: --encoder RUN. It works here for one release.\n")
        assert selfsort(*words, "--encoder", "first", "--out", "new").err == ""
        assert Path("old/labels.csv").read_bytes() == Path("new/labels.csv").read_bytes()
        assert selfsort(*words, "--encoder", "none", "--out", "pixels").code == 0
        assert not Path("pixels/features_from").exists()
        assert_refused(selfsort(*words, "--features", "first", "--encoder", "first"), "both are given")
        assert "--features" not in selfsort("fit", "--help").out


def test_demo(selfsort: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def write_some(folder: Path) -> Path:
        path = folder / "digits.npz"
        digits = load_digits()
        np.savez(path, images=np.rint(digits.images[:80] * (255 / 16)).astype(np.uint8), labels=digits.target[:80])
        return path

    monkeypatch.setattr("selfsort.cli.demo.write_digits", write_some)  # all 1,797 are for `make demo`
    monkeypatch.setattr("selfsort.overall.PlainLines.tick", lambda self: None)  # a slow machine says how far it is
    done = selfsort("demo", "--out", "demo")
    assert (done.code, done.err) == (0, "")
    assert "80 images into 10 clusters" in done.out
    assert "ACC 0." in done.out
    assert done.out.endswith("images: digits.npz\nreport: demo/report.html\n")
    assert Path("demo/report.html").exists()
    assert selfsort("predict", "demo", "digits.npz").code == 0


@pytest.mark.parametrize(("asked", "is_limited"), [(30.0, True), (0.0, False)])
def test_time_that_went_by_before_anything_began_is_not_no_limit(asked: float, is_limited: bool) -> None:
    limit = Limit(asked, time.monotonic() - 100)  # imports took long on a busy machine
    with limit.while_launching():
        deadline = progress._deadline.get()
    assert (deadline is not None) is is_limited


class TestTheFirstTrial:
    """What stood in the way of people with a folder of pictures."""

    def test_a_zip_of_pictures(self, selfsort: Command, photos: Path) -> None:
        with zipfile.ZipFile("photos.zip", "w") as archive:
            for path in photos.rglob("*.png"):
                archive.write(path, path.relative_to(photos).as_posix())
            archive.writestr("notes.txt", "no picture")
        done = selfsort(
            "fit", "photos.zip", "--clusters", 3, "--method", "kmeans", "--labels-from-folders", "--out", "run"
        )
        assert done.code == 0, done.err
        assert "ACC" in done.out
        folder = RunFolder.open(Path("run"))
        assert folder.label_table().names[0].startswith("a/")
        assert folder.read_json("ingest.json")["kind"] == "zip"
        assert selfsort("export", "run", "--to", "folders", "--out", "sorted").code == 0
        assert len([path for path in Path("sorted").rglob("*") if path.is_file()]) >= 18
        assert selfsort("predict", "run", "photos.zip").code == 0

    def test_videos_and_documents_are_named_as_such(self, selfsort: Command, photos: Path, tmp_path: Path) -> None:
        for name in ("a/holiday.mp4", "b/clip.MOV", "bill.pdf"):
            (photos / name).write_bytes(b"\0\0 no picture")
        done = selfsort("fit", photos, "--clusters", 3, "--method", "kmeans", "--out", "run")
        assert "18 images into 3 clusters; not pictures, and left alone: 2 videos, 1 document\n" in done.out
        (tmp_path / "films").mkdir()
        (photos / "a/holiday.mp4").rename(tmp_path / "films/holiday.mp4")
        assert_refused(selfsort("fit", "films"), "must hold pictures; got 1 video")

    @pytest.mark.parametrize("words", [["--method", "kmean"], ["--method", "legen"]])
    def test_a_wrong_name_is_refused_before_anything_heavy_is_loaded(self, photos: Path, words: list[str]) -> None:
        code = (
            "import sys; from selfsort.cli.main import app\n"
            f"try: app(['fit', {str(photos)!r}, *{words}], standalone_mode=False)\n"
            "except Exception as error: print(error)\n"
            "print('torch' in sys.modules)"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert "--method must be auto or one of" in done.stdout
        assert done.stdout.endswith("False\n" if words[1] == "kmean" else "\n")

    def test_a_missing_extra_is_found_before_the_folder_is_made(
        self, selfsort: Command, photos: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        found = importlib.util.find_spec
        monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "umap" else found(name))
        monkeypatch.setattr("selfsort.runs.sight._read", pytest.fail)
        done = selfsort("fit", photos, "--clusters", 3, "--method", "umap-kmeans", "--out", "run")
        assert_refused(done, "umap-kmeans needs the package umap-learn")
        assert not Path("run").exists()

    def test_a_run_that_never_started_does_not_block_its_retry(
        self, selfsort: Command, photos: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def lacking(*given: object, **named: object) -> Iterator[Snapshot]:
            raise missing_extra("something", "the toy", "toys")
            yield

        words = ["fit", photos, "--clusters", 3, "--method", "toy", "--out", "run"]
        with monkeypatch.context() as patch:
            patch.setitem(registry.OWN, "toy", replace(TOY, train=lacking))
            assert_refused_after_words(selfsort(*words), "the toy needs the package something")
        assert not Path("run").exists()
        assert selfsort(*words).code == 0


def assert_refused_after_words(done: Done, part: str) -> None:
    assert done.code == 2
    assert part in done.err
