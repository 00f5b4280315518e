"""A warm start: graph clusters, taught to the method's own network before its method begins."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch
from tests.contract.tiny import TINY

from selfsort.classic.leiden import graph_clusters
from selfsort.data.synthetic import shapes
from selfsort.improve.around import ImproveConfig, train_improved
from selfsort.improve.warm_start import teach_once
from selfsort.learning.seeds import derive_seed
from selfsort.methods.registry import METHODS
from selfsort.metrics.external import scores
from selfsort.types import Encoded, Snapshot, State

CPU = torch.device("cpu")
IMAGES, TRUTH = shapes(15, size=16, seed=0)
N_CLUSTERS = 4
LENGTH = {"dac": {"epochs": 3, "pool_size": 20}, "gatcluster": {"iterations": 7}, "secu": {"epochs": 7}}
improvable = pytest.mark.parametrize("name", LENGTH)


def training(name: str, improve: ImproveConfig, resume: State | None = None) -> Iterator[Snapshot]:
    method = METHODS[name]
    config = method.config.from_json({"n_clusters": N_CLUSTERS, **TINY[name], **LENGTH[name]})
    return train_improved(method, IMAGES, config, improve, device=CPU, seed=0, resume=resume)


def snapshots(name: str, improve: ImproveConfig) -> list[Snapshot]:
    return list(training(name, improve))


class TestGraphClusters:
    def test_as_many_as_asked_for_and_no_labels_needed(self) -> None:
        found = graph_clusters(IMAGES, N_CLUSTERS, device=CPU, seed=0)
        assert found.shape == (len(IMAGES),)
        assert set(found.tolist()) == set(range(N_CLUSTERS))

    def test_features_are_compared_as_they_are(self) -> None:
        rng = np.random.default_rng(0)
        centres = 10 * np.eye(3, 8)
        truth = np.arange(60) % 3
        features = (centres[truth] + rng.normal(0, 0.1, (60, 8))).astype(np.float32)
        found = graph_clusters(Encoded(features), 3, device=CPU, seed=0)
        assert scores(found, truth)["acc"] == 1


@improvable
class TestWarm:
    IMPROVE = ImproveConfig(warm_start=True, warm_passes=3)

    def test_the_passes_come_first_and_are_counted(self, name: str) -> None:
        plain, warm = snapshots(name, ImproveConfig()), snapshots(name, self.IMPROVE)
        assert [snapshot.event.get("phase") == "warm start" for snapshot in warm] == [True] * 3 + [False] * len(plain)
        assert [snapshot.step for snapshot in warm] == list(range(1, len(plain) + 4))
        assert {snapshot.total for snapshot in warm} == {len(plain) + 3}

    def test_the_network_takes_the_clusters_of_the_graph_over(self, name: str) -> None:
        wanted = graph_clusters(IMAGES, N_CLUSTERS, device=CPU, seed=0)
        warm = snapshots(name, ImproveConfig(warm_start=True, warm_passes=40))
        first, last = warm[0].event["agreement"], warm[39].event["agreement"]
        assert float(last) > max(0.7, float(first))
        assert last == np.mean(warm[39].labels == wanted)

    def test_from_every_snapshot(self, name: str) -> None:
        improve = ImproveConfig(warm_start=True, warm_passes=2, starts=2, start_length=2, regroup_every=2)
        taken = [(snapshot, snapshot.state()) for snapshot in training(name, improve)]
        expected = taken[-1][0].result
        assert expected is not None
        for snapshot, state in taken[:-1]:
            rest = list(training(name, improve, resume=state))
            assert [later.step for later in rest] == list(range(snapshot.step + 1, len(taken) + 1))
            assert rest[-1].result is not None
            np.testing.assert_array_equal(rest[-1].result.soft, expected.soft)

    def test_every_start_is_as_long_as_asked_for_beyond_its_passes(self, name: str) -> None:
        improve = ImproveConfig(warm_start=True, warm_passes=2, starts=2, start_length=2)
        taken = snapshots(name, improve)
        n_first = next(i for i, snapshot in enumerate(taken) if snapshot.event["start"] == 2)
        assert n_first == 2 + {"dac": 3, "gatcluster": 2, "secu": 3}[name]


def test_rates_are_given_back() -> None:
    method = METHODS["secu"]
    config = method.config.from_json({"n_clusters": N_CLUSTERS, **TINY["secu"]})
    assert method.improvable is not None
    trainee = method.improvable.open(IMAGES, config, device=CPU, seed=0, state=None)
    before = [group["lr"] for group in trainee.optimizer.param_groups]
    teach_once(trainee, TRUTH % N_CLUSTERS, 0, 2, derive_seed(0, "test"))
    assert [group["lr"] for group in trainee.optimizer.param_groups] == before
