"""What an epoch of FCAE and of DBC costs on top of the bare network: same batches, same passes, ready tensors.

The bare network of stage II includes the evaluation pass over all images that the method asks for in every epoch.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import numpy as np
import torch

from selfsort.learning.batches import shuffled_batches, tensor_of
from selfsort.methods import dbc
from selfsort.methods._dbc_history import glance
from selfsort.types import Images

N = 4096


def run() -> dict[str, float]:
    """Return both ratios (goal: at most 1.2)."""
    pixels = np.random.default_rng(0).integers(0, 256, (N, 28, 28, 1)).astype(np.uint8)
    config = dbc.DBCConfig(n_clusters=10)
    state = dbc._Run.new(Images(pixels), config, torch.device("cpu"), seed=0)
    source = tensor_of(state.images, state.device)
    batches = list(shuffled_batches(N, config.batch_size, state.shuffling))
    ready = [source.floats(batch).contiguous(memory_format=torch.channels_last) for batch in batches]
    net = state.net

    def step(loss: torch.Tensor) -> None:
        state.optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        state.optimizer.step()

    def bare_first() -> None:
        net.train()
        for x in ready:
            step(dbc.reconstruction_loss(x, net(x)[1]))

    def ours_first() -> None:
        glance(dbc._reconstruct(state)[0], config.n_clusters, seed=0)

    first = _ratio(ours_first, bare_first)
    state.set_centres(state.encode()[:10])
    state.enter_stage_two()
    target = dbc.boost(state.log_scores(state.encode()), config.alpha, config.n_j).r

    def bare_second() -> None:
        net.eval()
        for x, batch in zip(ready, batches, strict=True):
            step(dbc.kl_loss(target[batch], dbc.log_scores(net.encoder(x), state.mu)))
        with torch.inference_mode():
            for x in ready:
                net.encoder(x)

    def ours_second() -> None:
        log_s = state.log_scores(state.encode())
        dbc._learn_target(state, config, dbc.boost(log_s, config.alpha, config.n_j).r, is_still=False)

    return {"fcae_epoch_overhead": first, "dbc_epoch_overhead": _ratio(ours_second, bare_second)}


def _ratio(ours: Callable[[], None], bare: Callable[[], None], n_rounds: int = 7) -> float:
    def seconds(work: Callable[[], None]) -> float:
        started = time.perf_counter()
        work()
        return time.perf_counter() - started

    seconds(bare), seconds(ours)
    return statistics.median(seconds(ours) / seconds(bare) for _ in range(n_rounds))


if __name__ == "__main__":
    print(run())
