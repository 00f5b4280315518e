"""What teaching costs on top of the bare network, and augmented neighbours on top of the plain search, in one process.

The bare network sees one ready batch, forward and backward, and takes the optimiser's step. Ours also cuts and augments
the batch and smooths its labels; an epoch also asks the network about all images as they are.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import numpy as np
import torch
import torch.nn.functional as F

from selfsort.bench.datasets import find_or_exit
from selfsort.graph.affinity import unit_rows
from selfsort.graph.augmented import augmented_neighbours
from selfsort.graph.knn import nearest_neighbours
from selfsort.methods import teach
from selfsort.types import U8, Images

N_STEPS, N_IMAGES = 8, 4000


def run() -> dict[str, float]:
    """Return the ratios of the goals, on digits of 28 x 28."""
    with np.load(find_or_exit("mnist")) as archive:
        pixels: U8 = archive["images"][..., None]
    step, epoch = _teaching(pixels[: N_STEPS * 128])
    ranked, full = _neighbours(pixels[:N_IMAGES])
    return {
        "teach_step_overhead": step,
        "teach_epoch_overhead": epoch,
        "augmented_over_plain_ranked": ranked,
        "augmented_over_plain_full": full,
    }


def _teaching(pixels: U8) -> tuple[float, float]:
    """Compare a pass of steps, and the same with the answers after it, with as many bare steps."""
    labels = np.arange(len(pixels)) % 10
    run = teach._Run(Images(pixels), teach.TeachConfig(n_clusters=10), (10,), torch.device("cpu"), seed=0)
    run.begin(labels)
    run.epoch = run.n_epochs  # past the third after which answers are asked for
    ready = run.pixels.floats(torch.arange(128)).contiguous(memory_format=torch.channels_last)
    target = torch.from_numpy(labels[:128])
    bare_net = teach.Pupil((28, 28, 1), 10)
    optimizer = torch.optim.SGD(bare_net.parameters(), 0.01, momentum=0.9, nesterov=True)

    def bare() -> None:
        for _ in range(N_STEPS):
            optimizer.zero_grad(set_to_none=True)
            F.cross_entropy(bare_net.logits(ready), target).backward()  # type: ignore[no-untyped-call]
            optimizer.step()

    def asked() -> None:
        run.train_epoch()
        run.answer()

    return _ratio(run.train_epoch, bare), _ratio(asked, bare)


def _neighbours(pixels: U8) -> tuple[float, float]:
    """Compare the search in 23 views, both ways, with the plain one."""
    features = unit_rows(pixels)

    def plain() -> None:
        nearest_neighbours(features, 20)

    def ranked() -> None:
        augmented_neighbours(pixels, features, 20, full_cost=0.0)

    def full() -> None:
        augmented_neighbours(pixels, features, 20)

    return _ratio(ranked, plain, 3), _ratio(full, plain, 3)


def _seconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def _ratio(ours: Callable[[], object], bare: Callable[[], object], n_rounds: int = 7) -> float:
    """Time both in turns: a busy minute hits both."""
    _seconds(bare), _seconds(ours)
    return statistics.median(_seconds(ours) / _seconds(bare) for _ in range(n_rounds))


if __name__ == "__main__":
    print(run())
