"""Settings that go with any encoder, as `encoder.views` and so on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from selfsort.config import Settings, setting


@dataclass(frozen=True, kw_only=True)
class EncodeConfig(Settings):
    """How images become what a method sees; `auto` is yes for encoders that learned to see, no for runs and tables."""

    mirror: Literal["auto"] | bool = setting("auto", "features are the mean of an image's and of its mirror image's")
    centre: Literal["auto"] | bool = setting(
        "auto", "subtract the mean of all images and scale each row of features to unit length"
    )
    finetune: Literal["none", "last", "all"] = setting(
        "none", "train the encoder too: its last stage, or all of it; slow without an accelerator"
    )
    finetune_rate: float = setting(0.1, "what part of each step of the method an encoder takes that is trained")
    views: int = setting(4, "augmented copies of each image, encoded once, that methods with a head learn from")
    crop_min: float = setting(0.4, "smallest share of the image in a view")
    side: int = setting(0, "pixels of a side, for an .onnx file that leaves it open")
    mean: tuple[float, ...] = setting(
        (), "of pixels in [0, 1], one or one per channel, for an .onnx file that has none"
    )
    std: tuple[float, ...] = setting((), "deviation of the same pixels")
    map_channels: int = setting(96, "channels that feature maps are brought to by PCA, for gatcluster")

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, most in (("views", 64), ("map_channels", 4096)):
            self.require(name, 1 <= getattr(self, name) <= most, f"be between 1 and {most}")
        self.require("side", 0 <= self.side <= 4096, "be between 0 and 4096")
        for name in ("mean", "std"):
            self.require(name, len(getattr(self, name)) in (0, 1, 3), "hold one number, or three for colour")
        self.require("std", len(self.std) == len(self.mean), "hold as many numbers as mean")
        self.require("finetune_rate", 0 < self.finetune_rate <= 1, "be above 0 and at most 1")
        self.require("crop_min", 0 < self.crop_min <= 1, "be above 0 and at most 1")
