"""Behind the model of a run, a vote: new images go where the nearest of some labelled ones are.

Two stages end so: `update`, where new pictures joined a run, and `corrections`, which has learned from what a person
put right. Both keep features and labels of their images; the features of a new one come from the run's own model.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from selfsort.classic.method import N_VOTERS, VoteModel, vote_state
from selfsort.config import Config
from selfsort.graph.knn import nearest_neighbours
from selfsort.learning.encode import apply_in_blocks
from selfsort.types import F32, I64, Assignment, Clustering, FinishedRun, Inputs, Model, Snapshot, Stage, State


@dataclass(frozen=True, kw_only=True)
class VoteConfig(Config):
    """The number of clusters, and nothing else."""


def voters(features: F32, labels: I64, n_clusters: int) -> State:
    """Pack the images that vote; those with a label below zero have no say."""
    is_voter = labels >= 0
    near = nearest_neighbours(features[is_voter], N_VOTERS)
    # All images the same: any width then gives every neighbour the same vote.
    sigma_sq = float(near.sq_dist.mean(dtype=np.float64)) if near.sq_dist.size else 0.0
    return vote_state(features[is_voter], labels[is_voter], n_clusters, N_VOTERS, sigma_sq or 1.0)


class VotedModel:
    """The model of a run, and the vote behind it."""

    def __init__(self, inner: Model, state: State, device: torch.device) -> None:
        self.inner, self.votes = inner, VoteModel(state, device)

    def apply(self, images: Any, layer: str = "top") -> Assignment:
        """Ask the run's model for features, and their neighbours for the cluster."""
        top = self.inner.apply(images)
        features = top.features if layer == "top" else self.inner.apply(images, layer).features
        return Assignment(features, self.votes.assign(top.features))


def train(
    run: FinishedRun,
    images: Inputs,
    config: VoteConfig,
    *,
    device: torch.device,
    seed: int,
    resume: State | None = None,
) -> Iterator[Snapshot]:
    """Let the run's own labels vote; what a person said and new pictures come from the folder (`runs.derive`)."""
    given = apply_in_blocks(run.model, images)
    state = voters(given.features, given.labels, config.n_clusters)
    soft = VoteModel(state, device).assign(given.features)
    yield Snapshot(1, 1, given.labels, {}, State, Clustering(given.labels, soft, given.features, state))


def restore(run: FinishedRun, config: VoteConfig, state: State, *, device: torch.device) -> VotedModel:
    """Put the vote behind the model of the run."""
    return VotedModel(run.model, state, device)


UPDATE = Stage(
    "update",
    "new pictures join the groups of a run",
    "ours",
    VoteConfig,
    train,
    restore,
    is_inductive=False,
    made_by="selfsort update RUN SOURCE",
)
CORRECTIONS = Stage(
    "corrections",
    "learn from what a person has put right",
    "ours",
    VoteConfig,
    train,
    restore,
    is_inductive=False,
    made_by="selfsort refine RUN --stage corrections",
)
