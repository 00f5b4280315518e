from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.contract.tiny import TINY

from selfsort.data.store import limit_memory
from selfsort.data.synthetic import shapes
from selfsort.errors import Interrupted, InvalidInput
from selfsort.methods.registry import METHODS
from selfsort.runs.folder import RunFolder
from selfsort.runs.loop import FitRun
from selfsort.runs.train_on import check_train_on, drawn, part_of, said_of_all
from selfsort.types import Assignment, Clustering, Encoded, Images, Snapshot, State

CPU = torch.device("cpu")
N, M = 60, 36


def fit(name: str, *, train_on: int | None = M, **rest: Any) -> FitRun:
    images, truth = shapes(N // 3, size=16, seed=1, n_classes=3)
    method = METHODS[name]
    config = method.config.from_json({"n_clusters": 3, **TINY.get(name, {})})
    return FitRun(images, method, config, CPU, truth=truth, train_on=train_on, **rest)


class Parity:
    """Even images are one kind, odd ones another."""

    def apply(self, images: Any, layer: str = "top") -> Assignment:
        number = images.pixels[:, 0, 0, 0].astype(np.int64)
        return Assignment(number[:, None].astype(np.float32), np.eye(2, dtype=np.float32)[number % 2])


def numbered(n: int) -> Images:
    return Images(np.broadcast_to(np.arange(n, dtype=np.uint8)[:, None, None, None], (n, 2, 2, 1)).copy())


class TestDrawing:
    def test_rows_are_in_order_each_once_and_decided_by_the_seed(self) -> None:
        rows, again, other = (drawn(1000, 100, seed) for seed in (0, 0, 1))
        assert rows is not None
        assert again is not None
        assert other is not None
        assert (np.diff(rows) > 0).all()
        np.testing.assert_array_equal(rows, again)
        assert (rows != other).any()
        assert rows.mean() == pytest.approx(500, abs=100)

    @pytest.mark.parametrize("n_learned", [None, 10, 11])
    def test_all_where_there_are_no_more(self, n_learned: int | None) -> None:
        assert drawn(10, n_learned, 0) is None

    def test_too_few_are_refused(self) -> None:
        check_train_on(None, 5, 100)
        check_train_on(5, 5, 100)
        with pytest.raises(InvalidInput, match="--train-on must be at least the number of clusters"):
            check_train_on(4, 5, 100)
        with pytest.raises(InvalidInput, match="encoder learns too"):
            check_train_on(10, 5, 100, is_finetuned=True)


def test_what_is_learned_from_keeps_to_the_budget() -> None:
    images, rows = numbered(20), np.array([2, 5, 11])
    features = np.arange(40, dtype=np.float32).reshape(20, 2)
    limit_memory(3)
    try:
        pixels, encoded = part_of(images, rows), part_of(Encoded(features, features[:, None].astype(np.float16)), rows)
    finally:
        limit_memory(None)
    assert isinstance(pixels, Images)
    assert isinstance(pixels.pixels, np.memmap)
    assert pixels.pixels[:, 0, 0, 0].tolist() == rows.tolist()
    assert isinstance(encoded, Encoded)
    assert encoded.views is not None
    np.testing.assert_array_equal(encoded.features, features[rows])
    np.testing.assert_array_equal(encoded.views[:, 0], features[rows])


def test_the_model_sorts_the_others_and_the_method_its_own() -> None:
    learned = np.array([1, 4, 6])
    own = Clustering(
        np.array([0, 1, 1]),  # not what the model says of them
        np.array([[0.6, 0.4], [0.3, 0.7], [0.2, 0.8]], np.float32),
        np.array([[-1.0], [-2.0], [-3.0]], np.float32),
        State(meta={"made": 1}),
        {"labels_sf": np.zeros(3, np.int64), "activation_rows": np.array([2, 0]), "single": np.array(3)},
    )
    history = {"rows": np.array([0, 2]), "neighbours": np.array([[1], [0]]), "labels": np.array([0, 1])}
    snapshots = [
        Snapshot(1, 2, own.labels, {"loss": 2.0}, State, history={"labels": own.labels}),
        Snapshot(2, 2, own.labels, {"loss": 1.0}, State, own, history=history),
    ]
    first, last = said_of_all(iter(snapshots), learned, numbered(7), lambda state: Parity())
    assert first.labels.tolist() == [0, 1, 1]
    assert first.history["rows"].tolist() == [1, 4, 6]
    assert first.result is None
    assert last.result is not None
    assert last.labels.tolist() == last.result.labels.tolist() == [0, 0, 0, 1, 1, 1, 1]
    assert last.result.features[:, 0].tolist() == [0, -1, 2, 3, -2, 5, -3]
    np.testing.assert_array_equal(last.result.soft[learned], own.soft)
    assert last.result.soft[5].tolist() == [0, 1]
    assert set(last.result.extras) == {"activation_rows", "single"}
    assert last.result.extras["activation_rows"].tolist() == [6, 1]
    assert last.history["rows"].tolist() == [1, 6]
    assert last.history["neighbours"].tolist() == [[4], [1]]
    assert last.event == {"loss": 1.0, "trained_on": 3}
    assert last.warnings == ("Learned from 3 of 7 images, drawn by the seed; the others were sorted by the model.",)


@pytest.mark.parametrize("name", ["dbc", "dac", "gatcluster", "secu", "teach", "jule", "leiden", "kmeans"])
def test_labels_for_all_by_what_was_learned_from_some(name: str) -> None:
    seen: list[int] = []
    run = fit(name)
    run.on_snapshot = lambda snapshot: seen.append(len(snapshot.labels))
    outcome = run.run()
    result = outcome.clustering
    assert seen[-1] == N
    assert set(seen[:-1]) <= {M}
    assert len(result.labels) == len(result.soft) == len(result.features) == N
    assert outcome.metrics is not None
    assert any("Learned from 36 of 60 images" in warning for warning in outcome.warnings)
    # The others are where the model puts them, and the model has seen the drawn ones alone.
    learned = drawn(N, M, 0)
    assert learned is not None
    others = np.setdiff1d(np.arange(N), learned)
    model = run.method.restore(run.config, result.model, device=CPU)
    np.testing.assert_array_equal(model.apply(run.images).labels[others], result.labels[others])
    alone = FitRun(run.images.subset(learned), run.method, run.config, CPU).run().clustering
    np.testing.assert_array_equal(alone.labels, result.labels[learned])


def test_an_interrupted_run_goes_on_to_the_same_labels(tmp_path: Path) -> None:
    whole = fit("dbc").run().clustering
    run = fit("dbc", max_seconds=0.0)
    images = run.images
    config: dict[str, Any] = {"train_on": M, "n_clusters": 3, "method": "dbc", "n_images": len(images)}
    config["settings"] = run.config.to_json()
    run.folder = RunFolder.create(tmp_path / "run", config)
    for _ in range(20):
        try:
            found = run.run().clustering
            break
        except Interrupted:
            assert not run.folder.has_labels_so_far
    np.testing.assert_array_equal(found.labels, whole.labels)
    np.testing.assert_array_equal(found.soft, whole.soft)


def test_duplicates_count_once_before_anything_is_drawn() -> None:
    stands_for = np.arange(N)
    stands_for[10:20] = stands_for[:10]
    outcome = fit("kmeans", stands_for=stands_for, train_on=30).run()
    labels = outcome.clustering.labels
    assert len(labels) == N
    np.testing.assert_array_equal(labels[10:20], labels[:10])


def test_all_images_where_there_are_no_more() -> None:
    with_limit, without = (fit("kmeans", train_on=train_on).run() for train_on in (N, None))
    np.testing.assert_array_equal(with_limit.clustering.labels, without.clustering.labels)
    assert not any("Learned from" in warning for warning in with_limit.warnings)


def test_fewer_than_clusters_are_refused() -> None:
    with pytest.raises(InvalidInput, match="at least the number of clusters"):
        fit("kmeans", train_on=2).check()
