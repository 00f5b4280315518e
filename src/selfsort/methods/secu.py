"""SeCu: cluster discrimination that stays stable, because negatives do not move the centres.

Qian, "Stable Cluster Discrimination for Deep Clustering", ICCV 2023.

Every image is seen in two random views. Its features, unit vectors, are compared with learnable unit centres; the
cluster whose centre agrees most, among those not already too full, becomes its label. A centre is pulled towards the
images assigned to it and by nothing else; the encoder learns to predict the label the image had an epoch ago, mixed
with what the other view says, against centres that stand still for an epoch. Several heads with k, 2k, 3k ... centres
train one encoder; the first is the result.

Symbols: x_1, x_2 unit features of two views; w_j unit centres; w^- centres at the start of the epoch; lam temperatures;
tau share of the label in the target; gamma, rho, alpha see `selfsort.methods._secu_balance`.
Shape letters: N images, B batch, D features, K clusters of a head, C channels.

Where we differ from the paper and its code:
- Images are normalised by their own mean and deviation, of all images of the run; no data set's constants are needed.
- Mirrored views (`flip`) are left out for gray images, whose meaning often depends on left and right.
- Labels in the log are the assignments made in training; those of the result come from one pass in evaluation mode.
- With a predictor (ImageNet) losses and assignments are averaged over its output and the projector's, and the
  projector's other view is the soft target of both, as in the code; prediction uses the projector, which is ours.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, cast

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from selfsort import distributed
from selfsort.augment.policy import Affine, Blur, ColourJitter, Flip, Grayscale, Policy, ResizedCrop, Solarise
from selfsort.config import Config, setting
from selfsort.errors import invalid
from selfsort.learning.batches import shuffled_batches, tensor_of
from selfsort.learning.checkpoint import Checkpoint, pack_module, saved_shape, to_numpy, unpack_module
from selfsort.learning.encode import check_request, encode
from selfsort.learning.epoch import EpochStats, run_epoch
from selfsort.learning.finetune import train_along
from selfsort.learning.rates import half_cosine
from selfsort.learning.seeds import derive_seed, seeded_init, torch_generator
from selfsort.learning.trainee import Trainee
from selfsort.methods._secu_balance import Balance, EntropyPrice, Greedy, SizeBounds
from selfsort.methods._secu_centres import (
    centre_loss,
    closed_form,
    hardness_sums,
    plain_centre_loss,
    running_mean,
    unit_columns,
)
from selfsort.methods._secu_lars import LARS
from selfsort.nets.heads import deep_projection, predictor, projection, unit
from selfsort.nets.resnet import Normalise, ResNet, plan_for
from selfsort.types import F32, I64, Arrays, Assignment, Clustering, Images, Improvable, Inputs, Method, Snapshot, State

_ALPHA_PER_IMAGE = 0.12
"""alpha / n as published for CIFAR (6,000 for 50,000 images)."""

_N_KEPT = 1000
"""Images of a stage that are kept for the figures."""


@dataclass(frozen=True, kw_only=True)
class SeCuConfig(Config):
    """Settings; the defaults are those published for CIFAR-10, with the size constraint."""

    arch: Literal["auto", "small", "resnet18", "resnet18-stl", "resnet50"] = setting(
        "auto",
        "encoder: by image size, ours for a CPU (small), or a published one",
        "paper; small and the rule are ours",
    )
    width: int = setting(32, "channels of the first stage of the small encoder")
    dim: int = setting(128, "length of the features (D)", "paper")
    with_predictor: bool = setting(False, "three-layer projection and a predictor behind it, as for ImageNet", "code")
    centred: bool = setting(False, "batch normalisation at the end of the projection; more stable in short training")
    n_heads: int = setting(10, "heads; head h has h times as many centres as clusters asked for", "paper")
    epochs: int = setting(400, "passes over the images after epoch 0", "code")
    warmup: int = setting(10, "of these, epochs in which the learning rate rises", "code")
    batch_size: int = setting(128, "images per step", "paper")
    optimizer: Literal["sgd", "lars"] = setting("sgd", "lars for very large batches", "paper")
    lr: float = setting(0.2, "highest learning rate of the encoder", "paper")
    centre_lr: float = setting(1.2, "learning rate of the centres", "code")
    centre_schedule: Literal["constant", "cosine", "rising"] = setting(
        "constant", "of the centres' learning rate; rising: the ImageNet script with the entropy constraint", "paper"
    )
    momentum: float = setting(0.9, "of both", "code")
    weight_decay: float = setting(1e-4, "of both", "code")
    lam_x: float = setting(0.05, "temperature of the representation loss and of the soft assignments", "paper")
    lam_w: float = setting(0.05, "temperature of the centre loss", "paper")
    tau: float = setting(0.2, "weight of last epoch's label in the target; the rest is the other view's", "code")
    constraint: Literal["size", "entropy", "none"] = setting("size", "what keeps clusters alive", "paper")
    units: Literal["code", "supplement"] = setting(
        "code", "cost of a cluster: minus the cosine, or minus log p, which is 1/lam_x times larger", "code"
    )
    gamma: float = setting(0.9, "smallest size of a cluster, in units of n/k; 1: all equal", "paper")
    gamma_upper: float | None = setting(None, "largest size of a cluster, in units of n/k; none: any", "paper")
    eta_rho: float = setting(0.1, "step of the dual variables, in the units chosen", "code")
    alpha: float | None = setting(None, "price of low entropy, in the units chosen; none: 0.12 n", "code")
    centre_update: Literal["secu", "closed_form", "running_mean", "cross_entropy"] = setting(
        "secu", "how centres move: the paper's way, or one of its comparisons", "paper"
    )
    crop_min: float = setting(0.3, "smallest share of the image in a view", "code")
    jitter: float = setting(0.8, "share of views with changed colours", "code")
    blur: float = setting(1.0, "share of blurred first views; of second views a tenth of it", "code")
    solarise: float = setting(0.2, "share of solarised second views", "code")
    flip: Literal["auto"] | bool = setting("auto", "mirror views; auto: in colour images only")
    rotate: float = setting(0.0, "turn views at random by up to so many degrees")

    sync_bn: bool = setting(False, "batch normalisation over the batches of all processes; GPUs only")

    def __post_init__(self) -> None:
        super().__post_init__()
        # Backward passes through narrower stages were seen to corrupt memory in a CPU build of torch.
        self.require("width", self.width >= 8, "be at least 8")
        for name in ("dim", "n_heads", "epochs"):
            self.require(name, getattr(self, name) >= 1, "be at least 1")
        self.require("batch_size", self.batch_size >= 2, "be at least 2, for batch normalisation")
        self.require("warmup", 0 <= self.warmup < self.epochs, f"be at least 0 and below epochs ({self.epochs})")
        for name in ("lr", "centre_lr", "lam_x", "lam_w", "eta_rho"):
            self.require(name, getattr(self, name) > 0, "be positive")
        for name in ("tau", "gamma", "jitter", "blur", "solarise"):
            self.require(name, 0 <= getattr(self, name) <= 1, "be between 0 and 1")
        for name in ("momentum", "weight_decay", "rotate"):
            self.require(name, getattr(self, name) >= 0, "be at least 0")
        self.require("crop_min", 0 < self.crop_min <= 1, "be above 0 and at most 1")
        self.require("gamma_upper", self.gamma_upper is None or self.gamma_upper > 1, "be above 1, or none")
        self.require("alpha", self.alpha is None or self.alpha >= 0, "be at least 0, or none")

    @property
    def head_sizes(self) -> tuple[int, ...]:
        """Centres of every head; the first is the one asked for."""
        return tuple(h * self.n_clusters for h in range(1, self.n_heads + 1))

    @property
    def is_by_gradient(self) -> bool:
        """Whether the optimiser moves the centres."""
        return self.centre_update in ("secu", "cross_entropy")


# --- equations -----------------------------------------------------------------------------------------------------


def representation_loss(
    views: Sequence[Tensor],
    w_DK: Tensor,
    y_B: Tensor,
    lam: float,
    tau: float,
    *,
    teachers: Sequence[Tensor] | None = None,
) -> Tensor:
    """L_x: each view predicts last epoch's label mixed with what the other view says; centres stand still.

    With a predictor, what the projector makes of the views (`teachers`) also teaches what the predictor makes of them.
    """
    log_p1_BK, log_p2_BK = (F.log_softmax(x_BD @ w_DK.detach() / lam, dim=1) for x_BD in views)
    said: tuple[Tensor, ...] = (log_p1_BK, log_p2_BK)
    if teachers is not None:
        said = tuple(F.log_softmax(x_BD.detach() @ w_DK.detach() / lam, dim=1) for x_BD in teachers)
    losses = []
    for log_p_BK, other_BK in ((log_p1_BK, said[1]), (log_p2_BK, said[0])):
        soft_B = (other_BK.detach().exp() * log_p_BK).sum(dim=1)
        hard_B = log_p_BK.gather(1, y_B[:, None])[:, 0]
        losses.append(-(tau * hard_B + (1 - tau) * soft_B).mean())
    return (losses[0] + losses[1]) / 2


def assignment_cost(views: Sequence[Tensor], w_DK: Tensor, units: Literal["code", "supplement"], lam: float) -> Tensor:
    """Minus the mean cosine of the views (code), or minus their mean log p (supplement)."""
    cosines = [x_BD.detach() @ w_DK.detach() for x_BD in views]
    if units == "supplement":
        cosines = [F.log_softmax(cosine_BK / lam, dim=1) for cosine_BK in cosines]
    return -torch.stack(cosines).mean(dim=0)


def encoder_rate(progress: float, config: SeCuConfig) -> float:
    """Learning rate after so many epochs: zero in epoch 0, then a linear rise, then a cosine to zero.

    >>> config = SeCuConfig(n_clusters=2, lr=1.0, epochs=30, warmup=10)
    >>> [round(encoder_rate(t, config), 3) for t in (0.0, 0.99, 6.0, 11.0, 21.0, 31.0)]
    [0.0, 0.0, 0.5, 1.0, 0.5, 0.0]
    """
    if progress < 1:
        return 0.0
    if progress < 1 + config.warmup:
        return config.lr * (progress - 1) / config.warmup
    return config.lr * half_cosine((progress - 1 - config.warmup) / (config.epochs - config.warmup))


def centre_rate(progress: float, config: SeCuConfig) -> float:
    """Learning rate of the centres: constant; falling, for the comparison; or rising from zero."""
    falling = half_cosine(progress / (config.epochs + 1))
    return config.centre_lr * {"constant": 1.0, "cosine": falling, "rising": 1 - falling}[config.centre_schedule]


# --- network and views ---------------------------------------------------------------------------------------------


class SeCuNet(nn.Module):
    """Encoder, projection and the centres of every head."""

    def __init__(self, shape: tuple[int, ...], config: SeCuConfig) -> None:
        """Build for images of this height, width and channel count, or for so many features of an encoder.

        Weights come from torch's global generator.
        """
        super().__init__()
        self.normalise, self.encoder, n_features = _trunk(shape, config)
        if config.with_predictor:
            self.project = deep_projection(n_features, config.dim)
        else:
            self.project = projection(n_features, config.dim, is_centred=config.centred)
        self.predict = predictor(config.dim) if config.with_predictor else None
        self.centres = nn.ParameterList(
            nn.Parameter(unit_columns(torch.randn(config.dim, size)), requires_grad=config.is_by_gradient)
            for size in config.head_sizes
        )

    def features(self, x_BCHW: Tensor) -> Tensor:
        """Return the unit features (B, D) of images in [0, 1]."""
        return unit(self.project(self.encoder(self.normalise(x_BCHW))))

    def forward(self, x_BCHW: Tensor) -> tuple[Tensor, ...]:
        """Return the features and, with a predictor, what it makes of them."""
        x_BD: Tensor = self.project(self.encoder(self.normalise(x_BCHW)))
        return (unit(x_BD),) if self.predict is None else (unit(x_BD), unit(self.predict(x_BD)))


def _trunk(shape: tuple[int, ...], config: SeCuConfig) -> tuple[nn.Module, nn.Module, int]:
    """Return the normalisation, the encoder and its features; what comes from an encoder is taken as it is."""
    if len(shape) == 1:
        return nn.Identity(), nn.Identity(), shape[0]
    plan = plan_for(config.arch, (shape[0], shape[1], shape[2]), config.width)
    return Normalise(shape[2]), ResNet(shape[2], plan), plan.n_features


def view_policies(shape: tuple[int, ...], config: SeCuConfig) -> tuple[Policy, Policy]:
    """The two random views of an image: same crops and colours, other shares of blur, the second one solarised."""
    if len(shape) == 1:
        return (), ()  # its views were encoded beforehand
    height, width, channels = shape
    is_mirrored = channels == 3 if config.flip == "auto" else config.flip
    start: Policy = (Affine(rotate=config.rotate),) if config.rotate else ()
    start += (
        ResizedCrop(size=round(math.sqrt(height * width)), scale=(config.crop_min, 1.0)),
        ColourJitter(brightness=0.4, contrast=0.4, saturation=0.2, hue=0.1, p=config.jitter),
        Grayscale(p=0.2 if channels == 3 else 0.0),
    )
    end: Policy = (Flip(),) if is_mirrored else ()
    first = (*start, Blur(sigma=(0.1, 2.0), p=config.blur), *end)
    second = (*start, Blur(sigma=(0.1, 2.0), p=0.1 * config.blur), Solarise(threshold=0.5, p=config.solarise), *end)
    return first, second


def encode_all(net: SeCuNet, images: Inputs, device: torch.device) -> F32:
    """Return the features of all images, without any augmentation."""
    pixels = tensor_of(images, device)
    return encode(net, pixels, pixels.even_chunks(2**18, at_most=2**11), net.features)


def soft_assignments(features: F32, w_DK: Tensor, lam: float) -> F32:
    """Return softmax(x.w/lam), in blocks that predicting repeats."""
    w_DK = unit_columns(w_DK.detach().cpu())
    blocks = torch.split(torch.from_numpy(features), 1024)
    soft: F32 = torch.cat([F.softmax(block @ w_DK / lam, dim=1) for block in blocks]).numpy()
    return soft


# --- training ------------------------------------------------------------------------------------------------------


def make_balance(n_clusters: int, n_images: int, config: SeCuConfig, device: torch.device) -> Balance:
    """The rule of assignment of one head."""
    if config.constraint == "size":
        return SizeBounds(n_clusters, config.gamma, config.gamma_upper, config.eta_rho, device)
    if config.constraint == "entropy":
        scale = 1.0 if config.units == "code" else 1 / config.lam_x
        alpha = _ALPHA_PER_IMAGE * n_images * scale if config.alpha is None else config.alpha
        return EntropyPrice(n_clusters, alpha, device)
    return Greedy()


_SAVED = Checkpoint(generators=("shuffling", "viewing"), counters=("epoch",), arrays=("assigned_NH", "balance"))


class _Run:
    """Everything that changes while training; all of it is in the resume state."""

    def __init__(self, images: Inputs, config: SeCuConfig, device: torch.device, seed: int) -> None:
        self.images, self.config, self.device, self.seed = images, config, device, seed
        self.pixels, self.batch_size = tensor_of(images, device), config.batch_size
        self.policy = view_policies(images.shape, config)[0]
        with seeded_init(seed):
            self.net = SeCuNet(images.shape, config)
        if isinstance(images, Images) and isinstance(self.net.normalise, Normalise):
            self.net.normalise.fit(images.pixels)
        self.net.to(device)
        if config.sync_bn:
            self.net = cast(SeCuNet, distributed.synchronised(self.net))
        self.optimizer = _optimizer(self.net, config)
        train_along(self.net, self.optimizer, images)
        self.shuffling = torch_generator(seed, "batches")
        self.viewing = torch_generator(seed, "views", device)
        # Four bytes per image and head; -1 until an image has been seen.
        self.assigned_NH = torch.full((len(images), config.n_heads), -1, dtype=torch.int32)
        self.balances = [make_balance(k, len(images), config, device) for k in config.head_sizes]
        self.epoch = 0

    def state(self) -> State:
        return _SAVED.pack(self)

    def load(self, state: State) -> None:
        """Go on from a saved state."""
        _SAVED.restore(self, state)

    @property
    def balance(self) -> dict[str, Tensor]:
        """What the rules of assignment of all heads remember, to be written into in place."""
        return {f"{h}.{name}": found for h, rule in enumerate(self.balances) for name, found in rule.tensors().items()}

    def start_from(self, state: State) -> None:
        """Take the network and the centres of a finished run; heads it does not have start afresh."""
        wanted = self.net.state_dict()
        arrays = {f"net.{name}": to_numpy(value) for name, value in wanted.items()}
        arrays.update({name: array for name, array in state.arrays.items() if name in arrays})
        if state.arrays["net.centres.0"].shape != tuple(wanted["centres.0"].shape):
            raise invalid(
                "n_clusters and dim",
                "be those of the run to start from",
                tuple(wanted["centres.0"].shape[::-1]),
                f"That run has {state.arrays['net.centres.0'].shape[::-1]}.",
            )
        unpack_module("net", self.net, arrays)

    def labels(self) -> I64:
        """Assignments of the target head; an image never seen yet (a last batch of one) counts as cluster 0."""
        labels: I64 = self.assigned_NH[:, 0].clamp(min=0).numpy().astype(np.int64)
        return labels

    # What `Trainee` asks for beyond that.

    def cosines(self, x_BCHW: Tensor) -> tuple[Tensor, Tensor]:
        """Return the agreement of images with the centres of the target head (B, K), and their features."""
        x_BD = self.net.features(x_BCHW)
        return x_BD @ unit_columns(self.net.centres[0]), x_BD

    def probe(self, x_BCHW: Tensor) -> tuple[Tensor, Tensor]:
        cosine_BK, x_BD = self.cosines(x_BCHW)
        return cosine_BK.argmax(dim=1), x_BD

    def begin_teaching(self) -> int:
        distributed.own_stream(self.viewing)
        return derive_seed(self.seed, f"regrouping {self.epoch}")

    def teaching_loss(self, rows_B: Tensor, labels_B: Tensor) -> Tensor:
        cosine_BK, _ = self.cosines(self.pixels.augmented(rows_B, self.policy, self.viewing))
        return F.cross_entropy(cosine_BK / self.config.lam_x, labels_B)

    def retake(self, snapshot: Snapshot) -> Snapshot:
        """Also let the target head learn from the labels of now: it mixes in those of the last epoch."""
        features = encode_all(self.net, self.images, self.device)
        soft = soft_assignments(features, self.net.centres[0], self.config.lam_x)
        new_N, old_N = torch.from_numpy(soft.argmax(axis=1)), self.assigned_NH[:, 0].long()
        self.balances[0].update(new_N.to(self.device), old_N.to(self.device))
        self.assigned_NH[:, 0] = new_N.int()
        return replace(snapshot, labels=self.labels(), history=_stage(self, is_sparse="soft" not in snapshot.history))


def open_trainee(
    images: Inputs, config: SeCuConfig, *, device: torch.device, seed: int, state: State | None
) -> Trainee:
    """Return the training as it was saved, or before its first step."""
    run = _Run(images, config, device, seed)
    if state is not None:
        run.load(state)
    return run


def _optimizer(net: SeCuNet, config: SeCuConfig) -> torch.optim.Optimizer:
    """Encoder and centres as two groups, whose rates `_Epoch` sets before every step."""
    centres = list(net.centres) if config.is_by_gradient else []
    encoder = [weight for name, weight in net.named_parameters() if not name.startswith("centres.")]
    groups: list[dict[str, Any]] = [{"params": encoder}]
    if centres:
        groups.append({"params": centres})
    if config.optimizer == "sgd":
        return torch.optim.SGD(groups, config.lr, momentum=config.momentum, weight_decay=config.weight_decay)
    return LARS(groups, config.lr, momentum=config.momentum, weight_decay=config.weight_decay)


class _Epoch:
    """One pass over the images: what is fixed during it, and the step."""

    def __init__(self, run: _Run) -> None:
        self.run, self.config = run, run.config
        self.policies = view_policies(run.images.shape, run.config)
        # Centres at the start of the epoch: the representation loss sees these.
        self.fixed = [unit_columns(w_DK.detach()).clone() for w_DK in run.net.centres]
        self.n_steps = -(-len(run.images) // run.config.batch_size)
        self.n_done = 0
        self.sums = torch.zeros(2, device=run.device)
        self.n_moved = 0
        self.tallies = [self._tally(w_DK) for w_DK in run.net.centres]

    def _tally(self, w_DK: Tensor) -> list[Tensor]:
        """What centres that are not moved by gradient collect: sums and weights, or counts."""
        return [torch.zeros_like(w_DK.detach()), torch.zeros(w_DK.shape[1]).to(w_DK.detach())]

    def step(self, batch_B: Tensor) -> Tensor | None:
        """Two views, labels, both losses."""
        progress = self.run.epoch + self.n_done / self.n_steps
        self.n_done += 1
        if len(batch_B) < 2:  # batch normalisation needs two
            return None
        rates = (encoder_rate(progress, self.config), centre_rate(progress, self.config))
        for group, rate in zip(self.run.optimizer.param_groups, rates, strict=False):
            group["lr"] = rate
        pixels, chance = self.run.pixels, self.run.viewing
        views = [self.run.net(pixels.augmented(batch_B, policy, chance)) for policy in self.policies]
        old_BH = self.run.assigned_NH[batch_B].to(self.run.device, torch.int64)
        labels = [self.assign(h, views, old_BH[:, h]) for h in range(self.config.n_heads)]
        losses = [self.losses(h, views, y_B, old_BH[:, h]) for h, y_B in enumerate(labels)]
        self.remember(batch_B, torch.stack(labels, dim=1))
        mean_2 = torch.stack(losses).mean(dim=0)
        self.sums += mean_2.detach()
        return mean_2.sum()

    def assign(self, h: int, views: Sequence[Sequence[Tensor]], old_B: Tensor) -> Tensor:
        """New labels of one head for a batch."""
        with torch.no_grad():
            w_DK = unit_columns(self.run.net.centres[h])
            outputs = [x_BD for view in views for x_BD in view]
            cost_BK = assignment_cost(outputs, w_DK, self.config.units, self.config.lam_x)
            return self.run.balances[h].assign(cost_BK, old_B)

    def remember(self, batch_B: Tensor, new_BH: Tensor) -> None:
        """Store the labels of the batch, those of all processes, and let the constraints learn from them."""
        new_BH = distributed.gather_rows(new_BH)
        batch_B = distributed.gather_rows(batch_B.to(self.run.device)).cpu()
        old_BH = self.run.assigned_NH[batch_B].to(self.run.device, torch.int64)
        for h, balance in enumerate(self.run.balances):
            balance.update(new_BH[:, h], old_BH[:, h])
        self.n_moved += int((new_BH[:, 0] != old_BH[:, 0]).sum())
        self.run.assigned_NH[batch_B] = new_BH.to("cpu", torch.int32)

    def losses(self, h: int, views: Sequence[Sequence[Tensor]], y_B: Tensor, old_B: Tensor) -> Tensor:
        """Representation and centre loss of one head, averaged over the network's outputs."""
        config, pairs = self.config, list(zip(*views, strict=True))
        # L_x takes last epoch's label, L_c the one just made; in epoch 0 there is no other.
        before_B = torch.where(old_B < 0, y_B, old_B)
        rest = (self.fixed[h], before_B, config.lam_x, config.tau)
        l_x = [representation_loss(pairs[0], *rest)]
        l_x += [representation_loss(pair, *rest, teachers=pairs[0]) for pair in pairs[1:]]
        x_BD, y_all = torch.cat([out for pair in pairs for out in pair]), y_B.repeat(2 * len(pairs))
        if config.is_by_gradient:
            rule = centre_loss if config.centre_update == "secu" else plain_centre_loss
            l_c = rule(x_BD, unit_columns(self.run.net.centres[h]), y_all, config.lam_w)
        else:
            l_c = self.collect(h, x_BD.detach(), y_all)
        return torch.stack([torch.stack(l_x).mean(), l_c])

    def collect(self, h: int, x_BD: Tensor, y_B: Tensor) -> Tensor:
        """Move centres without a gradient, or gather what will move them at the end; returns the loss to be logged."""
        w_DK = self.run.net.centres[h].detach()
        x_BD, y_B = distributed.gather_rows(x_BD), distributed.gather_rows(y_B)
        if self.config.centre_update == "running_mean":
            moved_DK, self.tallies[h][1] = running_mean(w_DK, self.tallies[h][1], x_BD, y_B)
            self.run.net.centres[h].data.copy_(moved_DK)
        else:
            sums_DK, weights_K = hardness_sums(x_BD, w_DK, y_B, self.config.lam_w)
            self.tallies[h][0] += sums_DK
            self.tallies[h][1] += weights_K
        return centre_loss(x_BD, w_DK, y_B, self.config.lam_w)

    def finish(self) -> None:
        """Put centres of the closed form where they belong, and let all processes agree."""
        distributed.average_buffers(self.run.net)
        self.sums = distributed.average(self.sums)
        if self.config.centre_update == "closed_form":
            for w_DK, (sums_DK, weights_K) in zip(self.run.net.centres, self.tallies, strict=True):
                w_DK.data.copy_(closed_form(w_DK.detach(), sums_DK, weights_K))


def train(
    images: Inputs, config: SeCuConfig, *, device: torch.device, seed: int, resume: State | None = None
) -> Iterator[Snapshot]:
    """Yield a snapshot per epoch, epoch 0 among them."""
    yield from train_from(None, images, config, device=device, seed=seed, resume=resume)


def train_from(
    start: State | None,
    images: Inputs,
    config: SeCuConfig,
    *,
    device: torch.device,
    seed: int,
    resume: State | None = None,
) -> Iterator[Snapshot]:
    """Like `train`, beginning with the network of a finished run."""
    run = _Run(images, config, device, seed)
    if start is not None:
        run.start_from(start)
    if resume is not None:
        run.load(resume)
    while run.epoch <= config.epochs:
        run.net.train()
        distributed.own_stream(run.viewing)
        epoch = _Epoch(run)
        batches = shuffled_batches(len(images), config.batch_size, run.shuffling)
        what = f"epoch {run.epoch} of {config.epochs}"
        stats = run_epoch(epoch.step, batches, run.optimizer, what=what, total=len(images))
        epoch.finish()
        run.epoch += 1
        is_last = run.epoch > config.epochs
        result = _result(run) if is_last else None
        yield Snapshot(
            step=run.epoch,
            total=config.epochs + 1,
            labels=run.labels() if result is None else result.labels,
            event=_event(run, epoch, stats),
            state=run.state,
            result=result,
            history=_stage(run, is_sparse=not (is_last or run.epoch.bit_count() == 1)),
        )


def _event(run: _Run, epoch: _Epoch, stats: EpochStats) -> Mapping[str, float | int | str]:
    config, n = run.config, len(run.images)
    event: dict[str, float | int | str] = {**stats.event()}
    l_x, l_c = (epoch.sums / max(stats.steps, 1)).tolist()
    event |= {"representation": l_x, "centre": l_c, "changed": epoch.n_moved / n}
    event["lr"] = encoder_rate(run.epoch, config)
    if config.constraint == "size":
        event["size_lower"] = config.gamma * n / config.n_clusters
        if config.gamma_upper is not None:
            event["size_upper"] = config.gamma_upper * n / config.n_clusters
    return event


def _stage(run: _Run, *, is_sparse: bool) -> Arrays:
    """Sizes as the constraint sees them and, unless sparse, features of some images in evaluation mode."""
    n, config = len(run.images), run.config
    rows = np.unique(np.linspace(0, n - 1, min(_N_KEPT, n)).astype(np.int64))
    sizes = np.bincount(run.labels(), minlength=config.n_clusters)
    if is_sparse:
        return {"sizes": sizes, "rows": rows[:0]}
    features = encode_all(run.net, run.images.subset(rows), run.device)
    soft = soft_assignments(features, run.net.centres[0], config.lam_x)
    return {"sizes": sizes, "rows": rows, "features": features, "soft": soft, "labels": soft.argmax(axis=1)}


def _result(run: _Run) -> Clustering:
    features = encode_all(run.net, run.images, run.device)
    soft = soft_assignments(features, run.net.centres[0], run.config.lam_x)
    model = State(pack_module("net", run.net), {"shape": list(run.images.shape)})
    labels: I64 = soft.argmax(axis=1).astype(np.int64)
    return Clustering(labels, soft, features, model, {"assigned": to_numpy(run.assigned_NH)})


class SeCuModel:
    """The network and its centres: new images get the cluster whose centre agrees most."""

    def __init__(self, config: SeCuConfig, state: State, device: torch.device) -> None:
        self.config, self.shape, self.device = config, saved_shape(state), device
        with seeded_init(0):
            self.net = SeCuNet(self.shape, config).to(device)
        unpack_module("net", self.net, state.arrays)
        self.net.eval()

    def apply(self, images: Inputs, layer: str = "top") -> Assignment:
        """Return unit features and softmax(x.w/lam_x) of the target head."""
        check_request(images, self.shape, layer)
        features = encode_all(self.net, images, self.device)
        return Assignment(features, soft_assignments(features, self.net.centres[0], self.config.lam_x))

    def network(self) -> nn.Module:
        """Return images (B, C, H, W) in [0, 1] to soft assignments and features as one module."""
        return _Classifier(self.net, self.config.lam_x).eval()


class _Classifier(nn.Module):
    """Network and target head in one."""

    def __init__(self, net: SeCuNet, lam: float) -> None:
        super().__init__()
        self.net, self.lam = net, lam

    def forward(self, x_BCHW: Tensor) -> tuple[Tensor, Tensor]:
        """Return soft assignments (B, K) and features (B, D)."""
        x_BD = self.net.features(x_BCHW)
        return F.softmax(x_BD @ unit_columns(self.net.centres[0]) / self.lam, dim=1), x_BD


def restore(config: SeCuConfig, state: State, *, device: torch.device) -> SeCuModel:
    """Rebuild a fitted model."""
    return SeCuModel(config, state, device)


METHOD = Method(
    name="secu",
    summary="stable cluster discrimination: two views, learnable centres, clusters held to a smallest size",
    source="Qian: Stable Cluster Discrimination for Deep Clustering, ICCV 2023",
    config=SeCuConfig,
    train=train,
    restore=restore,
    is_inductive=True,
    train_from=train_from,
    is_shareable=True,
    improvable=Improvable(
        open_trainee, "epochs", lambda config, step: max(0, step - 1), lambda config, n_images: config.epochs + 1
    ),
    learns_on="features",
    needs_views=True,
    finetunes=True,
)
