"""The same picture in another file: copied, compressed again, resized, or made brighter.

Candidates are found by a perceptual code: the low frequencies of a picture's outlines, before they are rounded to the
bits of a hash. Each is verified on more pixels: where the outlines of two pictures of one shape agree and their colours
do too, they are one picture. Outlines do not change with the light; two dresses of one cut in two colours are two.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.fft import dctn

from selfsort.graph.knn import nearest_neighbours
from selfsort.stacks.traits import SIDE, Traits
from selfsort.types import F32, I64

ALIKE = 0.88
"""Outlines that agree this much are those of one picture. Versions measured .928 and above, others .786 and below."""
_SHAPE = 0.04
"""How far the aspect ratios may differ: sizes are rounded."""
_COLOUR = 0.12
"""How far the mean colours may, in shares of the brightness. Versions measured up to .053."""
_FAINT = 1.0
"""Mean outline, in gray levels, below which a picture shows nothing to compare."""
_SMALLEST_SIDE = 48
"""What has fewer pixels shows too few outlines: two of the same digit would be one picture."""
_N_CANDIDATES = 12
_CODE_SIDE = 12
_BLOCK = 4096

Pairs = npt.NDArray[np.int64]
"""(P, 2) rows, the lower first."""


def equal_files(traits: Traits) -> Pairs:
    """Return neighbours among files of the same content: enough to join them all."""
    last: dict[bytes, int] = {}
    found = []
    for row, digest in enumerate(traits.digests):
        if digest in last:
            found.append((last[digest], row))
        last[digest] = row
    return np.array(found, np.int64).reshape(-1, 2)


def find_versions(traits: Traits) -> Pairs:
    """Return pairs that show the same picture, though their files differ."""
    first = distinct_rows(traits)
    outlines_NE = outlines(traits.gray[first])
    is_large = traits.sizes[first].min(axis=1) >= _SMALLEST_SIDE
    usable = np.flatnonzero(is_large & (np.linalg.norm(outlines_NE, axis=1) > 0))
    if len(usable) < 2:
        return np.empty((0, 2), np.int64)
    near = nearest_neighbours(codes(traits.gray[first[usable]]), _N_CANDIDATES)
    left = np.repeat(usable, near.idx.shape[1])
    pairs = np.unique(np.sort(np.stack([left, usable[near.idx.ravel()]], axis=1), axis=1), axis=0)
    agreement = np.concatenate(
        [
            (outlines_NE[some[:, 0]] * outlines_NE[some[:, 1]]).sum(axis=1)
            for some in (pairs[start : start + _BLOCK] for start in range(0, len(pairs), _BLOCK))
        ]
    )
    found = first[pairs[agreement >= ALIKE]]
    verified: Pairs = found[_same_shape(traits, found) & _same_colour(traits, found)]
    return verified


def distinct_rows(traits: Traits) -> I64:
    """Return the first row of each content."""
    places: dict[bytes, int] = {}
    for row, digest in enumerate(traits.digests):
        places.setdefault(digest, row)
    return np.fromiter(places.values(), np.int64, len(places))


def outlines(gray: npt.NDArray[np.uint8]) -> F32:
    """Return the differences between neighbouring pixels, of length one; zero where there is nothing to see."""
    bright = gray.astype(np.float32)
    across, down = np.diff(bright, axis=2)[:, :-1], np.diff(bright, axis=1)[:, :, :-1]
    rows: F32 = np.concatenate([across, down], axis=1).reshape(len(gray), -1)
    length = np.linalg.norm(rows, axis=1, keepdims=True)
    is_faint = length < _FAINT * SIDE
    rows /= np.maximum(length, 1e-6)
    rows[is_faint[:, 0]] = 0
    return rows


def codes(gray: npt.NDArray[np.uint8]) -> F32:
    """Return the perceptual code of each picture: low frequencies, weighted as outlines are, of length one."""
    found: F32 = dctn(gray.astype(np.float32), axes=(1, 2), norm="ortho")[:, :_CODE_SIDE, :_CODE_SIDE]
    frequency = np.hypot(*np.mgrid[:_CODE_SIDE, :_CODE_SIDE]).astype(np.float32)
    rows: F32 = (found * frequency).reshape(len(gray), -1)
    unit: F32 = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-6)
    return unit


def _same_shape(traits: Traits, pairs: Pairs) -> npt.NDArray[np.bool_]:
    ratio = np.log(traits.sizes[:, 0] / traits.sizes[:, 1])
    same: npt.NDArray[np.bool_] = np.abs(ratio[pairs[:, 0]] - ratio[pairs[:, 1]]) <= _SHAPE
    return same


def _same_colour(traits: Traits, pairs: Pairs) -> npt.NDArray[np.bool_]:
    red, green, blue = traits.colour.astype(np.float64).mean(axis=(1, 2)).T
    tint = np.stack([red - green, blue - (red + green) / 2], axis=1) / np.maximum((red + green + blue) / 3, 1)[:, None]
    same: npt.NDArray[np.bool_] = np.abs(tint[pairs[:, 0]] - tint[pairs[:, 1]]).max(axis=1, initial=0) <= _COLOUR
    return same
