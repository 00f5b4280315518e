"""What is done with runs: predict, score, report and export."""

from __future__ import annotations

import csv
import json
import re
import shutil
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from tests.cli.conftest import assert_refused
from tests.conftest import Command, write_photos

from selfsort.data.synthetic import shapes
from selfsort.runs.edits import Merge, Rename
from selfsort.runs.folder import RunFolder
from selfsort.runs.journal import Journal

GOLDEN = Path(__file__).parents[1] / "golden" / "tiny-run"


class TestRefusals:
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


class TestUnfinished:
    @pytest.fixture
    def half(self, selfsort: Command, photos: Path) -> Path:
        words = ["--clusters", "3", "--method", "toy", "--out", "half", "--max-minutes", "0"]
        assert selfsort("fit", photos, *words).code == 3
        return Path("half")

    def test_a_report_shows_the_state_so_far_and_says_so(self, selfsort: Command, half: Path) -> None:
        assert selfsort("report", half).out == "report: half/report.html\n"
        page = (half / "report.html").read_text()
        assert "Not finished. " in page
        assert "This run was stopped, at step 1 of 5. These are the clusters so far." in page
        assert page.count("<img") == 18
        assert selfsort("fit", "--resume", half).code == 0
        selfsort("report", half)
        assert "Not finished" not in (half / "report.html").read_text()
        assert not (half / "resume").exists()

    def test_figures_and_comparisons_are_of_finished_runs(self, selfsort: Command, half: Path) -> None:
        assert "half is not finished" in selfsort("report", half, "--figures", "figures").err
        assert_refused(selfsort("report", half, half), "half is not finished")


class TestAfterwards:
    def test_predict_gives_the_training_images_their_labels_back(
        self, selfsort: Command, run: Path, photos: Path
    ) -> None:
        done = selfsort("predict", run, photos, "--out", "new/labels.csv")
        assert (done.code, done.err) == (0, "")
        assert done.out == "18 images sorted, labels in new/labels.csv\n"
        assert Path("new/labels.csv").read_bytes() == Path("run/labels.csv").read_bytes()

    def test_predict_scores_held_out_images(self, selfsort: Command, tmp_path: Path) -> None:
        images, truth = shapes(12, size=16, seed=0, n_classes=3)
        split = np.arange(len(truth)) % 3
        np.savez(tmp_path / "both.npz", images=images.pixels[..., 0], labels=truth, split=split)
        words = ("--where", "split!=2", "--clusters", "3", "--method", "kmeans", "--out", "trained")
        assert selfsort("fit", tmp_path / "both.npz", *words).code == 0
        done = selfsort("predict", "trained", tmp_path / "both.npz", "--where", "split=2", "--json")
        answer = json.loads(done.out)
        assert answer["images"] == int((split == 2).sum())
        assert answer["metrics"]["acc"] == 1.0
        np.savetxt(tmp_path / "wrong.txt", np.arange(len(truth)) % 2, fmt="%d")
        labels = ("--labels", tmp_path / "wrong.txt", "--out", "more.csv")
        done = selfsort("predict", "trained", tmp_path / "both.npz", "--where", "split=2", *labels)
        assert done.code == 0
        assert re.search(r"images sorted, labels in more.csv\n.*ACC", done.out)

    @pytest.mark.parametrize("words", [["predict", "run", "photos"], ["export", "run", "--to", "csv"]])
    def test_a_file_is_replaced_only_if_that_is_said(
        self, selfsort: Command, run: Path, photos: Path, words: list[str]
    ) -> None:
        Path("mine.csv").write_text("by hand")
        assert_refused(selfsort(*words, "--out", "mine.csv"), "mine.csv exists already", "or add --replace")
        assert Path("mine.csv").read_text() == "by hand"
        assert selfsort(*words, "--out", "mine.csv", "--replace").code == 0
        assert Path("mine.csv").read_text().replace('"', "").startswith("name,cluster")
        assert selfsort(*words, "--out", "/dev/null").code == 0

    def test_predict_into_the_folders_of_an_export(self, selfsort: Command, run: Path, tmp_path: Path) -> None:
        journal = Journal.open(run)
        journal.add(Rename(0, "round things"))
        journal.close()
        assert selfsort("export", run, "--to", "folders", "--out", "sorted").code == 0
        new = write_photos(tmp_path / "new", n_per_class=2, seed=9)
        done = selfsort("predict", run, new, "--to", "folders", "--out", "sorted")
        assert done.code == 0, done.err
        counts = Counter(path.parent.name for path in Path("sorted").rglob("*.png"))
        assert counts == {"round things": 8, "cluster-01": 8, "cluster-02": 8}
        assert "6 images sorted into sorted\n" in done.out
        again = json.loads(selfsort("predict", run, new, "--to", "folders", "--out", "sorted", "--json").out)
        assert sum(again["new_files"].values()) == 0
        assert len(list(Path("sorted").rglob("*"))) == 24 + 3
        Path("run.txt").touch()
        assert_refused(
            selfsort("predict", run, new, "--to", "folders", "--out", "run.txt"), "is a file. Expected a folder"
        )

    def test_export_after_the_pictures_were_moved(self, selfsort: Command, run: Path, photos: Path) -> None:
        photos.rename("elsewhere")
        lost = selfsort("export", run, "--to", "folders", "--out", "sorted")
        assert (lost.code, Path("sorted").exists()) == (2, False)
        assert selfsort("export", run, "--to", "folders", "--out", "sorted", "--source", "elsewhere").code == 0
        assert len(list(Path("sorted").rglob("*.png"))) == 18
        assert selfsort("export", run, "--to", "npz", "--out", "all.npz", "--source", "elsewhere").code == 0

    def test_score_says_how_many_corrections_there_are(self, selfsort: Command, run: Path) -> None:
        assert json.loads(selfsort("score", run, "--json").out)["corrections"] == 0
        journal = Journal.open(run)
        journal.add(Merge((0, 1), 0))
        journal.close()
        assert "all applied: 1." in selfsort("score", run).err
        assert json.loads(selfsort("score", run, "--json").out)["corrections"] == 1

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
        assert_refused(selfsort("predict", ".", photos), "would lie among the files of the run")
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
        with Path("run.csv").open(newline="") as file:
            rows = list(csv.DictReader(file))
        assert [row["name"] for row in rows] == list(RunFolder.open(run).label_table().names)
        assert all(Path(row["path"]).is_file() and row["label"] == f"Cluster {row['cluster']}" for row in rows)
        assert selfsort("export", run, "--to", "folders").out == "written: run-folders\n"
        assert selfsort("export", run, "--to", "folders", "--link", "--out", "links").code == 0
        for out, is_link in (("run-folders", False), ("links", True)):
            placed = list(Path(out).rglob("*.png"))
            assert Counter(path.parent.name for path in placed) == {f"cluster-0{label}": 6 for label in range(3)}
            assert all(path.is_symlink() == is_link for path in placed)
        assert_refused(selfsort("export", run, "--to", "folders", "--out", "links"), "links exists already")
        assert selfsort("export", run, "--to", "folders").out == "written: run-folders-2\n"

    def test_report(self, selfsort: Command, run: Path) -> None:
        done = selfsort("report", run)
        assert done.out == "report: run/report.html\n"
        assert Path("run/report.html").read_text().lstrip().startswith("<!doctype html>")
        shutil.copytree(GOLDEN, "old")
        assert selfsort("report", run, "old", "--out", "both.html").out == "report: both.html\n"
        assert Path("both.html").exists()
        assert not Path("old/report.html").exists()
        assert Path("old/tree.safetensors").exists(), "made on first use"
        assert "figure files: figures" in selfsort("report", run, "--figures", "figures").out
        assert {path.suffix for path in Path("figures").iterdir()} == {".png", ".svg"}

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
        assert Path("labels.csv").read_bytes() == Path("old/labels.csv").read_bytes()
        assert Path("old.csv").read_text().startswith('"name","cluster","confidence","label","path"')


def _names_and_labels(run: Path) -> tuple[tuple[str, ...], list[int]]:
    table = RunFolder.open(run).label_table()
    return tuple(table.names), table.labels.tolist()


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
        assert "that were applied: 3." in done.err
        original = selfsort("predict", corrected, photos, "--out", "old.csv", "--original")
        assert original.err == ""
        assert Path("old.csv").read_bytes() == (corrected / "labels.csv").read_bytes()
