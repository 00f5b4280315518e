"""What our inner loop costs on top of the bare network: same batches, same steps, ready tensors against uint8."""

from __future__ import annotations

import statistics
import time

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from selfsort.learning.batches import PixelTensor, shuffled_batches
from selfsort.learning.epoch import run_epoch
from selfsort.learning.seeds import seeded_init, torch_generator
from selfsort.types import Images

N, BATCH = 4000, 100


def _network() -> nn.Module:
    with seeded_init(0):
        net = nn.Sequential(
            nn.Conv2d(1, 50, 5), nn.BatchNorm2d(50), nn.ReLU(), nn.MaxPool2d(2, ceil_mode=True),
            nn.Conv2d(50, 50, 5), nn.BatchNorm2d(50), nn.ReLU(), nn.Flatten(), nn.Linear(3200, 160),
        )  # fmt: skip
    return net.to(memory_format=torch.channels_last)  # type: ignore[call-overload,no-any-return]


def run() -> dict[str, float]:
    """Return `inner_loop_overhead`: our epoch over the bare one (goal: at most 1.1)."""
    pixels = np.random.default_rng(0).integers(0, 256, (N, 28, 28, 1)).astype(np.uint8)
    source = PixelTensor(Images(pixels), torch.device("cpu"))
    batches = list(shuffled_batches(N, BATCH, torch_generator(0, "order")))
    ready = [source.floats(batch).contiguous(memory_format=torch.channels_last) for batch in batches]
    net = _network()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)

    def loss_of(x: Tensor) -> Tensor:
        return F.normalize(net(x)).pow(2).sum()

    def bare() -> float:
        started = time.perf_counter()
        for x in ready:
            loss = loss_of(x)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
        return time.perf_counter() - started

    def ours() -> float:
        started = time.perf_counter()
        run_epoch(lambda batch: loss_of(source.floats(batch)), batches, optimizer)
        return time.perf_counter() - started

    bare(), ours()
    ratios = [ours() / bare() for _ in range(7)]
    return {"inner_loop_overhead": statistics.median(ratios)}


if __name__ == "__main__":
    print(run())
