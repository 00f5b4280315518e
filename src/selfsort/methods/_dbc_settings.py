"""Settings of FCAE, DBC and DEC."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from selfsort.config import Config, setting

_ENOUGH_STEPS = 6000
"""Steps of a stage: a fixed number of epochs would starve small sets and keep large ones waiting."""
_TAUGHT, _SHOWN_EACH = 10, 4000
"""Where settings leave it open: targets that are communities, and images of each cluster that they show at least."""


@dataclass(frozen=True, kw_only=True)
class FCAEConfig(Config):
    """Settings of stage I."""

    arch: Literal["auto", "mnist", "usps", "coil", "dense"] = setting(
        "auto", "network: by image size, that of a data set, or the fully connected one of DEC", "paper"
    )
    ae_epochs: int = setting(0, "passes over the images in stage I; 0: enough for `ae_steps` steps, but 10 to 100")
    ae_steps: int = setting(_ENOUGH_STEPS, "steps of stage I, where `ae_epochs` does not say how many passes")
    ae_lr: float = setting(2e-3, "learning rate of Adam in stage I, where it begins; it falls to 0 along a cosine")
    ae_init: Literal["full", "half", "random"] = setting(
        "full", "how far stage I goes: all epochs, half of them, or none", "paper"
    )
    batch_size: int = setting(128, "images per step, in both stages")
    n_restarts: int = setting(20, "starts of k-means; the one with the smallest inertia wins")
    v: float = setting(1.0, "degrees of freedom of the scores", "paper")
    before_relu: bool = setting(
        False, "read the feature layer before its ReLU, which the decoder keeps; the fully connected network has none"
    )
    whiten: bool = setting(False, "after stage I, PCA-whiten the features once; a fixed layer from then on")
    rotate: float = setting(0.0, "turn training images at random by up to so many degrees, in both stages")
    translate: float = setting(0.0, "move training images at random by up to this share of the side, in both stages")
    zoom: float = setting(0.0, "stretch each axis of training images by up to this share, in both stages")
    shown: tuple[int, ...] = setting(
        (), "places of images whose activations the report shows; none: the surest of the first three clusters"
    )
    restore: bool = setting(False, "rebuild images as they were before they were rotated, translated and zoomed")

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require("ae_epochs", self.ae_epochs >= 0, "be at least 0")
        self.require("ae_steps", self.ae_steps >= 1, "be at least 1")
        self.require("n_restarts", self.n_restarts >= 1, "be at least 1")
        self.require("batch_size", self.batch_size >= 2, "be at least 2, for batch normalisation")
        for name in ("ae_lr", "v"):
            self.require(name, getattr(self, name) > 0, "be positive")
        self.require("shown", min(self.shown, default=0) >= 0, "be at least 0")
        self.require("zoom", 0 <= self.zoom < 1, "be at least 0 and below 1")
        for name in ("rotate", "translate"):
            self.require(name, getattr(self, name) >= 0, "be at least 0")

    def enough_epochs(self, n_images: int, n_steps: int, *, fewest: int) -> int:
        """Epochs that make so many steps, but from `fewest` to 100."""
        steps_per_epoch = math.ceil(n_images / self.batch_size)
        return min(100, max(fewest, math.ceil(n_steps / steps_per_epoch)))

    def full_epochs(self, n_images: int) -> int:
        """Epochs of stage I if it goes all the way."""
        return self.ae_epochs or self.enough_epochs(n_images, self.ae_steps, fewest=10)

    def first_epochs(self, n_images: int) -> int:
        """Epochs of stage I as far as `ae_init` lets it go."""
        full = self.full_epochs(n_images)
        return {"full": full, "half": full // 2, "random": 0}[self.ae_init]


@dataclass(frozen=True, kw_only=True)
class DBCConfig(FCAEConfig):
    """Settings of both stages, under the paper's names."""

    alpha: float = setting(2.0, "power of the boosting", "paper")
    n_j: Literal["boosted", "soft", "constant"] = setting(
        "boosted", "cluster sizes in the target: sum of s^alpha, sum of s (as DEC), or 1", "paper"
    )
    taught: int | Literal["auto"] = setting(
        0,
        "targets before the boosted ones: the communities of the images' neighbours, whose means are then the centres; "
        "auto: 10, or as many as show 4,000 images of each cluster",
    )
    epochs: int = setting(0, "targets in stage II, at most; 0: enough passes for 6,000 steps, but 20 to 100")
    target_steps: int = setting(0, "steps per target in stage II, at most; 0: a whole pass over the images")
    lr: float = setting(1e-3, "learning rate of Adam in stage II, where it begins")
    decay: Literal["cosine", "constant"] = setting(
        "cosine", "the learning rate of stage II falls to 0 along a cosine, or stays"
    )
    stop: float = setting(0.001, "end when a smaller share of the labels changes in an epoch; 0: when none does")
    still_share: float = setting(0.0, "share of stage II before images are rotated, translated and stretched there")
    freeze_bn: bool = setting(True, "keep the statistics of batch normalisation in stage II")
    rec_weight: float = setting(0.0, "weight of the reconstruction in stage II; above 0 the decoder stays (DCEC)")

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("alpha", "lr"):
            self.require(name, getattr(self, name) > 0, "be positive")
        for name in ("epochs", "target_steps", "stop", "rec_weight"):
            self.require(name, getattr(self, name) >= 0, "be at least 0")
        self.require("taught", self.taught == "auto" or self.taught >= 0, "be at least 0, or auto")
        self.require("still_share", 0 <= self.still_share <= 1, "be between 0 and 1")

    def taught_epochs(self, n_images: int) -> int:
        """Epochs of stage II before targets are boosted; few images or many clusters take more.

        >>> config = DBCConfig(n_clusters=10, taught="auto")
        >>> config.taught_epochs(70_000), config.taught_epochs(10_000), config.taught_epochs(500)
        (10, 10, 80)
        """
        if self.taught != "auto":
            return self.taught
        return max(_TAUGHT, math.ceil(_SHOWN_EACH * self.n_clusters / n_images))

    def second_epochs(self, n_images: int) -> int:
        """Epochs of stage II if the labels never rest."""
        return self.taught_epochs(n_images) + (self.epochs or self.enough_epochs(n_images, _ENOUGH_STEPS, fewest=20))


@dataclass(frozen=True, kw_only=True)
class DECConfig(DBCConfig):
    """DBC with DEC's network and cluster sizes."""

    arch: Literal["auto", "mnist", "usps", "coil", "dense"] = setting(
        "dense", "network: the fully connected one, or a convolutional one of DBC", "paper"
    )
    ae_lr: float = setting(
        1e-3, "learning rate of Adam in stage I, where it begins: lower than DBC's, without batch normalisation"
    )
    n_j: Literal["boosted", "soft", "constant"] = setting(
        "soft", "cluster sizes in the target: sum of s^alpha (as DBC), sum of s, or 1", "paper"
    )
