"""Augmentation against a Pillow pipeline that treats one picture at a time, and its share of a training step.

Both sides do the same: an affine map (rotate, translate, scale, shear, bilinear) and a colour jitter of brightness,
contrast, saturation and hue in random order, on RGB pictures of 32 pixels held as bytes.
"""

from __future__ import annotations

import importlib
import math
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from PIL import Image, ImageEnhance

from selfsort.augment.policy import Affine, ColourJitter, augment
from selfsort.types import U8, Images

N, SIDE = 512, 32
POLICY = (
    Affine(rotate=10, translate=0.1, scale=(0.8, 1.2), shear=10),
    ColourJitter(brightness=0.4, contrast=0.4, saturation=0.4, hue=0.1),
)


# Each method with its published network on RGB pictures of 32 pixels; few of them, and as few steps as show the share.
METHODS: dict[str, dict[str, Any]] = {
    "dac": {"epochs": 1, "inner_epochs": 5},
    "gatcluster": {"M": 128, "iterations": 1, "eval_every": 1, "n_restarts": 2},
    "secu": {"epochs": 1, "warmup": 0},
}


def run() -> dict[str, float]:
    """Return the ratio to Pillow (goal: at least 10) and the share of each method's training (goal: at most 0.1)."""
    return {"augment_over_pillow": _against_pillow(), **{f"augment_share_{name}": _share(name) for name in METHODS}}


def _share(name: str) -> float:
    """Train for a moment and return the part of the time that goes into changing pictures."""
    module: Any = importlib.import_module(f"selfsort.methods.{name}")
    plain, inside = module.augment, 0.0

    def timed(*arguments: Any) -> torch.Tensor:
        nonlocal inside
        started = time.perf_counter()
        changed: torch.Tensor = plain(*arguments)
        inside += time.perf_counter() - started
        return changed

    pixels = np.random.default_rng(0).integers(0, 256, (128, SIDE, SIDE, 3)).astype(np.uint8)
    config = module.METHOD.config.from_json({"n_clusters": 10, **METHODS[name]})
    module.augment = timed
    try:
        started = time.perf_counter()
        for _ in module.train(Images(pixels), config, device=torch.device("cpu"), seed=0):
            pass
        return inside / (time.perf_counter() - started)
    finally:
        module.augment = plain


def _against_pillow() -> float:
    pixels = np.random.default_rng(0).integers(0, 256, (N, SIDE, SIDE, 3)).astype(np.uint8)
    batch = torch.from_numpy(pixels).permute(0, 3, 1, 2)
    generator = torch.Generator().manual_seed(0)
    rng = np.random.default_rng(0)

    def ours() -> None:
        for part in torch.split(batch, 256):
            augment(part.float().mul_(1 / 255), POLICY, generator)

    def pillow() -> None:
        np.stack([_one_picture(picture, rng) for picture in pixels])

    return _ratio(pillow, ours)


def _one_picture(pixels: U8, rng: np.random.Generator) -> U8:
    image = Image.fromarray(pixels)
    angle, lean = np.radians(rng.uniform(-10, 10, 2))
    scale = rng.uniform(0.8, 1.2)
    cos, sin, tan = math.cos(angle), math.sin(angle), math.tan(lean)
    back = np.linalg.inv(scale * np.array([[cos, cos * tan + sin], [-sin, cos - sin * tan]]))
    x, y = np.full(2, SIDE / 2) - back @ (np.full(2, SIDE / 2) + rng.uniform(-0.1, 0.1, 2) * SIDE)
    data = (back[0, 0], back[0, 1], x, back[1, 0], back[1, 1], y)
    image = image.transform(image.size, Image.Transform.AFFINE, data, Image.Resampling.BILINEAR)
    for op in rng.permutation(4):
        if op == 3:
            hue, saturation, value = image.convert("HSV").split()
            shift = int(rng.uniform(-0.1, 0.1) * 255)
            turned = Image.fromarray(np.asarray(hue) + np.uint8(shift % 256))
            image = Image.merge("HSV", (turned, saturation, value)).convert("RGB")
        else:
            enhance = (ImageEnhance.Brightness, ImageEnhance.Contrast, ImageEnhance.Color)[op]
            image = enhance(image).enhance(rng.uniform(0.6, 1.4))
    return np.asarray(image)


def _ratio(slow: Callable[[], None], quick: Callable[[], None], n_rounds: int = 7) -> float:
    def seconds(work: Callable[[], None]) -> float:
        started = time.perf_counter()
        work()
        return time.perf_counter() - started

    seconds(quick), seconds(slow)
    return statistics.median(seconds(slow) / seconds(quick) for _ in range(n_rounds))


if __name__ == "__main__":
    print(run())
