from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.choose_k.planted import blobs
from tests.test_progress import Recorder

from selfsort import pages
from selfsort.graph.neighbours import Neighbours
from selfsort.learning.seeds import numpy_generator
from selfsort.progress import listening
from selfsort.trust import evidence
from selfsort.trust.evidence import Evidence, gather
from selfsort.types import F32, I64

CPU = torch.device("cpu")


def look(rows: F32, labels: I64) -> Evidence:
    return gather(rows, labels, int(labels.max()) + 1, seed=0, device=CPU)


def test_clusters_that_are_there() -> None:
    rows, truth = blobs([80] * 4)
    seen = look(rows, truth)
    np.testing.assert_array_equal(seen.same, 1)
    np.testing.assert_array_equal(seen.least, 1)
    np.testing.assert_array_equal(seen.most, 1)
    np.testing.assert_array_equal(seen.leak, 0)


def test_clusters_drawn_by_lot() -> None:
    rows, truth = blobs([80] * 4)
    seen = look(rows, np.random.default_rng(0).permutation(truth))
    assert seen.same.mean() == pytest.approx(0.25, abs=0.03)
    assert seen.most.max() < 0.3
    assert seen.leak.min() > 0.4


def test_overlap_is_common_over_all() -> None:
    # Of eight images the first four are one cluster; the second opinion has the first six.
    labels, others = np.array([0] * 4 + [1] * 4), np.array([0] * 6 + [1] * 2)
    np.testing.assert_allclose(evidence._overlaps(labels, others, 2), [[4 / 6, 0], [2 / 8, 2 / 4]])


def test_two_classes_in_one_cluster_are_its_parts() -> None:
    rows, truth = blobs([80, 80, 120, 60])
    labels = np.minimum(truth, 2)
    seen = look(rows, labels)
    assert set(seen.parts) >= {2}
    leak, smaller = seen.parts[2]
    assert leak == 0
    np.testing.assert_array_equal(np.sort(smaller), np.flatnonzero(truth == 3))


def test_a_rare_cluster_may_have_no_judge(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, labels = blobs([150] * 4)
    monkeypatch.setattr(evidence, "MOST_JUDGES", 100)
    judges = numpy_generator(0, "judges").permutation(600)[:100]
    labels[np.setdiff1d(np.arange(600), judges)[:2]] = 4
    seen = look(rows, labels)
    np.testing.assert_array_equal(seen.most[labels == 4], 0)
    np.testing.assert_array_equal(seen.same[labels == 4], 0)
    assert seen.most[labels < 4].min() > 0.5


def test_a_sample_speaks_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, truth = blobs([150] * 4)
    monkeypatch.setattr(evidence, "MOST_JUDGES", 300)
    seen = look(rows, truth)
    assert seen.same.shape == (600,)
    np.testing.assert_array_equal(seen.same, 1)
    np.testing.assert_array_equal(seen.least, 1)


def test_a_judge_is_not_asked_about_itself() -> None:
    found = Neighbours(np.array([[2, 0, 1], [0, 1, 2]]), np.array([[1, 2, 3], [0, 4, 5]], np.float32), 3)
    # Image 1 is the judge at place 0; image 0 is no judge and loses its last neighbour.
    asked, sq_dist = evidence._without_self(found, np.array([1]), np.array([0]))
    np.testing.assert_array_equal(asked, [[2, 0], [1, 2]])
    np.testing.assert_array_equal(sq_dist, [[1, 2], [4, 5]])


def test_an_empty_cluster_is_no_fault() -> None:
    rows, truth = blobs([80] * 3)
    seen = gather(rows, truth, 5, seed=0, device=CPU)
    assert seen.between.shape == (5, 5)
    assert seen.leak[3:].tolist() == [0, 0]


@pytest.mark.parametrize("most", [4000, 100])
def test_who_vouches_for_a_point_far_away(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rows, truth = blobs([100] * 2)
    rows[0] *= 20
    monkeypatch.setattr(evidence, "MOST_JUDGES", most)
    seen = look(rows, truth)
    assert seen.vouched[0] == 0
    assert seen.distance[0] > 5 * np.median(seen.distance)
    np.testing.assert_array_equal(seen.around[1:], truth[1:])
    assert (seen.vouched <= seen.same).all()
    assert seen.vouched.mean() > 0.4


def test_those_who_ask_in_blocks_hear_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, truth = blobs([150] * 4)
    monkeypatch.setattr(evidence, "MOST_JUDGES", 300)
    at_once = look(rows, truth)
    monkeypatch.setattr(evidence, "_FEWEST_AT_ONCE", 70)
    monkeypatch.setattr(evidence, "_BLOCK_BYTES", 1)
    in_blocks = look(rows, truth)
    for name in ("same", "least", "most", "distance", "around", "vouched"):
        np.testing.assert_array_equal(getattr(in_blocks, name), getattr(at_once, name))


def test_how_far_the_asking_is_can_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, truth = blobs([150] * 4)
    with listening(everybody := Recorder()):  # everybody is a judge
        look(rows, truth)
    monkeypatch.setattr(evidence, "MOST_JUDGES", 300)
    monkeypatch.setattr(evidence, "_FEWEST_AT_ONCE", 200)
    monkeypatch.setattr(evidence, "_BLOCK_BYTES", 1)
    with listening(some := Recorder()):
        look(rows, truth)
    assert some.of("stage") == [("judging the clusters", number, 3) for number in range(3)]
    assert everybody.of("stage") == []
    bars = [[what for what, _ in heard.of("start")] for heard in (everybody, some)]
    assert bars[0].count("nearest neighbours") == bars[1].count(
        "nearest neighbours"
    )  # asking has no bars of its own within the stage


def test_wide_rows_have_fewer_judges(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, truth = blobs([150] * 4)
    with monkeypatch.context() as patch:
        patch.setattr(evidence, "MOST_JUDGES", 300)
        told = look(rows, truth)
    monkeypatch.setattr(pages, "_FEWEST_HELD", 100)
    monkeypatch.setattr(pages, "_HELD_BYTES", 300 * rows[:1].nbytes)
    seen = look(rows, truth)
    for name in ("same", "least", "most", "distance", "around", "vouched"):
        np.testing.assert_array_equal(getattr(seen, name), getattr(told, name))
