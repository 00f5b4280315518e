"""What a pool of DAC costs on top of the bare network: targets, moved images and pair losses against ready tensors."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import numpy as np
import torch

from selfsort.methods import dac
from selfsort.types import Images

N = 512


def run() -> dict[str, float]:
    """Return the ratio for a pool of 512 images that is trained on five times (goal: at most 1.25)."""
    pixels = np.random.default_rng(0).integers(0, 256, (N, 28, 28, 1)).astype(np.uint8)
    config = dac.DACConfig(n_clusters=10, width=32)
    state = dac._Run(Images(pixels), config, torch.device("cpu"), seed=0)
    pool = torch.arange(N)
    ready = [
        state.pixels.floats(part).contiguous(memory_format=torch.channels_last)
        for part in dac.evenly(pool, config.batch_size)
    ]

    def bare() -> None:
        state.net.train()
        for _ in range(config.inner_epochs):
            for x in ready:
                loss = state.net(x).square().mean()
                state.optimizer.zero_grad(set_to_none=True)
                loss.backward()
                state.optimizer.step()

    def ours() -> None:
        state.learn_pool(pool, dac.Thresholds(config.upper, config.lower))

    return {"dac_pass_overhead": _ratio(ours, bare)}


def _ratio(ours: Callable[[], None], bare: Callable[[], None], n_rounds: int = 3) -> float:
    def seconds(work: Callable[[], None]) -> float:
        started = time.perf_counter()
        work()
        return time.perf_counter() - started

    seconds(bare)
    return statistics.median(seconds(ours) / seconds(bare) for _ in range(n_rounds))


if __name__ == "__main__":
    print(run())
