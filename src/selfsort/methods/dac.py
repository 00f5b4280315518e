"""DAC: ask of every pair of images "the same?", and believe the network only where it is sure.

Chang, Wang, Meng, Xiang, Pan, "Deep Adaptive Image Clustering", ICCV 2017.

A network gives each image a label feature: non-negative, of unit length, one entry per cluster. The cosine of two label
features is the predicted probability that the images belong together. Pairs above an upper threshold are taken as the
same, pairs below a lower one as different, the rest is left out; the network is trained to say so more clearly, on
randomly augmented images. The thresholds approach each other from epoch to epoch until every pair counts. `dac*`, the
variant with one threshold and no doubt, is `thresholds=single`.

Symbols: a activations; l label features; s = l l' their cosines; u, lower thresholds; lam moves them.
Shape letters: N images, P images of a pool, B batch, K clusters.

Where we differ from the paper:
- The network is that of the released scripts by default (`arch=paper` is the other). It averages the whole last map,
  also where a script drops its last row and column.
- Targets are computed for pools of 1,000 images that are then trained on several times, as in the released code. Batch
  normalisation uses the statistics of the batch for them (`bn_targets`), the learned ones for prediction (`bn_eval`).
- Mini-batches of 128, the scripts' for MNIST; the paper has 32. Pools and batches are cut evenly, so none is tiny.
- The scripts also multiply pixels by a constant while training; the first batch normalisation would undo it.
- Off by default and not in the paper: the scripts' `aux_weight`, and `entropy_weight`, which is ours.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from dataclasses import replace
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from selfsort import distributed
from selfsort.errors import InvalidInput
from selfsort.learning.batches import tensor_of
from selfsort.learning.checkpoint import Checkpoint, pack_module, saved_shape, unpack_module
from selfsort.learning.encode import check_request, encode
from selfsort.learning.epoch import run_epoch
from selfsort.learning.finetune import train_along
from selfsort.learning.seeds import seeded_init, torch_generator
from selfsort.learning.trainee import Trainee
from selfsort.methods._dac_settings import DACConfig, view_policy
from selfsort.nets.cut import leaking
from selfsort.nets.heads import LabelHead
from selfsort.nets.labelnet import LAYERS, LabelNet, plan_network, restrain
from selfsort.nets.norm import batch_statistics
from selfsort.types import F32, I64, Arrays, Assignment, Clustering, Images, Improvable, Inputs, Method, Snapshot, State

__all__ = ["METHOD", "DACConfig", "DACModel", "restore", "train", "view_policy"]

# Cosines are kept away from 0 and 1: with rounding, log(1 - s) of an image with itself would be no number.
_EPS = 1e-5
# The lower threshold rises by a tenth of what the upper one falls.
_LOWER_SLOPE = 0.1
# Images of a stage kept for the figures.
_N_KEPT = 1000
# Images that a saved run is predicted in at a time; whatever depends on the cutting must repeat it.
_BLOCK = 4096


# --- equations -----------------------------------------------------------------------------------------------------


class Thresholds(NamedTuple):
    """Pairs at least `upper` alike are the same, pairs less than `lower` alike are different."""

    upper: float
    lower: float


def thresholds_at(epoch: int, config: DACConfig) -> Thresholds:
    """Return the thresholds of an epoch, counted from 0.

    Adaptive: u = upper - lam, l = lower + 0.1 lam. Each epoch takes one gradient step on lam for the term u - l of the
    objective, whose slope is -1.1.

    >>> [round(value, 6) for value in thresholds_at(10, DACConfig(n_clusters=2))]
    [0.851, 0.4649]
    """
    if config.thresholds == "adaptive":
        lam = epoch * config.eta * (1 + _LOWER_SLOPE)
        return Thresholds(config.upper - lam, config.lower + _LOWER_SLOPE * lam)
    done = epoch / config.epochs  # the scripts move them after each epoch, so the end is never trained at
    if config.thresholds == "single":
        only = config.single_start + done * (config.single_end - config.single_start)
        return Thresholds(only, only)
    gap = done * (config.upper - config.lower) / 2
    return Thresholds(config.upper - gap, config.lower + gap)


def count_epochs(config: DACConfig) -> int:
    """Return the epochs until the adaptive thresholds meet, or `epochs` if those are fewer.

    >>> count_epochs(DACConfig(n_clusters=2))
    46
    """
    if config.thresholds != "adaptive":
        return config.epochs
    meet = (config.upper - config.lower) / (config.eta * (1 + _LOWER_SLOPE) ** 2)
    return min(config.epochs, math.ceil(meet))


def count_snapshots(config: DACConfig, n_images: int) -> int:
    """Return the snapshots of a training: of its start, and of every pool."""
    return 1 + count_epochs(config) * max(1, n_images // config.pool_size)


class Pairs(NamedTuple):
    """What the network is taught about a batch: which pairs are the same, and which of all to learn from."""

    same: Tensor
    sure: Tensor


def select_pairs(target_BK: Tensor, thresholds: Thresholds) -> Pairs:
    """Judge every pair by the cosine of its stored label features."""
    sim_BB = target_BK @ target_BK.T
    same_BB = sim_BB >= thresholds.upper
    return Pairs(same_BB, same_BB | (sim_BB < thresholds.lower))


def pair_loss(sim_BB: Tensor, pairs: Pairs, kind: Literal["bce", "mse"] = "bce") -> Tensor:
    """Mean over the selected pairs of the cross-entropy (or squared error) of s against the selection."""
    same_BB = pairs.same.to(sim_BB.dtype)
    if kind == "bce":
        loss_BB = F.binary_cross_entropy(sim_BB.clamp(_EPS, 1 - _EPS), same_BB, reduction="none")
    else:
        loss_BB = (sim_BB - same_BB).square()
    # A batch without any sure pair adds nothing; 0/0 would poison the run.
    return (loss_BB * pairs.sure).sum() / pairs.sure.sum().clamp(min=1)


def agreement_loss(l_BK: Tensor, target_BK: Tensor) -> Tensor:
    """The scripts' auxiliary loss: cross-entropy of each entry against the one stored for the image as it is."""
    return F.binary_cross_entropy(l_BK.clamp(_EPS, 1 - _EPS), target_BK.clamp(0, 1))


def entropy_gap(a_BK: Tensor) -> Tensor:
    """How far a batch is from using all clusters alike and each image being sure of one; ours.

    log K - H(mean p) + mean H(p), that is log K less the information the assignment carries. Both halves are needed:
    images that are all equally unsure would satisfy the first alone.
    """
    log_p_BK = a_BK.log_softmax(dim=1)
    p_BK = log_p_BK.exp()
    mean_K = p_BK.mean(dim=0).clamp(min=1e-12)
    unsure = -(p_BK * log_p_BK).sum(dim=1).mean()
    return math.log(a_BK.shape[1]) + (mean_K * mean_K.log()).sum() + unsure


# --- network and views ---------------------------------------------------------------------------------------------


def build_network(shape: tuple[int, ...], config: DACConfig, mean: list[float] | None = None) -> LabelNet | LabelHead:
    """Choose the network for images of this height, width and channel count, or the head for so many features."""
    if len(shape) == 1:
        return LabelHead(shape[0], config.n_clusters)
    height, width, channels = shape
    plan = plan_network(height, width, config.arch, config.width)
    return LabelNet(channels, config.n_clusters, plan, mean)


def label_features(a_BK: Tensor, config: DACConfig) -> Tensor:
    """Return l: the output of the restraint layer, or probabilities without it."""
    return restrain(a_BK) if config.restraint else a_BK.softmax(dim=1)


def evenly(idx_N: Tensor, size: int) -> tuple[Tensor, ...]:
    """Cut into parts of about `size`, none of them smaller unless there are too few.

    >>> [len(part) for part in evenly(torch.arange(1000), 300)]
    [334, 333, 333]
    """
    return torch.tensor_split(idx_N, max(1, len(idx_N) // size))


def encode_layer(
    net: LabelNet | LabelHead, images: Inputs, config: DACConfig, device: torch.device, layer: str = "top"
) -> F32:
    """Return activations (`top`) or pooled features (`top-1`) of all images, in inference mode."""
    pixels, compute = tensor_of(images, device), net if layer == "top" else net.pooled
    if config.bn_eval != "batch":
        return encode(net, pixels, pixels.even_chunks(2**17), compute)

    def by_their_own_statistics(x_BCHW: Tensor) -> Tensor:
        with batch_statistics(net) if len(x_BCHW) > 1 else nullcontext():
            found: Tensor = compute(x_BCHW)
            return found

    batches = (idx for block in pixels.chunks(_BLOCK) for idx in evenly(block, config.batch_size))
    return encode(net, pixels, batches, by_their_own_statistics)


# --- training ------------------------------------------------------------------------------------------------------


_SAVED = Checkpoint(
    generators=("shuffling", "moving"),
    counters=("step", "epoch", "pool", "selected", "positive"),
    arrays=("labels", "order"),
)


class _Run:
    """Everything that changes while training; all of it is in the resume state."""

    def __init__(self, images: Inputs, config: DACConfig, device: torch.device, seed: int) -> None:
        self.images, self.config, self.device = images, config, device
        self.pixels, self.batch_size = tensor_of(images, device), config.batch_size
        mean = None
        if config.centre and isinstance(images, Images):
            mean = (images.pixels.mean(axis=(0, 1, 2), dtype=np.float64) / 255).tolist()
        with seeded_init(seed):
            self.net = build_network(images.shape, config, mean).to(device)
        self.optimizer = torch.optim.RMSprop(self.net.parameters(), lr=config.lr, alpha=0.9, eps=1e-8)
        train_along(self.net, self.optimizer, images)
        self.shuffling = torch_generator(seed, "batches")
        self.moving = torch_generator(seed, "views", device)
        self.policy = view_policy(config, images.shape[-1])
        self.labels: I64 = np.zeros(len(images), dtype=np.int64)
        self.order = torch.arange(len(images))
        self.n_epochs = count_epochs(config)
        self.step = self.epoch = self.pool = 0  # snapshots and epochs done; pools done in this epoch
        self.selected = self.positive = 0.0  # shares of the pairs, summed over the pools of this epoch

    def state(self) -> State:
        return _SAVED.pack(self)

    def load(self, state: State) -> None:
        """Go on from a saved state."""
        _SAVED.restore(self, state)

    def snapshot(self, phase: str, event: Mapping[str, Any], **rest: Any) -> Snapshot:
        self.step += 1
        total = count_snapshots(self.config, len(self.order))
        return Snapshot(self.step, total, self.labels, {"phase": phase, **event}, self.state, **rest)

    def evaluate(self) -> F32:
        """Label all images and return their activations."""
        activations = encode_layer(self.net, self.images, self.config, self.device)
        self.labels = activations.argmax(axis=1).astype(np.int64)
        return activations

    def targets(self, pool_P: Tensor) -> Tensor:
        """Label features (P, K) of a pool, from images as they are; they also label those images in passing."""
        self.net.eval()
        parts = []
        with torch.inference_mode():
            for idx in evenly(pool_P, self.config.batch_size):
                if self.config.bn_targets == "batch":
                    with batch_statistics(self.net):
                        parts.append(self.net(self.pixels.floats(idx)))
                else:
                    parts.append(self.net(self.pixels.floats(idx)))
            activations_PK = torch.cat(parts)
            self.labels = self.labels.copy()  # the last snapshot may still be in use
            self.labels[pool_P.numpy()] = activations_PK.argmax(dim=1).cpu().numpy()
            return label_features(activations_PK, self.config)

    def learn_pool(self, pool_P: Tensor, thresholds: Thresholds) -> dict[str, float | int]:
        """Fix the targets of a pool and train on it `inner_epochs` times."""
        config, net = self.config, self.net
        # A clone, because what was made in inference mode may not take part in training.
        target_PK = self.targets(pool_P).clone()
        chosen = select_pairs(target_PK, thresholds)
        selected, positive = float(chosen.sure.float().mean()), float(chosen.same.float().mean())
        net.train()
        distributed.own_stream(self.moving)

        def step(place_B: Tensor) -> Tensor:
            x_BCHW = self.pixels.augmented(pool_P[place_B], self.policy, self.moving)
            a_BK, target_BK = net(x_BCHW), target_PK[place_B.to(self.device)]
            l_BK = label_features(a_BK, config)
            loss = pair_loss(l_BK @ l_BK.T, select_pairs(target_BK, thresholds), config.pair_loss)
            if config.aux_weight:
                loss = loss + config.aux_weight * agreement_loss(l_BK, target_BK)
            if config.entropy_weight:
                loss = loss + config.entropy_weight * entropy_gap(a_BK)
            return loss

        n = len(pool_P)
        rounds = (torch.randperm(n, generator=self.shuffling) for _ in range(config.inner_epochs))
        batches = (
            batch
            for places in rounds
            for part in evenly(places, config.batch_size)
            for batch in itertools.repeat(part, config.repeats)
        )
        n_pools = len(evenly(self.order, config.pool_size))
        what = f"epoch {self.epoch + 1} of {self.n_epochs}, pool {self.pool + 1} of {n_pools}"
        total = n * config.inner_epochs * config.repeats
        stats = run_epoch(step, batches, self.optimizer, what=what, total=total)
        distributed.average_buffers(net)
        self.selected, self.positive = self.selected + selected, self.positive + positive
        return {**stats.event(), "selected_fraction": selected, "positive_fraction": positive}

    # What `Trainee` asks for beyond that.

    def probe(self, x_BCHW: Tensor) -> tuple[Tensor, Tensor]:
        return self.net(x_BCHW).argmax(dim=1), self.net.pooled(x_BCHW)

    def begin_teaching(self) -> int:
        return self.step - 1

    def teaching_loss(self, rows_B: Tensor, labels_B: Tensor) -> Tensor:
        x_BCHW = self.pixels.augmented(rows_B, self.policy, self.moving)
        with leaking(self.net):
            return F.cross_entropy(self.net(x_BCHW), labels_B)

    def retake(self, snapshot: Snapshot) -> Snapshot:
        activations = self.evaluate()
        return replace(snapshot, labels=self.labels, history=_stage(activations) if snapshot.history else {})


def open_trainee(images: Inputs, config: DACConfig, *, device: torch.device, seed: int, state: State | None) -> Trainee:
    """Return the training as it was saved, or before its first step."""
    run = _Run(images, config, device, seed)
    if state is not None:
        run.load(state)
    return run


def train(
    images: Inputs, config: DACConfig, *, device: torch.device, seed: int, resume: State | None = None
) -> Iterator[Snapshot]:
    """Yield a snapshot for the start and each pool; the last pool of an epoch labels all images afresh."""
    run = _Run(images, config, device, seed)
    if resume is not None:
        run.load(resume)
    if run.step == 0:
        yield run.snapshot("start", {}, history=_stage(run.evaluate()))
    while run.epoch < run.n_epochs:
        thresholds = thresholds_at(run.epoch, config)
        if run.pool == 0:
            run.order = torch.randperm(len(images), generator=run.shuffling)
            run.selected = run.positive = 0.0
        pools = evenly(run.order, config.pool_size)
        for pool_P in pools[run.pool :]:
            event = run.learn_pool(pool_P, thresholds)
            run.pool += 1
            if run.pool < len(pools):
                yield run.snapshot("pool", event)
        run.epoch, run.pool = run.epoch + 1, 0
        yield _end_of_epoch(run, thresholds, {**event, "selected_fraction": run.selected / len(pools)})


def _end_of_epoch(run: _Run, thresholds: Thresholds, event: dict[str, float | int]) -> Snapshot:
    activations = run.evaluate()
    event = {**event, "epoch": run.epoch, "upper": thresholds.upper, "lower": thresholds.lower}
    result = _result(run, activations) if run.epoch == run.n_epochs else None
    warnings = _collapse_advice(run) if result is not None else ()
    return run.snapshot("epoch", event, history=_stage(activations), result=result, warnings=warnings)


def _collapse_advice(run: _Run) -> tuple[str, ...]:
    """Say what helps; that clusters are empty is said by whoever counts them."""
    n_used = len(np.unique(run.labels))
    if n_used == run.config.n_clusters or run.config.entropy_weight:
        return ()
    return (
        f"DAC left {run.config.n_clusters - n_used} of its {run.config.n_clusters} outputs unused, its known weakness. "
        "Try --set entropy_weight=5, which asks for equally used clusters, or another seed.",
    )


# --- figures and result --------------------------------------------------------------------------------------------


def _stage(activations: F32) -> Arrays:
    """Keep the assignments of some images, for the label circle and for judging pairs outside."""
    n = len(activations)
    rows = np.unique(np.linspace(0, n - 1, min(_N_KEPT, n)).astype(np.int64))
    soft = _softmax(activations[rows])
    return {"rows": rows, "soft": soft, "labels": soft.argmax(axis=1).astype(np.int64)}


def _softmax(activations: F32) -> F32:
    soft: F32 = torch.from_numpy(activations).softmax(dim=1).numpy()
    return soft


def _label_features(activations: F32, config: DACConfig) -> F32:
    features: F32 = label_features(torch.from_numpy(activations), config).numpy()
    return features


def _result(run: _Run, activations: F32) -> Clustering:
    model = State(pack_module("net", run.net), {"shape": list(run.images.shape)})
    features = _label_features(activations, run.config)
    return Clustering(run.labels, _softmax(activations), features, model)


class DACModel:
    """The network: an image belongs where its label feature is largest."""

    def __init__(self, config: DACConfig, state: State, device: torch.device) -> None:
        self.config, self.shape, self.device = config, saved_shape(state), device
        with seeded_init(0):
            self.net = build_network(self.shape, config).to(device)
        unpack_module("net", self.net, state.arrays)
        self.net.eval()

    def apply(self, images: Inputs, layer: str = "top") -> Assignment:
        """Return label features (`top`) or pooled features (`top-1`), and probabilities."""
        check_request(images, self.shape, layer, LAYERS)
        activations = encode_layer(self.net, images, self.config, self.device)
        if layer == "top":
            features = _label_features(activations, self.config)
        else:
            features = encode_layer(self.net, images, self.config, self.device, layer)
        return Assignment(features, _softmax(activations))

    def network(self) -> nn.Module:
        """Return images (B, C, H, W) in [0, 1] to probabilities and label features as one module, for export."""
        if self.config.bn_eval == "batch":
            raise InvalidInput(
                "bn_eval=batch labels an image by the images beside it, which no exported network can. Expected "
                "bn_eval=running. Fit again without --set bn_eval=batch."
            )
        return _Labeller(self.net, self.config).eval()


class _Labeller(nn.Module):
    """Network, probabilities and label features in one."""

    def __init__(self, net: LabelNet | LabelHead, config: DACConfig) -> None:
        super().__init__()
        self.net, self.config = net, config

    def forward(self, x_BCHW: Tensor) -> tuple[Tensor, Tensor]:
        """Return probabilities (B, K) and label features (B, K)."""
        a_BK = self.net(x_BCHW)
        return a_BK.softmax(dim=1), label_features(a_BK, self.config)


def restore(config: DACConfig, state: State, *, device: torch.device) -> DACModel:
    """Rebuild a fitted model."""
    return DACModel(config, state, device)


METHOD = Method(
    "dac",
    "pairs the network is sure about, same or different, teach it to be surer; thresholds move until all pairs count",
    "Chang, Wang, Meng, Xiang, Pan: Deep Adaptive Image Clustering, ICCV 2017",
    DACConfig,
    train,
    restore,
    is_inductive=True,
    is_shareable=True,
    improvable=Improvable(open_trainee, "pools", lambda config, step: max(0, step - 1), count_snapshots),
    learns_on="features",
    needs_views=True,
    finetunes=True,
)
