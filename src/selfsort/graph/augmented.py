"""Nearest neighbours of images that may be translated, rotated and zoomed a little before they are compared.

A pixel to the left or ten degrees make strangers of two drawings of one digit. So each image is searched for in
several views of itself, a fixed list of small augmentations, and its distance to another is that of the view that
comes nearest. Pixels only: a shift means nothing to the features of an encoder.

Up to some cost every view is searched for among all images, which is exact: whoever is among the K nearest by the
least distance is among the K nearest of the view that gave it. Beyond that, the 150 nearest of the plain image are
ranked again.

Shape letters: N images, D pixels, V views, B rows of a block, M candidates, K neighbours.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from selfsort.augment.geometry import linear_map, warp
from selfsort.errors import invalid
from selfsort.graph.approximate import find_neighbours
from selfsort.graph.knn import nearest_neighbours
from selfsort.graph.neighbours import Neighbours
from selfsort.pages import forget, is_mapped, take
from selfsort.progress import check_time, track
from selfsort.types import F32, I64, U8

Strength = Literal["mild", "strong"]

N_RANKED = 150
"""Plain neighbours that are ranked again where a full search would take too long."""

FULL_COST = 1e11
"""Largest images x images x pixels that is searched in full, once for each view: 11,000 images of 28 x 28."""

# One step of a translation, as a share of the side: a pixel of a digit of 28 x 28. At least one pixel.
_STEP = 1 / 28
_BLOCK = 1024
# Candidates beyond K that are measured again after the matrix product, which rounds.
_N_SPARE = 8
# Images ranked again at once: each brings M candidates of D pixels, and for a moment their squares.
_RANKED_BYTES = 64 * 2**20


@dataclass(frozen=True)
class View:
    """One way to see an image; the one without settings is the image as it is."""

    right: int = 0
    """Steps to translate by."""
    down: int = 0
    rotate: float = 0.0
    """Degrees, counter-clockwise."""
    zoom: float = 1.0


def views_of(strength: Strength) -> tuple[View, ...]:
    """Return the views an image is searched for in, itself first.

    >>> len(views_of("mild")), len(views_of("strong"))
    (11, 23)
    """
    angles, zooms = (-15.0, -7.5, 7.5, 15.0), (0.9, 1.1)
    alone = (*(View(rotate=angle) for angle in angles), *(View(zoom=zoom) for zoom in zooms))
    straight = (View(right=1), View(right=-1), View(down=1), View(down=-1))
    if strength == "mild":
        return (View(), *straight, *alone)
    slanted = tuple(View(right=right, down=down) for right in (-1, 1) for down in (-1, 1))
    return (View(), *straight, *slanted, *alone, *(View(rotate=angle, zoom=zoom) for angle in angles for zoom in zooms))


def augmented_neighbours(
    pixels: U8,
    features: F32,
    n_neighbours: int,
    *,
    strength: Strength = "strong",
    mean: F32 | None = None,
    device: str | torch.device = "cpu",
    exact_limit: int | None = None,
    full_cost: float = FULL_COST,
) -> Neighbours:
    """Find the nearest images, each of which is searched for in several views.

    Args:
        pixels: (N, H, W, C) the images.
        features: (N, D) the same as rows of unit length, of pixels in 0..1 less the mean image, if there is one.
        n_neighbours: K, as for `nearest_neighbours`.
        strength: which views.
        mean: (D,) what was subtracted to make the features.
        device: where views are made and compared.
        exact_limit: above this many images, the plain neighbours to be ranked again are found approximately.
        full_cost: largest cost of a full search; above it plain neighbours are ranked again.
    """
    if features.shape != (len(pixels), math.prod(pixels.shape[1:])):
        raise invalid("features", "have one row of pixels per image", f"shape {features.shape}", "Flatten each image.")
    rows = _Rows(pixels, features, views_of(strength), mean, torch.device(device))
    if len(features) * features.size <= full_cost:
        return _search(rows, n_neighbours)
    plain = find_neighbours(features, max(N_RANKED, n_neighbours), device=device, exact_limit=exact_limit)
    return _ranked(rows, plain, n_neighbours)


@dataclass(frozen=True, eq=False)
class _Rows:
    """Images as rows of unit length in each of several views."""

    pixels: U8
    features: F32
    views: tuple[View, ...]
    mean: F32 | None
    device: torch.device

    def block(self, view: View, first: int, last: int) -> Tensor:
        """Return rows (B, D) of the images first..last in a view; as they are, they are the features themselves."""
        if view == View():
            return torch.from_numpy(self.features[first:last]).to(self.device)
        x_BCHW = torch.from_numpy(self.pixels[first:last]).to(self.device).permute(0, 3, 1, 2).float().mul_(1 / 255)
        forget(self.pixels)
        flat_BD = augmented(x_BCHW.contiguous(), view).permute(0, 2, 3, 1).flatten(1)
        if self.mean is not None:
            flat_BD = flat_BD - torch.from_numpy(self.mean).to(self.device)
        return F.normalize(flat_BD, dim=1, eps=1e-8)

    def blocks(self, size: int) -> Iterator[tuple[int, int]]:
        """Walk over all images in order."""
        n = len(self.features)
        return ((first, min(first + size, n)) for first in range(0, n, size))


def augmented(x_BCHW: Tensor, view: View) -> Tensor:
    """Show all images of a batch in one view; the nearest pixel comes in from outside.

    Sharp: what is interpolated linearly is blurred, and a small blurred digit is near many others.
    """
    n, _, height, width = x_BCHW.shape
    ones_B = x_BCHW.new_ones(n)
    forward_B22 = linear_map(math.radians(view.rotate) * ones_B, 0 * ones_B, view.zoom * ones_B, view.zoom * ones_B)
    steps = (view.right * max(1, round(_STEP * width)), view.down * max(1, round(_STEP * height)))
    moves_B2 = x_BCHW.new_tensor(steps).expand(n, 2)
    return warp(x_BCHW, forward_B22, moves_B2, "nearest", is_sharp=True).clamp_(0, 1)


def _search(rows: _Rows, n_neighbours: int) -> Neighbours:
    """Search for every view among all images, and merge what was found."""
    n = len(rows.features)
    n_kept = min(n_neighbours, n - 1)
    idx: I64 = np.full((n, n_kept), -1, dtype=np.int64)
    sq_dist: F32 = np.full((n, n_kept), np.inf, dtype=np.float32)
    size = max(1, min(_BLOCK, _RANKED_BYTES // rows.features[:1].nbytes))
    for view in track(rows.views, "augmented neighbours", len(rows.views)):
        for first, last in rows.blocks(size):
            block, own_B1 = slice(first, last), np.arange(first, last)[:, None]
            seen = rows.block(view, first, last).cpu().numpy()
            # One more, because the image itself is likely to be among them.
            found = nearest_neighbours(rows.features, n_neighbours + 1, queries=seen, device=rows.device)
            idx[block], sq_dist[block] = _merged(
                np.hstack([idx[block], np.where(found.idx == own_B1, -1, found.idx)]),
                np.hstack([sq_dist[block], found.sq_dist]),
                n_kept,
            )
    return Neighbours(idx, sq_dist, n_neighbours)


def _merged(idx: I64, sq_dist: F32, n_kept: int) -> tuple[I64, F32]:
    """Keep of each row the nearest, every item once by its least distance; equal distances by lowest index."""
    by_item = np.lexsort((sq_dist, idx), axis=1)
    idx, sq_dist = np.take_along_axis(idx, by_item, axis=1), np.take_along_axis(sq_dist, by_item, axis=1)
    is_again = np.zeros_like(idx, dtype=bool)
    is_again[:, 1:] = idx[:, 1:] == idx[:, :-1]
    far: F32 = np.where(is_again | (idx < 0), np.float32(np.inf), sq_dist)
    order = np.argsort(far, axis=1, kind="stable")[:, :n_kept]  # the items are in order, so equal distances are too
    return np.take_along_axis(idx, order, axis=1), np.take_along_axis(far, order, axis=1)


def _ranked(rows: _Rows, plain: Neighbours, n_neighbours: int) -> Neighbours:
    """Rank the plain neighbours of each image by their least distance to its views."""
    n, n_dims = rows.features.shape
    n_kept = min(n_neighbours, plain.n_neighbours)
    features_ND = None if is_mapped(rows.features) else torch.from_numpy(rows.features).to(rows.device)
    idx: I64 = np.empty((n, n_kept), dtype=np.int64)
    sq_dist: F32 = np.empty((n, n_kept), dtype=np.float32)
    size = max(1, _RANKED_BYTES // (4 * n_dims * plain.n_neighbours))
    starts = list(rows.blocks(size))
    for first, last in track(starts, "augmented neighbours", len(starts)):
        candidate_BM = torch.from_numpy(plain.idx[first:last]).to(rows.device)
        views = []
        for view in rows.views:
            views.append(rows.block(view, first, last))
            check_time()  # of images in many views a block takes seconds
        view_BVD = torch.stack(views, dim=1)
        if features_ND is not None:
            candidate_BMD = features_ND[candidate_BM]
        else:
            chosen = take(rows.features, plain.idx[first:last].ravel())
            candidate_BMD = torch.from_numpy(chosen).to(rows.device).view(*candidate_BM.shape, n_dims)
        kept_BM, found_BM = _nearest_candidates(view_BVD, candidate_BM, candidate_BMD, n_kept + _N_SPARE)
        idx[first:last], sq_dist[first:last] = _merged(kept_BM.cpu().numpy(), found_BM.cpu().numpy(), n_kept)
    return Neighbours(idx, sq_dist, n_neighbours, plain.recall)


def _nearest_candidates(
    view_BVD: Tensor, candidate_BM: Tensor, candidate_BMD: Tensor, n_kept: int
) -> tuple[Tensor, Tensor]:
    """Return the candidates nearest to any view by the matrix product, and their squared distances, measured again."""
    squares_BVM = view_BVD.square().sum(dim=2)[:, :, None] + candidate_BMD.square().sum(dim=2)[:, None, :]
    rough_BVM = torch.baddbmm(squares_BVM, view_BVD, candidate_BMD.transpose(1, 2), alpha=-2)
    rough_BM, view_BM = rough_BVM.min(dim=1)
    best_BK = rough_BM.topk(min(n_kept, rough_BM.shape[1]), dim=1, largest=False).indices
    kept_BK = candidate_BM.gather(1, best_BK)
    rows_B1 = torch.arange(len(view_BVD), device=view_BVD.device)[:, None]
    gaps_BKD = view_BVD[rows_B1, view_BM.gather(1, best_BK)] - candidate_BMD[rows_B1, best_BK]
    return kept_BK, gaps_BKD.square_().sum(dim=2)
