"""The command line: words in, one answer out, the right exit code."""

from __future__ import annotations

import csv
import json
import shutil
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer
from sklearn.datasets import load_digits
from tests.conftest import Command, write_photos
from tests.toy import TOY

import selfsort as package
from selfsort.cli import main as cli
from selfsort.errors import TrainingFailed
from selfsort.methods import registry
from selfsort.runs import launch as session
from selfsort.runs.folder import RunFolder

GOLDEN = Path(__file__).parents[1] / "golden" / "tiny-run"

# The whole command line. A new option is a decision: it is added here in the same commit, or it is not added.
FROZEN = {
    "fit": """SOURCE --clusters --method --recipe --set --seed --size --fit --gray/--color --where --labels
        --labels-from-folders --encoder --features --self-label --start-from --max-bad --memory --device --out --resume
        --max-minutes --json""",
    "refine": """RUN SOURCE --stage --recipe --set --seed --labels --labels-from-folders --device --out --max-minutes
        --json""",
    "predict": "RUN SOURCE --out --max-bad --device --original --json",
    "score": "RUN --labels --original --json",
    "report": "RUNS --out --figures --original",
    "explore": "RUN --port --no-browser",
    "export": "RUN --to --out --link --original",
    "methods": "NAME --json",
    "bench": "NAME --seeds --budget-minutes --only --again --records --json",
    "demo": "--out",
}


@pytest.fixture(autouse=True)
def _toy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry.OWN, "toy", TOY)


@pytest.fixture
def run(selfsort: Command, photos: Path) -> Path:
    done = selfsort("fit", photos, "--clusters", 3, "--method", "kmeans", "--labels-from-folders", "--out", "run")
    assert done.code == 0, done.err
    return Path("run")


def assert_refused(done: Any, *parts: str, code: int = 2) -> None:
    """One line on standard error, no traceback, nothing on standard output."""
    assert (done.code, done.out) == (code, ""), done
    assert done.err.startswith("selfsort: ")
    assert done.err.count("\n") == 1
    assert "Traceback" not in done.err
    for part in parts:
        assert part in done.err


class TestWords:
    def test_the_flag_list_is_frozen(self) -> None:
        group: Any = typer.main.get_command(cli.app)
        found = {}
        for name, command in group.commands.items():
            words = ["/".join([*parameter.opts, *parameter.secondary_opts]) for parameter in command.params]
            found[name] = [word if word.startswith("-") else word.upper() for word in words]
        assert found == {name: words.split() for name, words in FROZEN.items()}
        assert [parameter.opts for parameter in group.params] == [["--debug"], ["--version"]]

    @pytest.mark.parametrize("words", [[], ["--help"]])
    def test_help(self, selfsort: Command, words: list[str]) -> None:
        done = selfsort(*words)
        assert done.code == 0
        assert all(name in done.out for name in FROZEN)
        assert "\x1b" not in done.out

    def test_version(self, selfsort: Command) -> None:
        assert selfsort("--version").out == f"selfsort {package.__version__}\n"

    @pytest.mark.parametrize(
        ("words", "part"),
        [
            (["sort"], "No such command 'sort'."),
            (["sort"], "? See: selfsort --help"),
            (["fit", "x", "--cluster", "3"], "--clusters"),
            (["fit", "x", "y"], "See: selfsort fit --help"),
            (["fit", "x", "--seed", "-1"], "--seed"),
            (["fit", "x", "--seed", "one"], "--seed"),
            (["fit", "x", "--fit", "squeeze"], "'crop'"),
            (["fit", "x", "--max-minutes", "-1"], "--max-minutes"),
            (["fit", "x", "--max-minutes", "nan"], "--max-minutes"),
            (["fit", "x", "--max-bad", "2"], "--max-bad"),
            (["fit", "x", "--set"], "--set"),
            (["predict", "x"], "See: selfsort predict --help"),
            (["export", "x", "--to", "tape"], "'csv'"),
            (["export", "x"], "--to"),
            (["report"], "See: selfsort report --help"),
        ],
    )
    def test_wrong_use(self, selfsort: Command, words: list[str], part: str) -> None:
        assert_refused(selfsort(*words), part)


class TestRefusals:
    @pytest.mark.parametrize(
        ("words", "parts"),
        [
            ([], ["SOURCE is missing", "Name one."]),
            (["photos"], ["--clusters is missing"]),
            (["photos", "--clusters", "auto"], ["is not available yet; got 'auto'"]),
            (["photos", "--clusters", "5:30"], ["is not available yet; got '5:30'"]),
            (["photos", "--clusters", "1"], ["--clusters must be a whole number of at least 2; got '1'."]),
            (["photos", "--clusters", "x"], ["--clusters must be a whole number of at least 2; got 'x'."]),
            (["photos", "--clusters", "19"], ["between 2 and the number of images (18); got 19. Lower n_clusters"]),
            (["photos", "--clusters", "3", "--method", "kmean"], ["got 'kmean'. Did you mean kmeans?"]),
            (["photos", "--clusters", "3", "--method", "kmeans", "--set", "n_restart=2"], ["Did you mean n_restarts?"]),
            (["photos", "--clusters", "3", "--set", "n_clusters=4"], ["Use --clusters."]),
            (["photos", "--clusters", "3", "--recipe", "imagenet"], ["--recipe must be one that", "got 'imagenet'"]),
            (["photos", "--clusters", "3", "--size", "2"], ["--size must be auto or a whole number from 4 to 4096"]),
            (["photos", "--clusters", "3", "--memory", "lots"], ["--memory must be a size such as 500M"]),
            (["photos", "--clusters", "3", "--device", "abacus"], ["device 'abacus' cannot be used here"]),
            (["photos", "--clusters", "3", "--where", "split=1"], ["--where"]),
            (["photos", "--clusters", "3", "--labels", "nowhere.csv"], ["nowhere.csv is not there"]),
            (["photos", "--clusters", "3", "--encoder", "nowhere"], ["nowhere is not a run folder"]),
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

    @pytest.mark.parametrize("command", ["predict", "score", "report", "export"])
    def test_a_folder_that_is_no_run(self, selfsort: Command, photos: Path, command: str) -> None:
        rest = {"predict": ["photos"], "export": ["--to", "csv"]}.get(command, [])
        assert_refused(selfsort(command, photos, *rest), "is not a run folder", "Check the path.")

    @pytest.mark.parametrize("command", ["predict", "score", "export"])
    def test_a_run_that_is_not_finished(self, selfsort: Command, npz: Path, command: str) -> None:
        words = ["--clusters", "3", "--method", "toy", "--out", "half", "--max-minutes", "0"]
        assert selfsort("fit", npz, *words).code == 3
        rest = {"predict": [str(npz)], "export": ["--to", "csv"]}.get(command, [])
        assert_refused(selfsort(command, "half", *rest), "half is not finished", "selfsort fit --resume half")

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

    def test_names_cannot_play_tricks_on_the_terminal(self, selfsort: Command, tmp_path: Path) -> None:
        assert_refused(selfsort("fit", "a\nb\x1b[31m\udce9", "--clusters", "3"), r"a\nb\x1b[31m\xe9 is not there")

    @pytest.mark.parametrize("words", [["--debug", "fit", "nowhere"], ["fit", "nowhere", "--debug"]])
    def test_debug_shows_the_traceback_wherever_it_stands(self, selfsort: Command, words: list[str]) -> None:
        done = selfsort(*words, "--clusters", "3")
        assert done.code == 2
        assert "Traceback" in done.err
        assert done.err.splitlines()[-1].startswith("selfsort: The source nowhere is not there.")

    def test_a_fault_of_ours_is_called_that(
        self, selfsort: Command, npz: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def broken(*arguments: object, **options: object) -> None:
            raise ZeroDivisionError("nobody thought of this")

        monkeypatch.setattr(session, "launch", broken)
        done = selfsort("fit", npz, "--clusters", "3")
        assert_refused(done, "(ZeroDivisionError: nobody thought of this)", "a fault of ours", "--debug", code=1)
        assert "Traceback" in selfsort("fit", npz, "--clusters", "3", "--debug").err

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
        assert "18 images, 3 clusters, method kmeans, recipe default (chosen" in done.out
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
        done = selfsort("fit", photos, "--clusters", 3, "--recipe", "mnist", "--out", "run")
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
        assert "18 images (1 unreadable skipped, see ingest.json)" in done.out
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


class TestAfterwards:
    def test_predict_gives_the_training_images_their_labels_back(
        self, selfsort: Command, run: Path, photos: Path
    ) -> None:
        done = selfsort("predict", run, photos, "--out", "new/labels.csv")
        assert (done.code, done.err) == (0, "")
        assert done.out == "18 images sorted, labels in new/labels.csv\n"
        assert Path("new/labels.csv").read_bytes() == Path("run/labels.csv").read_bytes()

    def test_predict_replaces_a_file_only_if_it_is_named(self, selfsort: Command, run: Path, photos: Path) -> None:
        Path("labels.csv").write_text("by hand")
        done = selfsort("predict", run, photos)
        assert done.code == 2
        assert "labels.csv exists already. Expected it to be new. Name a file with --out; that is replaced." in done.err
        assert Path("labels.csv").read_text() == "by hand"
        assert selfsort("predict", run, photos, "--out", "labels.csv").code == 0
        assert Path("labels.csv").read_text().startswith("name,cluster")

    def test_predict_new_pictures_of_another_size(self, selfsort: Command, run: Path, tmp_path: Path) -> None:
        new = write_photos(tmp_path / "new", n_per_class=2, seed=9)
        (new / "broken.png").write_bytes(b"\x89PNG\r\n\x1a\n nothing more")
        done = selfsort("predict", run, new, "--json", "--max-bad", "0.5")
        answer = json.loads(done.out)
        assert (answer["labels"], answer["images"]) == ("labels.csv", 6)
        assert [item["name"] for item in answer["skipped"]] == ["broken.png"]
        with Path("labels.csv").open() as file:
            rows = list(csv.DictReader(file))
        trained = {name[0]: label for name, label in zip(*_names_and_labels(run), strict=True)}
        assert all(int(row["cluster"]) == trained[row["name"][0]] for row in rows)
        assert "skipped broken.png: " in selfsort("predict", run, new, "--max-bad", "0.5", "--out", "more.csv").out

    def test_predict_never_replaces_the_labels_of_the_run(
        self, selfsort: Command, run: Path, photos: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        before = Path("run/labels.csv").read_bytes()
        assert_refused(selfsort("predict", run, photos, "--out", "run/labels.csv"), "Choose --out.")
        monkeypatch.chdir(run)
        assert_refused(selfsort("predict", ".", photos), "would replace a file of the run itself")
        assert Path("labels.csv").read_bytes() == before

    def test_score(self, selfsort: Command, run: Path) -> None:
        done = selfsort("score", run)
        assert done.out == (
            "clusters 3, smallest 6, largest 6, size entropy 1.099\n"
            "ACC 1.0000  NMI 1.0000 geometric, 1.0000 arithmetic, 1.0000 max  ARI 1.0000\n"
        )
        answer = json.loads(selfsort("score", run, "--json").out)
        assert set(answer["metrics"]) == {"acc", "nmi_geometric", "nmi_arithmetic", "nmi_max", "ari"}
        assert answer["sizes"]["used"] == 3

    def test_score_against_other_labels(self, selfsort: Command, run: Path, tmp_path: Path) -> None:
        names, labels = _names_and_labels(run)
        (tmp_path / "other.csv").write_text(
            "".join(f"{name},{label % 2}\n" for name, label in zip(names, labels, strict=True))
        )
        answer = json.loads(selfsort("score", run, "--labels", "other.csv", "--json").out)
        assert answer["metrics"]["acc"] == pytest.approx(12 / 18)
        (tmp_path / "short.csv").write_text("a/00.png,1\n")
        assert_refused(selfsort("score", run, "--labels", "short.csv"), "short.csv", "name every image")
        assert_refused(selfsort("score", run, "--labels", "nowhere.csv"), "nowhere.csv is not there")

    def test_score_without_labels_shows_the_sizes(self, selfsort: Command, photos: Path) -> None:
        selfsort("fit", photos, "--clusters", 3, "--method", "kmeans", "--out", "run")
        done = selfsort("score", "run")
        assert done.code == 0
        assert "No true labels are known for this run. Give them with --labels PATH" in done.out
        assert "metrics" not in json.loads(selfsort("score", "run", "--json").out)

    def test_export(self, selfsort: Command, run: Path) -> None:
        assert selfsort("export", run, "--to", "csv").out == "written: run.csv\n"
        assert Path("run.csv").read_bytes() == Path("run/labels.csv").read_bytes()
        assert selfsort("export", run, "--to", "folders").out == "written: run-folders\n"
        assert selfsort("export", run, "--to", "folders", "--link", "--out", "links").code == 0
        for out, is_link in (("run-folders", False), ("links", True)):
            placed = list(Path(out).rglob("*.png"))
            assert Counter(path.parent.name for path in placed) == {f"cluster-0{label}": 6 for label in range(3)}
            assert all(path.is_symlink() == is_link for path in placed)
        assert_refused(selfsort("export", run, "--to", "folders", "--out", "links"), "links exists already")
        assert selfsort("export", run, "--to", "folders").out == "written: run-folders-2\n"

    def test_methods(self, selfsort: Command) -> None:
        done = selfsort("methods")
        assert all(name in done.out for name in registry.METHODS)
        assert "\x1b" not in done.out
        assert {row["name"] for row in json.loads(selfsort("methods", "--json").out)["methods"]} == set(
            registry.METHODS
        )
        assert "n_restarts" in selfsort("methods", "kmeans").out
        assert [row["name"] for row in json.loads(selfsort("methods", "--json").out)["stages"]] == ["self-label"]
        assert "min_agreement" in selfsort("methods", "self-label").out
        improvable = json.loads(selfsort("methods", "dac", "--json").out)["settings"]
        assert [row["name"] for row in improvable][-3:] == [
            "improve.starts",
            "improve.start_length",
            "improve.regroup_every",
        ]
        settings = json.loads(selfsort("methods", "kmeans", "--json").out)["settings"]
        assert [row["name"] for row in settings] == ["n_clusters", "centre", "n_restarts", "max_iterations"]
        assert_refused(selfsort("methods", "kmeens"), "Did you mean kmeans?")

    def test_report(self, selfsort: Command, run: Path) -> None:
        done = selfsort("report", run)
        assert done.out == "report: run/report.html\n"
        assert Path("run/report.html").read_text().lstrip().startswith("<!doctype html>")
        assert selfsort("report", run, GOLDEN, "--out", "both.html").out == "report: both.html\n"
        assert Path("both.html").exists()
        assert not (GOLDEN / "report.html").exists()
        assert "figure files: figures" in selfsort("report", run, "--figures", "figures").out
        assert {path.suffix for path in Path("figures").iterdir()} == {".png", ".svg"}

    def test_demo(self, selfsort: Command, monkeypatch: pytest.MonkeyPatch) -> None:
        def write_some(folder: Path) -> Path:
            path = folder / "digits.npz"
            digits = load_digits()
            np.savez(path, images=np.rint(digits.images[:80] * (255 / 16)).astype(np.uint8), labels=digits.target[:80])
            return path

        monkeypatch.setattr("selfsort.cli.demo.write_digits", write_some)  # all 1,797 are for `make demo`
        done = selfsort("demo", "--out", "demo")
        assert (done.code, done.err) == (0, "")
        assert "80 images, 10 clusters" in done.out
        assert "ACC 0." in done.out
        assert done.out.endswith("images: digits.npz\nreport: demo/report.html\n")
        assert Path("demo/report.html").exists()
        assert selfsort("predict", "demo", "digits.npz").code == 0

    def test_a_stored_run_of_format_1_still_serves_every_command(self, selfsort: Command, tmp_path: Path) -> None:
        shutil.copytree(GOLDEN, tmp_path / "old")
        thumbnails = RunFolder.open("old").thumbnails()
        assert thumbnails is not None
        np.savez(tmp_path / "shapes.npz", images=thumbnails.pixels)
        for words in (
            ["predict", "old", "shapes.npz"],
            ["score", "old"],
            ["report", "old"],
            ["export", "old", "--to", "csv"],
            ["export", "old", "--to", "folders"],
        ):
            done = selfsort(*words)
            assert done.code == 0, done.err
        assert Path("labels.csv").read_bytes() == Path("old/labels.csv").read_bytes() == Path("old.csv").read_bytes()


def _names_and_labels(run: Path) -> tuple[tuple[str, ...], list[int]]:
    table = RunFolder.open(run).label_table()
    return table.names, table.labels.tolist()


class TestStrangers:
    """Damaged runs through the whole command line: exit code 2, one sentence."""

    @pytest.mark.parametrize(
        ("command", "name", "content"),
        [
            ("predict", "config.json", b"[]"),
            ("predict", "model.safetensors", b"\x08\0\0\0\0\0\0\0{}      "),
            ("predict", "model.safetensors", b"torn"),
            ("score", "labels.csv", b"name,cluster,confidence\n"),
            ("score", "truth.npy", b"nonsense"),
            ("score", "labels.csv", b"name,cluster,confidence\nx,-1,0\n"),
            ("export", "labels.csv", b"name,cluster,confidence\n../../x,0,1\n"),
            ("report", "labels.csv", b"no table"),
            ("report", "features.npy", b"\x93NUMPY\x01\x00\x02\x00{}"),
            ("report", "thumbnails.npz", b"PK\x03\x04"),
            ("report", "events.jsonl", b'{"step": []}\n'),
        ],
    )
    def test_damage(self, selfsort: Command, tmp_path: Path, command: str, name: str, content: bytes) -> None:
        shutil.copytree(GOLDEN, tmp_path / "run")
        pixels = np.zeros((15, 8, 8), dtype=np.uint8)
        np.savez(tmp_path / "shapes.npz", images=pixels)
        (tmp_path / "run" / name).write_bytes(content)
        rest = {"predict": ["shapes.npz"], "export": ["--to", "folders"]}.get(command, [])
        before = sorted(tmp_path.rglob("*"))
        assert_refused(selfsort(command, "run", *rest))
        assert sorted(tmp_path.rglob("*")) == before

    def test_labels_of_another_length(self, selfsort: Command, tmp_path: Path) -> None:
        shutil.copytree(GOLDEN, tmp_path / "run")
        RunFolder.open("run").write_array("truth.npy", np.zeros(3, dtype=np.int64))
        assert_refused(selfsort("score", "run"))


def test_the_public_names_and_no_others() -> None:
    assert set(package.__all__) == {"ImageClusterer", "__version__", "load"}
    assert all(hasattr(package, name) for name in package.__all__)
    with pytest.raises(AttributeError, match="has no attribute 'fit'"):
        _ = package.fit
    assert sys.modules["selfsort"] is package


class TestCorrections:
    """What was put right in the explorer holds for every command, unless --original is said."""

    @pytest.fixture
    def corrected(self, run: Path) -> Path:
        from selfsort.runs.edits import Merge, Move, Rename
        from selfsort.runs.journal import Journal

        labels = RunFolder.open(run).label_table().labels
        journal = Journal.open(run)
        journal.add(Move((int(np.flatnonzero(labels == 2)[0]),), 0))
        journal.add(Merge((0, 1), 0))
        journal.add(Rename(0, "cats & <dogs>"))
        journal.close()
        return run

    def test_score(self, selfsort: Command, corrected: Path) -> None:
        done = selfsort("score", corrected)
        assert done.out.startswith("clusters 2, smallest 5, largest 13,")
        assert "all applied: 3" in done.err
        assert json.loads(selfsort("score", corrected, "--json").out)["sizes"]["used"] == 2
        original = selfsort("score", corrected, "--original")
        assert original.out.startswith("clusters 3, smallest 6, largest 6,")
        assert original.err == ""

    def test_report(self, selfsort: Command, corrected: Path) -> None:
        assert selfsort("report", corrected, "--out", "now.html").code == 0
        assert selfsort("report", corrected, "--out", "then.html", "--original").code == 0
        now, then = Path("now.html").read_text(), Path("then.html").read_text()
        assert "cats &amp; &lt;dogs&gt;</h3>" in now
        assert "3 corrections by hand made 2 clusters of them" in now
        assert "cats" not in then
        assert "by hand" not in then

    def test_predict(self, selfsort: Command, corrected: Path, photos: Path) -> None:
        done = selfsort("predict", corrected, photos, "--out", "new.csv")
        assert done.code == 0, done.err
        rows = Path("new.csv").read_text().splitlines()
        assert sorted({row.split(",", 1)[1].split(",")[0] for row in rows[1:]}) == ["0", "2"]
        assert sum(row.endswith('"cats & <dogs>"') for row in rows) == 12
        assert "that were applied: 2." in done.err
        assert "which say nothing of new ones: 1." in done.err
        original = selfsort("predict", corrected, photos, "--out", "old.csv", "--original")
        assert original.err == ""
        assert Path("old.csv").read_bytes() == (corrected / "labels.csv").read_bytes()
