"""Several starts and regrouping around any method whose network labels the images while it trains. Ours.

Neither is in any of the papers, so neither is in their configs. Both work on what a method saves anyway: a training
that goes on from a saved state is equal, to the bit, to one that was never interrupted, so a state may be compared with
others, or changed, on the way.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial

import torch

from selfsort.config import Config, Settings, setting
from selfsort.errors import InvalidInput
from selfsort.improve.multistart import train_most_stable
from selfsort.improve.regroup import is_due, regroup_and_teach
from selfsort.improve.stability import stability_of
from selfsort.learning.trainee import Trainee
from selfsort.types import Improvable, Inputs, Method, Snapshot, Stage, State


@dataclass(frozen=True, kw_only=True)
class ImproveConfig(Settings):
    """Settings that go with any improvable method, as `improve.starts` and so on; all off unless asked for."""

    starts: int = setting(1, "random starts, of which the most stable under augmentation goes on")
    start_length: int = setting(30, "pools, large batches or epochs of each start, if there are several")
    regroup_every: int = setting(0, "pools, large batches or epochs between attempts to regroup clusters; 0: none")

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("starts", "start_length"):
            self.require(name, getattr(self, name) >= 1, "be at least 1")
        self.require("regroup_every", self.regroup_every >= 0, "be at least 0")

    @property
    def is_on(self) -> bool:
        """Whether anything is done at all."""
        return self.starts > 1 or self.regroup_every > 0


def check_improvable(kind: Method | Stage, improve: ImproveConfig) -> None:
    """Refuse to improve a method that does not let itself be improved; stages never do."""
    if improve.is_on and (isinstance(kind, Stage) or kind.improvable is None):
        raise InvalidInput(
            f"improve.starts and improve.regroup_every do not go with {kind.name}. Expected a method whose network "
            "itself labels the images all through its training, such as dac, gatcluster or secu. Leave them out."
        )


def train_improved(
    method: Method,
    images: Inputs,
    config: Config,
    improve: ImproveConfig,
    *,
    device: torch.device,
    seed: int,
    resume: State | None = None,
) -> Iterator[Snapshot]:
    """Train as the method does, with several starts and regrouping where that is asked for."""
    check_improvable(method, improve)
    if not improve.is_on or method.improvable is None:
        return method.train(images, config, device=device, seed=seed, resume=resume)
    training = _Training(method, method.improvable, images, config, improve, device)
    if improve.starts == 1:
        return training.begin(seed, resume)
    return train_most_stable(
        training.begin,
        lambda seed, state: stability_of(training.open(seed, state), config.n_clusters),
        lambda step: training.door.done(config, step) >= improve.start_length,
        n_starts=improve.starts,
        seed=seed,
        resume=resume,
    )


@dataclass(frozen=True, eq=False)
class _Training:
    """A method's training of some images, which can be begun with any seed and opened at any state."""

    method: Method
    door: Improvable
    images: Inputs
    config: Config
    improve: ImproveConfig
    device: torch.device

    def begin(self, seed: int, resume: State | None) -> Iterator[Snapshot]:
        """Train from the start or from a state, regrouping on the way where that is asked for."""
        return self._regrouped(seed, resume) if self.improve.regroup_every else self._plain(seed, resume)

    def open(self, seed: int, state: State) -> Trainee:
        trainee: Trainee = self.door.open(self.images, self.config, device=self.device, seed=seed, state=state)
        return trainee

    def _plain(self, seed: int, resume: State | None) -> Iterator[Snapshot]:
        return self.method.train(self.images, self.config, device=self.device, seed=seed, resume=resume)

    def _regrouped(self, seed: int, resume: State | None) -> Iterator[Snapshot]:
        state, is_over = resume, False
        while not is_over:
            is_over = True
            for snapshot in self._plain(seed, state):
                if not self._is_due(snapshot):
                    yield snapshot
                    continue
                trainee = self.open(seed, snapshot.state())
                event = regroup_and_teach(trainee, self.config.n_clusters)
                again = trainee.retake(snapshot)
                state, is_over = trainee.state(), False
                del trainee
                yield replace(again, event={**again.event, **event}, state=partial(_same, state))
                break  # and go on from the state the network was left in

    def _is_due(self, snapshot: Snapshot) -> bool:
        before, done, n_total = (
            self.door.done(self.config, step) for step in (snapshot.step - 1, snapshot.step, snapshot.total)
        )
        return is_due(before, done, n_total, self.improve.regroup_every)


def _same(state: State) -> State:
    return state
