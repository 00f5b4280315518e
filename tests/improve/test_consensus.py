from __future__ import annotations

import shutil
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from tests.conftest import Command

from selfsort.graph.knn import nearest_neighbours
from selfsort.graph.neighbours import Neighbours
from selfsort.improve.consensus import agreement_graph, find_consensus, put_to_vote, spread
from selfsort.metrics.external import scores
from selfsort.runs.folder import RunFolder
from selfsort.types import F32, I64

K, EACH = 6, 40


def rings() -> tuple[F32, I64]:
    """Place six blobs on a circle, near enough to touch."""
    draw, truth = np.random.default_rng(0), np.repeat(np.arange(K), EACH)
    angle = 2 * np.pi * truth / K
    centre = 3 * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    return (centre + 0.6 * draw.standard_normal((len(truth), 2))).astype(np.float32), truth


def spoilt(truth: I64, which: int) -> I64:
    """Join one class with the next, cut another in two, and throw a tenth of the images anywhere."""
    draw, votes = np.random.default_rng(which), truth.copy()
    votes[truth == (which + 1) % K] = which
    half = np.flatnonzero(truth == (which + 3) % K)[::2]
    votes[half] = (which + 1) % K
    scattered = draw.random(len(truth)) < 0.1
    votes[scattered] = draw.integers(0, K, scattered.sum())
    return draw.permutation(K)[votes]


def test_the_graph_is_what_counting_pairs_gives() -> None:
    draw = np.random.default_rng(1)
    rows, votes_RN = draw.random((30, 3)).astype(np.float32), draw.integers(0, 4, (3, 30))
    near = [nearest_neighbours(rows, 4), nearest_neighbours(rows[:, :1].copy(), 3)]
    expected = np.zeros((30, 30))
    for i, j in combinations(range(30), 2):
        if any(j in lists.idx[i] or i in lists.idx[j] for lists in near):
            expected[i, j] = expected[j, i] = np.mean([votes[i] == votes[j] for votes in votes_RN])
    np.testing.assert_allclose(agreement_graph(near, votes_RN).toarray(), expected)


def test_places_that_nobody_fills_do_not_vote() -> None:
    near = Neighbours(np.array([[1, -1], [0, -1], [-1, -1]]), np.zeros((3, 2), np.float32))
    graph = agreement_graph([near], np.zeros((2, 3), np.int64))
    assert graph.toarray().tolist() == [[0, 1, 0], [1, 0, 0], [0, 0, 0]]


def test_what_each_run_gets_wrong_the_others_mend() -> None:
    rows, truth = rings()
    votes_RN = np.stack([spoilt(truth, which) for which in range(5)])
    labels, _ = find_consensus(votes_RN, [nearest_neighbours(rows, 10)], rows, K, seed=0)
    spreads = [spread(votes_N, labels, K, K) for votes_N in votes_RN]
    soft = put_to_vote(votes_RN, spreads)
    np.testing.assert_allclose(soft.sum(axis=1), 1, atol=1e-6)
    best = max(scores(votes_N, truth)["acc"] for votes_N in votes_RN)
    assert best < 0.8
    assert scores(soft.argmax(axis=1), truth)["acc"] > 0.95
    # Where the runs agree more, more is right.
    is_sure = soft.max(axis=1) > np.median(soft.max(axis=1))
    is_right = np.array([np.bincount(truth[labels == c]).argmax() for c in range(K)])[soft.argmax(axis=1)] == truth
    assert is_right[is_sure].mean() >= is_right[~is_sure].mean()


@pytest.fixture
def source(tmp_path: Path) -> Path:
    draw = np.random.default_rng(0)
    kinds = draw.integers(60, 196, (3, 8, 8))
    truth = np.repeat(np.arange(3), 20)
    images = (kinds[truth] + draw.integers(-20, 21, (60, 8, 8))).astype(np.uint8)
    np.savez(tmp_path / "pictures.npz", images=images, labels=truth)
    return tmp_path / "pictures.npz"


def test_runs_become_one_that_predicts_by_itself(selfsort: Command, source: Path) -> None:
    for seed, method in enumerate(("kmeans", "leiden", "ac-gdl")):
        done = selfsort("fit", source, "--clusters", 3, "--method", method, "--seed", seed, "--out", method)
        assert done.code == 0, done.err
    done = selfsort("refine", "kmeans", "leiden", "ac-gdl", "--stage", "consensus", "--out", "all")
    assert done.code == 0, done.err
    labels = labels_of("all")
    for method in ("kmeans", "leiden", "ac-gdl"):  # the run is complete by itself
        Path(method).rename(f"{method}-elsewhere")
    assert predicted(selfsort, "all", source) == labels
    assert selfsort("score", "all").code == 0
    assert selfsort("report", "all").code == 0


def predicted(selfsort: Command, run: str, source: Path) -> list[int]:
    done = selfsort("predict", run, source, "--out", f"{run}.csv", "--original")
    assert done.code == 0, done.err
    return [int(line.split(",")[1]) for line in Path(f"{run}.csv").read_text().splitlines()[1:]]


def test_what_is_made_of_it_holds_all_its_models(selfsort: Command, source: Path) -> None:
    """A cut copies the model: with one of the runs left behind, it would vote otherwise."""
    for seed, method in enumerate(("kmeans", "ac-gdl")):
        assert selfsort("fit", source, "--clusters", 3, "--method", method, "--seed", seed, "--out", method).code == 0
    assert selfsort("refine", "kmeans", "ac-gdl", "--stage", "consensus", "--out", "all").code == 0
    assert selfsort("cut", "all", "--clusters", 2, "--out", "cut").code == 0
    assert predicted(selfsort, "cut", source) == labels_of("cut")
    shutil.rmtree("all/started_from_2")
    refused = selfsort("predict", "all", source, "--out", "no.csv")
    assert refused.code == 2
    assert "cannot be rebuilt" in refused.err


def labels_of(run: str) -> list[int]:
    labels: list[int] = RunFolder.open(Path(run)).label_table().labels.tolist()
    return labels


def test_what_cannot_be_asked_together_is_refused(selfsort: Command, source: Path) -> None:
    for method in ("kmeans", "leiden"):
        assert selfsort("fit", source, "--clusters", 3, "--method", method, "--out", method).code == 0
    alone = selfsort("refine", "kmeans", "--stage", "consensus")
    assert alone.code == 2
    assert "Name them: selfsort refine RUN RUN" in alone.err
    several = selfsort("refine", "kmeans", "leiden", "--stage", "cut")
    assert several.code == 2
    assert "use --stage consensus, which takes several" in several.err
    with np.load(source) as kept:
        np.savez("larger.npz", images=np.repeat(kept["images"], 2, axis=1), labels=kept["labels"])
    assert selfsort("fit", "larger.npz", "--clusters", 3, "--method", "kmeans", "--out", "larger").code == 0
    other = selfsort("refine", "kmeans", "larger", "--stage", "consensus")
    assert other.code == 2
    assert "was made from (16, 8, 1)" in other.err
