"""A warm start: before a method begins, its network is taught clusters of the neighbour graph; ours, off by default.

A method that learns from its own guesses inherits what a random network guessed first. Graph clusters of augmented
neighbours are a better first guess: right about most images, and wrong about some that lie scattered, which a network
that has to label augmented copies does not learn by heart (see `methods.teach`). So the method's own network, with its
own head and optimiser, learns these labels for a few passes, and then its method begins as always.

Shape letters: N images, B batch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from selfsort import distributed
from selfsort.learning.batches import shuffled_batches
from selfsort.learning.epoch import run_epoch
from selfsort.learning.rates import one_cycle
from selfsort.learning.seeds import torch_generator
from selfsort.learning.trainee import Trainee
from selfsort.types import I64, Snapshot, State

# Passes over the images, and how many images are seen at least, and of each cluster: few images take more passes, and
# so do many clusters.
_PASSES, _LEAST_SEEN, _LEAST_SEEN_EACH = 6, 40_000, 2_000
# Names in the resume state while the start lasts; a method's own state, which follows, has neither.
_DONE, _LABELS = "warm_passes", "warm_labels"


def n_passes(n_images: int, n_clusters: int, passes: int | Literal["auto"] = "auto") -> int:
    """Return how often the images are seen before the method begins.

    >>> n_passes(10_000, 10), n_passes(575, 20), n_passes(2856, 68), n_passes(575, 20, 3)
    (6, 70, 48, 3)
    """
    least = max(_LEAST_SEEN, _LEAST_SEEN_EACH * n_clusters)
    return max(_PASSES, math.ceil(least / n_images)) if passes == "auto" else passes


@dataclass(frozen=True, eq=False)
class WarmStart:
    """What comes before a method's training, with one seed."""

    labels: Callable[[], I64]
    """Finds the graph clusters; asked for only if there is none in the state."""
    open: Callable[[State | None], Trainee]
    """Opens the method's training at a state, or before anything was learned."""
    n_passes: int
    n_after: int
    """Snapshots of the method's training."""
    seed: int

    def begin(self, train: Callable[[State | None], Iterator[Snapshot]], resume: State | None) -> Iterator[Snapshot]:
        """Yield a snapshot for each pass, then those of the method's training, which go on counting."""
        state = resume
        if resume is None or _DONE in resume.meta:
            for taught in self._teach(resume):
                yield taught
                state = taught.state()
        for snapshot in train(state):
            yield replace(snapshot, step=self.n_passes + snapshot.step, total=self.n_passes + snapshot.total)

    def _teach(self, resume: State | None) -> Iterator[Snapshot]:
        labels = self.labels() if resume is None else resume.arrays[_LABELS].astype(np.int64)
        n_done = 0 if resume is None else int(resume.meta[_DONE])
        trainee = self.open(resume)
        while n_done < self.n_passes:
            event = teach_once(trainee, labels, n_done, self.n_passes, self.seed)
            n_done += 1
            plain = Snapshot(n_done, self.n_passes + self.n_after, labels, event, State)
            again = trainee.retake(plain)  # which may change what the state holds
            own = trainee.state()
            state = State({**own.arrays, _LABELS: labels}, {**own.meta, _DONE: n_done})
            event |= {"agreement": float(np.mean(again.labels == labels))}
            yield replace(plain, labels=again.labels, event=event, state=partial(kept, state))


def teach_once(trainee: Trainee, labels: I64, n_done: int, n_passes: int, seed: int) -> dict[str, float | int | str]:
    """Let a network learn labels from one augmented copy of each image, at rates of one cycle over all passes."""
    trainee.begin_teaching()
    trainee.net.train()
    labels_N, n_images = torch.from_numpy(labels), len(labels)
    batch_size = min(trainee.batch_size, n_images)
    groups, n_steps, n_taken = trainee.optimizer.param_groups, n_images // batch_size, 0
    rates = [group["lr"] for group in groups]

    def step(rows_B: Tensor) -> Tensor:
        nonlocal n_taken
        share = one_cycle((n_done + n_taken / n_steps) / n_passes)
        for group, rate in zip(groups, rates, strict=True):
            group["lr"] = share * rate
        n_taken += 1
        return trainee.teaching_loss(rows_B, labels_N[rows_B].to(trainee.pixels.device))

    order = torch_generator(seed, f"warm start {n_done}")
    what = f"warm start, pass {n_done + 1} of {n_passes}"
    batches = shuffled_batches(n_images, batch_size, order, drop_last=True)
    stats = run_epoch(step, batches, trainee.optimizer, what=what, total=n_images)
    for group, rate in zip(groups, rates, strict=True):
        group["lr"] = rate
    distributed.average_buffers(trainee.net)
    return {"phase": "warm start", **stats.event()}


def kept(state: State) -> State:
    """Return a state as it was, for snapshots whose training has moved on."""
    return state
