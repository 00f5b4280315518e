"""Several starts and regrouping around the methods that let themselves be improved."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from tests.contract.tiny import TINY

from selfsort.config import Config
from selfsort.data.synthetic import shapes
from selfsort.errors import InvalidInput
from selfsort.improve import regroup
from selfsort.improve.around import ImproveConfig, check_improvable, train_improved
from selfsort.methods.registry import METHODS
from selfsort.types import Method, Snapshot, State

CPU = torch.device("cpu")
IMAGES = shapes(15, size=16, seed=0)[0]
N_CLUSTERS = 4
LENGTH = {"dac": {"epochs": 3, "pool_size": 20}, "gatcluster": {"iterations": 7}, "secu": {"epochs": 7}}
"""Longer than for the contract, so that there is time for both."""
improvable = pytest.mark.parametrize("name", LENGTH)


def configured(name: str) -> tuple[Method, Config]:
    return METHODS[name], METHODS[name].config.from_json({"n_clusters": N_CLUSTERS, **TINY[name], **LENGTH[name]})


def snapshots(name: str, improve: ImproveConfig, resume: State | None = None, seed: int = 0) -> Iterator[Snapshot]:
    method, config = configured(name)
    return train_improved(method, IMAGES, config, improve, device=CPU, seed=seed, resume=resume)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sixty pictures are few for pieces of clusters."""
    monkeypatch.setattr(regroup, "_SMALLEST", 4)
    monkeypatch.setattr(regroup, "_MOST_MOVED", 1.0)


class TestSettings:
    def test_off_unless_asked_for(self) -> None:
        assert not ImproveConfig().is_on
        assert ImproveConfig(starts=2).is_on
        assert ImproveConfig(regroup_every=5).is_on
        assert ImproveConfig(warm_start=True).is_on

    @pytest.mark.parametrize("wrong", [{"starts": 0}, {"start_length": 0}, {"regroup_every": -1}])
    def test_bad_values_are_refused(self, wrong: dict[str, Any]) -> None:
        with pytest.raises(InvalidInput, match=f"{next(iter(wrong))} must be at least"):
            ImproveConfig(**wrong)

    def test_a_warm_start_has_at_least_one_pass(self) -> None:
        with pytest.raises(InvalidInput, match="warm_passes must be auto or at least 1"):
            ImproveConfig(warm_passes=0)

    def test_methods_without_a_door_refuse_in_one_sentence(self) -> None:
        for name, method in METHODS.items():
            check_improvable(method, ImproveConfig())
            if name not in LENGTH:
                with pytest.raises(InvalidInput, match=f"do not go with {name}. Expected a method whose network"):
                    check_improvable(method, ImproveConfig(starts=2))
                with pytest.raises(InvalidInput, match=f"do not go with {name}. Expected a method whose network"):
                    check_improvable(method, ImproveConfig(warm_start=True))


@improvable
def test_off_it_is_the_plain_training(name: str) -> None:
    method, config = configured(name)
    plain = list(method.train(IMAGES, config, device=CPU, seed=0))
    found = list(snapshots(name, ImproveConfig()))
    assert [(s.step, s.total) for s in plain] == [(s.step, s.total) for s in found]
    np.testing.assert_array_equal(plain[-1].labels, found[-1].labels)
    assert not {"start", "regrouped"} & set(found[-1].event)


class TestStarts:
    IMPROVE = ImproveConfig(starts=3, start_length=2)

    @improvable
    def test_the_most_stable_goes_on(self, name: str) -> None:
        taken = list(snapshots(name, self.IMPROVE))
        values = [float(snapshot.event["stability"]) for snapshot in taken if "stability" in snapshot.event]
        assert len(values) == 3
        assert taken[-1].event["start"] == 1 + int(np.argmax(values))
        assert [snapshot.step for snapshot in taken] == list(range(1, taken[0].total + 1))

    @pytest.mark.parametrize(("name", "n_snapshots"), [("dac", 3), ("gatcluster", 2), ("secu", 3)])
    def test_a_start_is_as_long_as_asked_for(self, name: str, n_snapshots: int) -> None:
        """DAC has a snapshot before its first pool, and SeCu an epoch 0 that teaches nothing."""
        taken = list(snapshots(name, self.IMPROVE))
        assert [snapshot.event["start"] for snapshot in taken[: 2 * n_snapshots]] == [1] * n_snapshots + [
            2
        ] * n_snapshots

    @improvable
    def test_the_first_start_is_the_run_without_others(self, name: str) -> None:
        alone, among = list(snapshots(name, ImproveConfig())), list(snapshots(name, self.IMPROVE))
        for one, other in zip(alone[:2], among[:2], strict=True):
            np.testing.assert_array_equal(one.labels, other.labels)
            assert one.event.get("loss") == other.event.get("loss")


@pytest.mark.usefixtures("small")
class TestRegrouping:
    @improvable
    @pytest.mark.parametrize("starts", [1, 2])
    def test_from_every_snapshot(self, name: str, starts: int) -> None:
        improve = ImproveConfig(starts=starts, start_length=3, regroup_every=1)
        taken = [(snapshot, snapshot.state()) for snapshot in snapshots(name, improve)]
        last = taken[-1][0].result
        assert last is not None
        assert sum(int(snapshot.event.get("regrouped", 0)) for snapshot, _ in taken) > 0
        for snapshot, state in taken[:-1]:
            rest = list(snapshots(name, improve, resume=state))
            assert [later.step for later in rest] == list(range(snapshot.step + 1, len(taken) + 1))
            again = rest[-1].result
            assert again is not None
            np.testing.assert_array_equal(again.soft, last.soft)

    @improvable
    def test_the_end_is_for_settling(self, name: str) -> None:
        looked = ["regrouped" in snapshot.event for snapshot in snapshots(name, ImproveConfig(regroup_every=1))]
        expected = {
            "dac": [False] + [True] * 7 + [False] * 2,
            "gatcluster": [True] * 5 + [False] * 2,
            "secu": [False] + [True] * 5 + [False] * 2,
        }
        assert looked == expected[name]

    @improvable
    def test_what_is_logged_is_the_network_as_it_was_taught(self, name: str) -> None:
        """A snapshot's labels are those of the state that training goes on from."""
        method, config = configured(name)
        assert method.improvable is not None
        n_checked = 0
        for snapshot in snapshots(name, ImproveConfig(regroup_every=1)):
            if "regrouped" in snapshot.event:
                trainee = method.improvable.open(IMAGES, config, device=CPU, seed=0, state=snapshot.state())
                np.testing.assert_array_equal(trainee.retake(snapshot).labels, snapshot.labels)
                n_checked += 1
        assert n_checked

    def test_a_longer_interval_than_between_snapshots(self) -> None:
        method, config = configured("gatcluster")
        config = replace(config, **{"eval_every": 2})
        improve = ImproveConfig(regroup_every=3)
        taken = train_improved(method, IMAGES, config, improve, device=CPU, seed=0)
        assert ["regrouped" in snapshot.event for snapshot in taken] == [False, True, False, False]
