from __future__ import annotations

import sys
from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass
from functools import partial

import numpy as np
import pytest
import torch

from selfsort.improve.multistart import train_most_stable
from selfsort.types import Clustering, Snapshot, State

CPU = torch.device("cpu")
N_TOTAL = 6


@dataclass
class Walk:
    """A stand-in for a method: adds its seed up, one step at a time."""

    begun: list[tuple[int, int]]
    """Every beginning: the seed, and the step it went on from."""

    def __call__(self, seed: int, resume: State | None) -> Iterator[Snapshot]:
        step = 0 if resume is None else int(resume.meta["step"])
        place = np.zeros(1, np.int64) if resume is None else resume.arrays["place"]
        self.begun.append((seed, step))
        while step < N_TOTAL:
            step, place = step + 1, place + seed
            state = State({"place": place}, {"step": step, "seed": seed})
            nothing = np.zeros((1, 1), np.float32)
            result = Clustering(place, nothing, nothing, state) if step == N_TOTAL else None
            history = {"place": place}
            yield Snapshot(step, N_TOTAL, place, {"loss": 0.5}, partial(copy, state), result, history=history)


def middling(seed: int, state: State) -> float:
    """Prefer the start whose seed is in the middle of all."""
    assert seed == state.meta["seed"]
    return 10.0 - abs(int(state.meta["seed"]) % 10 - 5)


def snapshots(n_starts: int = 3, n_steps: int = 2, resume: State | None = None, seed: int = 7) -> list[Snapshot]:
    return list(walked(Walk([]), n_starts, n_steps, resume, seed))


def walked(
    walk: Walk, n_starts: int = 3, n_steps: int = 2, resume: State | None = None, seed: int = 7
) -> Iterator[Snapshot]:
    return train_most_stable(walk, middling, lambda step: step >= n_steps, n_starts=n_starts, seed=seed, resume=resume)


class TestTrainMostStable:
    def test_steps_count_through_all_starts(self) -> None:
        found = snapshots()
        assert [snapshot.step for snapshot in found] == list(range(1, 11))
        assert {snapshot.total for snapshot in found} == {10}
        assert [snapshot.event["start"] for snapshot in found[:6]] == [1, 1, 2, 2, 3, 3]

    def test_the_most_stable_goes_on_from_where_it_was(self) -> None:
        walk = Walk([])
        found = list(walked(walk))
        seeds = [seed for seed, _ in walk.begun[:3]]
        values = [float(snapshot.event["stability"]) for snapshot in found if "stability" in snapshot.event]
        best = int(np.argmax(values))
        assert len(set(seeds)) == 3
        assert len(set(values)) > 1
        assert walk.begun == [(seeds[0], 0), (seeds[1], 0), (seeds[2], 0), (seeds[best], 2)]
        assert found[-1].event["start"] == best + 1
        assert found[-1].result is not None
        assert found[-1].labels == N_TOTAL * seeds[best]

    def test_the_first_start_is_the_run_itself(self) -> None:
        assert snapshots()[0].labels == 7

    def test_stages_are_kept_and_say_whose_they_are(self) -> None:
        found = snapshots()
        assert all(snapshot.history and snapshot.event["start"] for snapshot in found)

    @pytest.mark.parametrize("cut", range(9))
    def test_it_resumes_from_every_snapshot(self, cut: int) -> None:
        whole = snapshots()
        rest = snapshots(resume=whole[cut].state())
        assert [(s.step, s.labels.tolist(), dict(s.event)) for s in rest] == [
            (s.step, s.labels.tolist(), dict(s.event)) for s in whole[cut + 1 :]
        ]

    def test_where_there_is_one_step_there_is_no_choice(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sys.modules[__name__], "N_TOTAL", 1)
        (only,) = snapshots()
        assert (only.step, only.total, "start" in only.event) == (1, 1, False)
        assert only.result is not None

    def test_starts_as_long_as_the_run_leave_it_a_last_step(self) -> None:
        found = snapshots(n_steps=50)
        assert len(found) == 3 * (N_TOTAL - 1) + 1
        assert [snapshot.result is not None for snapshot in found].count(True) == 1
