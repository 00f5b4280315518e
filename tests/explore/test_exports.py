from __future__ import annotations

import csv
import shutil
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from tests.conftest import Command
from tests.explore.runs import fitted
from tests.tiny_run import files_of

from selfsort.data import read_labels, read_source
from selfsort.data.spreadsheet import from_text
from selfsort.errors import CannotWrite, InvalidInput
from selfsort.explore.editor import Editor
from selfsort.explore.exports import export, find_export
from selfsort.runs.export.folders import folder_names


@pytest.fixture
def edited(editor: Editor) -> Editor:
    """Cluster 0 is called cats; one image of it has moved to a new cluster, another is marked wrong."""
    editor.rename(0, "cats & <dogs>")
    rows = editor.listing(0, "name").rows
    editor.move(rows[:1], None)
    editor.mark(rows[1:2], True)
    return editor


class TestLabels:
    def test_every_image_with_what_it_is_and_was(self, edited: Editor) -> None:
        path = export(edited, "labels")
        assert path == edited.folder.path / "exports" / "labels-001.csv"
        with path.open(newline="") as file:
            rows = list(csv.DictReader(file))
        assert [row["name"] for row in rows] == list(edited.table.names)
        assert Counter(row["label"] for row in rows)["cats & <dogs>"] == 5
        assert [int(row["original_cluster"]) for row in rows] == edited.table.labels.tolist()
        changed = [row for row in rows if row["cluster"] != row["original_cluster"]]
        assert [(row["cluster"], row["label"]) for row in changed] == [("3", "Cluster 3")]
        assert [row["label"] for row in rows if row["is_wrong"] == "1"] == ["cats & <dogs>"]

    def test_score_reads_them(self, edited: Editor, selfsort: Command) -> None:
        path = export(edited, "labels")
        assert len(np.unique(read_labels(path, edited.table.names))) == 4
        done = selfsort("score", edited.folder.path, "--labels", path, "--original")
        assert (done.code, done.err) == (0, "")
        assert "ACC 0.9444" in done.out
        corrected = selfsort("score", edited.folder.path, "--labels", path)
        assert "ACC 1.0000" in corrected.out
        assert "all applied: 3" in corrected.err

    def test_the_command_writes_the_same(self, edited: Editor, selfsort: Command) -> None:
        for kind, to in (("labels", "csv"), ("model-input", "npz"), ("folders", "folders")):
            path = export(edited, kind)  # type: ignore[arg-type]
            done = selfsort("export", edited.folder.path, "--to", to, "--out", f"out-{to}")
            assert (done.code, done.out) == (0, f"written: out-{to}\n")
            assert done.err == (
                "Corrections made in selfsort explore, all applied: 3. For none of them add --original.\n"
            )
            if to == "npz":
                with np.load(path) as page, np.load(f"out-{to}") as command:
                    assert all((page[name] == command[name]).all() for name in page.files)
            elif to == "csv":
                assert Path("out-csv").read_bytes() == path.read_bytes()
            else:
                assert files_of(Path("out-folders")) == files_of(path)

    def test_the_labels_of_the_method(self, edited: Editor, selfsort: Command) -> None:
        done = selfsort("export", edited.folder.path, "--to", "csv", "--out", "plain.csv", "--original")
        assert (done.code, done.out, done.err) == (0, "written: plain.csv\n", "")
        with Path("plain.csv").open(newline="") as file:
            rows = list(csv.DictReader(file))
        with (edited.folder.path / "labels.csv").open(newline="") as file:
            original = list(csv.DictReader(file))
        assert [(row["name"], row["cluster"]) for row in rows] == [(row["name"], row["cluster"]) for row in original]

    def test_odd_names_come_back(self, tmp_path: Path) -> None:
        from PIL import Image

        names = ["a,b.png", 'say "hi".png', "cr\rlf\n.png", "naïve 🐈.png", "=1+1.png", "<img onerror=x>.png"]
        (tmp_path / "photos").mkdir()
        for i, name in enumerate(names):
            Image.new("RGB", (8, 8), (40 * i, 255 - 40 * i, 0)).save(tmp_path / "photos" / name)
        editor = Editor.open(fitted(tmp_path / "photos", tmp_path / "run", clusters=2).path)
        with export(editor, "labels").open(newline="") as file:
            assert [from_text(row["name"]) for row in csv.DictReader(file)] == sorted(names)
        editor.close()


class TestFolders:
    def test_folders_have_the_names_of_the_clusters(self, edited: Editor) -> None:
        tree = export(edited, "folders")
        sizes = Counter(path.parent.name for path in tree.rglob("*.png"))
        others = {f"cluster-0{i}": 6 for i in (1, 2)}
        assert sizes == {"cats & -dogs-": 4, "cluster-03": 1, "marked wrong": 1, **others}

    def test_the_files_are_the_same(self, edited: Editor, finished: Path) -> None:
        tree = export(edited, "folders")
        assert sorted(files_of(tree).values()) == sorted(files_of(finished / "photos").values())

    @pytest.mark.parametrize(
        ("names", "expected"),
        [
            ({0: "../../etc"}, {0: "-..-etc"}),
            ({0: "..", 1: ".", 2: ".hidden", 3: "con."}, {0: "_", 1: "_-2", 2: "hidden", 3: "_con"}),
            ({0: "a\\b:c*d"}, {0: "a-b-c-d"}),
            ({0: "Same", 1: "same", 2: "same-2"}, {0: "Same", 1: "same-2", 2: "same-2-2"}),
        ],
    )
    def test_no_name_leads_elsewhere(self, names: dict[int, str], expected: dict[int, str]) -> None:
        found = folder_names(names)
        assert found == expected
        assert all(Path(name).name == name for name in found.values())

    def test_without_the_source(self, editor: Editor) -> None:
        editor.folder.config["source"]["path"] += "-gone"
        with pytest.raises(Exception, match="is not there"):
            export(editor, "folders")
        assert list((editor.folder.path / "exports").iterdir()) == []


class TestModelInput:
    def test_pixels_with_corrected_labels(self, edited: Editor, finished: Path) -> None:
        path = export(edited, "model-input")
        dataset = read_source(path)
        source = read_source(finished / "photos")
        current = edited.current()
        kept = ~current.is_wrong
        assert (dataset.images.pixels == source.images.pixels[kept]).all()
        assert dataset.labels is not None
        assert dataset.label_names is not None
        said = [dataset.label_names[label] for label in dataset.labels]
        assert said == [current.name(label) for label in current.table.labels[kept].tolist()]
        with np.load(path, allow_pickle=False) as arrays:
            assert arrays["files"].tolist() == np.array(edited.table.names)[kept].tolist()

    def test_it_can_be_fitted_and_scored(self, edited: Editor, selfsort: Command) -> None:
        path = export(edited, "model-input")
        done = selfsort("fit", path, "--clusters", 3, "--method", "kmeans", "--out", "again")
        assert done.code == 0, done.err
        assert "17 images" in done.out
        assert "ACC" in done.out

    def test_numbers_without_gaps(self, editor: Editor) -> None:
        editor.merge([0, 1])
        dataset = read_source(export(editor, "model-input"))
        assert dataset.labels is not None
        assert np.unique(dataset.labels).tolist() == [0, 1]

    def test_everything_marked_wrong(self, editor: Editor) -> None:
        editor.mark(list(range(len(editor))), True)
        with pytest.raises(InvalidInput, match=r"every image is marked wrong\. Expected some that are right"):
            export(editor, "model-input")


class TestPlaces:
    def test_nothing_is_overwritten(self, editor: Editor) -> None:
        names = [export(editor, kind).name for kind in ("labels", "labels", "folders", "folders", "labels")]
        assert names == ["labels-001.csv", "labels-002.csv", "sorted-001", "sorted-002", "labels-003.csv"]

    def test_only_what_was_exported_is_found(self, editor: Editor, tmp_path: Path) -> None:
        path = export(editor, "labels")
        assert find_export(editor, path.name) == path
        (path.parent / "other.txt").write_text("x")
        (path.parent / "labels-007.csv").symlink_to(editor.folder.path / "config.json")
        for name in ("other.txt", "labels-007.csv", "labels-002.csv", "../config.json", "..", "", "labels-001.csv/"):
            assert find_export(editor, name) is None

    def test_a_link_in_place_of_the_folder_is_refused(self, editor: Editor, tmp_path: Path) -> None:
        (tmp_path / "elsewhere").mkdir()
        (editor.folder.path / "exports").symlink_to(tmp_path / "elsewhere")
        with pytest.raises(InvalidInput, match="is a link"):
            export(editor, "labels")
        (tmp_path / "elsewhere" / "labels-001.csv").write_text("x")
        assert find_export(editor, "labels-001.csv") is None

    def test_a_file_in_place_of_the_folder(self, editor: Editor) -> None:
        (editor.folder.path / "exports").write_text("x")
        with pytest.raises(CannotWrite, match="could not be written"):
            export(editor, "labels")

    def test_the_run_can_still_be_opened(self, editor: Editor, run: Path) -> None:
        export(editor, "folders")
        editor.close()
        shutil.copytree(run, run.parent / "copy")
        Editor.open(run.parent / "copy").close()
