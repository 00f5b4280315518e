"""A warm start, several starts and regrouping around any method whose network labels the images in training. Ours.

None is in any of the papers, so none is in their configs. All work on what a method saves anyway: a training
that goes on from a saved state is equal, to the bit, to one that was never interrupted, so a state may be compared with
others, or changed, on the way.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

import torch

from selfsort.classic.leiden import graph_clusters
from selfsort.config import Config, SettingInfo, Settings, describe, setting
from selfsort.errors import InvalidInput
from selfsort.improve.multistart import train_most_stable
from selfsort.improve.regroup import is_due, regroup_and_teach
from selfsort.improve.shrink import is_large, remembering, smaller
from selfsort.improve.stability import stability_of
from selfsort.improve.warm_start import WarmStart, kept, n_passes
from selfsort.learning.trainee import Trainee
from selfsort.types import Improvable, Inputs, Method, Snapshot, Stage, State


@dataclass(frozen=True, kw_only=True)
class ImproveConfig(Settings):
    """Settings that go with any improvable method, as `improve.starts` and so on; all off in the defaults.

    `shrink` goes with any method that learns a network from pixels.
    """

    starts: int = setting(1, "random starts, of which the most stable under augmentation goes on")
    start_length: int = setting(30, "pools, large batches or epochs of each start, if there are several")
    regroup_every: int = setting(0, "pools, large batches or epochs between attempts to regroup clusters; 0: none")
    warm_start: bool = setting(False, "teach the network the clusters of the images' neighbour graph first")
    warm_passes: int | Literal["auto"] = setting(
        "auto", "passes over the images in a warm start: 6, or as many as see 40,000 images, and 2,000 of each cluster"
    )
    shrink: bool = setting(
        False,
        "the network is shown images of 64 pixels or more averaged down by a whole factor, to 32 or a little more",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("starts", "start_length"):
            self.require(name, getattr(self, name) >= 1, "be at least 1")
        self.require("regroup_every", self.regroup_every >= 0, "be at least 0")
        self.require("warm_passes", self.warm_passes == "auto" or self.warm_passes >= 1, "be auto or at least 1")

    @property
    def is_on(self) -> bool:
        """Whether anything is done that only an improvable method allows."""
        return self.starts > 1 or self.regroup_every > 0 or self.warm_start


def settings_with(kind: Method | Stage) -> list[SettingInfo]:
    """Describe the settings of `ImproveConfig` that go with a method."""
    if not _learns_a_network(kind):
        return []
    is_improvable = isinstance(kind, Method) and kind.improvable is not None
    return [described for described in describe(ImproveConfig) if is_improvable or described.name == "shrink"]


def _learns_a_network(kind: Method | Stage) -> bool:
    return isinstance(kind, Method) and kind.train_on_features is None


def check_improvable(kind: Method | Stage, improve: ImproveConfig) -> None:
    """Refuse to improve a method that does not let itself be improved; stages never do."""
    if improve.shrink and not _learns_a_network(kind):
        raise InvalidInput(
            f"improve.shrink does not go with {kind.name}. Expected a method that learns a network from pixels, such "
            "as dac or jule. Use --size to bring the images themselves to another size."
        )
    if improve.is_on and (isinstance(kind, Stage) or kind.improvable is None):
        raise InvalidInput(
            f"improve.starts, regroup_every and warm_start do not go with {kind.name}. Expected a method whose network "
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
    """Train as the method does, with a warm start, several starts and regrouping where that is asked for.

    `shrink` comes first: all of it sees the smaller images.
    """
    check_improvable(method, improve)
    if improve.shrink and is_large(images):
        plain = replace(improve, shrink=False)
        learned = train_improved(method, smaller(images), config, plain, device=device, seed=seed, resume=resume)
        return remembering(learned, images.shape)
    if not improve.is_on or method.improvable is None:
        return method.train(images, config, device=device, seed=seed, resume=resume)
    training = _Training(method, method.improvable, images, config, improve, device)
    if improve.starts == 1:
        return training.begin(seed, resume)
    return train_most_stable(
        training.begin,
        lambda seed, state: stability_of(training.open(seed, state), config.n_clusters),
        lambda step: training.door.done(config, step - training.n_passes) >= improve.start_length,
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

    @property
    def n_passes(self) -> int:
        """Snapshots before the method's own."""
        if not self.improve.warm_start:
            return 0
        return n_passes(len(self.images), self.config.n_clusters, self.improve.warm_passes)

    def begin(self, seed: int, resume: State | None) -> Iterator[Snapshot]:
        """Train from the start or from a state, warm and regrouping on the way where that is asked for."""
        train = partial(self._regrouped if self.improve.regroup_every else self._plain, seed)
        if not self.improve.warm_start:
            return train(resume)
        images, n_clusters = self.images, self.config.n_clusters
        warm = WarmStart(
            labels=partial(graph_clusters, images, n_clusters, device=self.device, seed=seed),
            open=partial(self.open, seed),
            n_passes=self.n_passes,
            n_after=self.door.total(self.config, len(images)),
            seed=seed,
        )
        return warm.begin(train, resume)

    def open(self, seed: int, state: State | None) -> Trainee:
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
                yield replace(again, event={**again.event, **event}, state=partial(kept, state))
                break  # and go on from the state the network was left in

    def _is_due(self, snapshot: Snapshot) -> bool:
        before, done, n_total = (
            self.door.done(self.config, step) for step in (snapshot.step - 1, snapshot.step, snapshot.total)
        )
        return is_due(before, done, n_total, self.improve.regroup_every)
