"""What mining and scoring triplets costs JULE: an epoch against the bare network on the same batches.

Two networks (USPS, 16 pixels: the cheapest published one; MNIST, 28 pixels) at three moments of a run: many small
clusters, a few dozen, the final ten.
"""

from __future__ import annotations

import statistics
import time

import numpy as np
import torch
from torch.nn import functional as F

from selfsort.methods.jule import JULEConfig, _Run
from selfsort.training import PixelTensor, shuffled_batches, torch_generator
from selfsort.types import Images

N = 2000
CPU = torch.device("cpu")


def _ratio(side: int, n_clusters: int, rounds: int) -> float:
    """Return the median over interleaved rounds of our epoch over the bare one."""
    generator = np.random.default_rng(0)
    images = Images(generator.integers(0, 256, (N, side, side, 1)).astype(np.uint8))
    config = JULEConfig(n_clusters=2)
    run = _Run(images, config, CPU, seed=0)
    run.labels = generator.integers(0, n_clusters, N)
    pixels = PixelTensor(images, CPU)
    batches = list(shuffled_batches(N, config.batch_size, torch_generator(0, "order")))
    ready = [pixels.floats(batch) for batch in batches]

    def bare() -> float:
        started = time.perf_counter()
        for x in ready:
            # The sum of the normalised features is a loss that costs next to nothing.
            loss = F.normalize(run.net(x)).sum()
            run.optimizer.zero_grad(set_to_none=True)
            loss.backward()  # type: ignore[no-untyped-call]
            run.optimizer.step()
        return time.perf_counter() - started

    def ours() -> float:
        return run.train_epoch().seconds

    bare(), ours()
    return statistics.median(ours() / bare() for _ in range(rounds))


def run(rounds: int = 7) -> dict[str, float]:
    """Return `jule_epoch_overhead`, the worst of all, and each ratio (goal: at most 1.3)."""
    ratios = {
        f"jule_epoch_{side}px_{n_clusters}_clusters": _ratio(side, n_clusters, rounds)
        for side in (16, 28)
        for n_clusters in (N // 6, 40, 10)
    }
    return {"jule_epoch_overhead": max(ratios.values()), **ratios}


if __name__ == "__main__":
    for name, value in run().items():
        print(f"{name:34} {value:.3f}")
