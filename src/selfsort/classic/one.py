"""Everything in one cluster: what is left to say where there is nothing to sort."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch

from selfsort.classic.method import rows_of
from selfsort.config import Config, setting
from selfsort.types import F32, Assignment, Clustering, Inputs, Method, Snapshot, State

NAME = "one"


@dataclass(frozen=True, kw_only=True)
class OneConfig(Config):
    """One cluster."""

    n_clusters: int = setting(1, "one")

    def __post_init__(self) -> None:
        self.require("n_clusters", self.n_clusters == 1, "be 1")


def train(
    images: Inputs, config: OneConfig, *, device: torch.device, seed: int, resume: State | None = None
) -> Iterator[Snapshot]:
    """Yield the only snapshot."""
    labels = np.zeros(len(images), dtype=np.int64)
    result = Clustering(labels, np.ones((len(images), 1), np.float32), _rows(images), State(meta={"rule": NAME}))
    yield Snapshot(1, 1, labels, {}, State, result)


def _rows(images: Inputs) -> F32:
    rows = rows_of(images)
    return rows.reshape(len(rows), -1)


class OneModel:
    """Gives every image the same answer."""

    def apply(self, images: Inputs, layer: str = "top") -> Assignment:
        """Return pixels or features, and certainty."""
        return Assignment(_rows(images), np.ones((len(images), 1), np.float32))


def restore(config: OneConfig, state: State, *, device: torch.device) -> OneModel:
    """Return the model, which has learned nothing."""
    return OneModel()


METHOD = Method(
    NAME,
    "everything in one cluster, where there is nothing to sort; chosen by --clusters auto and not by name",
    "ours",
    OneConfig,
    train,
    restore,
    is_inductive=True,
    learns_on="features",
)
