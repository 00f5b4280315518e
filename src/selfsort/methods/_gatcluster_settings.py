"""Settings of GATCluster, and how they change images."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from selfsort.augment.policy import Affine, ColourJitter, Flip, Policy
from selfsort.config import Config, setting


@dataclass(frozen=True, kw_only=True)
class GATClusterConfig(Config):
    """Settings, under the paper's names where it has any."""

    M: int = setting(1000, "images of a large batch, whose targets are computed together", "paper")
    m1: int = setting(200, "images at a time in step 1; changes memory, not results (unless bn_targets=batch)", "code")
    m2: int = setting(32, "images at a time in step 2", "paper")
    repeats: int = setting(8, "passes of step 2 over each large batch", "code")
    iterations: int = setting(6000, "large batches in all", "code")
    eval_every: int = setting(5, "large batches between looks at all images", "code")
    lr: float = setting(1e-3, "learning rate of Adam", "paper")
    w_ti: float = setting(5.0, "weight of TI: an augmented image keeps its label (transformation invariance)", "paper")
    w_sm: float = setting(1.0, "weight of SM: pairs are alike or different (separability maximisation)", "paper")
    w_ea: float = setting(3.0, "weight of EA: all clusters are used (entropy analysis)", "paper")
    w_am: float = setting(5.0, "weight of AM: attention says the same (attention mapping); 0 drops the module", "paper")
    entropy_batch: int = setting(
        0, "images over which EA averages; 0: those of the small batch", "code; other numbers are ours"
    )
    kmeans_on: Literal["ta", "l", "features"] = setting(
        "ta",
        "what k-means sees in step 1: targets, label features, or features of the image module",
        "code; the paper has l, features is ours",
    )
    n_restarts: int = setting(20, "starts of k-means in step 1", "code")
    bn_targets: Literal["running", "batch"] = setting(
        "running", "statistics for targets: the running ones, or those of the m1 images at hand", "code; batch is ours"
    )
    bn_eval: Literal["running", "refreshed"] = setting(
        "running",
        "statistics for labels: the running ones, of augmented images, or refreshed on the originals",
        "code; refreshed is ours",
    )
    min_share: float = setting(0.1, "smallest cluster of k-means that is trusted, as a share of M / k; 0: any", "code")
    arch: Literal["auto", "stl", "dog-96", "dog-128", "cifar", "small"] = setting(
        "auto", "stem of the image module: by image size, or that of an experiment", "paper; the rule is ours"
    )
    map_side: int = setting(0, "side of the attention map; 0: the first that is 7 or less", "paper; the rule is ours")
    width: float = setting(1.0, "factor on the channels of the image module")
    attention: Literal["gaussian", "soft"] = setting("gaussian", "one Gaussian bump, or any map (soft)", "paper")
    attention_conv: bool = setting(True, "1x1 convolution before the attention parameters (STL-10: yes)", "code")
    modules: Literal["code", "paper"] = setting(
        "code",
        "label and attention module: as released, or as printed (64 channels, averages, three linear layers, ReLU "
        "in place of the sigmoid; the last of them sees all K maps, as in the code; attention_conv and label_relu do "
        "not count)",
        "code",
    )
    label_relu: bool = setting(False, "ReLU after the label module's convolution (ImageNet-10: yes)", "code")
    a0: float = setting(0.1, "width of the bump at delta = 1; the paper prints 0.05, its code has 0.1", "code")
    tied: bool = setting(False, "use delta for mu_y as well, as the released code does", "paper")
    gray: bool = setting(True, "the network sees gray images; colour is augmented before", "paper")
    mean: tuple[float, ...] = setting((0.0,), "subtracted from the pixels, one number or one per channel", "code")
    std: tuple[float, ...] = setting((1.0,), "divides the pixels, one number or one per channel", "code")
    standardise: bool = setting(False, "bring images to one brightness and contrast before augmentation", "ours")
    flip: Literal["auto"] | float = setting(
        "auto", "chance of mirroring; auto: 0.5, or 0 if images come gray", "code; the rule is ours"
    )
    jitter: float = setting(0.3, "brightness and contrast change by up to this factor", "code")
    hue: float = setting(0.2, "hue turns by up to this share of the circle", "code")
    rotate: float = setting(10.0, "degrees of rotation, either way", "code")
    translate: float = setting(0.1, "shift as a share of the side, either way", "code")
    scale: tuple[float, float] = setting((0.8, 1.2), "smallest and largest factor of size", "code")
    shear: float = setting(10.0, "degrees of shear, either way", "code")
    augment_once: bool = setting(True, "augment a large batch once for all repeats; no: anew for each", "code")

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("M", "m2"):
            self.require(name, getattr(self, name) >= 2, "be at least 2, for batch normalisation")
        self.require("M", self.n_clusters <= self.M, f"be at least the number of clusters ({self.n_clusters})")
        for name in ("m1", "repeats", "iterations", "eval_every", "n_restarts"):
            self.require(name, getattr(self, name) >= 1, "be at least 1")
        for name in ("lr", "width", "a0"):
            self.require(name, getattr(self, name) > 0, "be positive")
        for name in ("w_ti", "w_sm", "w_ea", "w_am", "min_share", "entropy_batch", "map_side"):
            self.require(name, getattr(self, name) >= 0, "be at least 0")
        for name in ("mean", "std"):
            n_allowed = (1,) if self.gray else (1, 3)
            self.require(name, len(getattr(self, name)) in n_allowed, "hold one number, or three for colour")
        self.require("std", min(self.std) > 0, "be positive")
        self.require("flip", self.flip == "auto" or 0 <= self.flip <= 1, "be auto or between 0 and 1")
        has_task = self.w_ti > 0 or self.w_sm > 0 or self.w_am > 0
        self.require("w_ti", has_task, "be above 0 if w_sm and w_am are 0", "Leave one of them above 0.")
        view_policy(self, 3)  # refuses changes that cannot be made


def view_policy(config: GATClusterConfig, channels: int) -> Policy:
    """Return the changes of an image; the network itself makes it gray afterwards."""
    flip = (0.5 if channels == 3 else 0.0) if config.flip == "auto" else config.flip
    return (
        Flip(p=flip),
        ColourJitter(brightness=config.jitter, contrast=config.jitter, hue=config.hue if channels == 3 else 0.0),
        Affine(rotate=config.rotate, translate=config.translate, scale=config.scale, shear=config.shear, fill="zero"),
    )
