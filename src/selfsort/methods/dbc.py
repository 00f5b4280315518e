"""DBC: teach an auto-encoder what images look like, then let its clusters sharpen themselves.

Li, Qiao, Zhang, Xi, "Discriminatively Boosted Image Clustering with Fully Convolutional Auto-Encoders", Pattern
Recognition 2018. `dec` is its special case: Xie, Girshick, Farhadi, "Unsupervised Deep Embedding for Clustering
Analysis", ICML 2016.

Stage I trains a small fully convolutional auto-encoder (FCAE) to reproduce the images; k-means on its features gives
the centres, and is a method of its own, `fcae-kmeans`. Stage II drops the decoder. Soft k-means scores s say how near
an image is to each centre; the boosted target r raises them to the power alpha, so that what is likely becomes
likelier, and divides by the size of the cluster, so that none eats the others. Encoder and centres are trained to make
s equal to r, which is computed afresh once per epoch.

Symbols: z features; mu centres; s scores; r targets; v degrees of freedom of Student's t; alpha the boosting power;
n_j the size of cluster j in the target.
Shape letters: N images, B batch, D features, K clusters.

Where we differ from the paper:
- It names no optimiser, rates, epochs, batch size, scaling or restarts. Ours were chosen without labels, one set for
  all data sets; docs/experiments/dbc.md tells how.
- Both stages are as long as a number of steps needs, not of epochs, and their learning rates fall along a cosine.
- Batch normalisation keeps its statistics in stage II (`freeze_bn`), so that scores and targets come from one function.
- Training stops when fewer than 0.1 % of the labels change in an epoch; the paper waits for none.
- The labels logged in stage I are a quick look, not k-means on all images: see `_dbc_history.glance`.
- Off by default and not in the paper: `rotate`, `translate`, `zoom`, `restore`, `still_share`, `rec_weight`,
  `before_relu`, `whiten`, `target_steps`, `taught`.
- `dec` trains its auto-encoder end to end; the original stacks denoising layers one by one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Literal

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from selfsort import distributed
from selfsort.augment.policy import Affine
from selfsort.classic.kmeans import kmeans
from selfsort.classic.leiden import graph_clusters
from selfsort.learning.batches import FeatureTensor, InputTensor, shuffled_batches, tensor_of
from selfsort.learning.checkpoint import Checkpoint, pack_module, saved_shape, to_numpy, unpack_module
from selfsort.learning.encode import check_request, encode
from selfsort.learning.epoch import EpochStats, run_epoch
from selfsort.learning.rates import set_rate
from selfsort.learning.seeds import derive_seed, seeded_init, torch_generator
from selfsort.methods._dbc_history import glance, pictures, stage
from selfsort.methods._dbc_settings import DBCConfig, DECConfig, FCAEConfig
from selfsort.nets.autoencoder import ARCHITECTURES, FCAE, AutoEncoder, DenseAE, Reading, plan_stages
from selfsort.nets.norm import refresh_statistics
from selfsort.nets.whitening import Whitening
from selfsort.types import F32, I64, Arrays, Assignment, Clustering, Images, Inputs, Method, Snapshot, State

__all__ = ["DBC", "DEC", "FCAE_KMEANS", "DBCConfig", "DBCModel", "DECConfig", "FCAEConfig", "restore", "train"]

_MIN_SIZE = 1e-8
"""Smallest n_j: an empty cluster would make its column of the target explode."""


# --- equations -----------------------------------------------------------------------------------------------------


def reconstruction_loss(x_BCHW: Tensor, again_BCHW: Tensor) -> Tensor:
    """Algorithm 1, step 1: squared error, summed over an image and averaged over the batch."""
    return (x_BCHW - again_BCHW).square().sum() / len(x_BCHW)


def squared_distances(z_BD: Tensor, mu_KD: Tensor) -> Tensor:
    """Return ||z_i - mu_j||^2, never below zero."""
    norms_BK = z_BD.square().sum(dim=1, keepdim=True) + mu_KD.square().sum(dim=1)
    return torch.addmm(norms_BK, z_BD, mu_KD.T, alpha=-2).clamp(min=0)


def log_scores(z_BD: Tensor, mu_KD: Tensor, v: float = 1.0) -> Tensor:
    """Eq. (1), in logarithms: s_ij is proportional to (1 + ||z_i - mu_j||^2 / v) ^ (-(v + 1) / 2)."""
    return F.log_softmax(-(v + 1) / 2 * torch.log1p(squared_distances(z_BD, mu_KD) / v), dim=1)


@dataclass(frozen=True, eq=False)
class Target:
    """What the scores should become."""

    r: Tensor
    n_empty: int
    """Clusters whose size had to be raised to the smallest allowed."""


def boost(log_s_NK: Tensor, alpha: float, n_j: Literal["boosted", "soft", "constant"]) -> Target:
    """Eq. (2), and n_j as in Algorithm 2, step 8: r_ij is proportional to s_ij^alpha / n_j."""
    log_power_NK = alpha * log_s_NK
    if n_j == "constant":
        return Target(F.softmax(log_power_NK, dim=1), 0)
    n_K = (log_power_NK if n_j == "boosted" else log_s_NK).double().exp().sum(dim=0)
    log_n_K = n_K.clamp(min=_MIN_SIZE).log().to(log_s_NK.dtype)
    return Target(F.softmax(log_power_NK - log_n_K, dim=1), int((n_K < _MIN_SIZE).sum()))


def kl_loss(r_BK: Tensor, log_s_BK: Tensor) -> Tensor:
    """Eq. (3): KL(R || S), averaged over the batch, so that its gradient does not depend on the batch size."""
    return F.kl_div(log_s_BK.clamp(min=math.log(1e-12)), r_BK, reduction="batchmean")


# --- network -------------------------------------------------------------------------------------------------------


def build_network(shape: tuple[int, ...], config: FCAEConfig) -> AutoEncoder:
    """Choose the network for images of this height, width and channel count; features of an encoder get a dense one."""
    reading = Reading(before_relu=config.before_relu, whiten=config.whiten)
    if config.arch == "dense" or len(shape) == 1:
        return DenseAE(shape, reading=reading)
    shape = (shape[0], shape[1], shape[2])
    return FCAE(shape, plan_stages(*shape[:2]) if config.arch == "auto" else ARCHITECTURES[config.arch], reading)


def encode_all(encoder: nn.Module, images: Inputs, device: torch.device) -> F32:
    """Return the features of all images."""
    pixels = tensor_of(images, device)
    return encode(encoder, pixels, pixels.even_chunks(2**19), encoder)


def score_all(features: F32, mu_KD: Tensor, v: float) -> Tensor:
    """Return the logarithms of the scores (N, K) of all images, on the host; predicting repeats the blocks."""
    with torch.no_grad():
        return torch.cat([log_scores(block, mu_KD.cpu(), v) for block in torch.split(torch.from_numpy(features), 1024)])


# --- training ------------------------------------------------------------------------------------------------------


_SAVED = Checkpoint(
    generators=("shuffling", "corrupting"),
    counters=("step", "ae_epoch", "epoch", "is_clustered"),
    arrays=("mu", "labels", "extra"),
)


@dataclass(eq=False)
class _Run:
    """Everything that changes while training; all of it is in the resume state."""

    images: Inputs
    config: FCAEConfig
    device: torch.device
    net: AutoEncoder
    mu: nn.Parameter
    optimizer: torch.optim.Adam
    shuffling: torch.Generator
    corrupting: torch.Generator
    n_first: int
    """Epochs of stage I."""
    n_second: int
    """Epochs of stage II, at most."""
    labels: I64
    extra: Arrays = field(default_factory=dict)
    """Filters and activations at the end of stage I."""
    step: int = 0
    ae_epoch: int = 0
    """Epochs of stage I done."""
    epoch: int = 0
    """Epochs of stage II done."""
    is_clustered: int = 0
    """1 once k-means has set the centres."""
    communities: Target | None = None
    """What is taught first, once it was asked for; found again by a run that goes on."""

    @classmethod
    def new(cls, images: Inputs, config: FCAEConfig, device: torch.device, seed: int) -> _Run:
        with seeded_init(seed):
            net = build_network(images.shape, config).to(device)
        n_features = encode_all(net.encoder, images.subset(slice(0, 1)), device).shape[1]
        mu = nn.Parameter(torch.zeros(config.n_clusters, n_features, device=device))
        optimizer = torch.optim.Adam(net.parameters(), lr=config.ae_lr)
        shuffling = torch_generator(seed, "batches")
        corrupting = torch_generator(seed, "corruption", device)
        n_first = config.first_epochs(len(images))
        n_second = config.second_epochs(len(images)) if isinstance(config, DBCConfig) else 0
        labels = np.zeros(len(images), dtype=np.int64)
        return cls(images, config, device, net, mu, optimizer, shuffling, corrupting, n_first, n_second, labels)

    def state(self) -> State:
        return _SAVED.pack(self)

    def load(self, state: State) -> None:
        """Go on from a saved state."""
        if state.meta["is_clustered"]:
            self.enter_stage_two()
        _SAVED.restore(self, state)

    def set_centres(self, mu_KD: F32) -> None:
        with torch.no_grad():
            self.mu.copy_(torch.from_numpy(mu_KD))

    def enter_stage_two(self) -> None:
        """Give the encoder and the centres (and with a reconstruction term the decoder) a new optimiser."""
        if isinstance(self.config, DBCConfig):
            trained = self.net if self.config.rec_weight else self.net.encoder
            self.optimizer = torch.optim.Adam([*trained.parameters(), self.mu], lr=self.config.lr)

    def take_statistics(self) -> None:
        """Find those of batch normalisation by one pass, where no stage I has: it would do nothing without them."""
        pixels = tensor_of(self.images, self.device)
        parts = torch.arange(len(self.images)).tensor_split(math.ceil(len(self.images) / self.config.batch_size))
        refresh_statistics(self.net, map(pixels.floats, parts))

    def encode(self) -> F32:
        return encode_all(self.net.encoder, self.images, self.device)

    def log_scores(self, features: F32) -> Tensor:
        return score_all(features, self.mu, self.config.v)

    def batches(self) -> Iterator[Tensor]:
        return shuffled_batches(len(self.images), self.config.batch_size, self.shuffling)

    def snapshot(self, phase: str, event: Mapping[str, Any], **rest: Any) -> Snapshot:
        self.step += 1
        return Snapshot(
            self.step, self.n_first + 1 + self.n_second, self.labels, {"phase": phase, **event}, self.state, **rest
        )


def train(
    images: Inputs, config: FCAEConfig, *, device: torch.device, seed: int, resume: State | None = None
) -> Iterator[Snapshot]:
    """Yield a snapshot for each epoch of stage I, for k-means, and for each epoch of stage II."""
    run = _Run.new(images, config, device, seed)
    if resume is not None:
        run.load(resume)
    while run.ae_epoch < run.n_first:
        seen, stats = _reconstruct(run)
        run.ae_epoch += 1
        run.labels = glance(seen, config.n_clusters, derive_seed(seed, f"glance {run.ae_epoch}"))
        yield run.snapshot("reconstruct", _named(stats, "reconstruction"))
    if run.n_first == 0 and not run.is_clustered:
        run.take_statistics()
    features = run.encode()
    if not run.is_clustered:
        features, whitened = _whiten(run, features)
        inertia = _place_centres(run, features, seed)
        log_s_NK = run.log_scores(features)
        run.labels = log_s_NK.argmax(dim=1).numpy()
        run.extra = pictures(run.net, images, log_s_NK, device, config.shown) if isinstance(images, Images) else {}
        result = None if isinstance(config, DBCConfig) else _result(run, features, log_s_NK)
        yield run.snapshot(
            "k-means", {"inertia": inertia, **whitened}, history=stage(features, log_s_NK), result=result
        )
    if isinstance(config, DBCConfig):
        yield from _sharpen(run, config, features, seed)


def _sharpen(run: _Run, config: DBCConfig, features: F32, seed: int) -> Iterator[Snapshot]:
    """Stage II: one snapshot per target."""
    log_s_NK, is_last = run.log_scores(features), False
    n_taught = config.taught_epochs(len(run.images))
    while not is_last:
        is_taught, n_own = run.epoch < n_taught, run.epoch - n_taught
        target = graph_target(run, seed) if is_taught else boost(log_s_NK, config.alpha, config.n_j)
        is_still = 0 <= n_own < config.still_share * (run.n_second - n_taught)
        stats = _learn_target(run, config, target.r, is_still=is_still)
        run.epoch += 1
        features = run.encode()
        log_s_NK = run.log_scores(features)
        before, run.labels = run.labels, log_s_NK.argmax(dim=1).numpy()
        changed = float(np.mean(before != run.labels))
        has_settled = _has_settled(changed, config.stop) and not (is_still or is_taught)
        is_last = run.epoch >= run.n_second or has_settled
        yield run.snapshot(
            "taught" if is_taught else "boost",
            {**_named(stats, "kl"), "changed": changed, "empty_clusters": target.n_empty},
            history=stage(features, log_s_NK, is_sparse=not (is_last or run.epoch.bit_count() == 1)),
            result=_result(run, features, log_s_NK) if is_last else None,
            warnings=_empty_warning(target.n_empty),
        )


def _has_settled(changed: float, stop: float) -> bool:
    """The stopping rule; an epoch that changes no label ends training in any case, as in the paper."""
    return changed < stop or changed == 0


def _named(stats: EpochStats, name: str) -> dict[str, float | int]:
    """Give the loss its name: the two stages minimise different things, which must not share a curve."""
    event = stats.event()
    return {name: event.pop("loss"), **event}


def _empty_warning(n_empty: int) -> tuple[str, ...]:
    if not n_empty:
        return ()
    return (f"{n_empty} empty clusters: their sizes in the target were raised to {_MIN_SIZE:g}.",)


def _varied(x_BCHW: Tensor, batch_B: Tensor, pixels: InputTensor, run: _Run) -> Tensor:
    """Rotate, translate and zoom every image a little, if asked for; of an encoder, take one of its views."""
    config = run.config
    if isinstance(pixels, FeatureTensor):
        return pixels.augmented(batch_B, (), run.corrupting)
    if not (config.rotate or config.translate or config.zoom):
        return x_BCHW
    zoom = (1 - config.zoom, 1 + config.zoom)
    return Affine(rotate=config.rotate, translate=config.translate, zoom=zoom)(x_BCHW, run.corrupting)


def _reconstruct(run: _Run) -> tuple[Tensor, EpochStats]:
    """Stage I, one epoch of Algorithm 1, step 1. Also returns the features as the network saw the images in passing."""
    net, pixels = run.net.train(), tensor_of(run.images, run.device)
    seen_ND = torch.zeros(len(pixels), run.mu.shape[1], device=run.device)

    def step(batch_B: Tensor) -> Tensor | None:
        if len(batch_B) < 2:  # batch normalisation needs two
            return None
        x_BCHW = pixels.floats(batch_B)
        varied_BCHW = _varied(x_BCHW, batch_B, pixels, run)
        z_BD, again_BCHW = net(varied_BCHW)
        seen_ND[batch_B.to(run.device)] = z_BD.detach()
        return reconstruction_loss(x_BCHW if run.config.restore else varied_BCHW, again_BCHW)

    set_rate(run.optimizer, run.config.ae_lr, run.ae_epoch / run.config.full_epochs(len(pixels)))
    what = f"stage 1, epoch {run.ae_epoch + 1} of {run.n_first}"
    distributed.own_stream(run.corrupting)
    stats = run_epoch(step, run.batches(), run.optimizer, what=what, total=len(pixels))
    distributed.average_buffers(net)
    return distributed.add_up(seen_ND), stats


def _whiten(run: _Run, features: F32) -> tuple[F32, dict[str, int]]:
    """Fit the whitening to the features of all images, if asked for; return what it makes of them, and an event."""
    layer = run.net.encoder.whitening
    if not isinstance(layer, Whitening):
        return features, {}
    n_kept = layer.fit(features)
    return run.encode(), {"whitened_features": n_kept}


def _place_centres(run: _Run, features: F32, seed: int) -> float:
    """Cluster the features of all images for the first centres; returns the inertia."""
    config = run.config
    if isinstance(config, DBCConfig) and config.taught:
        r_NK = graph_target(run, seed).r.numpy()
        centres: F32 = (r_NK / r_NK.sum(axis=0)).T @ features
        inertia = float(np.square(features - r_NK @ centres).sum(dtype=np.float64))
    else:
        fitted = kmeans(features, config.n_clusters, seed=seed, n_restarts=config.n_restarts)
        centres, inertia = fitted.centroids, fitted.inertia
    run.set_centres(centres)
    run.is_clustered = 1
    run.enter_stage_two()
    return inertia


def graph_target(run: _Run, seed: int) -> Target:
    """Return the communities of the images' neighbours as a target, each image wholly in its own; ours."""
    if run.communities is None:
        labels = graph_clusters(run.images, run.config.n_clusters, device=run.device, seed=seed)
        run.communities = Target(F.one_hot(torch.from_numpy(labels), run.config.n_clusters).float(), 0)
    return run.communities


def _learn_target(run: _Run, config: DBCConfig, r_NK: Tensor, *, is_still: bool) -> EpochStats:
    """Stage II, one epoch: the target stays what it is while the scores move towards it.

    `is_still` leaves the images as they are. An augmented image gets softer scores; as long as all are soft, that
    outweighs the boosting and they become equal.
    """
    net, pixels = run.net.train(not config.freeze_bn), tensor_of(run.images, run.device)

    def step(batch_B: Tensor) -> Tensor | None:
        if len(batch_B) < 2 and not config.freeze_bn:
            return None
        x_BCHW = pixels.floats(batch_B)
        varied_BCHW = x_BCHW if is_still else _varied(x_BCHW, batch_B, pixels, run)
        z_BD, again_BCHW = net(varied_BCHW) if config.rec_weight else (net.encoder(varied_BCHW), None)
        loss = kl_loss(r_NK[batch_B].to(run.device), log_scores(z_BD, run.mu, config.v))
        if again_BCHW is not None:
            wanted_BCHW = x_BCHW if config.restore else varied_BCHW
            loss = loss + config.rec_weight * reconstruction_loss(wanted_BCHW, again_BCHW)
        return loss

    set_rate(run.optimizer, config.lr, run.epoch / run.n_second if config.decay == "cosine" else 0)
    batches = islice(run.batches(), config.target_steps or None)
    what = f"stage 2, epoch {run.epoch + 1} of at most {run.n_second}"
    distributed.own_stream(run.corrupting)
    total = min(len(pixels), config.target_steps * config.batch_size or len(pixels))
    stats = run_epoch(step, batches, run.optimizer, what=what, total=total)
    distributed.average_buffers(net)
    return stats


# --- result --------------------------------------------------------------------------------------------


def _result(run: _Run, features: F32, log_s_NK: Tensor) -> Clustering:
    model = State(
        {**pack_module("encoder", run.net.encoder), "mu": to_numpy(run.mu)},
        {"shape": list(run.images.shape)},
    )
    return Clustering(run.labels, log_s_NK.exp().numpy(), features, model, run.extra)


class DBCModel:
    """The encoder and the centres: new images get the scores the training images got."""

    def __init__(self, config: FCAEConfig, state: State, device: torch.device) -> None:
        self.config, self.shape, self.device = config, saved_shape(state), device
        with seeded_init(0):
            self.encoder = build_network(self.shape, config).encoder.to(device)
        unpack_module("encoder", self.encoder, state.arrays)
        self.encoder.eval()
        self.mu = torch.from_numpy(state.arrays["mu"].copy())

    def apply(self, images: Inputs, layer: str = "top") -> Assignment:
        """Return features and scores."""
        check_request(images, self.shape, layer)
        features = encode_all(self.encoder, images, self.device)
        return Assignment(features, score_all(features, self.mu, self.config.v).exp().numpy())

    def network(self) -> nn.Module:
        """Return images (B, C, H, W) in [0, 1] to scores and features as one module, for export."""
        return _Scorer(self.encoder, self.mu.to(self.device), self.config).eval()


class _Scorer(nn.Module):
    """Encoder and scores in one."""

    def __init__(self, encoder: nn.Module, mu_KD: Tensor, config: FCAEConfig) -> None:
        super().__init__()
        self.encoder, self.v = encoder, config.v
        self.register_buffer("mu", mu_KD)

    def forward(self, x_BCHW: Tensor) -> tuple[Tensor, Tensor]:
        """Return scores (B, K) and features (B, D)."""
        z_BD = self.encoder(x_BCHW)
        return log_scores(z_BD, self.get_buffer("mu"), self.v).exp(), z_BD


def restore(config: FCAEConfig, state: State, *, device: torch.device) -> DBCModel:
    """Rebuild a fitted model."""
    return DBCModel(config, state, device)


_PAPER = "Discriminatively Boosted Image Clustering with Fully Convolutional Auto-Encoders, Pattern Recognition 2018"

FCAE_KMEANS, DBC, DEC = (
    Method(name, summary, source, config, train, restore, is_inductive=True, is_shareable=True, learns_on="features")
    for name, summary, source, config in (
        (
            "fcae-kmeans",
            "k-means on the features of a fully convolutional auto-encoder",
            f"Li, Qiao, Zhang, Xi: {_PAPER} (FCAE-KMS)",
            FCAEConfig,
        ),
        (
            "dbc",
            "auto-encoder, then encoder and centres are trained towards sharpened soft assignments",
            f"Li, Qiao, Zhang, Xi: {_PAPER}",
            DBCConfig,
        ),
        (
            "dec",
            "deep embedded clustering: DBC's special case with a fully connected network",
            "Xie, Girshick, Farhadi: Unsupervised Deep Embedding for Clustering Analysis, ICML 2016",
            DECConfig,
        ),
    )
)
"""The three entries of this file."""
