"""A method of several quick steps, each of which depends on a random stream, for tests of stopping and resuming.

`python tests/toy.py WORDS` is the command line with this method added, and with the state saved after every step.
With TOY_PAUSE_AT=N in the environment the method says so at step N and then waits for a signal or for the end of
standard input.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from selfsort.config import Config, setting
from selfsort.types import F32, I64, Assignment, Clustering, Images, Method, Snapshot, State


@dataclass(frozen=True, kw_only=True)
class ToyConfig(Config):
    steps: int = setting(5, "snapshots to yield")


def train(
    images: Images, config: Any, *, device: torch.device, seed: int, resume: State | None = None
) -> Iterator[Snapshot]:
    generator = np.random.default_rng(seed)
    soft: F32 = np.full((len(images), config.n_clusters), 1 / config.n_clusters, dtype=np.float32)
    done = 0
    if resume is not None:
        generator.bit_generator.state = resume.meta["generator"]
        soft, done = resume.arrays["soft"], resume.meta["done"]
    for step in range(done + 1, config.steps + 1):
        if os.environ.get("TOY_PAUSE_AT") == str(step):
            print("paused", file=sys.stderr, flush=True)
            sys.stdin.read()  # ends by a signal, or when the other side hangs up after having sent one
        soft = soft * generator.random(soft.shape, dtype=np.float32)
        soft /= soft.sum(axis=1, keepdims=True)
        labels: I64 = soft.argmax(axis=1).astype(np.int64)
        state = State({"soft": soft}, {"generator": generator.bit_generator.state, "done": step})
        yield Snapshot(
            step=step,
            total=config.steps,
            labels=labels,
            event={"loss": float(soft.max())},
            state=functools.partial(_same, state),
            result=Clustering(labels, soft, features_of(images), State({"bias": soft[0]}))
            if step == config.steps
            else None,
            history={"labels": labels},
        )


def _same(state: State) -> State:
    return state


def features_of(images: Images) -> F32:
    features: F32 = images.pixels.reshape(len(images), -1).astype(np.float32)
    return features


class ToyModel:
    def __init__(self, bias: F32) -> None:
        self.bias = bias

    def apply(self, images: Images, layer: str = "top") -> Assignment:
        return Assignment(features_of(images), np.tile(self.bias, (len(images), 1)))


def restore(config: Any, state: State, *, device: torch.device) -> ToyModel:
    return ToyModel(state.arrays["bias"])


TOY = Method("toy", "multiplies random numbers", "nobody", ToyConfig, train, restore, is_inductive=False)


def install() -> None:
    """Add the toy to this process, for good."""
    from selfsort.methods import registry
    from selfsort.runs import launch as session
    from selfsort.runs.loop import FitRun

    registry.OWN["toy"] = TOY
    vars(session)["FitRun"] = functools.partial(FitRun, save_interval=0)


def main() -> None:
    """Run the command line with the toy."""
    from selfsort.cli import main as cli

    install()
    cli.main()


if __name__ == "__main__":
    main()
