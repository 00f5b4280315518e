"""The inner loop of every training: each batch once, one step each.

Only the inner loop is common. The outer loops of the five papers differ in kind (JULE merges, DAC moves
thresholds, DBC and GATCluster recompute targets, SeCu updates duals) and stay in the method files.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from selfsort import distributed
from selfsort.errors import TrainingFailed
from selfsort.progress import track


@dataclass(frozen=True)
class EpochStats:
    """What one pass over the data came to."""

    loss: float
    """Mean over the steps taken; 0 if none was."""
    steps: int
    skipped: int
    """Batches that held nothing to learn from."""
    seconds: float
    images: int

    def event(self) -> dict[str, float | int]:
        """The common columns of events.jsonl."""
        return {
            "loss": self.loss,
            "skipped_batches": self.skipped,
            "seconds": round(self.seconds, 3),
            "images_per_second": round(self.images / max(self.seconds, 1e-9), 1),
        }


def run_epoch(
    step: Callable[[Tensor], Tensor | None],
    batches: Iterable[Tensor],
    optimizer: torch.optim.Optimizer,
    *,
    what: str = "training",
    total: int = 0,
) -> EpochStats:
    """Train on every batch once.

    `step` turns a batch of indices into a loss, or None when the batch holds nothing to learn from.
    The loss is read back from the device only once, at the end, so that an accelerator never waits.
    """
    started = time.perf_counter()
    loss_sum: Tensor | float = 0.0
    steps = skipped = images = 0
    take = _one_step if distributed.world_size() == 1 else _shared_step
    step_once = take(step, optimizer)
    for batch in track(batches, what, total, weigh=len):
        images += len(batch)
        loss = step_once(batch)
        if loss is None:
            skipped += 1
            continue
        loss_sum = loss_sum + loss
        steps += 1
    mean_loss = float(loss_sum) / max(steps, 1)
    if not math.isfinite(mean_loss):
        raise TrainingFailed(
            f"the loss became {mean_loss} during {what}. It must stay a finite number. "
            "Lower the learning rate with --set, or look for broken images; the last good state can be resumed."
        )
    return EpochStats(mean_loss, steps, skipped, time.perf_counter() - started, images)


_Step = Callable[[Tensor], Tensor | None]


def _one_step(step: _Step, optimizer: torch.optim.Optimizer) -> _Step:
    def once(batch: Tensor) -> Tensor | None:
        loss = step(batch)
        if loss is None:
            return None
        optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        return loss.detach()

    return once


def _shared_step(step: _Step, optimizer: torch.optim.Optimizer) -> _Step:
    """The same over several processes; a batch too small for two images each is skipped by all of them."""
    share_loss = distributed.shared_step(step, optimizer)

    def once(batch: Tensor) -> Tensor | None:
        if len(batch) < 2 * distributed.world_size():
            return None
        optimizer.zero_grad(set_to_none=True)
        loss, n_learning = share_loss(batch)
        loss.backward()  # type: ignore[no-untyped-call]
        if not n_learning:
            return None
        optimizer.step()
        return distributed.average(loss)

    return once
