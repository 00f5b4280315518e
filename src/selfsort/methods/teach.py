"""teach: cluster the neighbour graph, let a fresh network learn the clusters from augmented images, and believe it.

Ours. A clustering of pixels is right about most images, and wrong about some that are scattered over all clusters. A
network that has to give augmented copies of an image the label of its cluster cannot learn such errors by heart: it
finds the rule that most images follow, and then says itself what the others should have been.

Of pixels:
1. The neighbour graph of the images, compared in several views (`graph.augmented`), falls into communities (leiden).
2. A fresh small network learns the clusters from augmented copies, by cross-entropy with smoothed labels. After a third
   of the epochs each label is what the network itself, on a moving average, answers to the image as it is.
3. With several rounds the first ones learn more, smaller and purer clusters than asked for; the graph of what the
   network sees falls into fewer, and a fresh network learns those.
The last network labels the images, and new ones.

Of an encoder's features (`methods._teach_head`): one linear layer starts at the centres of k-means and learns that an
image and one of its neighbours, both in augmented views, belong together (Adaloglou et al., TEMI, BMVC 2023).

`selfsort refine RUN --stage teach` begins with the labels of a finished run of any method in place of the graph.

It removes scattered errors. A class cut in two, or two classes in one cluster, is learned as it is.

Shape letters: N images, B batch, C, H, W image, D features, K clusters.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Literal

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from selfsort.augment.policy import gentle
from selfsort.classic.gdl import short_graph_note
from selfsort.classic.method import GraphConfig, pixel_features, search_augmented, wants_augmented
from selfsort.config import setting
from selfsort.errors import InvalidInput
from selfsort.graph.affinity import digraph
from selfsort.graph.agglomerate import Agglomeration, agglomerate, nearest_neighbour_components
from selfsort.graph.approximate import EXACT_LIMIT, find_neighbours
from selfsort.graph.communities import community_width, find_n_communities, symmetric_affinities
from selfsort.graph.neighbours import Neighbours
from selfsort.learning.batches import PixelTensor, shuffled_batches
from selfsort.learning.checkpoint import Checkpoint, pack_module, saved_shape, unpack_module
from selfsort.learning.encode import check_request, encode_several
from selfsort.learning.epoch import EpochStats, run_epoch
from selfsort.learning.rates import one_cycle
from selfsort.learning.seeds import derive_seed, seeded_init, torch_generator
from selfsort.methods._teach_head import HeadConfig, LinearHead, judge_rows, train_head
from selfsort.nets.averaged import averaging_factor
from selfsort.nets.heads import unit
from selfsort.nets.norm import Standardise
from selfsort.types import (
    F32,
    I64,
    Assignment,
    Clustering,
    Encoded,
    FinishedRun,
    Images,
    Inputs,
    Method,
    Snapshot,
    State,
)

_WIDTHS = (32, 32, 64, 64, 96)
"""Channels of the convolutions; the second and the fourth are pooled."""

_EPOCHS, _LEAST_STEPS, _LEAST_STEPS_EACH = 18, 600, 30


@dataclass(frozen=True, kw_only=True)
class TeachConfig(HeadConfig, GraphConfig):
    """Settings; those that begin with `head_` are for the features of an encoder, the others for pixels."""

    neighbours: Literal["plain", "augmented"] = setting(
        "augmented", "compare images as they are, or by the nearest of several views of one of them"
    )
    grouping: Literal["leiden", "ac-gdl"] = setting("leiden", "how clusters are found on the graph")
    K_s: int | Literal["auto"] = setting(
        "auto", "neighbours of an image in the graph: a fourteenth of a cluster, from 4 to 14"
    )
    structure_weight: float = setting(1.0, "of ac-gdl: weight of JULE's local structure term")
    rounds: int = setting(1, "networks taught one after the other")
    finer: float = setting(3.0, "the first of several rounds learns so many times the clusters asked for")
    epochs: int | Literal["auto"] = setting(
        "auto", "passes over the images in a round: 18, or as many as 600 steps take, and 30 for each cluster"
    )
    batch_size: int = setting(128, "images per step")
    lr: float = setting(0.1, "highest learning rate of a cycle")
    momentum: float = setting(0.9, "Nesterov's momentum of SGD")
    weight_decay: float = setting(5e-4, "weight decay of SGD")
    smoothing: float = setting(0.1, "share of a label that is spread over all clusters")
    augment: float = setting(
        1.0, "strength of augmentation; 1: up to 15 degrees of rotation and shear, a tenth of the side, a fifth of zoom"
    )
    own_from: float = setting(1 / 3, "share of a round after which labels are the network's own")
    memory: float = setting(0.7, "share of the moving average of answers that an epoch keeps")
    exact_search_limit: int = setting(
        EXACT_LIMIT, "above this many images, search neighbours approximately (extra approx); 0: never"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require("K_s", self.K_s == "auto" or self.K_s >= 1, "be auto or at least 1")
        self.require("rounds", 1 <= self.rounds <= 20, "be between 1 and 20")
        self.require("epochs", self.epochs == "auto" or self.epochs >= 1, "be auto or at least 1")
        self.require("finer", self.finer >= 1, "be at least 1")
        self.require("batch_size", self.batch_size >= 2, "be at least 2, for batch normalisation")
        self.require("lr", self.lr > 0, "be positive")
        for name in ("weight_decay", "structure_weight", "augment", "exact_search_limit"):
            self.require(name, getattr(self, name) >= 0, "be at least 0")
        self.require("augment", self.augment <= 4, "be at most 4")
        for name in ("momentum", "smoothing", "memory"):
            self.require(name, 0 <= getattr(self, name) < 1, "be at least 0 and below 1")
        self.require("own_from", 0 <= self.own_from <= 1, "be between 0 and 1")


# --- rules ---------------------------------------------------------------------------------------------------------


def plan_rounds(n_images: int, config: TeachConfig, *, has_labels: bool = False) -> tuple[int, ...]:
    """Return how many clusters each round learns; the last one learns k.

    >>> plan_rounds(10_000, TeachConfig(n_clusters=10)), plan_rounds(575, TeachConfig(n_clusters=20, rounds=2))
    ((10,), (60, 20))
    >>> plan_rounds(10_000, TeachConfig(n_clusters=10, rounds=3, finer=4.0))
    (40, 20, 10)
    """
    k = config.n_clusters
    if has_labels or config.rounds == 1:
        return (k,) * config.rounds
    shares = [1 - i / (config.rounds - 1) for i in range(config.rounds)]
    return tuple(min(round(k * config.finer**share), max(n_images // 2, k)) for share in shares)


def graph_width(n_images: int, config: TeachConfig) -> int:
    """Return how many neighbours an image has in the graph."""
    return community_width(n_images, config.n_clusters) if config.K_s == "auto" else config.K_s


def n_epochs(n_images: int, config: TeachConfig) -> int:
    """Return the passes of a round; few images or many clusters take more, for the network to see enough of them.

    >>> n_epochs(10_000, TeachConfig(n_clusters=10)), n_epochs(575, TeachConfig(n_clusters=20))
    (18, 120)
    >>> n_epochs(2856, TeachConfig(n_clusters=68))
    89
    """
    if config.epochs != "auto":
        return config.epochs
    least = max(_LEAST_STEPS, _LEAST_STEPS_EACH * config.n_clusters)
    return max(_EPOCHS, math.ceil(least / math.ceil(n_images / config.batch_size)))


def teaching_loss(logits_BK: Tensor, y_B: Tensor, smoothing: float) -> Tensor:
    """Cross-entropy with a label that keeps 1 - smoothing + smoothing / K, every other cluster smoothing / K.

    >>> logits = torch.tensor([[0.0, math.log(3.0)]])  # p = 1/4, 3/4
    >>> round(teaching_loss(logits, torch.tensor([1]), 0.2).item(), 4)  # .9 log 4/3 + .1 log 4
    0.3975
    """
    return F.cross_entropy(logits_BK, y_B, label_smoothing=smoothing)


def remembered(average_NK: Tensor, answers_NK: Tensor, memory: float) -> Tensor:
    """Return the moving average of the network's answers after one more of them."""
    return memory * average_NK + (1 - memory) * answers_NK


# --- graph clusters ------------------------------------------------------------------------------------------------


def group(features: F32, neighbours: Neighbours, n_clusters: int, config: TeachConfig, seed: int) -> Agglomeration:
    """Merge the neighbour graph to so many clusters."""
    if config.grouping == "leiden":
        graph = symmetric_affinities(neighbours)
        return find_n_communities(graph, n_clusters, features, seed=derive_seed(seed, "leiden"))[0]
    return agglomerate(
        digraph(neighbours, "global"),
        nearest_neighbour_components(neighbours),
        n_clusters,
        structure_weight=config.structure_weight,
        n_structure=5,
        absorb=True,
        features=features,
    )


def search(images: Images, features: F32, config: TeachConfig, device: torch.device) -> Neighbours:
    """Find the neighbours of the images by their pixels."""
    width = graph_width(len(images), config)
    if wants_augmented(config):
        return search_augmented(images, features, replace(config, K_s=width), device=device)
    return find_neighbours(features, width, device=device, exact_limit=config.exact_search_limit or None)


# --- network -------------------------------------------------------------------------------------------------------


class Pupil(nn.Module):
    """Five 3x3 convolutions, two poolings, the mean over all places, one linear layer."""

    def __init__(self, shape: tuple[int, ...], n_clusters: int) -> None:
        """Build for images of this height, width and channel count; weights come from torch's global generator."""
        super().__init__()
        self.factor = averaging_factor(shape)  # large images are averaged down first
        self.prepare = Standardise()
        channels = (shape[2], *_WIDTHS)
        layers: list[nn.Module] = []
        for i, (n_in, n_out) in enumerate(pairwise(channels)):
            layers += [nn.Conv2d(n_in, n_out, 3, padding=1, bias=False), nn.BatchNorm2d(n_out), nn.ReLU(inplace=True)]
            if i in (1, 3):
                layers.append(nn.MaxPool2d(2, ceil_mode=True))
        self.body, self.head = nn.Sequential(*layers), nn.Linear(_WIDTHS[-1], n_clusters)
        self.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    def pooled(self, x_BCHW: Tensor) -> Tensor:
        """Return the features (B, D) of images in [0, 1]."""
        if self.factor > 1:
            x_BCHW = F.avg_pool2d(x_BCHW, self.factor)
        x_BCHW = self.prepare(x_BCHW).contiguous(memory_format=torch.channels_last)
        pooled_BD: Tensor = self.body(x_BCHW).mean(dim=(2, 3))
        return pooled_BD

    def logits(self, x_BCHW: Tensor) -> Tensor:
        """Return one number per cluster (B, K)."""
        logits_BK: Tensor = self.head(self.pooled(x_BCHW))
        return logits_BK

    def forward(self, x_BCHW: Tensor) -> tuple[Tensor, Tensor]:
        """Return soft assignments (B, K) and unit features (B, D)."""
        pooled_BD = self.pooled(x_BCHW)
        return F.softmax(self.head(pooled_BD), dim=1), unit(pooled_BD)


def judge(net: Pupil, images: Images, device: torch.device) -> Assignment:
    """Ask the network about all images as they are."""
    pixels = PixelTensor(images, device)
    soft, features = encode_several(net, pixels, pixels.even_chunks(2**18, at_most=2**11), net)
    return Assignment(features, soft)


# --- training ------------------------------------------------------------------------------------------------------


_SAVED = Checkpoint(
    generators=("shuffling", "viewing"),
    counters=("step", "round", "epoch"),
    arrays=("given_N", "labels_N", "average_NK"),
)


class _Run:
    """Everything that changes while training; all of it is in the resume state."""

    def __init__(
        self, images: Images, config: TeachConfig, counts: tuple[int, ...], device: torch.device, seed: int
    ) -> None:
        self.images, self.config, self.counts, self.device, self.seed = images, config, counts, device, seed
        self.pixels, self.policy = PixelTensor(images, device), gentle(config.augment)
        self.n_epochs = n_epochs(len(images), config)
        self.shuffling, self.viewing = torch_generator(seed, "batches"), torch_generator(seed, "views", device)
        self.step = self.round = self.epoch = 0  # snapshots done; the round, and the epochs done in it
        self.given_N = torch.zeros(0, dtype=torch.int64)  # what this round was given to learn
        self.labels_N = torch.zeros(0, dtype=torch.int64)  # what it learns now
        self.average_NK = torch.zeros(0)  # moving average of the network's answers
        self.build()

    def build(self) -> None:
        """Make a fresh network for this round."""
        config = self.config
        with seeded_init(derive_seed(self.seed, f"round {self.round}")):
            self.net = Pupil(self.images.shape, self.counts[self.round]).to(self.device)
        self.optimizer = torch.optim.SGD(
            self.net.parameters(),
            config.lr,
            momentum=config.momentum,
            weight_decay=config.weight_decay,
            nesterov=config.momentum > 0,
        )

    def begin(self, labels: I64) -> None:
        """Begin a round with these labels."""
        self.given_N, self.epoch = torch.from_numpy(labels.astype(np.int64)), 0
        self.labels_N = self.given_N.clone()
        self.average_NK = F.one_hot(self.given_N, self.counts[self.round]).to(torch.get_default_dtype())
        self.build()

    def state(self) -> State:
        return _SAVED.pack(self)

    def load(self, state: State) -> None:
        """Go on from a saved state."""
        self.round = range(len(self.counts))[int(state.meta["round"])]
        self.build()
        _SAVED.restore(self, state)

    def snapshot(self, phase: str, event: Mapping[str, float | int | str], **rest: Any) -> Snapshot:
        self.step += 1
        total = len(self.counts) * (self.n_epochs + 1)
        event = {"phase": phase, "round": self.round + 1, **event}
        labels = rest.pop("labels", self.labels_N.numpy().copy())
        return Snapshot(self.step, total, labels, event, self.state, **rest)

    def train_epoch(self) -> EpochStats:
        """One pass over augmented images."""
        n_steps, n_done = -(-len(self.pixels) // self.config.batch_size), 0
        self.net.train()

        def step(batch_B: Tensor) -> Tensor | None:
            nonlocal n_done
            rate = self.config.lr * one_cycle((self.epoch + n_done / n_steps) / self.n_epochs)
            self.optimizer.param_groups[0]["lr"] = rate
            n_done += 1
            if len(batch_B) < 2:  # batch normalisation needs two
                return None
            x_BCHW = self.pixels.augmented(batch_B, self.policy, self.viewing)
            labels_B = self.labels_N[batch_B].to(self.device)
            return teaching_loss(self.net.logits(x_BCHW), labels_B, self.config.smoothing)

        batches = shuffled_batches(len(self.pixels), self.config.batch_size, self.shuffling)
        what = f"round {self.round + 1} of {len(self.counts)}, epoch {self.epoch + 1} of {self.n_epochs}"
        return run_epoch(step, batches, self.optimizer, what=what, total=len(self.pixels))

    def answer(self) -> dict[str, float]:
        """From `own_from` on, let the network's own answers be what it learns."""
        if self.epoch < self.config.own_from * self.n_epochs:
            return {}
        answers_NK = torch.from_numpy(judge(self.net, self.images, self.device).soft)
        self.average_NK = remembered(self.average_NK, answers_NK.to(self.average_NK), self.config.memory)
        before_N, own_N = self.labels_N, self.average_NK.argmax(dim=1)
        # A network that has lost a cluster has not learned enough to be believed.
        if len(np.unique(own_N)) >= len(np.unique(before_N)):
            self.labels_N = own_N
        return {
            "changed": float((before_N != self.labels_N).double().mean()),
            "agreement": float((self.given_N == self.labels_N).double().mean()),
        }


def train(
    images: Inputs, config: TeachConfig, *, device: torch.device, seed: int, resume: State | None = None
) -> Iterator[Snapshot]:
    """Yield a snapshot per graph clustering and per epoch; the last network is the result."""
    if isinstance(images, Encoded):
        return train_head(images, None, config, device=device, seed=seed, resume=resume)
    return _train(images, None, config, device=device, seed=seed, resume=resume)


def train_after(
    run: FinishedRun,
    images: Inputs,
    config: TeachConfig,
    *,
    device: torch.device,
    seed: int,
    resume: State | None = None,
) -> Iterator[Snapshot]:
    """Like `train`, with the labels of a finished run in place of the first graph clusters."""
    if isinstance(images, Encoded) and images.features.ndim != 2:
        raise InvalidInput(
            f"a run of {run.method} on feature maps cannot be taught. Expected a run on pixels or on rows of features. "
            "Give a run of another method."
        )
    labels = None if resume is not None else run.model.apply(images).labels
    if isinstance(images, Encoded):
        return train_head(images, labels, config, device=device, seed=seed, resume=resume)
    return _train(images, labels, config, device=device, seed=seed, resume=resume, is_after=True)


def _train(
    images: Images,
    labels: I64 | None,
    config: TeachConfig,
    *,
    device: torch.device,
    seed: int,
    resume: State | None,
    is_after: bool = False,
) -> Iterator[Snapshot]:
    run = _Run(images, config, plan_rounds(len(images), config, has_labels=is_after), device, seed)
    if resume is None:
        notes: tuple[str, ...] = ()
        event: dict[str, float] = {}
        if labels is None:
            features = pixel_features(images)
            neighbours = search(images, features, config, device)
            found = group(features, neighbours, run.counts[0], config, seed)
            labels, notes = found.labels, (*short_graph_note(neighbours), *found.warnings)
            event = neighbours.event
        run.begin(labels)
        yield run.snapshot("labels of the run" if is_after else "graph clusters", event, warnings=notes)
    else:
        run.load(resume)
    while True:
        while run.epoch < run.n_epochs:
            stats = run.train_epoch()
            run.epoch += 1
            event = {**stats.event(), **run.answer()}
            if run.epoch == run.n_epochs and run.round == len(run.counts) - 1:
                result = _result(run)
                yield run.snapshot("train", event, result=result, labels=result.labels)
                return
            yield run.snapshot("train", event)
        features = judge(run.net, images, device).features
        width, limit = graph_width(len(images), config), config.exact_search_limit or None
        neighbours = find_neighbours(features, width, device=device, exact_limit=limit)
        run.round += 1
        found = group(features, neighbours, run.counts[run.round], config, seed)
        run.begin(found.labels)
        yield run.snapshot("graph clusters", neighbours.event, warnings=found.warnings)


def _result(run: _Run) -> Clustering:
    found = judge(run.net, run.images, run.device)
    model = State(pack_module("net", run.net), {"shape": list(run.images.shape)})
    return Clustering(found.labels, found.soft, found.features, model, {"labels_before": run.given_N.numpy().copy()})


# --- model ---------------------------------------------------------------------------------------------------------


class TeachModel:
    """The last network: a new image gets the cluster that it answers with."""

    def __init__(self, config: TeachConfig, state: State, device: torch.device) -> None:
        self.shape, self.device = saved_shape(state), device
        self.net: Pupil | LinearHead
        with seeded_init(0):
            if len(self.shape) == 1:
                self.net = LinearHead(self.shape[0], config.n_clusters, config.head_temperature)
            else:
                self.net = Pupil(self.shape, config.n_clusters)
        self.net.to(device)
        unpack_module("net", self.net, state.arrays)
        self.net.eval()

    def apply(self, images: Inputs, layer: str = "top") -> Assignment:
        """Return features and soft assignments."""
        check_request(images, self.shape, layer)
        if isinstance(self.net, LinearHead):
            assert isinstance(images, Encoded), "of the shape of features"
            return judge_rows(self.net, images, self.device)
        assert isinstance(images, Images), "of the shape of pictures"
        return judge(self.net, images, self.device)

    def network(self) -> nn.Module:
        """Return images (B, C, H, W) in [0, 1], or features, to soft assignments and features as one module."""
        return self.net.eval()


def restore(config: TeachConfig, state: State, *, device: torch.device) -> TeachModel:
    """Rebuild a fitted model."""
    return TeachModel(config, state, device)


METHOD = Method(
    name="teach",
    summary="cluster the neighbour graph and let a network learn the clusters from augmented images",
    source="ours; the head on an encoder's features after Adaloglou, Michels, Kalisch, Kollmann: TEMI, BMVC 2023",
    config=TeachConfig,
    train=train,
    restore=restore,
    is_inductive=True,
    train_after=train_after,
    learns_on="features",
    needs_views=True,
)
