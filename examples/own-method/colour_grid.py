"""A method and an encoder of one's own: pictures are sorted by the mean colours of the cells of a grid.

Nothing is special about this package. After `pip install ./examples/own-method` its names are found by
`selfsort methods` and `selfsort encoders`, and its runs are resumed, reported, explored and predicted with like those
of any other method.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch

from selfsort.config import Config, setting
from selfsort.encoders.registry import EncoderCard
from selfsort.types import F32, I64, Assignment, Clustering, Images, Method, Snapshot, State


@dataclass(frozen=True, kw_only=True)
class ColourGridConfig(Config):
    """Settings: every one has a default and a sentence, and is checked here."""

    cells: int = setting(4, "cells of the grid in a row", source="ours")
    rounds: int = setting(5, "rounds of k-means", source="ours")

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require("cells", 1 <= self.cells <= 32, "be between 1 and 32")
        self.require("rounds", self.rounds >= 1, "be at least 1")


def grid_colours(images: Images, cells: int) -> F32:
    """Return (N, cells * cells * C) mean colours, from 0 to 1."""
    n, height, width, channels = images.pixels.shape
    rows = np.array_split(np.arange(height), min(cells, height))
    columns = np.array_split(np.arange(width), min(cells, width))
    means = [images.pixels[:, r[0] : r[-1] + 1, c[0] : c[-1] + 1].mean(axis=(1, 2)) for r in rows for c in columns]
    found: F32 = (np.stack(means, axis=1).reshape(n, len(means) * channels) / 255).astype(np.float32)
    return found


def memberships(features: F32, centres: F32) -> F32:
    """Return (N, K) soft assignments: the nearest centre has the largest share."""
    sq_dist = ((features[:, None, :] - centres[None, :, :]) ** 2).sum(axis=2)
    shares = np.exp(-(sq_dist - sq_dist.min(axis=1, keepdims=True)) * 100)
    soft: F32 = (shares / shares.sum(axis=1, keepdims=True)).astype(np.float32)
    return soft


def train(
    images: Images, config: ColourGridConfig, *, device: torch.device, seed: int, resume: State | None = None
) -> Iterator[Snapshot]:
    """Run k-means: one snapshot for each round, each of which can be gone on from."""
    features = grid_colours(images, config.cells)
    if resume is None:
        done, rows = 0, np.random.default_rng(seed).choice(len(features), config.n_clusters, replace=False)
        centres = features[rows]
    else:
        done, centres = int(resume.meta["done"]), resume.arrays["centres"]
    for step in range(done + 1, config.rounds + 1):
        labels: I64 = memberships(features, centres).argmax(axis=1).astype(np.int64)
        centres = np.stack(
            [features[labels == k].mean(axis=0) if (labels == k).any() else centres[k] for k in range(len(centres))]
        )
        soft = memberships(features, centres)
        labels = soft.argmax(axis=1).astype(np.int64)
        spread = float(((features - centres[labels]) ** 2).sum(axis=1).mean())
        result = None
        if step == config.rounds:
            result = Clustering(labels, soft, features, State({"centres": centres}))
        state = partial(State, {"centres": centres}, {"done": step})
        yield Snapshot(step, config.rounds, labels, {"spread": spread}, state, result)


class ColourGridModel:
    """What `predict` asks."""

    def __init__(self, centres: F32, cells: int) -> None:
        self.centres, self.cells = centres, cells

    def apply(self, images: Images, layer: str = "top") -> Assignment:
        """Sort images that were never seen."""
        features = grid_colours(images, self.cells)
        return Assignment(features, memberships(features, self.centres))


def restore(config: ColourGridConfig, state: State, *, device: torch.device) -> ColourGridModel:
    """Rebuild the model from what was saved."""
    return ColourGridModel(state.arrays["centres"], config.cells)


METHOD = Method(
    "colour-grid",
    "k-means on the mean colours of a grid",
    "an example",
    ColourGridConfig,
    train,
    restore,
    is_inductive=True,
)


class ColourGridEncoder:
    """An encoder: images in [0, 1] to features. Equal digests promise equal features."""

    name, digest, engine = "colour-grid-8", "colour-grid-8 version 1", "torch"
    shape, dim = (32, 32, 3), 8 * 8 * 3

    def features(self, x_BCHW: torch.Tensor) -> torch.Tensor:
        """Return (B, D)."""
        return torch.nn.functional.adaptive_avg_pool2d(x_BCHW, 8).flatten(1)


def open_encoder(device: torch.device, engine: str | None) -> Any:
    """Open it; one that has weights loads them here."""
    return ColourGridEncoder()


ENCODER = EncoderCard(
    name="colour-grid-8",
    source="an example",
    licence="the same as selfsort",
    n_bytes=0,
    dim=8 * 8 * 3,
    shape=(32, 32, 3),
    trained_on="nothing",
    install="pip install ./examples/own-method",
    is_installed=lambda: True,
    open=open_encoder,
)
