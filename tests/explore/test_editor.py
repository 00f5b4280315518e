from __future__ import annotations

import sqlite3
from pathlib import Path

import numpy as np
import pytest
from tests.tiny_run import files_of

from selfsort.errors import CannotWrite, InvalidInput
from selfsort.explore.editor import Editor
from selfsort.runs.folder import RunFolder


def seen(editor: Editor) -> tuple[list[tuple[int, str, int, int]], list[int]]:
    """All that edits can change."""
    overview = editor.overview()
    labels = editor.current().table.labels
    return [(one.id, one.name, one.size, one.n_wrong) for one in overview.clusters], labels.tolist()


class TestLooking:
    def test_clusters_are_listed_largest_first(self, editor: Editor) -> None:
        editor.move(editor.listing(0, "name").rows[:2], 1)
        sizes = [cluster.size for cluster in editor.overview().clusters]
        assert sizes == sorted(sizes, reverse=True)
        assert sum(sizes) == len(editor) == 18

    def test_the_cover_is_the_most_typical_image(self, editor: Editor) -> None:
        for cluster in editor.overview().clusters:
            assert cluster.cover == editor.listing(cluster.id, "typical").rows[0]
        editor.move(editor.listing(0, "typical").rows[:1], 1)
        for cluster in editor.overview().clusters:
            assert cluster.cover == editor.listing(cluster.id, "typical").rows[0]

    def test_orders(self, editor: Editor) -> None:
        by_name = np.array(editor.listing(1, "name").rows)
        typical, borderline = editor.listing(1, "typical").rows, editor.listing(1, "borderline").rows
        unsure = editor.listing(1, "unsure").rows
        assert (np.diff(by_name) > 0).all()
        assert sorted(typical) == sorted(borderline) == sorted(unsure) == by_name.tolist()
        assert (np.diff(editor.features.closeness(by_name)[np.searchsorted(by_name, typical)]) <= 0).all()
        assert (np.diff(editor.features.closeness(by_name)[np.searchsorted(by_name, borderline)]) >= 0).all()
        assert (np.diff(editor.table.confidence[unsure]) >= 0).all()

    def test_views(self, editor: Editor) -> None:
        first = editor.listing(0, "name").rows[:2]
        editor.mark(first[:1], True)
        editor.move(first[1:], 1)
        assert editor.listing("wrong", "name").rows == first[:1]
        moved = editor.listing("moved", "typical")
        assert (moved.rows, moved.clusters, moved.moved, moved.wrong) == (first[1:], [1], first[1:], [])
        assert editor.listing("all", "borderline").rows == list(range(18))
        assert len(editor.listing(77, "typical").rows) == 0

    def test_similar_images_come_with_where_they_are(self, editor: Editor) -> None:
        listing = editor.similar([0], 5)
        labels = editor.current().table.labels
        assert listing.scores is not None
        assert len(listing.rows) == len(listing.scores) == 5
        assert 0 not in listing.rows
        assert listing.clusters == labels[listing.rows].tolist()


class TestEditing:
    def test_merge_goes_into_the_largest(self, editor: Editor) -> None:
        largest, *others = (cluster.id for cluster in editor.overview().clusters)
        assert editor.merge([others[0], largest]) == largest
        assert [cluster.id for cluster in editor.overview().clusters] == [largest, others[1]]
        assert editor.merge([largest, others[1]], into=others[1]) == others[1]
        with pytest.raises(InvalidInput, match="two clusters or more"):
            editor.merge([others[1], others[1]])
        with pytest.raises(InvalidInput, match="be one that has images"):
            editor.merge([2**39, 2**38])

    def test_split_keeps_the_largest_part(self, editor: Editor) -> None:
        everything = editor.merge([0, 1, 2])
        kept, *new = editor.split(everything, 3)
        assert (kept, new) == (everything, [3, 4])
        assert editor.overview().clusters[0].id == everything
        assert {cluster.size for cluster in editor.overview().clusters} == {6}
        with pytest.raises(InvalidInput, match="be one that has images; got 99"):
            editor.split(99, 2)

    def test_move_to_a_new_cluster(self, editor: Editor) -> None:
        assert editor.move([0, 1], None) == 3
        assert editor.listing(3, "name").rows == [0, 1]
        assert editor.move([2], None) == 4

    @pytest.mark.parametrize(
        ("given", "kept"),
        [
            ("  two   words ", "two words"),
            ("a\nb\tc", "a b c"),
            ("x" * 200, "x" * 80),
            ("a\x00b\x1b[31m", "a\ufffdb\ufffd[31m"),
            ("\u202eevil", "\ufffdevil"),
            ("<img src=x onerror=alert(1)>", "<img src=x onerror=alert(1)>"),
            ("", "Cluster 0"),
            (" ", "Cluster 0"),
        ],
    )
    def test_names_are_made_printable(self, editor: Editor, given: str, kept: str) -> None:
        editor.rename(0, given)
        assert {cluster.id: cluster.name for cluster in editor.overview().clusters}[0] == kept

    def test_undo_and_redo_through_everything(self, editor: Editor) -> None:
        states = [seen(editor)]
        for edit in (
            lambda: editor.rename(0, "cats"),
            lambda: editor.mark([0, 5], True),
            lambda: editor.merge([0, 1]),
            lambda: editor.split(2, 2),
            lambda: editor.move([0, 7], None),
        ):
            edit()
            states.append(seen(editor))
        for state in reversed(states[:-1]):
            assert editor.undo()
            assert seen(editor) == state
        assert not editor.undo()
        for state in states[1:]:
            assert editor.redo()
            assert seen(editor) == state
        assert not editor.redo()

    def test_what_can_be_undone_is_said(self, editor: Editor) -> None:
        assert (editor.overview().undo, editor.overview().redo) == (None, None)
        editor.rename(0, "cats")
        editor.move([0, 1], 0)
        assert editor.overview().undo == "move 2 images to cats"
        editor.undo()
        assert (editor.overview().undo, editor.overview().redo) == ("rename cluster 0 to cats", "move 2 images to cats")
        editor.mark([3], True)
        assert (editor.overview().undo, editor.overview().redo) == ("mark 1 image", None)
        assert [entry.text for entry in editor.history(500)] == ["mark 1 image", "rename cluster 0 to cats"]

    def test_every_kind_has_words(self, editor: Editor) -> None:
        editor.split(editor.merge([0, 1]), 2)
        editor.mark([1], False)
        editor.rename(2, "")
        texts = [entry.text for entry in editor.history(500)]
        assert texts[:2] == ["take the name of cluster 2 away", "unmark 1 image"]
        assert texts[2].startswith("split Cluster ")
        assert texts[3].startswith("merge 2 clusters into Cluster ")


class TestDisk:
    def test_everything_is_there_when_opened_again(self, run: Path) -> None:
        editor = Editor.open(run)
        editor.rename(0, "cats")
        editor.split(editor.merge([0, 1]), 2)
        editor.mark([4], True)
        editor.move([0], None)
        editor.move([1], None)
        editor.undo()
        editor.undo()
        before, offers = seen(editor), (editor.overview().undo, editor.overview().redo)
        editor.close()
        editor = Editor.open(run)
        assert (seen(editor), (editor.overview().undo, editor.overview().redo)) == (before, offers)
        assert editor.redo()
        assert editor.redo()
        assert not editor.redo()
        assert editor.listing(editor.overview().clusters[-1].id, "name").rows == [1]
        editor.close()

    def test_the_run_itself_is_untouched(self, run: Path) -> None:
        before = files_of(run)
        editor = Editor.open(run)
        editor.merge([0, 1])
        editor.close()
        after = files_of(run)
        assert after.pop("edits.sqlite")
        assert after == before
        assert RunFolder.open(run).is_finished

    def test_an_edit_that_cannot_be_written_is_not_made(self, editor: Editor, monkeypatch: pytest.MonkeyPatch) -> None:
        editor.mark([1], True)
        before = seen(editor)

        def refuse(edit: object) -> None:
            raise CannotWrite("the disk is full.")

        monkeypatch.setattr(editor._journal, "add", refuse)
        with pytest.raises(CannotWrite):
            editor.merge([0, 1])
        assert seen(editor) == before
        assert editor.overview().undo == "mark 1 image"

    def test_a_run_that_is_not_finished_cannot_be_edited(self, run: Path) -> None:
        (run / "labels.csv").unlink()
        with pytest.raises(InvalidInput, match="is not finished"):
            Editor.open(run).rename(0, "cats")
        assert not (run / "edits.sqlite").exists()

    def test_damaged_labels_are_refused_before_any_edit_is_begun(self, run: Path) -> None:
        (run / "labels.csv").write_text("no table")
        with pytest.raises(InvalidInput, match=r"labels\.csv cannot be used"):
            Editor.open(run)
        assert not (run / "edits.sqlite").exists()

    def test_features_of_other_images_are_refused(self, run: Path) -> None:
        RunFolder.open(run).write_array("features.npy", np.ones((17, 3), np.float32))
        with pytest.raises(InvalidInput, match=r"speaks of 17 images\. Expected the 18 of labels\.csv"):
            Editor.open(run)

    def test_edits_that_do_not_fit_the_labels_are_refused_and_let_go(self, run: Path) -> None:
        Editor.open(run).close()
        connection = sqlite3.connect(run / "edits.sqlite")
        values = ("move", '{"rows":[999],"to":0}')
        connection.execute("INSERT INTO edit (kind, detail, made_at) VALUES (?, ?, '')", values)
        connection.commit()
        connection.close()
        for _ in range(2):  # the second try meets the same words, not a lock
            with pytest.raises(InvalidInput, match="be given by their numbers, below 18"):
                Editor.open(run)


def test_a_new_cluster_can_have_its_name_at_once(editor: Editor) -> None:
    new = editor.move([0, 1], None, "  dogs ")
    other = editor.move([2], None)
    named = {cluster.id: cluster.name for cluster in editor.overview().clusters}
    assert (named[new], named[other]) == ("dogs", f"Cluster {new + 1}")
