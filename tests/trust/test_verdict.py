from __future__ import annotations

import json

import numpy as np
import torch
from tests.choose_k.planted import blobs

from selfsort.trust.verdict import Verdict, _has_distinct, judge
from selfsort.types import F32, I64

CPU = torch.device("cpu")


def verdict(rows: F32, labels: I64) -> Verdict:
    own = np.full(len(labels), 0.5, np.float32)
    return judge(rows, labels, own, int(labels.max()) + 1, seed=0, device=CPU)


def test_clusters_that_are_there_are_steady() -> None:
    rows, truth = blobs([80] * 5)
    said = verdict(rows, truth)
    assert said.level == "steady"
    assert said.sentence.startswith("Steady: about")
    assert said.confidence.min() > 0.8
    assert said.hardly_apart == ()
    assert not said.two_kinds


def test_clusters_drawn_by_lot_are_not_to_be_trusted() -> None:
    rows, truth = blobs([80] * 5)
    said = verdict(rows, np.random.default_rng(0).permutation(truth))
    assert said.level == "doubtful"
    assert said.sentence.startswith("Do not trust this:")
    assert said.confidence.mean() < 0.4
    assert "are hardly apart" in said.sentence


def test_a_class_cut_in_two_is_hardly_apart() -> None:
    rows, truth = blobs([100, 100, 200])
    halves = np.random.default_rng(0).random(400) < 0.5
    said = verdict(rows, np.where((truth == 2) & halves, 3, truth))
    assert said.hardly_apart == ((2, 3),)


def test_two_classes_in_one_cluster_are_told() -> None:
    rows, truth = blobs([100, 100, 120, 80])
    said = verdict(rows, np.minimum(truth, 2))
    assert said.level == "mixed"
    assert "Cluster 2 is likely two kinds." in said.sentence
    assert said.two_kinds is not None
    assert set(truth[said.two_kinds[2]].tolist()) == {3}
    # and its pictures are less sure than the others'
    assert said.confidence[truth >= 2].mean() < said.confidence[truth < 2].mean() - 0.03


def test_what_cannot_be_judged_is_said_and_keeps_the_methods_own() -> None:
    rows, truth = blobs([6] * 3)
    said = verdict(rows, truth)
    assert (said.level, said.confidence.tolist()) == ("unknown", [0.5] * 18)
    assert "too few" in said.sentence
    one = verdict(*blobs([100]))
    assert (one.level, one.confidence.tolist()) == ("unknown", [0.5] * 100)


def test_it_can_be_written() -> None:
    rows, truth = blobs([100, 100, 120, 80])
    said = json.loads(json.dumps(verdict(rows, np.minimum(truth, 2)).to_json()))
    assert set(said) == {"level", "sentence", "expected", "hardly_apart", "two_kinds"}
    assert 0 <= said["expected"] <= 1


def test_rows_that_differ_are_counted_until_there_are_enough() -> None:
    rows = np.repeat(np.eye(4, dtype=np.float32), 50, axis=0)
    rows[0, 1] = -0.0
    assert _has_distinct(rows, 4)
    assert not _has_distinct(rows, 5)
