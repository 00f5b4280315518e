"""Settings of DAC, and how they change images."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from selfsort.augment.policy import Affine, ChannelShift, Flip, Policy, Primitive
from selfsort.config import Config, setting


@dataclass(frozen=True, kw_only=True)
class DACConfig(Config):
    """Settings of DAC."""

    arch: Literal["code", "code-cifar", "code-cifar2", "code-stl", "code-dog", "paper"] = setting(
        "code",
        "network: of the script for MNIST (two blocks; three from 64 pixels on), for CIFAR (first and second script), "
        "STL-10 and ImageNet-10, ImageNet-Dog, or of the paper",
        "code",
    )
    width: int = setting(64, "channels of the first block; each further block doubles them", "paper")
    restraint: bool = setting(True, "label features of unit length; no: plain probabilities", "paper")
    centre: bool = setting(True, "take the mean of the whole set off every channel", "code")
    thresholds: Literal["adaptive", "linear", "single"] = setting(
        "adaptive", "two that move by eta; two that meet after `epochs`; one (DAC*)", "paper"
    )
    upper: float = setting(
        0.95, "two thresholds: where the upper one starts", "paper; as others have re-implemented it"
    )
    lower: float = setting(
        0.455, "two thresholds: where the lower one starts", "paper; as others have re-implemented it"
    )
    eta: float = setting(0.009, "adaptive: step of lambda per epoch", "paper; as others have re-implemented it")
    single_start: float = setting(0.9, "single: where the threshold starts", "code")
    single_end: float = setting(0.5, "single: where it would be after the last epoch", "code")
    pair_loss: Literal["bce", "mse"] = setting("bce", "cross-entropy or squared error of the pairs", "paper")
    aux_weight: float = setting(
        0.0, "weight of agreement with the pool's label features; scripts: 1 or 10", "paper; the term is the code's"
    )
    entropy_weight: float = setting(0.0, "weight of using all clusters, against collapse; not in the paper", "ours")
    epochs: int = setting(50, "passes over all pools, at most; adaptive ends when the thresholds meet", "code")
    pool_size: int = setting(1000, "images that targets are computed for at a time", "code")
    inner_epochs: int = setting(5, "times each pool is trained on; 10 for other data than MNIST", "code")
    repeats: int = setting(1, "times each mini-batch is trained on in a row; 2 for other data than MNIST", "code")
    batch_size: int = setting(128, "images per step; the paper has 32", "code")
    lr: float = setting(0.001, "learning rate of RMSProp", "paper")
    bn_targets: Literal["batch", "running"] = setting(
        "batch", "statistics for targets: the batch's or the running ones", "code"
    )
    bn_eval: Literal["running", "batch"] = setting(
        "running", "statistics for labels: the running ones, or the batch's, as in the code", "ours"
    )
    rotate: float = setting(10.0, "turn training images by up to so many degrees", "code")
    translate: float = setting(0.1, "move them by up to this share of the side", "code")
    zoom: float = setting(0.05, "stretch each axis by up to this share", "code")
    channel_shift: float = setting(0.05, "brighten each channel by up to this share", "code")
    flip: Literal["auto"] | bool = setting(
        "auto", "mirror half of them; auto: colour yes, gray no", "code; the rule is ours"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("width", "epochs", "inner_epochs", "repeats"):
            self.require(name, getattr(self, name) >= 1, "be at least 1")
        for name in ("pool_size", "batch_size"):
            self.require(name, getattr(self, name) >= 2, "be at least 2, for batch normalisation")
        for name in ("upper", "lower", "single_start", "single_end"):
            self.require(name, 0 <= getattr(self, name) <= 1, "be between 0 and 1")
        self.require("upper", self.upper > self.lower, f"be above lower ({self.lower:g})")
        for name in ("eta", "lr"):
            self.require(name, getattr(self, name) > 0, "be positive")
        for name in ("aux_weight", "entropy_weight", "rotate", "translate", "channel_shift"):
            self.require(name, getattr(self, name) >= 0, "be at least 0")
        self.require("channel_shift", self.channel_shift <= 1, "be at most 1")
        self.require("zoom", 0 <= self.zoom < 1, "be at least 0 and below 1")


def view_policy(config: DACConfig, channels: int) -> Policy:
    """List the changes of training images."""
    zoom = (1 - config.zoom, 1 + config.zoom)
    policy: list[Primitive] = []
    if config.rotate or config.translate or config.zoom:
        policy.append(Affine(rotate=config.rotate, translate=config.translate, zoom=zoom))
    if config.channel_shift:
        policy.append(ChannelShift(amount=config.channel_shift))
    is_mirrored = channels == 3 if config.flip == "auto" else config.flip
    if is_mirrored:
        policy.append(Flip())
    return tuple(policy)
