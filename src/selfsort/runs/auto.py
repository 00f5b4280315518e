"""`--encoder auto` and `--method auto`: the images decide, without labels, what sees them and what sorts them.

What an encoder understands lies in few dimensions for it; what it does not is scattered. So the dimension of the
neighbourhoods of a sample is compared, of pixels and of features. Colour speaks for a photograph, gray for a scan.

An encoder sees them if its features are simpler than the pixels. What sorts them follows from how many there are and
how they are seen (docs/default.md has the figures behind it): a network or head that learns clusters from augmented
views needs a few hundred images of each; below that, communities of the encoder's features, or JULE from pixels.

The rule of the encoder was found with labels in view, on USPS, MNIST-test, UMist, CMU-PIE, COIL-20, COIL-100 and
CIFAR-10; see docs/encoders.md for what it says of these and of sets that had no part in it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from selfsort.classic.method import pixel_features
from selfsort.data import fingerprint
from selfsort.encoders.encode import plain_features
from selfsort.graph.copies import find_copies
from selfsort.graph.dimension import intrinsic_dimension
from selfsort.graph.knn import nearest_neighbours
from selfsort.types import F32, Encoder, Images

AUTO_METHOD = "auto"
BEFORE_CHOICE = "leiden"
"""Stands for the method until the images are known: it takes whatever any of them takes."""

_FEWEST_SEEN, _FEWEST_DRAWN = 200, 100
"""Teaching wants so many images for each cluster, on an encoder's features or from pixels."""
_LIKELY_CLUSTERS = 10
"""Where their number is not known, it is taken to be this one."""

INSTALL = 'pip install "selfsort[photos]"'

_N_SAMPLE, _N_NEAR, _N_FOR_COPIES = 600, 5, 12
# The encoder is taken if its dimension is below this share of the pixels': pictures in colour are photographs as a
# rule, and an encoder is left out only where it sees far more than there is.
_SHARE_GRAY, _SHARE_COLOUR = 0.95, 1.6
# Smaller pictures show too little for a network made for photographs.
_SMALLEST_SIDE = 20
_FEWEST = 50


@dataclass(frozen=True)
class Judgement:
    """Whether to use an encoder, and why."""

    is_used: bool
    reason: str
    note: str = ""
    """What to tell the user before the run starts."""


def judge_without(images: Images) -> Judgement:
    """Say what is missed where no encoder is installed."""
    note = (
        f"These look like photographs, which an encoder sorts far better than their pixels: {INSTALL}"
        if looks_like_photographs(images)
        else ""
    )
    return Judgement(False, "none is installed", note)


def looks_like_photographs(images: Images) -> bool:
    """Whether an encoder is worth mentioning: colour, and not tiny."""
    height, width, channels = images.shape
    return channels == 3 and min(height, width) >= 32


def judge_at_sight(images: Images) -> Judgement | None:
    """Refuse what an encoder cannot help with, before it is opened."""
    height, width, _ = images.shape
    if min(height, width) < _SMALLEST_SIDE:
        return Judgement(False, f"pictures of {height}x{width} pixels show an encoder too little")
    if len(images) < _FEWEST and not looks_like_photographs(images):
        return Judgement(False, f"{len(images)} pictures, gray or small, are too few to tell")
    return None


def judge(images: Images, encoder: Encoder, *, folder: Path | None, device: torch.device) -> Judgement:
    """Compare pixels and features on a sample."""
    channels = images.shape[2]
    if len(images) < _FEWEST:
        return Judgement(True, f"{len(images)} pictures in colour")
    rows = np.unique(np.linspace(0, len(images) - 1, min(_N_SAMPLE, len(images))).astype(np.int64))
    sample = images.subset(rows)
    features = plain_features(encoder, sample, fingerprint(sample), is_mirrored=False, folder=folder, device=device)
    by_pixels, by_features = (_dimension(found) for found in (pixel_features(sample), _centred(features)))
    share = _SHARE_COLOUR if channels == 3 else _SHARE_GRAY
    is_used = by_features < share * by_pixels
    kind = "in colour" if channels == 3 else "gray"
    found = f"{by_features:.1f} dimensions seen by {encoder.name}, {by_pixels:.1f} in pixels"
    verdict = f"encoder {encoder.name}" if is_used else "no encoder"
    return Judgement(is_used, f"pictures {kind}: {found}", f"{verdict}, chosen for pictures {kind} ({found})")


def _dimension(rows: F32) -> float:
    """Estimate it with copies and bursts counted once: neighbours that near say nothing of the space around them."""
    picture = find_copies(nearest_neighbours(rows, _N_FOR_COPIES))
    first = np.unique(picture, return_index=True)[1]
    return intrinsic_dimension(nearest_neighbours(rows[np.sort(first)], _N_NEAR))


def _centred(features: F32) -> F32:
    centred = features - features.mean(axis=0)
    unit: F32 = centred / np.maximum(np.linalg.norm(centred, axis=1, keepdims=True), 1e-8)
    return unit


@dataclass(frozen=True)
class MethodChoice:
    """A method, and why."""

    name: str
    reason: str


def choose_method(images: Images, n_clusters: int | None, *, has_encoder: bool, has_views: bool) -> MethodChoice:
    """Choose what sorts the images.

    Args:
        images: as they were read.
        n_clusters: as asked for; None if it is to be found.
        has_encoder: whether features of an encoder are sorted, or pixels.
        has_views: whether the encoder can see augmented copies; a table of features cannot.
    """
    n = len(images)
    fewest = (_FEWEST_SEEN if has_encoder else _FEWEST_DRAWN) * (n_clusters or _LIKELY_CLUSTERS)
    amount = f"{n:,} images" if n_clusters is None else f"{n:,} images in {n_clusters} clusters"
    is_much = n >= fewest
    if has_encoder:
        if is_much and has_views:
            return MethodChoice("teach", f"{amount}, seen by an encoder")
        return MethodChoice("leiden", f"{amount}, seen by an encoder")
    if is_much and images.shape[2] == 1:
        return MethodChoice("teach", f"{amount}, gray, from their pixels")
    return MethodChoice("jule", f"{amount}, from their pixels")
