"""What a Hugging Face model's preprocessor_config.json asks for, done with Pillow and torch.

Their image processors resize whole pixels with Pillow, cut out the middle, scale and normalise. We do the same in two
halves: `Preparation.pixels` turns a picture into pixels of one size, `Preparation.values` cuts, scales and normalises a
batch. Both together give what their Pillow processors give. One family differs: DINOv3 scales before it resizes, and so
keeps what whole pixels round off; there we are half a gray level away at most.

Letters: B batch, C channels, H x W pixels.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from selfsort.data import Fit
from selfsort.errors import InvalidInput
from selfsort.types import U8, Json

_LARGEST_SIDE = 4096
# A strip longer than this many times its width is cut before it is resized: resized whole, it could fill the memory.
_LONGEST = 16
_WARPS_FROM = 384
"""ConvNeXT's processors cut the middle out of smaller images, and distort from this size on."""

_CLIP_MEAN, _CLIP_STD = [0.48145466, 0.4578275, 0.40821073], [0.26862954, 0.26130258, 0.27577711]
_HALF = {"image_mean": [0.5] * 3, "image_std": [0.5] * 3}
_EDGE: Json = {"shortest_edge": 224}
_CLIP: Json = {
    "size": _EDGE,
    "resample": 3,
    "do_center_crop": True,
    "crop_size": 224,
    "image_mean": _CLIP_MEAN,
    "image_std": _CLIP_STD,
}
# What their processors take for what a file leaves out; old files leave out a lot.
_DEFAULTS: dict[str, Json] = {
    "CLIPImageProcessor": _CLIP,
    "BitImageProcessor": _CLIP,
    "ViTImageProcessor": {"size": {"height": 224, "width": 224}, "resample": 2, **_HALF},
    "DeiTImageProcessor": {
        "size": {"height": 256, "width": 256},
        "resample": 3,
        "do_center_crop": True,
        "crop_size": 224,
        **_HALF,
    },
    "SiglipImageProcessor": {"size": {"height": 224, "width": 224}, "resample": 3, **_HALF},
    "ConvNextImageProcessor": {"size": {"shortest_edge": 384}, "resample": 3, "crop_pct": 224 / 256, **_HALF},
    "DINOv3ViTImageProcessor": {
        "size": {"height": 224, "width": 224},
        "resample": 2,
        "image_mean": [0.485, 0.456, 0.406],
        "image_std": [0.229, 0.224, 0.225],
    },
}
_ALWAYS: Json = {
    "do_resize": True,
    "do_center_crop": False,
    "do_rescale": True,
    "rescale_factor": 1 / 255,
    "do_normalize": True,
    "do_pad": False,
}
# Where a size is one number, these mean both sides by it, the others the shorter one.
_SQUARE = ("ViTImageProcessor", "DeiTImageProcessor", "DINOv3ViTImageProcessor")


@dataclass(frozen=True)
class Preparation:
    """From a picture to what a network takes."""

    height: int
    width: int
    """Of the pixels in between."""
    edge: int | None
    """The shorter side of a picture becomes this; None: both sides become height and width, whatever they were."""
    resample: int
    """Pillow's number of the filter."""
    crop: tuple[int, int]
    """Height and width of the middle that the network sees."""
    scale: float
    """By which values in [0, 1] are multiplied before they are normalised."""
    mean: tuple[float, ...]
    std: tuple[float, ...]

    @property
    def fit(self) -> Fit:
        """What is done about another aspect ratio."""
        return "stretch" if self.edge is None else "crop"

    def pixels(self, picture: Image.Image) -> U8:
        """Return whole pixels (H, W, 3) of a picture of any size, as their processor resizes and cuts it."""
        rgb = picture.convert("RGB")
        size, resample = (self.width, self.height), Image.Resampling(self.resample)
        if self.edge is None:
            return np.array(rgb.resize(size, resample))
        across, down = rgb.size
        long = int(self.edge * max(rgb.size) / min(rgb.size))
        scaled = (self.edge, long) if across <= down else (long, self.edge)
        left, top = (scaled[0] - self.width) // 2, (scaled[1] - self.height) // 2
        box = (left, top, left + self.width, top + self.height)
        if long <= _LONGEST * self.edge:
            return np.array(rgb.resize(scaled, resample).crop(box))
        x, y = across / scaled[0], down / scaled[1]
        return np.array(rgb.resize(size, resample, box=(box[0] * x, box[1] * y, box[2] * x, box[3] * y)))

    def values(self, x_BCHW: Tensor) -> Tensor:
        """Return what the network takes, given images in [0, 1] of the size of `pixels`."""
        (rows, columns), (height, width) = self.crop, x_BCHW.shape[2:]
        top, left = (height - rows) // 2, (width - columns) // 2
        mean, std = (torch.tensor(v, device=x_BCHW.device).view(1, -1, 1, 1) for v in (self.mean, self.std))
        return (x_BCHW[:, :, top : top + rows, left : left + columns] * self.scale - mean) / std


def read_preparation(said: Mapping[str, Any], usual: str, name: str) -> Preparation:
    """Read the settings of an image processor.

    Args:
        said: the content of preprocessor_config.json.
        usual: the processor of this family, for files that name none.
        name: of the model, for errors.
    """
    kind = str(said.get("image_processor_type") or said.get("feature_extractor_type") or usual)
    kind = kind.removesuffix("Fast").removesuffix("Pil").replace("FeatureExtractor", "ImageProcessor")
    if kind not in _DEFAULTS:
        raise _refused(name, f"asks for {kind!r}", f"one of {', '.join(_DEFAULTS)}")
    settings = {**_ALWAYS, **_DEFAULTS[kind], **{key: value for key, value in said.items() if value is not None}}
    if settings["do_pad"] or not settings["do_resize"]:
        raise _refused(name, "does not bring all images to one size", "a size")
    edge, height, width = _size(settings["size"], "size", name, is_square=kind in _SQUARE)
    crop = (height, width)
    if kind == "ConvNextImageProcessor" and edge is not None:
        edge, height, width = _convnext(edge, _number(settings["crop_pct"], "crop_pct", name), name)
    elif settings["do_center_crop"]:
        _, *crop_sides = _size(settings["crop_size"], "crop_size", name, is_square=True)
        crop = (crop_sides[0], crop_sides[1])
        if crop[0] > height or crop[1] > width:
            raise _refused(name, f"cuts {crop} out of {(height, width)}", "a crop_size within size")
    if edge is not None:
        # Of an even surplus both cuts, here and in `values`, take whole halves: together they are one cut.
        height, width = height - (height - crop[0]) % 2, width - (width - crop[1]) % 2
    scale = 255 * _number(settings["rescale_factor"], "rescale_factor", name) if settings["do_rescale"] else 255.0
    is_normal = settings["do_normalize"]
    return Preparation(
        height=height,
        width=width,
        edge=edge,
        resample=_filter(settings["resample"], name),
        crop=crop,
        scale=scale,
        mean=_three(settings["image_mean"], "image_mean", name) if is_normal else (0.0,) * 3,
        std=_three(settings["image_std"], "image_std", name, is_divisor=True) if is_normal else (1.0,) * 3,
    )


def _refused(name: str, what: str, expected: str) -> InvalidInput:
    return InvalidInput(
        f"the preprocessor_config.json of {name} {what}. Expected {expected}. Take the file that came with the model."
    )


def _size(size: object, key: str, name: str, *, is_square: bool) -> tuple[int | None, int, int]:
    """Return the shortest edge, if that is how the size is meant, then height and width."""
    alone: Json = {"height": size, "width": size} if is_square else {"shortest_edge": size}
    said: Json = size if isinstance(size, dict) else alone
    sides = {axis: side for axis, side in said.items() if side is not None}
    for side in sides.values():
        if not isinstance(side, int) or isinstance(side, bool) or not 1 <= side <= _LARGEST_SIDE:
            raise _refused(name, f"has the {key} {size!r}", f"whole numbers between 1 and {_LARGEST_SIDE}")
    if sides.keys() == {"height", "width"}:
        return None, sides["height"], sides["width"]
    if sides.keys() == {"shortest_edge"}:
        return sides["shortest_edge"], sides["shortest_edge"], sides["shortest_edge"]
    raise _refused(name, f"has the {key} {size!r}", "height and width, or shortest_edge")


def _convnext(edge: int, share: float, name: str) -> tuple[int | None, int, int]:
    if edge >= _WARPS_FROM:
        return None, edge, edge
    larger = int(edge / share) if share > 0 else 0
    if not edge <= larger <= _LARGEST_SIDE:
        raise _refused(name, f"has the crop_pct {share}", "a share of the image, up to 1")
    return larger, larger, larger


def _number(value: object, key: str, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise _refused(name, f"has the {key} {value!r}", "a number")
    return float(value)


def _three(value: object, key: str, name: str, *, is_divisor: bool = False) -> tuple[float, ...]:
    values = tuple(value) if isinstance(value, list) else (value,) * 3
    numbers = tuple(_number(entry, key, name) for entry in values)
    if len(numbers) != 3 or (is_divisor and min(numbers) <= 0):
        raise _refused(name, f"has the {key} {value!r}", "three numbers, one for each colour")
    return numbers


def _filter(value: object, name: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value not in list(Image.Resampling):
        raise _refused(name, f"has the resample {value!r}", "the number of a filter of Pillow")
    return value
