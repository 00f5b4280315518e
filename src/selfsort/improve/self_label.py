"""Self-labelling: a network that already sorts images is trained on its own confident answers.

Van Gansbeke et al., "SCAN: Learning to Classify Images without Labels", ECCV 2020 (the step); Qian, ICCV 2023 (its
settings for SeCu).

The network of a finished run looks at each image as it is (the weak view). Where it is sure, its answer becomes the
label that a strongly changed copy of the same image (the strong view) must be given. At first all images keep the
labels of that run, so that the network gets used to strong views before it chooses for itself.

Shape letters: B batch, K clusters, D features.

Where we differ from the papers:
- Any model that is one network can be refined, also DAC's and GATCluster's, not only SeCu's.
- Assignments are raised to a power: a softmax of cosines at a high temperature, as SeCu's, is never 90 % sure. Half of
  the images are made sure, at the start and after the warm-up, but then with no higher power than makes assignments the
  best forecast of the run's labels.
- A network that repeats too few of the run's labels after the warm-up (`min_agreement`) has nothing to teach itself.
  Then the result is the run as it was, and a warning says so.
- Batch normalisation takes the statistics for prediction from the images as they are, once per epoch: those of strong
  views would not fit them.
- Off by default: the labels may be regrouped first (`regroup`), which is ours.
- The square cut out of strong views is black; SCAN's, made after normalisation, has the mean colour (`cutout_fill`).
- The learning rate is not published for SeCu; ours is 0.01, falling as a cosine.
The recipe `paper` leaves all of ours out but the rate, which no text states.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from selfsort import distributed
from selfsort.augment.policy import Affine, CutOut, Flip, Policy, RandomOps
from selfsort.config import Config, setting
from selfsort.errors import InvalidInput
from selfsort.improve.regroup import propose
from selfsort.learning.batches import shuffled_batches, tensor_of
from selfsort.learning.checkpoint import Checkpoint, pack_module, saved_shape, to_numpy, unpack_module
from selfsort.learning.encode import check_request, encode_several
from selfsort.learning.epoch import EpochStats, run_epoch
from selfsort.learning.seeds import torch_generator
from selfsort.types import (
    I64,
    Assignment,
    Clustering,
    FinishedRun,
    Images,
    Inputs,
    NetworkModel,
    Snapshot,
    Stage,
    State,
)

_MAX_SHARPNESS = 100.0
"""Images all alike are never told apart; a power beyond this would only amplify rounding."""

_NUDGED: Policy = (Affine(rotate=15.0, translate=0.1, zoom=(0.85, 1.15)),)
"""Augmentation that labels must survive, for regrouping."""


@dataclass(frozen=True, kw_only=True)
class SelfLabelConfig(Config):
    """Settings; the defaults are those published for SeCu."""

    epochs: int = setting(100, "passes over the images", "paper")
    warmup: int = setting(10, "of these, epochs in which all images keep the labels of the run", "paper")
    threshold: float = setting(0.9, "how sure the network must be of an image to learn from it", "paper")
    min_agreement: float = setting(
        0.8, "share of the run's labels to be repeated after the warm-up, else none is changed"
    )
    regroup: bool = setting(False, "first regroup clusters where that is as stable; not in the papers", "ours")
    sharpen: bool = setting(True, "raise assignments to a power that makes half of the images sure; no: as they are")
    refresh_bn: bool = setting(
        True, "take statistics of batch normalisation from images as they are, once per epoch; no: from all views seen"
    )
    balanced: bool = setting(False, "weigh images by 1/frequency of their cluster in the batch, as SCAN does", "paper")
    batch_size: int = setting(1024, "images per step", "paper")
    optimizer: Literal["sgd", "adam"] = setting("sgd", "adam is SCAN's", "paper")
    lr: float = setting(0.01, "highest learning rate; not published")
    momentum: float = setting(0.9, "of sgd", "paper")
    weight_decay: float = setting(1e-4, "of either", "code; SCAN's")
    n_ops: int = setting(4, "random operations on a strong view", "code; SCAN's")
    cutout: int = setting(
        16,
        "largest side of the square cut out of a strong view, at most half of the image",
        "code; SCAN's, the limit is ours",
    )
    cutout_fill: Literal["black", "mean"] = setting(
        "black", "what the square is filled with; mean: zeros after normalisation, SCAN's way"
    )
    flip: Literal["auto"] | bool = setting("auto", "mirror strong views; auto: in colour images only")

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require("epochs", self.epochs >= 1, "be at least 1")
        self.require("warmup", 0 <= self.warmup <= self.epochs, f"be between 0 and epochs ({self.epochs})")
        self.require("threshold", 0 <= self.threshold < 1, "be at least 0 and below 1")
        self.require("min_agreement", 0 <= self.min_agreement <= 1, "be between 0 and 1")
        self.require("batch_size", self.batch_size >= 2, "be at least 2, for batch normalisation")
        self.require("lr", self.lr > 0, "be positive")
        for name in ("momentum", "weight_decay", "n_ops", "cutout"):
            self.require(name, getattr(self, name) >= 0, "be at least 0")


# --- equations -----------------------------------------------------------------------------------------------------


def select(p_BK: Tensor, threshold: float) -> tuple[Tensor, Tensor]:
    """Return the answers to the weak views, and which of them are sure enough to learn from."""
    sure_B, y_B = p_BK.max(dim=1)
    return y_B, sure_B > threshold


def label_loss(log_p_BK: Tensor, y_B: Tensor, *, is_balanced: bool = False) -> Tensor:
    """Cross-entropy of strong views; balanced, every cluster in the batch weighs the same.

    >>> p_BK = torch.tensor([[0.5, 0.5], [0.5, 0.5], [0.9, 0.1]])
    >>> round(label_loss(p_BK.log(), torch.tensor([0, 0, 1]), is_balanced=True).item(), 4)  # (log 2 + log 10) / 2
    1.4979
    """
    if not is_balanced:
        return F.nll_loss(log_p_BK, y_B)
    counts_K = torch.bincount(y_B, minlength=log_p_BK.shape[1])
    weights_K = torch.where(counts_K > 0, len(y_B) / counts_K.clamp(min=1), 0.0).to(log_p_BK)
    return F.nll_loss(log_p_BK, y_B, weight=weights_K)


def sharpness_for(soft_NK: Tensor, threshold: float) -> float:
    """The least power, from 1 up, that makes half of the images surer than the threshold once rows sum to one again.

    >>> round(sharpness_for(torch.tensor([[0.6, 0.4]]), 9 / 13), 3)  # 0.6^2 / (0.6^2 + 0.4^2) = 9/13
    2.0
    """
    log_NK = soft_NK.clamp(min=1e-12).log()
    low, high = 0.0, math.log(_MAX_SHARPNESS)
    for _ in range(40):  # the median grows with the power, so halving finds it
        middle = (low + high) / 2
        median = F.softmax(math.exp(middle) * log_NK, dim=1).max(dim=1).values.median()
        low, high = (low, middle) if median > threshold else (middle, high)
    is_sure_already = soft_NK.max(dim=1).values.median() > threshold
    return 1.0 if is_sure_already else math.exp(high)


def calibrated_sharpness(soft_NK: Tensor, y_N: Tensor) -> float:
    """The power at which assignments, rows summing to one again, give labels the highest likelihood.

    >>> soft_NK = torch.tensor([[0.6, 0.4]] * 13)
    >>> round(calibrated_sharpness(soft_NK, torch.tensor([0] * 9 + [1] * 4)), 3)  # right in 9 of 13, as 0.6^2 says
    2.0
    """
    log_NK = soft_NK.clamp(min=1e-12).log().double()
    said_N = log_NK.gather(1, y_N[:, None])[:, 0]
    low, high = -math.log(_MAX_SHARPNESS), math.log(_MAX_SHARPNESS)
    for _ in range(40):  # the likelihood is concave in the power, so its slope changes sign once
        middle = (low + high) / 2
        p_NK = F.softmax(math.exp(middle) * log_NK, dim=1)
        slope = (said_N - (p_NK * log_NK).sum(dim=1)).mean()
        low, high = (middle, high) if slope > 0 else (low, middle)
    return math.exp(high)


def learning_rate(done: float, config: SelfLabelConfig) -> float:
    """A cosine from the highest rate to zero; `done` is the share of the training that is over."""
    return config.lr * 0.5 * (1 + math.cos(math.pi * min(done, 1.0)))


def strong_policy(shape: tuple[int, ...], config: SelfLabelConfig, mean: tuple[float, ...] = (0.5,)) -> Policy:
    """Mirror, a few random operations, and a square cut out; `mean` is that of the images, channel by channel."""
    if len(shape) == 1:
        return ()  # the views of an encoder are ready
    height, width, channels = shape
    is_mirrored = channels == 3 if config.flip == "auto" else config.flip
    side = min(config.cutout, height // 2, width // 2)
    start: Policy = (Flip(),) if is_mirrored else ()
    fill = mean if config.cutout_fill == "mean" else 0.0
    return (*start, RandomOps(n=config.n_ops), *((CutOut(size=side, fill=fill),) if side else ()))


def mean_colour(images: Inputs) -> tuple[float, ...]:
    """Return the mean of each channel, in [0, 1]; of an encoder's features there is none."""
    if not isinstance(images, Images):
        return ()
    return tuple((images.pixels.mean(axis=(0, 1, 2), dtype=np.float64) / 255).tolist())


# --- network -------------------------------------------------------------------------------------------------------


class Refined(nn.Module):
    """The network of a run, its assignments raised to a power."""

    def __init__(self, network: nn.Module, *, is_refreshed: bool = True) -> None:
        super().__init__()
        self.network, self.is_refreshed = network, is_refreshed
        for weight in self.network.parameters():
            weight.requires_grad_(True)
        self.register_buffer("sharpness", torch.ones(()))
        self.norms = [layer for layer in network.modules() if isinstance(layer, _BatchNorm)]
        for norm in self.norms if is_refreshed else ():
            norm.momentum = 0.0  # strong views leave the statistics alone; see `take_statistics`

    def log_soft(self, x_BCHW: Tensor) -> tuple[Tensor, Tensor]:
        """Return logarithms of the assignments (B, K), and features (B, D)."""
        soft_BK, features_BD = self.network(x_BCHW)
        log_BK = soft_BK.clamp(min=1e-12).log() * self.get_buffer("sharpness")
        return F.log_softmax(log_BK, dim=1), features_BD

    def forward(self, x_BCHW: Tensor) -> tuple[Tensor, Tensor]:
        """Return assignments (B, K) and features (B, D)."""
        log_BK, features_BD = self.log_soft(x_BCHW)
        return log_BK.exp(), features_BD


def take_statistics(net: Refined, images: Inputs, device: torch.device, size: int) -> None:
    """Let batch normalisation see all images as they are, once; no weight moves."""
    if not net.is_refreshed:
        return
    pixels, n_parts = tensor_of(images, device), max(1, len(images) // size)
    for norm in net.norms:
        norm.reset_running_stats()
        norm.momentum = None  # the mean over all batches
    net.train()
    with torch.no_grad():
        for first in range(n_parts if net.norms else 0):  # every n-th image: files are often sorted by class
            net(pixels.floats(torch.arange(first, len(pixels), n_parts)))
    for norm in net.norms:
        norm.momentum = 0.0
    net.eval()


def assign(net: Refined, images: Inputs, device: torch.device) -> Assignment:
    """Assign all images, in evaluation mode and as they are."""
    pixels = tensor_of(images, device)
    soft, features = encode_several(net, pixels, pixels.even_chunks(2**18, at_most=2**11), net)
    return Assignment(features, soft)


# --- training ------------------------------------------------------------------------------------------------------


_SAVED = Checkpoint(
    generators=("shuffling", "viewing"), counters=("epoch",), arrays=("before_N", "fixed_N", "latest_N")
)


class _Run:
    """Everything that changes while training; all of it is in the resume state."""

    def __init__(
        self, model: NetworkModel, images: Inputs, config: SelfLabelConfig, device: torch.device, seed: int
    ) -> None:
        self.images, self.config, self.device = images, config, device
        # A copy: the run stays as it is.
        self.net = Refined(copy.deepcopy(model.network()), is_refreshed=config.refresh_bn).to(device)
        self.policy = strong_policy(images.shape, config, mean_colour(images))
        weights = list(self.net.parameters())
        self.optimizer: torch.optim.Optimizer = (
            torch.optim.SGD(weights, config.lr, momentum=config.momentum, weight_decay=config.weight_decay)
            if config.optimizer == "sgd"
            else torch.optim.Adam(weights, config.lr, weight_decay=config.weight_decay)
        )
        self.shuffling = torch_generator(seed, "batches")
        self.viewing = torch_generator(seed, "views", device)
        self.before_N = torch.zeros(0, dtype=torch.int64)  # labels of the run that is refined
        self.fixed_N = torch.zeros(0, dtype=torch.int64)  # the same, or regrouped; learned from at first
        self.latest_N = torch.zeros(0, dtype=torch.int64)  # answers to the weak views, as last seen
        self.epoch = 0

    def ask(self) -> dict[str, float | int]:
        """Keep what the network says before anything is trained, and make half of it sure; regroup it if set."""
        found = assign(self.net, self.images, self.device)
        if self.config.sharpen:
            power = sharpness_for(torch.from_numpy(found.soft), self.config.threshold)
            self.net.get_buffer("sharpness").fill_(power)
        self.before_N = self.fixed_N = torch.from_numpy(found.labels)
        self.latest_N = self.before_N.clone()
        return self.regroup() if self.config.regroup else {}

    def regroup(self) -> dict[str, float | int]:
        """Keep better labels than the network's own, if there are any."""

        def probe(x_BCHW: Tensor) -> tuple[Tensor, Tensor]:
            soft_BK, features_BD = self.net(x_BCHW)
            return soft_BK.argmax(dim=1), features_BD

        self.net.eval()
        pixels = tensor_of(self.images, self.device)
        labels_N, event = propose(probe, pixels, torch.arange(len(pixels)), _NUDGED, self.config.n_clusters)
        if labels_N is not None:
            self.fixed_N = labels_N.cpu()
        return event

    def calibrate(self) -> float:
        """Be no surer than the run's labels justify; returns the share of them that the network repeats."""
        self.net.get_buffer("sharpness").fill_(1.0)
        found = assign(self.net, self.images, self.device)
        soft_NK, labels_N = torch.from_numpy(found.soft), torch.from_numpy(found.labels)
        if self.config.sharpen:
            power = min(sharpness_for(soft_NK, self.config.threshold), calibrated_sharpness(soft_NK, self.fixed_N))
            self.net.get_buffer("sharpness").fill_(power)
        return float((labels_N == self.fixed_N).double().mean())

    def state(self) -> State:
        return _SAVED.pack(self)

    def load(self, state: State) -> None:
        """Go on from a saved state."""
        _SAVED.restore(self, state)

    def train_epoch(self) -> tuple[EpochStats, float]:
        """One pass; also returns the share of the images that were learned from."""
        config, pixels = self.config, tensor_of(self.images, self.device)
        n_steps, n_done, n_sure = -(-len(pixels) // config.batch_size), 0, 0

        def step(batch_B: Tensor) -> Tensor | None:
            nonlocal n_done, n_sure
            self.optimizer.param_groups[0]["lr"] = learning_rate(
                (self.epoch + n_done / n_steps) / config.epochs, config
            )
            n_done += 1
            x_BCHW = pixels.floats(batch_B)
            y_B, is_sure_B = self.answers(batch_B, x_BCHW)
            strong_BCHW = pixels.augmented(batch_B, self.policy, self.viewing)
            if int(is_sure_B.sum()) < 2:  # nothing to learn from; and batch normalisation needs two
                return None
            n_sure += int(is_sure_B.sum())
            self.net.train()
            log_p_BK, _ = self.net.log_soft(strong_BCHW)
            return label_loss(log_p_BK[is_sure_B], y_B[is_sure_B], is_balanced=config.balanced)

        batches = shuffled_batches(len(pixels), config.batch_size, self.shuffling)
        what = f"self-labelling, epoch {self.epoch + 1} of {config.epochs}"
        distributed.own_stream(self.viewing)
        stats = run_epoch(step, batches, self.optimizer, what=what, total=len(pixels))
        take_statistics(self.net, self.images, self.device, config.batch_size)
        n_learned = distributed.add_up(torch.tensor(n_sure, device=self.device))
        return stats, int(n_learned) / len(pixels)

    def answers(self, batch_B: Tensor, x_BCHW: Tensor) -> tuple[Tensor, Tensor]:
        """Labels for a batch and which of them count: those of the run at first, then the network's own if sure."""
        if self.epoch < self.config.warmup:
            y_B = self.fixed_N[batch_B].to(self.device)
            return y_B, torch.ones_like(y_B, dtype=torch.bool)
        # Statistics of the whole set would be those of the weights an epoch ago; a single image has none of its own.
        self.net.train(len(x_BCHW) > 1)
        with torch.no_grad():
            y_B, is_sure_B = select(self.net(x_BCHW)[0], self.config.threshold)
        rows_B = distributed.gather_rows(batch_B.to(self.device)).cpu()
        self.latest_N[rows_B] = distributed.gather_rows(y_B).cpu()
        return y_B, is_sure_B


def train(
    run: FinishedRun,
    images: Inputs,
    config: SelfLabelConfig,
    *,
    device: torch.device,
    seed: int,
    resume: State | None = None,
) -> Iterator[Snapshot]:
    """Refine the network of a finished run; one snapshot per epoch."""
    model = network_of(run)
    now, is_over = _Run(model, images, config, device, seed), False
    first: dict[str, float | int] = {}
    if resume is None:
        first = now.ask()
    else:
        now.load(resume)
    while now.epoch < config.epochs and not is_over:
        before_N = now.latest_N.clone()
        stats, share = now.train_epoch()
        now.epoch += 1
        phase = "fixed labels" if now.epoch <= config.warmup else "own labels"
        changed = float((before_N != now.latest_N).double().mean())
        event = {"phase": phase, **stats.event(), "learned_from": share, "changed": changed, **first}
        first = {}
        event["sharpness"] = float(now.net.get_buffer("sharpness"))
        warnings: tuple[str, ...] = ()
        if now.epoch == config.warmup:
            event["agreement"] = agreement = now.calibrate()
            is_over = agreement < config.min_agreement
        if is_over:
            now.net = Refined(copy.deepcopy(model.network())).to(device)
            warnings = (_too_little(agreement, config),)
        result = _result(now) if is_over or now.epoch == config.epochs else None
        labels: I64 = now.latest_N.numpy().copy() if result is None else result.labels
        yield Snapshot(now.epoch, config.epochs, labels, event, now.state, result, warnings=warnings)


def _too_little(agreement: float, config: SelfLabelConfig) -> str:
    return (
        f"After {config.warmup} epochs on the labels of the run the network repeats {agreement:.0%} of them, too few "
        f"to learn from itself (min_agreement {config.min_agreement:g}); the result is the run as it was. "
        "A longer or different first run helps; --set min_agreement=0 goes on regardless."
    )


def _result(run: _Run) -> Clustering:
    found = assign(run.net, run.images, run.device)
    model = State(pack_module("net", run.net), {"shape": list(run.images.shape)})
    return Clustering(found.labels, found.soft, found.features, model, {"labels_before": to_numpy(run.before_N)})


class SelfLabelModel:
    """The refined network."""

    def __init__(self, model: NetworkModel, state: State, device: torch.device) -> None:
        self.shape, self.device = saved_shape(state), device
        self.net = Refined(copy.deepcopy(model.network())).to(device)
        unpack_module("net", self.net, state.arrays)
        self.net.eval()

    def apply(self, images: Inputs, layer: str = "top") -> Assignment:
        """Return features and assignments."""
        check_request(images, self.shape, layer)
        return assign(self.net, images, self.device)

    def network(self) -> nn.Module:
        """Return images (B, C, H, W) in [0, 1] to assignments and features as one module."""
        return self.net.eval()


def network_of(run: FinishedRun) -> NetworkModel:
    """Return the model of a run, which must be one network."""
    if not isinstance(run.model, NetworkModel):
        raise InvalidInput(
            f"{run.method} does not label images by a network alone, so its runs cannot be refined by self-labelling. "
            "Expected a run of a method such as secu, dac or gatcluster. Give such a run."
        )
    return run.model


def restore(run: FinishedRun, config: SelfLabelConfig, state: State, *, device: torch.device) -> SelfLabelModel:
    """Rebuild the refined model; the form of its network is that of the run that was refined."""
    return SelfLabelModel(network_of(run), state, device)


STAGE = Stage(
    name="self-label",
    summary="refine a finished run: train its network on its own confident answers",
    source="Van Gansbeke et al.: SCAN, ECCV 2020; Qian, ICCV 2023",
    config=SelfLabelConfig,
    train=train,
    restore=restore,
    is_inductive=True,
    is_shareable=True,
)
