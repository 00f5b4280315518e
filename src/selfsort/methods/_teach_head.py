"""teach on an encoder's features: one linear layer, from k-means to a consensus of neighbours in augmented views.

The layer starts at the centres of k-means. Then an image and one of its nearest neighbours, each in one of its views,
have to be given the same cluster: what is raised is their pointwise mutual information, weighted by how likely a slowly
following copy of the layer, the teacher, finds it that the two belong together (Adaloglou, Michels, Kalisch, Kollmann,
"Exploring the Limits of Deep Image Clustering using Pretrained Models", BMVC 2023, called TEMI).

    pmi(x, x') = log sum_k (q_s(k|x) q_t(k|x'))^beta / q_t(k),    w(x, x') = sum_k q_t(k|x) q_t(k|x')
    loss = -w(x, x') (pmi(x, x') + pmi(x', x)) / 2

q_s are the layer's answers, q_t the teacher's, q_t(k) their running mean. Dividing by it keeps clusters alive; beta
below 1 keeps answers from becoming one-sided too early. The teacher's weights are a moving average of the layer's.

Where we differ from the paper: one head, a linear one, which starts at k-means in place of fifty random ones; views of
the images, where the paper pairs neighbours as they are; both temperatures are the same.

Shape letters: N images, B batch, D features, K clusters, M neighbours.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from selfsort.classic.kmeans import kmeans
from selfsort.config import Config, setting
from selfsort.graph.affinity import unit_rows
from selfsort.graph.approximate import find_neighbours
from selfsort.learning.batches import FeatureTensor, shuffled_batches
from selfsort.learning.checkpoint import Checkpoint, pack_module
from selfsort.learning.encode import encode_several
from selfsort.learning.epoch import EpochStats, run_epoch
from selfsort.learning.seeds import seeded_init, torch_generator
from selfsort.types import F32, I64, Assignment, Clustering, Encoded, Snapshot, State

_MARGINAL_MEMORY = 0.9
"""Share of the running mean of the teacher's answers that a batch keeps; the paper's."""


@dataclass(frozen=True, kw_only=True)
class HeadConfig(Config):
    """Settings for the features of an encoder."""

    head_epochs: int = setting(100, "on features: passes over the images")
    head_batch_size: int = setting(512, "on features: images per step", "paper")
    head_lr: float = setting(1e-3, "on features: learning rate of AdamW")
    head_neighbours: int = setting(20, "on features: neighbours that an image may have to agree with; 0: itself only")
    head_restarts: int = setting(20, "on features: starts of k-means, the best of which the head starts at")
    head_beta: float = setting(0.6, "on features: power of the joint answers", "paper")
    head_temperature: float = setting(0.1, "on features: cosines are divided by it", "paper")
    head_average: float = setting(0.996, "on features: share of its weights that the teacher keeps in a step", "paper")

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("head_epochs", "head_batch_size", "head_restarts"):
            self.require(name, getattr(self, name) >= 1, "be at least 1")
        for name in ("head_lr", "head_temperature"):
            self.require(name, getattr(self, name) > 0, "be positive")
        self.require("head_neighbours", self.head_neighbours >= 0, "be at least 0")
        self.require("head_beta", 0 < self.head_beta <= 1, "be above 0 and at most 1")
        self.require("head_average", 0 <= self.head_average < 1, "be at least 0 and below 1")


def agreement_loss(
    student: tuple[Tensor, Tensor], teacher: tuple[Tensor, Tensor], marginal_K: Tensor, beta: float
) -> Tensor:
    """Return the weighted pointwise mutual information, with a minus, of two views' log answers (B, K).

    >>> half = torch.full((1, 2), 0.5).log()
    >>> loss = agreement_loss((half, half), (half, half), torch.tensor([0.5, 0.5]), 1.0)
    >>> round(loss.item() + 0.0, 6)  # nothing is known: the joint probability is that of chance
    0.0
    """
    log_marginal_K = marginal_K.clamp(min=1e-12).log()
    weight_B = (teacher[0] + teacher[1]).exp().sum(dim=1)
    pmi_B = sum(
        torch.logsumexp(beta * (own_BK + other_BK) - log_marginal_K, dim=1)
        for own_BK, other_BK in ((student[0], teacher[1]), (student[1], teacher[0]))
    )
    return -(weight_B * pmi_B).mean() / 2


class LinearHead(nn.Module):
    """Cosines with one direction per cluster, over a temperature."""

    def __init__(self, n_features: int, n_clusters: int, temperature: float) -> None:
        super().__init__()
        self.linear, self.temperature = nn.Linear(n_features, n_clusters, bias=False), temperature

    def log_soft(self, x_BD: Tensor) -> Tensor:
        """Return logarithms of the soft assignments (B, K)."""
        return F.log_softmax(self.linear(x_BD) / self.temperature, dim=1)

    def forward(self, x_BD: Tensor) -> tuple[Tensor, Tensor]:
        """Return soft assignments (B, K), and the features as they are."""
        return self.log_soft(x_BD).exp(), x_BD


def judge_rows(net: LinearHead, encoded: Encoded, device: torch.device) -> Assignment:
    """Ask the head about all images as they are."""
    rows = FeatureTensor(encoded, device)
    soft, features = encode_several(net, rows, rows.even_chunks(0), net)
    return Assignment(features, soft)


def start_centres(features: F32, labels: I64 | None, config: HeadConfig, seed: int) -> F32:
    """Return unit rows (K, D) to start at: the centres of k-means, or of given labels; an empty cluster's are zeros."""
    if labels is None:
        labels = kmeans(features, config.n_clusters, seed=seed, n_restarts=config.head_restarts).labels
    sums = np.zeros((config.n_clusters, features.shape[1]))
    np.add.at(sums, labels, features)
    return unit_rows(sums)


_SAVED = Checkpoint(
    generators=("shuffling", "viewing"), counters=("epoch",), arrays=("marginal_K", "taught", "start_N")
)


class _Run:
    """Everything that changes while training; all of it is in the resume state."""

    def __init__(self, encoded: Encoded, config: HeadConfig, device: torch.device, seed: int) -> None:
        self.encoded, self.config, self.device = encoded, config, device
        self.rows = FeatureTensor(encoded, device)
        self.features = encoded.features
        with seeded_init(seed):
            self.net = LinearHead(self.features.shape[1], config.n_clusters, config.head_temperature).to(device)
        self.teacher = copy.deepcopy(self.net)
        self.optimizer = torch.optim.AdamW(self.net.parameters(), config.head_lr)
        self.shuffling, self.viewing = torch_generator(seed, "batches"), torch_generator(seed, "views", device)
        self.marginal_K = torch.full((config.n_clusters,), 1 / config.n_clusters, device=device)
        self.start_N = torch.zeros(0, dtype=torch.int64)
        self.epoch = 0
        near = min(config.head_neighbours, len(encoded) - 1)
        itself = torch.arange(len(encoded))[:, None]
        self.near_NM = torch.from_numpy(find_neighbours(self.features, near, device=device).idx) if near else itself

    @property
    def taught(self) -> dict[str, Tensor]:
        """The teacher's weights, to be written into in place."""
        return dict(self.teacher.state_dict())

    def begin(self, labels: I64 | None, seed: int) -> None:
        """Put the head at its start."""
        centres = start_centres(self.features, labels, self.config, seed)
        with torch.no_grad():
            for net in (self.net, self.teacher):
                net.linear.weight.copy_(torch.from_numpy(centres))
        self.start_N = torch.from_numpy(judge_rows(self.net, self.encoded, self.device).labels)

    def state(self) -> State:
        return _SAVED.pack(self)

    def load(self, state: State) -> None:
        """Go on from a saved state."""
        _SAVED.restore(self, state)

    def train_epoch(self) -> EpochStats:
        """One pass over the images, each with one of its neighbours."""
        config = self.config

        def step(batch_B: Tensor) -> Tensor:
            chosen_B = torch.randint(self.near_NM.shape[1], (len(batch_B),), generator=self.shuffling)
            views = [
                self.rows.augmented(rows_B, (), self.viewing) for rows_B in (batch_B, self.near_NM[batch_B, chosen_B])
            ]
            with torch.no_grad():
                self.follow()
                taught = self.teacher.log_soft(views[0]), self.teacher.log_soft(views[1])
                mean_K = torch.cat(taught).exp().mean(dim=0)
                self.marginal_K.lerp_(mean_K, 1 - _MARGINAL_MEMORY)
            said = self.net.log_soft(views[0]), self.net.log_soft(views[1])
            return agreement_loss(said, taught, self.marginal_K, config.head_beta)

        batches = shuffled_batches(len(self.rows), config.head_batch_size, self.shuffling)
        what = f"epoch {self.epoch + 1} of {config.head_epochs}"
        return run_epoch(step, batches, self.optimizer, what=what, total=len(self.rows))

    def follow(self) -> None:
        """Move the teacher a little towards the head."""
        self.teacher.linear.weight.lerp_(self.net.linear.weight, 1 - self.config.head_average)


def train_head(
    encoded: Encoded,
    labels: I64 | None,
    config: HeadConfig,
    *,
    device: torch.device,
    seed: int,
    resume: State | None,
) -> Iterator[Snapshot]:
    """Yield a snapshot for the start and for each pass; the teacher is the result."""
    run = _Run(encoded, config, device, seed)
    total = config.head_epochs + 1
    if resume is None:
        run.begin(labels, seed)
        yield Snapshot(1, total, run.start_N.numpy().copy(), {"phase": "start"}, run.state)
    else:
        run.load(resume)
    while run.epoch < config.head_epochs:
        stats = run.train_epoch()
        run.epoch += 1
        found = judge_rows(run.teacher, encoded, device)
        same = float((torch.from_numpy(found.labels) == run.start_N).double().mean())
        result = _result(run, found) if run.epoch == config.head_epochs else None
        event = {"phase": "train", **stats.event(), "agreement": same}
        yield Snapshot(run.epoch + 1, total, found.labels, event, run.state, result)


def _result(run: _Run, found: Assignment) -> Clustering:
    model = State(pack_module("net", run.teacher), {"shape": [run.features.shape[1]]})
    return Clustering(found.labels, found.soft, found.features, model, {"labels_before": run.start_N.numpy().copy()})
