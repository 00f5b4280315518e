"""Features that nobody trained: HOG, LBP and a spatial pyramid, by scikit-image; an extra.

Yang, Parikh, Batra (JULE, CVPR 2016, Table 12) cluster such features beside pixels, and pixels do better: HOG (Dalal
and Triggs 2005) on digits, local binary patterns (Ojala et al. 2002) on faces, spatial pyramids (Lazebnik et al. 2006)
on objects. Images are brought to 64 x 64 gray pixels first.

Where we differ from the paper: its settings of the three are not stated, ours are the usual ones. The words of a
spatial pyramid are learned from the images there; an encoder must not depend on the images it is used with, so here
they are 200 directions drawn once, to which DAISY descriptors (Tola et al. 2010) are compared.

Shape letters: B batch, C channels, H x W pixels, D features.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from selfsort.encoders.registry import EncoderCard
from selfsort.errors import invalid, missing_extra
from selfsort.types import F32, F64

SIDE = 64
_CELLS = 4
_N_WORDS, _LEVELS = 200, (1, 2, 4)
_LEVEL_WEIGHTS = (0.25, 0.25, 0.5)
_N_PATTERNS = 59
"""Uniform patterns of eight neighbours, and one for all others."""


def hog(gray: F64) -> F32:
    """Gradients by direction, in cells of 8 x 8 pixels and blocks of 2 x 2 cells."""
    found = _library("feature").hog(gray, orientations=9, pixels_per_cell=(8, 8), cells_per_block=(2, 2))
    return np.asarray(found, dtype=np.float32)


def lbp(gray: F64) -> F32:
    """How often each uniform pattern of brighter and darker neighbours occurs, in 4 x 4 parts of the image."""
    levels = np.round(gray * 255).astype(np.uint8)
    codes = _library("feature").local_binary_pattern(levels, 8, 1, method="nri_uniform").astype(np.int64)
    parts = [part for rows in np.array_split(codes, _CELLS) for part in np.array_split(rows, _CELLS, axis=1)]
    counts = [np.bincount(part.ravel(), minlength=_N_PATTERNS) / part.size for part in parts]
    return np.concatenate(counts).astype(np.float32)


def spm(gray: F64) -> F32:
    """How often each word occurs in the whole image, its quarters and its sixteenths."""
    described = _library("feature").daisy(gray, step=4, radius=8, rings=2, histograms=6, orientations=8)
    words = _words(described.shape[-1])
    said = (described @ words.T).argmax(axis=2)
    found = []
    for n, weight in zip(_LEVELS, _LEVEL_WEIGHTS, strict=True):
        for rows in np.array_split(said, n):
            for part in np.array_split(rows, n, axis=1):
                found.append(weight * np.bincount(part.ravel(), minlength=_N_WORDS) / said.size)
    return np.concatenate(found).astype(np.float32)


def _words(dim: int) -> F64:
    drawn = np.abs(np.random.default_rng(0).standard_normal((_N_WORDS, dim)))
    words: F64 = drawn / np.linalg.norm(drawn, axis=1, keepdims=True)
    return words


def _library(module: str) -> Any:
    try:
        return importlib.import_module(f"skimage.{module}")
    except ImportError:
        raise missing_extra("scikit-image", "the encoders hog, lbp and spm", "handcrafted") from None


@dataclass(frozen=True)
class HandCrafted:
    """An encoder without weights."""

    name: str
    describe: Callable[[F64], F32]
    dim: int
    facts: str

    engine: str = "scikit-image"
    shape: tuple[int, int, int] = (SIDE, SIDE, 1)

    @property
    def digest(self) -> str:
        """SHA-256 of all that is done to an image."""
        return hashlib.sha256(f"{self.name} {self.facts} {self.shape}".encode()).hexdigest()

    def features(self, x_BCHW: Tensor) -> Tensor:
        """Return features (B, D) of images in [0, 1]."""
        if x_BCHW.shape[1:] != (1, SIDE, SIDE):
            wanted = f"be (batch, 1, {SIDE}, {SIDE})"
            raise invalid("the shape of the images", wanted, tuple(x_BCHW.shape), "Resize them.")
        rows = [self.describe(image) for image in x_BCHW[:, 0].double().cpu().numpy()]
        return torch.from_numpy(np.stack(rows)).to(x_BCHW.device)


def _card(encoder: HandCrafted, source: str) -> EncoderCard:
    def opened(device: torch.device, engine: str | None) -> HandCrafted:
        return encoder

    return EncoderCard(
        name=encoder.name,
        source=source,
        licence="BSD-3-Clause",
        n_bytes=0,
        dim=encoder.dim,
        shape=encoder.shape,
        trained_on="nothing, it is a formula",
        install='pip install "selfsort[handcrafted]"',
        is_installed=partial(_is_installed),
        open=opened,
    )


def _is_installed() -> bool:
    return importlib.util.find_spec("skimage") is not None


HOG = _card(
    HandCrafted("hog", hog, 7 * 7 * 2 * 2 * 9, "9 directions, cells of 8, blocks of 2"),
    "Dalal and Triggs, Histograms of oriented gradients for human detection, CVPR 2005",
)
LBP = _card(
    HandCrafted("lbp", lbp, _CELLS**2 * _N_PATTERNS, "8 neighbours, radius 1, uniform, 4 x 4 parts"),
    "Ojala, Pietikainen, Maenpaa, Multiresolution gray-scale and rotation invariant texture classification, PAMI 2002",
)
SPM = _card(
    HandCrafted("spm", spm, sum(n * n for n in _LEVELS) * _N_WORDS, "daisy 4 8 2 6 8, 200 words of seed 0, 3 levels"),
    "Lazebnik, Schmid, Ponce, Beyond bags of features: spatial pyramid matching, CVPR 2006",
)
