from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.runs.corrected import corrected
from tests.tiny_run import files_of

from selfsort.errors import InvalidInput
from selfsort.runs.edits import Edit, Mark, Merge, Move, Rename, Split
from selfsort.runs.journal import Journal
from selfsort.runs.labels import current_labels, whole_cluster_edits
from selfsort.types import Assignment

EDITS: tuple[Edit, ...] = (Rename(0, "cats"), Move((3,), 2), Mark((2,), True))


def test_a_run_that_nobody_corrected(tmp_path: Path) -> None:
    folder = corrected(tmp_path / "run")
    before = files_of(folder.path)
    labels = current_labels(folder)
    assert labels.table.labels.tolist() == labels.original.tolist() == [0, 1, 0, 0]
    assert (labels.n_edits, labels.names) == (0, {})
    assert not labels.is_wrong.any()
    assert files_of(folder.path) == before


def test_corrections_hold_and_the_method_s_labels_stay(tmp_path: Path) -> None:
    folder = corrected(tmp_path / "run", *EDITS)
    labels = current_labels(folder)
    assert labels.table.labels.tolist() == [0, 1, 0, 2]
    assert labels.original.tolist() == [0, 1, 0, 0]
    assert labels.is_wrong.tolist() == [False, False, True, False]
    assert [labels.name(cluster) for cluster in (0, 2)] == ["cats", "Cluster 2"]
    assert labels.n_edits == 3
    original = current_labels(folder, is_original=True)
    assert (original.table.labels.tolist(), original.names, original.n_edits) == ([0, 1, 0, 0], {}, 0)


def test_what_was_undone_does_not_count(tmp_path: Path) -> None:
    folder = corrected(tmp_path / "run", *EDITS)
    journal = Journal.open(folder.path)
    journal.mark(3, is_undone=True)
    journal.mark(2, is_undone=True)
    journal.close()
    assert current_labels(folder).table.labels.tolist() == [0, 1, 0, 0]
    assert current_labels(folder).n_edits == 1


def test_an_edit_that_does_not_fit_the_labels_is_refused(tmp_path: Path) -> None:
    folder = corrected(tmp_path / "run", Move((99,), 0))
    with pytest.raises(InvalidInput, match="the images must be given by their numbers"):
        current_labels(folder)


class TestNewImages:
    soft = np.array([[0.5, 0.3, 0.2], [0.1, 0.6, 0.3], [0.2, 0.1, 0.7]], np.float32)

    def test_merged_clusters_are_one(self, tmp_path: Path) -> None:
        folder = corrected(tmp_path / "run", Merge((0, 1), 1), Rename(1, "pets"))
        edits = whole_cluster_edits(folder, 3)
        labels, confidence = edits.labels(Assignment(self.soft, self.soft))
        assert labels.tolist() == [1, 1, 2]
        np.testing.assert_allclose(confidence, [0.8, 0.7, 0.7], rtol=1e-6)
        assert (edits.names, edits.n_applied, edits.n_left_out) == ({1: "pets"}, 2, 0)

    def test_marks_say_nothing(self, tmp_path: Path) -> None:
        found = whole_cluster_edits(corrected(tmp_path / "run", Mark((0,), True), Rename(0, "cats")), 2)
        assert (found.now.tolist(), found.n_applied, found.n_left_out, found.divided) == ([0, 1], 1, 1, {})

    def test_of_a_cluster_that_was_split_its_images_vote(self, tmp_path: Path) -> None:
        """The features of images 0, 2 and 3 are (0, 1, 2), (6, 7, 8) and (9, 10, 11): 0 stays, the others are new."""
        folder = corrected(tmp_path / "run", Split(0, ((2, (2, 3)),)), Rename(2, "dogs"))
        edits = whole_cluster_edits(folder, 2)
        features = np.array([[9, 10, 11], [0, 1, 2], [6, 7, 8]], np.float32)
        soft = np.array([[0.8, 0.2], [0.2, 0.8], [0.8, 0.2]], np.float32)
        labels, confidence = edits.labels(Assignment(features, soft))
        assert labels.tolist() == [2, 1, 2]
        np.testing.assert_allclose(confidence, [0.8 * 2 / 3, 0.8, 0.8 * 2 / 3], rtol=1e-6)
        assert (edits.name(2), edits.n_applied, edits.n_left_out) == ("dogs", 2, 0)

    def test_a_cluster_whose_images_were_all_moved(self, tmp_path: Path) -> None:
        edits = whole_cluster_edits(corrected(tmp_path / "run", Move((0, 2, 3), 1)), 2)
        soft = np.array([[0.8, 0.2]], np.float32)
        assert edits.labels(Assignment(np.ones((1, 3), np.float32), soft))[0].tolist() == [1]

    def test_what_is_marked_wrong_does_not_vote(self, tmp_path: Path) -> None:
        folder = corrected(tmp_path / "run", Move((3,), 1), Mark((3,), True))
        assert whole_cluster_edits(folder, 2).divided == {}

    def test_without_corrections_nothing_changes(self, tmp_path: Path) -> None:
        folder = corrected(tmp_path / "run", Merge((0, 1), 1))
        labels, confidence = whole_cluster_edits(folder, 3, is_original=True).labels(Assignment(self.soft, self.soft))
        assert labels.tolist() == [0, 1, 2]
        assert confidence.tolist() == self.soft.max(axis=1).tolist()
