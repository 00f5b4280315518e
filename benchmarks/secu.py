"""What a step of SeCu costs on top of the bare network, and whether assigning images costs more when there are more.

The bare network sees two ready batches, forward and backward, and takes the optimiser's step. Ours also draws both
views, assigns every head, updates the duals and computes both losses.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import numpy as np
import torch

from selfsort.methods import secu
from selfsort.types import Images

N_STEPS = 4


def run() -> dict[str, float]:
    """Return the ratios of the goals, for the network of the CPU recipe with all ten heads."""
    return {
        "secu_step_overhead": _overhead(),
        "secu_assignment_growth": _assignment_seconds(40_000) / _assignment_seconds(4_000),
        "secu_label_bytes_per_head": _label_bytes(),
    }


def _start(n: int) -> tuple[secu._Run, secu._Epoch]:
    pixels = np.random.default_rng(0).integers(0, 256, (n, 32, 32, 3)).astype(np.uint8)
    run = secu._Run(Images(pixels), secu.SeCuConfig(n_clusters=10, arch="small"), torch.device("cpu"), seed=0)
    run.net.train()
    return run, secu._Epoch(run)


def _overhead() -> float:
    run, epoch = _start(1024)
    batch = torch.arange(run.config.batch_size)
    ready = run.pixels.floats(batch).contiguous(memory_format=torch.channels_last)

    def step(loss: torch.Tensor) -> None:
        run.optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        run.optimizer.step()

    def bare() -> None:
        for _ in range(N_STEPS):
            (first,), (second,) = run.net(ready), run.net(ready)
            step((first * second).sum())

    def ours() -> None:
        for _ in range(N_STEPS):
            loss = epoch.step(batch)
            assert loss is not None
            step(loss)

    return _ratio(ours, bare)


def _assignment_seconds(n: int) -> float:
    run, epoch = _start(n)
    views = [[torch.nn.functional.normalize(torch.randn(128, run.config.dim), dim=1)] for _ in range(2)]
    old = torch.zeros(128, dtype=torch.int64)

    def assign() -> None:
        for _ in range(50):
            for h in range(run.config.n_heads):
                epoch.assign(h, views, old)

    return statistics.median(_seconds(assign) for _ in range(5))


def _label_bytes() -> float:
    run, _ = _start(1000)
    return run.assigned_NH.element_size() * run.assigned_NH.numel() / (len(run.images) * run.config.n_heads)


def _seconds(work: Callable[[], None]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def _ratio(ours: Callable[[], None], bare: Callable[[], None], n_rounds: int = 7) -> float:
    _seconds(bare), _seconds(ours)
    return statistics.median(_seconds(ours) / _seconds(bare) for _ in range(n_rounds))


if __name__ == "__main__":
    print(run())
