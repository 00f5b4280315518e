from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from tests.tiny_run import CONFIG, NAMES, RESULT

from selfsort.errors import InvalidInput
from selfsort.explore.editor import Editor
from selfsort.runs import folder as folder_module
from selfsort.runs.edits import Edit, Merge, Move, Rename
from selfsort.runs.export.csv import csv_file, predicted_csv
from selfsort.runs.export.folders import folder_titles
from selfsort.runs.folder import RunFolder
from selfsort.runs.journal import Journal
from selfsort.runs.labels import current_labels, whole_cluster_edits
from selfsort.runs.model import embed
from selfsort.runs.outliers import cluster_name, marked, numbered, written
from selfsort.types import Assignment

IS_OUTLIER = np.array([False, False, True, False])


def with_outliers(
    path: Path, *edits: Edit, is_outlier: np.ndarray[tuple[int], np.dtype[np.bool_]] = IS_OUTLIER
) -> RunFolder:
    """Write the tiny run (clusters 0, 1, 0, 0) with its third image as an outlier, and correct it."""
    run = RunFolder.create(path, {**CONFIG, "outliers": True})
    run.save_result(RESULT, NAMES, is_outlier=is_outlier)
    if edits:
        journal = Journal.open(run.path)
        for edit in edits:
            journal.add(edit)
        journal.close()
    return RunFolder.open(path)


def exported(run: RunFolder, tmp_path: Path) -> str:
    with (tmp_path / "out.csv").open("wb") as file:
        csv_file(run, current_labels(run))(file)
    return (tmp_path / "out.csv").read_text()


def test_there_and_back() -> None:
    labels = np.array([2, -1, 0, -1])
    inside, outliers = numbered(labels, 3)
    assert (inside.tolist(), outliers) == ([2, 3, 0, 3], 3)
    np.testing.assert_array_equal(written(inside, outliers), labels)
    assert written(inside, None) is inside


def test_the_number_is_behind_all_clusters_and_never_huge() -> None:
    assert numbered(np.array([5, -1, 0, 1, 2, 3]), 2)[1] == 6
    assert numbered(np.array([0, -1]), 10**12)[1] == 2
    assert numbered(np.array([-1, -1]), 5)[1] == 2


def test_marks() -> None:
    labels = np.array([4, 5])
    assert marked(labels, None) is labels
    assert marked(labels, np.array([True, False])).tolist() == [-1, 5]


def test_names() -> None:
    assert [cluster_name(3, outliers) for outliers in (3, 4, None)] == ["Outliers", "Cluster 3", "Cluster 3"]


class TestFolder:
    def test_files_have_minus_one_and_readers_a_cluster_more(self, tmp_path: Path) -> None:
        run = with_outliers(tmp_path / "run")
        assert [
            line.rsplit(",", 2)[-2] for line in (run.path / "labels.csv").read_text().splitlines() if line[-1].isdigit()
        ] == ["0", "1", "-1", "0"]
        table = run.label_table()
        assert (table.labels.tolist(), table.outliers, table.n_outliers) == ([0, 1, 2, 0], 2, 1)
        assert table.written.tolist() == run.result().labels.tolist() == [0, 1, -1, 0]

    def test_only_such_a_run_has_format_two(self, tmp_path: Path) -> None:
        with_outliers(tmp_path / "with")
        RunFolder.create(tmp_path / "without", CONFIG)
        formats = [json.loads((tmp_path / name / "config.json").read_text())["format"] for name in ("with", "without")]
        assert formats == [2, 1]

    def test_a_reader_of_format_one_refuses_it(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        run = with_outliers(tmp_path / "run")
        monkeypatch.setattr(folder_module, "FORMAT", 1)
        with pytest.raises(InvalidInput, match=r"has format 2. This selfsort reads formats 1 to 1. Update selfsort.$"):
            RunFolder.open(run.path)

    @pytest.mark.parametrize("number", [-2, -(2**62)])
    def test_no_other_negative_number(self, tmp_path: Path, number: int) -> None:
        run = with_outliers(tmp_path / "run")
        run.write_labels("labels.csv", NAMES, np.array([0, 1, number, 0]), RESULT.soft[:, 0])
        with pytest.raises(InvalidInput, match="a cluster number that is negative or too large"):
            run.label_table()

    def test_a_run_that_did_not_look_has_none(self, tmp_path: Path) -> None:
        run = RunFolder.create(tmp_path / "run", CONFIG)
        run.save_result(RESULT, NAMES, is_outlier=IS_OUTLIER)
        with pytest.raises(InvalidInput, match="a cluster number that is negative or too large"):
            run.label_table()

    @pytest.mark.parametrize(("outliers", "version"), [("yes", 2), (1, 2), (True, 1)])
    def test_a_config_that_contradicts_itself(self, tmp_path: Path, outliers: object, version: int) -> None:
        run = with_outliers(tmp_path / "run")
        run.write_json("config.json", {**run.config, "outliers": outliers, "format": version})
        with pytest.raises(InvalidInput, match=r"config.json"):
            RunFolder.open(run.path)

    def test_all_outliers_are_no_fault(self, tmp_path: Path) -> None:
        run = with_outliers(tmp_path / "run", is_outlier=np.ones(4, np.bool_))
        assert run.label_table().labels.tolist() == [2, 2, 2, 2]
        assert run.result().labels.tolist() == [-1, -1, -1, -1]

    def test_a_model_taken_from_it_knows_nothing_of_outliers(self, tmp_path: Path) -> None:
        source = with_outliers(tmp_path / "run")
        target = RunFolder.create(tmp_path / "next", CONFIG)
        embed(target, source, "started_from")
        inner = json.loads((target.path / "started_from" / "config.json").read_text())
        assert inner["format"] == 1
        assert "outliers" not in inner


class TestCorrections:
    def test_out_of_the_outliers_and_into_them(self, tmp_path: Path) -> None:
        run = with_outliers(tmp_path / "run", Move((0,), 2), Move((2,), 1))
        labels = current_labels(run)
        assert labels.table.labels.tolist() == [2, 1, 1, 0]
        assert labels.name(2) == "Outliers"
        header, *lines = exported(run, tmp_path).splitlines()
        assert header.startswith('"name","cluster","label","is_wrong","original_cluster"')
        assert lines[0] == '"a.png",-1,"Outliers",0,0,0.9,""'
        assert lines[2].endswith(',1,"Cluster 1",0,-1,0.6,""')

    def test_in_the_explorer(self, tmp_path: Path) -> None:
        editor = Editor.open(with_outliers(tmp_path / "run").path)
        assert {cluster.id: cluster.name for cluster in editor.overview().clusters}[2] == "Outliers"
        new = editor.move([2], None)
        assert new == 3
        assert editor.overview().undo == "move 1 image to Cluster 3"
        assert [cluster.name for cluster in editor.overview().clusters] == ["Cluster 0", "Cluster 1", "Cluster 3"]
        editor.undo()
        editor.rename(2, "junk")
        assert editor.current().name(2) == "junk"
        editor.close()

    def test_a_new_cluster_is_never_taken_for_outliers(self, tmp_path: Path) -> None:
        run = with_outliers(tmp_path / "run", is_outlier=np.zeros(4, np.bool_))
        editor = Editor.open(run.path)
        assert editor.move([3], None) == 3
        editor.close()
        assert current_labels(run).table.written.tolist() == [0, 1, 0, 3]

    def test_nobody_corrected(self, tmp_path: Path) -> None:
        run = with_outliers(tmp_path / "run")
        assert '"say ""hi"".png",-1,0.6,"Outliers",""\n' in exported(run, tmp_path)

    def test_folders(self, tmp_path: Path) -> None:
        plain = folder_titles(current_labels(with_outliers(tmp_path / "a")))
        named = folder_titles(current_labels(with_outliers(tmp_path / "b", Rename(2, "junk"), Rename(0, "Outliers"))))
        assert [plain[number] for number in (0, 1, 2)] == ["cluster-00", "cluster-01", "outliers"]
        assert [named[number] for number in (0, 1, 2)] == ["Outliers", "cluster-01", "junk"]

    def test_new_images_of_a_cluster_that_a_person_called_outliers(self, tmp_path: Path) -> None:
        run = with_outliers(tmp_path / "run", Merge((1, 2), 2))
        new = Assignment(np.zeros((2, 3), np.float32), np.array([[0.9, 0.1], [0.2, 0.8]], np.float32))
        table = predicted_csv(["x", "y"], new, whole_cluster_edits(run, 2)).decode()
        assert table.splitlines()[1:] == ["x,0,0.900000", "y,-1,0.800000"]
        run = with_outliers(tmp_path / "named", Merge((1, 2), 2), Rename(0, "cats"))
        table = predicted_csv(["x", "y"], new, whole_cluster_edits(run, 2)).decode()
        assert table.splitlines()[1:] == ['"x",0,0.9,"cats"', '"y",-1,0.8,"Outliers"']
