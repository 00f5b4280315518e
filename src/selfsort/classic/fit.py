"""What the classical methods share: pixels to features, one snapshot, and how new images are labelled.

A classical method is a function from features (N, D) to labels. `classic_method` turns that function into
a full entry of METHODS. New images are labelled by the centroids (k-means) or by an affinity-weighted vote
of their nearest training images (everything built on a graph), as the method chooses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import torch

from selfsort.config import Config
from selfsort.errors import InvalidInput
from selfsort.graph.affinity import unit_rows, vote
from selfsort.graph.knn import nearest_neighbours
from selfsort.types import F32, I64, Arrays, Assignment, Clustering, FeatureModel, Images, Method, Snapshot, State


@dataclass(frozen=True, eq=False)
class Partition:
    """What a classical algorithm found."""

    labels: I64
    centroids: F32 | None = None
    """Given when nearest centroid is the method's own rule for new images."""
    warnings: tuple[str, ...] = ()
    extras: Arrays = field(default_factory=dict)
    event: dict[str, float | int | str] = field(default_factory=dict)


class ClusterFeatures(Protocol):
    """The algorithm itself."""

    def __call__(self, features: F32, config: Any, *, seed: int, device: torch.device) -> Partition:
        """Cluster feature rows."""
        ...


def pixel_features(images: Images) -> F32:
    """Flatten to one row per image and scale it to unit length, as JULE does for every baseline."""
    return unit_rows(images.pixels.reshape(len(images), -1).astype(np.float32) / np.float32(255))


class CentroidModel:
    """Labels by the nearest centroid; soft assignments are those of a mixture of equal round Gaussians."""

    def __init__(self, state: State) -> None:
        self.centroids_KD: F32 = state.arrays["centroids"]
        self.variance = max(float(state.meta["variance"]), 1e-12)

    def apply(self, images: Images, layer: str = "top") -> Assignment:
        """Judge pictures by their pixels."""
        features = pixel_features(images)
        return Assignment(features, self.assign(features))

    def assign(self, features: F32) -> F32:
        """Softmax of the negative squared distances over the variance inside the clusters."""
        _check_width(features, self.centroids_KD)
        log_NK = -_squared_distances(features, self.centroids_KD) / (2 * self.variance)
        soft_NK = np.exp(log_NK - log_NK.max(axis=1, keepdims=True))
        soft: F32 = (soft_NK / soft_NK.sum(axis=1, keepdims=True)).astype(np.float32)
        return soft


class VoteModel:
    """Labels by an affinity-weighted vote of the nearest training features."""

    def __init__(self, state: State, device: torch.device) -> None:
        self.features_ND: F32 = state.arrays["features"]
        self.labels: I64 = state.arrays["labels"]
        self.n_clusters = int(state.meta["n_clusters"])
        self.n_neighbours = int(state.meta["n_neighbours"])
        self.sigma_sq = float(state.meta["sigma_sq"])
        self.device = device

    def apply(self, images: Images, layer: str = "top") -> Assignment:
        """Judge pictures by their pixels."""
        features = pixel_features(images)
        return Assignment(features, self.assign(features))

    def assign(self, features: F32) -> F32:
        """Let the nearest training rows vote."""
        _check_width(features, self.features_ND)
        neighbours = nearest_neighbours(self.features_ND, self.n_neighbours, queries=features, device=self.device)
        return vote(neighbours, self.labels, self.n_clusters, self.sigma_sq)


def vote_state(features: F32, labels: I64, n_clusters: int, n_neighbours: int, sigma_sq: float) -> State:
    """Pack what a `VoteModel` needs."""
    return State(
        {"features": features, "labels": labels},
        {"n_clusters": n_clusters, "n_neighbours": n_neighbours, "sigma_sq": sigma_sq, "rule": "vote"},
    )


def restore(config: Config, state: State, *, device: torch.device) -> FeatureModel:
    """Rebuild the model of any classical method."""
    return CentroidModel(state) if state.meta["rule"] == "centroid" else VoteModel(state, device)


def classic_method(
    name: str,
    summary: str,
    source: str,
    config: type[Config],
    cluster: ClusterFeatures,
    *,
    features_of: Callable[[Images], F32] = pixel_features,
    is_inductive: bool = False,
) -> Method:
    """Wrap an algorithm on features as a full method."""

    def train_on_features(
        features: F32, config: Any, *, device: torch.device, seed: int, resume: State | None = None
    ) -> Iterator[Snapshot]:
        # A single step: a run killed before it ends starts over and, by its seed, ends the same.
        partition = cluster(features, config, seed=seed, device=device)
        yield _only_snapshot(features, partition, config.n_clusters, device)

    def train(
        images: Images, config: Any, *, device: torch.device, seed: int, resume: State | None = None
    ) -> Iterator[Snapshot]:
        return train_on_features(features_of(images), config, device=device, seed=seed, resume=resume)

    return Method(name, summary, source, config, train, restore, is_inductive, train_on_features)


def _only_snapshot(features: F32, partition: Partition, n_clusters: int, device: torch.device) -> Snapshot:
    model = _model_state(features, partition, n_clusters, device)
    fitted = CentroidModel(model) if partition.centroids is not None else VoteModel(model, device)
    soft = fitted.assign(features)
    result = Clustering(partition.labels, soft, features, model, partition.extras)
    return Snapshot(
        step=1,
        total=1,
        labels=partition.labels,
        event=partition.event,
        state=State,
        result=result,
        warnings=partition.warnings,
    )


def _model_state(features: F32, partition: Partition, n_clusters: int, device: torch.device) -> State:
    if partition.centroids is not None:
        nearest = _squared_distances(features, partition.centroids).min(axis=1)
        variance = float(nearest.mean()) / features.shape[1]
        return State({"centroids": partition.centroids}, {"variance": variance, "rule": "centroid"})
    neighbours = nearest_neighbours(features, min(20, len(features) - 1), device=device)
    sigma_sq = float(neighbours.sq_dist.mean())
    return vote_state(features, partition.labels, n_clusters, neighbours.idx.shape[1], sigma_sq)


def _squared_distances(x_ND: F32, y_KD: F32) -> F32:
    squared = (x_ND**2).sum(1)[:, None] + (y_KD**2).sum(1)[None, :] - 2 * x_ND @ y_KD.T
    distances: F32 = np.maximum(squared, 0)
    return distances


def _check_width(features: F32, reference: F32) -> None:
    if features.ndim != 2 or features.shape[1] != reference.shape[1]:
        raise InvalidInput(
            f"features have shape {features.shape}. This model was fitted on rows of {reference.shape[1]} values. "
            "Give images of the same size, or features from the same run."
        )
