"""What the classical methods share: pixels to features, one snapshot, and how new images are labelled.

A classical method is a function from features (N, D) to a `Partition`. `classic_method` turns that function
into a full entry of METHODS. New images are labelled by the centroids (k-means) or by an affinity-weighted vote
of their nearest training images (everything else), as the partition says.

Shape letters: N images, D features, K clusters, M neighbours, B rows of a block.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, NoReturn, Protocol, cast

import numpy as np
import torch
from torch import nn

from selfsort.config import Config, setting
from selfsort.data.store import allocate_floats
from selfsort.errors import InvalidInput, invalid
from selfsort.graph.affinity import unit_rows, vote
from selfsort.graph.augmented import augmented_neighbours
from selfsort.graph.knn import nearest_neighbours
from selfsort.graph.neighbours import Neighbours
from selfsort.nets.heads import CentroidHead, Compared, PixelRows, VoteHead
from selfsort.pages import all_finite, forget
from selfsort.types import (
    F32,
    I64,
    Arrays,
    Assignment,
    Clustering,
    Encoded,
    FeatureModel,
    Images,
    Inputs,
    Method,
    Snapshot,
    State,
)

N_VOTERS = 20
"""Neighbours that vote on a new image when the method has no neighbourhood of its own; JULE's K_s."""

MAX_DENSE = 20_000
"""Most images for which a method may hold an array of images by images."""

# Rows judged together. A matrix product may round a row differently in blocks of another height, so the height is
# fixed, and divides the 4,096 images that a saved run is predicted in: predicting the training images in order
# then repeats the very same products and gives the very same labels.
_BLOCK = 1024
_PIXELS_AT_ONCE = 2**22


@dataclass(frozen=True, eq=False)
class Partition:
    """What a classical algorithm found."""

    labels: I64
    centroids: F32 | None = None
    """Given when nearest centroid is the method's own rule for new images."""
    neighbours: Neighbours | None = None
    """Neighbours of the features, if the method has searched for them anyway."""
    warnings: tuple[str, ...] = ()
    extras: Arrays = field(default_factory=dict)
    event: dict[str, float | int | str] = field(default_factory=dict)


class ClusterFeatures(Protocol):
    """The algorithm itself."""

    def __call__(self, features: F32, config: Any, *, seed: int, device: torch.device) -> Partition:
        """Cluster feature rows."""
        ...


class ClusterGraph(Protocol):
    """The algorithm of a method whose settings are a `GraphConfig`: it may be given the neighbours."""

    def __call__(
        self, features: F32, config: Any, *, seed: int, device: torch.device, neighbours: Neighbours | None = None
    ) -> Partition:
        """Cluster feature rows."""
        ...


@dataclass(frozen=True, kw_only=True)
class PixelConfig(Config):
    """Settings of a method that sees pixels without a graph of its own."""

    centre: bool = setting(
        False, "subtract the mean image first; some published rows were made so. Features of a run stay as they are"
    )


@dataclass(frozen=True, kw_only=True)
class GraphConfig(Config):
    """Settings of a method that joins images to their neighbours."""

    neighbours: Literal["plain", "augmented"] = setting(
        "plain", "compare images as they are, or by the nearest of several views of one of them (pixels only)"
    )
    views: Literal["mild", "strong"] = setting(
        "strong", "views for neighbours=augmented: 11, or 23, which also combine shifts, angles and zooms"
    )


def wants_centred(config: Config) -> bool:
    """Say whether a method, so set, wants the mean image subtracted before rows are scaled to unit length."""
    centre = getattr(config, "centre", False)
    return getattr(config, "graph", "") == "local" if centre == "auto" else bool(centre)


def wants_augmented(config: Config) -> bool:
    """Say whether a method, so set, compares images in several views."""
    return isinstance(config, GraphConfig) and config.neighbours == "augmented"


def refuse_augmented() -> NoReturn:
    """Refuse several views where there are no pixels."""
    raise invalid(
        "neighbours",
        "be plain for the features of an encoder or a table, which cannot be translated or rotated",
        "'augmented'",
        "Leave neighbours out, or use --encoder none.",
    )


def search_augmented(
    images: Images, features: F32, config: Any, *, device: torch.device, mean: F32 | None = None
) -> Neighbours:
    """Find the K_s nearest of each image in several views, given its pixels as features."""
    limit = getattr(config, "exact_search_limit", 0) or None
    return augmented_neighbours(
        images.pixels, features, config.K_s, strength=config.views, mean=mean, device=device, exact_limit=limit
    )


def pixel_features(images: Images, mean: F32 | None = None) -> F32:
    """Flatten to one row per image, subtract a mean image if there is one, and scale each row to unit length.

    Without a mean this is what JULE gives every baseline. Pixels are taken as 0..1.
    """
    flat = images.pixels.reshape(len(images), -1)
    features: F32 = allocate_floats(flat.shape)
    n_block = max(1, _PIXELS_AT_ONCE // flat.shape[1])
    for start in range(0, len(flat), n_block):  # whole-array steps would hold three copies of the data at once
        block = flat[start : start + n_block].astype(np.float32)
        block /= np.float32(255)
        if mean is not None:
            block -= mean
        features[start : start + n_block] = unit_rows(block)
        forget(features)
        forget(images.pixels)
    return features


def rows_of(images: Inputs, mean: F32 | None = None) -> F32:
    """Return one row per image: its pixels, or what an encoder made of it."""
    if not isinstance(images, Encoded):
        return pixel_features(images, mean)
    # Feature maps as the mean over their places.
    return images.features if images.features.ndim == 2 else images.features.mean(axis=(2, 3))


def mean_image(images: Images) -> F32:
    """Return the mean of all images as one row, pixels taken as 0..1."""
    flat = images.pixels.reshape(len(images), -1)
    total = np.zeros(flat.shape[1])
    for start in range(0, len(flat), _BLOCK):
        total += flat[start : start + _BLOCK].sum(axis=0, dtype=np.float64)
        forget(images.pixels)
    mean: F32 = (total / (255 * len(flat))).astype(np.float32)
    return mean


class CentroidModel:
    """Labels by the nearest centroid; soft assignments are those of a mixture of equal round Gaussians."""

    def __init__(self, state: State) -> None:
        self.centroids_KD: F32 = _rows(state, "centroids")
        self.variance = max(float(state.meta["variance"]), 1e-12)
        self.mean_image: F32 | None = state.arrays.get("mean_image")

    def apply(self, images: Inputs, layer: str = "top") -> Assignment:
        """Judge pictures by their pixels, or by what an encoder made of them."""
        features = rows_of(images, self.mean_image)
        return Assignment(features, self.assign(features))

    def exported(self) -> nn.Module:
        """Return the comparison with the centres as a module."""
        head = CentroidHead(torch.from_numpy(self.centroids_KD.copy()), self.variance)
        return Compared(_pixel_rows(self.mean_image), head)

    def assign(self, features: F32) -> F32:
        """Softmax of the negative squared distances over the variance inside the clusters."""
        _check_width(features, self.centroids_KD)
        soft_NK: F32 = allocate_floats((len(features), len(self.centroids_KD)))
        for start in range(0, len(features), _BLOCK):
            block = slice(start, start + _BLOCK)
            log_BK = -squared_distances(features[block], self.centroids_KD) / (2 * self.variance)
            forget(features)
            soft_BK = np.exp(log_BK - log_BK.max(axis=1, keepdims=True))
            soft_NK[block] = soft_BK / soft_BK.sum(axis=1, keepdims=True)
        return soft_NK


class VoteModel:
    """Labels by an affinity-weighted vote of the nearest training rows."""

    def __init__(self, state: State, device: torch.device) -> None:
        self.features_ND: F32 = _rows(state, "features")
        self.labels: I64 = state.arrays["labels"].astype(np.int64)
        self.mean_image: F32 | None = state.arrays.get("mean_image")
        self.n_clusters = int(state.meta["n_clusters"])
        self.n_neighbours = int(state.meta["n_neighbours"])
        if (
            self.labels.shape != (len(self.features_ND),)
            or not 0 <= self.labels.min() <= self.labels.max() < self.n_clusters
        ):
            raise ValueError("its labels do not fit its features")
        self.sigma_sq = float(state.meta["sigma_sq"])
        self.device = device

    def apply(self, images: Inputs, layer: str = "top") -> Assignment:
        """Judge pictures by their pixels, or by what an encoder made of them."""
        features = rows_of(images, self.mean_image)
        return Assignment(features, self.assign(features))

    def exported(self) -> nn.Module:
        """Return the vote as a module, with the training rows inside."""
        return Compared(_pixel_rows(self.mean_image), self.head())

    def head(self) -> VoteHead:
        """Return the vote on rows as a module."""
        rows, labels = (torch.from_numpy(array.copy()) for array in (self.features_ND, self.labels))
        return VoteHead(rows, labels, self.n_clusters, self.n_neighbours, self.sigma_sq)

    def assign(self, features: F32) -> F32:
        """Let the nearest training rows vote."""
        _check_width(features, self.features_ND)
        found = nearest_neighbours(self.features_ND, self.n_neighbours, queries=features, device=self.device)
        return self.count_votes(found)

    def count_votes(self, neighbours: Neighbours) -> F32:
        """Let these training rows vote."""
        return vote(neighbours, self.labels, self.n_clusters, self.sigma_sq)


def _pixel_rows(mean: F32 | None) -> PixelRows:
    return PixelRows(None if mean is None else torch.from_numpy(mean.copy()))


def _rows(state: State, name: str) -> F32:
    """Take a table of finite numbers from a saved state, which somebody may have changed."""
    rows = state.arrays[name]
    if rows.ndim != 2 or rows.size == 0 or rows.dtype.kind != "f" or not all_finite(rows):
        raise ValueError(f"{name!r} is no table of finite numbers")
    return rows.astype(np.float32, copy=False)


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
    is_inductive: bool = False,
    is_shareable: bool = False,
) -> Method:
    """Wrap an algorithm on features as a full method."""

    def only(features: F32, config: Any, run: ClusterFeatures, seed: int, device: torch.device) -> Snapshot:
        # A single step: a run killed before it ends starts over and, by its seed, ends the same.
        _check_features(features, config.n_clusters)
        partition = run(features, config, seed=seed, device=device)
        return _only_snapshot(features, partition, config.n_clusters, device)

    def train_on_features(
        features: F32, config: Any, *, device: torch.device, seed: int, resume: State | None = None
    ) -> Iterator[Snapshot]:
        if wants_augmented(config):
            refuse_augmented()
        yield only(features, config, cluster, seed, device)

    def train(
        images: Images, config: Any, *, device: torch.device, seed: int, resume: State | None = None
    ) -> Iterator[Snapshot]:
        mean = mean_image(images) if wants_centred(config) else None
        features, run = pixel_features(images, mean), cluster
        if wants_augmented(config):
            found = search_augmented(images, features, config, device=device, mean=mean)
            run = partial(cast(ClusterGraph, cluster), neighbours=found)
        snapshot = only(features, config, run, seed, device)
        if mean is not None and snapshot.result is not None:
            snapshot.result.model.arrays["mean_image"] = mean
        yield snapshot

    return Method(
        name,
        summary,
        source,
        config,
        train,
        restore,
        is_inductive,
        train_on_features,
        is_shareable=is_shareable,
        learns_on="features",
    )


def refuse_dense(n_images: int, limit: int, method: str) -> None:
    """Refuse, before any work, more images than an array of images by images can be held for."""
    if n_images > limit:
        raise invalid(
            "the number of images",
            f"be at most {limit:,} for {method}, which compares every image with every other",
            f"{n_images:,}",
            "Use ac-gdl or sc-ls, which have no such limit, or cluster a sample and predict the rest.",
        )


def _only_snapshot(features: F32, partition: Partition, n_clusters: int, device: torch.device) -> Snapshot:
    if partition.centroids is not None:
        model, soft = _fit_centroids(features, partition.centroids)
        # The model's own verdict: what a solver's last iteration says may differ from it by a rounding.
        labels: I64 = np.argmax(soft, axis=1).astype(np.int64)
    else:
        model, soft = _fit_vote(features, partition, n_clusters, device)
        labels = partition.labels
    result = Clustering(labels, soft, features, model, partition.extras)
    return Snapshot(
        step=1,
        total=1,
        labels=labels,
        event=partition.event,
        state=State,
        result=result,
        warnings=partition.warnings,
    )


def _fit_centroids(features: F32, centroids: F32) -> tuple[State, F32]:
    nearest = 0.0
    for i in range(0, len(features), _BLOCK):
        nearest += float(squared_distances(features[i : i + _BLOCK], centroids).min(axis=1).sum())
        forget(features)
    variance = nearest / features.size
    model = State({"centroids": centroids}, {"variance": variance, "rule": "centroid"})
    return model, CentroidModel(model).assign(features)


def _fit_vote(features: F32, partition: Partition, n_clusters: int, device: torch.device) -> tuple[State, F32]:
    neighbours = partition.neighbours
    if neighbours is None:
        neighbours = nearest_neighbours(features, N_VOTERS, device=device)
    # The mean is zero when all images are the same; any width then gives every neighbour the same vote.
    sigma_sq = float(neighbours.sq_dist.mean(dtype=np.float64)) or 1.0
    model = vote_state(features, partition.labels, n_clusters, neighbours.n_neighbours, sigma_sq)
    return model, VoteModel(model, device).count_votes(_with_self(neighbours))


def _with_self(neighbours: Neighbours) -> Neighbours:
    """Put each training image before its neighbours, where a search for it as a new image would find it."""
    own_N1 = np.arange(len(neighbours))[:, None]
    return Neighbours(
        np.hstack([own_N1, neighbours.idx[:, :-1]]),
        np.hstack([np.zeros_like(neighbours.sq_dist[:, :1]), neighbours.sq_dist[:, :-1]]),
        neighbours.n_asked,
    )


def squared_distances(x_ND: F32, y_KD: F32) -> F32:
    """Return the squared distances (N, K) of some rows to others."""
    squared = x_ND @ y_KD.T
    squared *= -2
    squared += np.einsum("nd,nd->n", x_ND, x_ND)[:, None]
    squared += np.einsum("kd,kd->k", y_KD, y_KD)
    distances: F32 = np.maximum(squared, 0, out=squared)
    return distances


def _check_features(features: F32, n_clusters: int) -> None:
    if features.ndim != 2 or features.shape[1] == 0:
        raise invalid("features", "be a table of images by values", f"shape {features.shape}", "Flatten each image.")
    if not all_finite(features):
        raise invalid("features", "be finite", "NaN or infinity", "Look for a training run that diverged.")
    if n_clusters > len(features):
        raise invalid(
            "n_clusters",
            f"be between 2 and the number of images ({len(features)})",
            n_clusters,
            "Lower n_clusters or add images.",
        )


def _check_width(features: F32, reference: F32) -> None:
    if features.ndim != 2 or features.shape[1] != reference.shape[1]:
        raise InvalidInput(
            f"features have shape {features.shape}. This model was fitted on rows of {reference.shape[1]} values. "
            "Give images of the same size, or features from the same run."
        )
