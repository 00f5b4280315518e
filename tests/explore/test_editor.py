from __future__ import annotations

import sqlite3
from pathlib import Path

import numpy as np
import pytest
from tests.tiny_run import files_of

from selfsort.errors import CannotWrite, InvalidInput, MissingData
from selfsort.explore.editor import Desk
from selfsort.runs.folder import RunFolder


def seen(desk: Desk) -> tuple[list[tuple[int, str, int, int]], list[int]]:
    """All that edits can change."""
    overview = desk.overview()
    labels = desk.current().table.labels
    return [(one.id, one.name, one.size, one.n_wrong) for one in overview.clusters], labels.tolist()


class TestLooking:
    def test_clusters_are_listed_largest_first(self, desk: Desk) -> None:
        desk.move(desk.listing(0, "name").rows[:2].tolist(), 1)
        sizes = [cluster.size for cluster in desk.overview().clusters]
        assert sizes == sorted(sizes, reverse=True)
        assert sum(sizes) == len(desk) == 18

    def test_the_cover_is_the_most_typical_image(self, desk: Desk) -> None:
        for cluster in desk.overview().clusters:
            assert cluster.cover == desk.listing(cluster.id, "typical").rows[0]
        desk.move(desk.listing(0, "typical").rows[:1].tolist(), 1)
        for cluster in desk.overview().clusters:
            assert cluster.cover == desk.listing(cluster.id, "typical").rows[0]

    def test_orders(self, desk: Desk) -> None:
        by_name = desk.listing(1, "name").rows
        typical, borderline = desk.listing(1, "typical").rows, desk.listing(1, "borderline").rows
        unsure = desk.listing(1, "unsure").rows
        assert (np.diff(by_name) > 0).all()
        assert sorted(typical) == sorted(borderline) == sorted(unsure) == by_name.tolist()
        assert (np.diff(desk.features.closeness(by_name)[np.searchsorted(by_name, typical)]) <= 0).all()
        assert (np.diff(desk.features.closeness(by_name)[np.searchsorted(by_name, borderline)]) >= 0).all()
        assert (np.diff(desk.table.confidence[unsure]) >= 0).all()

    def test_views(self, desk: Desk) -> None:
        first = desk.listing(0, "name").rows[:2].tolist()
        desk.mark(first[:1], True)
        desk.move(first[1:], 1)
        assert desk.listing("wrong", "name").rows.tolist() == first[:1]
        moved = desk.listing("moved", "typical")
        assert (moved.rows.tolist(), moved.clusters.tolist(), moved.is_moved.tolist()) == (first[1:], [1], [True])
        assert desk.listing("all", "borderline").rows.tolist() == list(range(18))
        assert len(desk.listing(77, "typical").rows) == 0

    def test_similar_images_come_with_where_they_are(self, desk: Desk) -> None:
        listing, scores = desk.similar([0], 5)
        labels = desk.current().table.labels
        assert len(listing.rows) == len(scores) == 5
        assert 0 not in listing.rows
        assert listing.clusters.tolist() == labels[listing.rows].tolist()


class TestEditing:
    def test_merge_goes_into_the_largest(self, desk: Desk) -> None:
        largest, *others = (cluster.id for cluster in desk.overview().clusters)
        assert desk.merge([others[0], largest]) == largest
        assert [cluster.id for cluster in desk.overview().clusters] == [largest, others[1]]
        assert desk.merge([largest, others[1]], into=others[1]) == others[1]
        with pytest.raises(InvalidInput, match="two clusters or more"):
            desk.merge([others[1], others[1]])
        with pytest.raises(InvalidInput, match="be one that has images"):
            desk.merge([2**39, 2**38])

    def test_split_keeps_the_largest_part(self, desk: Desk) -> None:
        everything = desk.merge([0, 1, 2])
        kept, *new = desk.split(everything, 3)
        assert (kept, new) == (everything, [3, 4])
        assert desk.overview().clusters[0].id == everything
        assert {cluster.size for cluster in desk.overview().clusters} == {6}
        with pytest.raises(InvalidInput, match="be one that has images; got 99"):
            desk.split(99, 2)

    def test_move_to_a_new_cluster(self, desk: Desk) -> None:
        assert desk.move([0, 1], None) == 3
        assert desk.listing(3, "name").rows.tolist() == [0, 1]
        assert desk.move([2], None) == 4

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
    def test_names_are_made_printable(self, desk: Desk, given: str, kept: str) -> None:
        desk.rename(0, given)
        assert {cluster.id: cluster.name for cluster in desk.overview().clusters}[0] == kept

    def test_undo_and_redo_through_everything(self, desk: Desk) -> None:
        states = [seen(desk)]
        for edit in (
            lambda: desk.rename(0, "cats"),
            lambda: desk.mark([0, 5], True),
            lambda: desk.merge([0, 1]),
            lambda: desk.split(2, 2),
            lambda: desk.move([0, 7], None),
        ):
            edit()
            states.append(seen(desk))
        for state in reversed(states[:-1]):
            assert desk.undo()
            assert seen(desk) == state
        assert not desk.undo()
        for state in states[1:]:
            assert desk.redo()
            assert seen(desk) == state
        assert not desk.redo()

    def test_what_can_be_undone_is_said(self, desk: Desk) -> None:
        assert (desk.overview().undo, desk.overview().redo) == (None, None)
        desk.rename(0, "cats")
        desk.move([0, 1], 0)
        assert desk.overview().undo == "move 2 images to cats"
        desk.undo()
        assert (desk.overview().undo, desk.overview().redo) == ("rename cluster 0 to cats", "move 2 images to cats")
        desk.mark([3], True)
        assert (desk.overview().undo, desk.overview().redo) == ("mark 1 image", None)
        assert [text for _, text in desk.history()] == ["mark 1 image", "rename cluster 0 to cats"]

    def test_every_kind_has_words(self, desk: Desk) -> None:
        desk.split(desk.merge([0, 1]), 2)
        desk.mark([1], False)
        desk.rename(2, "")
        texts = [text for _, text in desk.history()]
        assert texts[:2] == ["take the name of cluster 2 away", "unmark 1 image"]
        assert texts[2].startswith("split Cluster ")
        assert texts[3].startswith("merge 2 clusters into Cluster ")


class TestDisk:
    def test_everything_is_there_when_opened_again(self, run: Path) -> None:
        desk = Desk.open(run)
        desk.rename(0, "cats")
        desk.split(desk.merge([0, 1]), 2)
        desk.mark([4], True)
        desk.move([0], None)
        desk.move([1], None)
        desk.undo()
        desk.undo()
        before, offers = seen(desk), (desk.overview().undo, desk.overview().redo)
        desk.close()
        desk = Desk.open(run)
        assert (seen(desk), (desk.overview().undo, desk.overview().redo)) == (before, offers)
        assert desk.redo()
        assert desk.redo()
        assert not desk.redo()
        assert desk.listing(desk.overview().clusters[-1].id, "name").rows.tolist() == [1]
        desk.close()

    def test_the_run_itself_is_untouched(self, run: Path) -> None:
        before = files_of(run)
        desk = Desk.open(run)
        desk.merge([0, 1])
        desk.close()
        after = files_of(run)
        assert after.pop("edits.sqlite")
        assert after == before
        assert RunFolder.open(run).is_finished

    def test_an_edit_that_cannot_be_written_is_not_made(self, desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
        desk.mark([1], True)
        before = seen(desk)

        def refuse(edit: object) -> None:
            raise CannotWrite("the disk is full.")

        monkeypatch.setattr(desk._journal, "add", refuse)
        with pytest.raises(CannotWrite):
            desk.merge([0, 1])
        assert seen(desk) == before
        assert desk.overview().undo == "mark 1 image"

    def test_a_run_that_is_not_finished(self, run: Path) -> None:
        (run / "labels.csv").unlink()
        with pytest.raises(MissingData, match="is not finished"):
            Desk.open(run)
        assert not (run / "edits.sqlite").exists()

    def test_features_of_other_images_are_refused(self, run: Path) -> None:
        RunFolder.open(run).write_array("features.npy", np.ones((17, 3), np.float32))
        with pytest.raises(InvalidInput, match=r"speaks of 17 images\. Expected the 18 of labels\.csv"):
            Desk.open(run)

    def test_edits_that_do_not_fit_the_labels_are_refused_and_let_go(self, run: Path) -> None:
        Desk.open(run).close()
        connection = sqlite3.connect(run / "edits.sqlite")
        values = ("move", '{"rows":[999],"to":0}')
        connection.execute("INSERT INTO edit (kind, detail, made_at) VALUES (?, ?, '')", values)
        connection.commit()
        connection.close()
        for _ in range(2):  # the second try meets the same words, not a lock
            with pytest.raises(InvalidInput, match="be given by their numbers, below 18"):
                Desk.open(run)
