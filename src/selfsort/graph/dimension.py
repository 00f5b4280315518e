"""How many dimensions data really has, as far as its neighbourhoods show."""

from __future__ import annotations

import numpy as np

from selfsort.graph.neighbours import Neighbours

_COPY = 1e-3
"""Neighbours nearer than this share of the usual distance are copies, which say nothing of the space around them."""


def intrinsic_dimension(neighbours: Neighbours) -> float:
    """Return the maximum likelihood estimate of Levina and Bickel: 1 / mean log(r_k / r_j), over images and j < k.

    In a space of d dimensions the number of points within r grows as r^d, so the more dimensions, the less the
    farthest of k neighbours is beyond the others.
    """
    r_NK = np.sqrt(np.maximum(neighbours.sq_dist.astype(np.float64), 0))
    r_NK = r_NK[r_NK[:, 0] > _COPY * np.median(r_NK)]
    if len(r_NK) == 0 or r_NK.shape[1] < 2:
        return 0.0
    mean = np.log(r_NK[:, -1:] / r_NK[:, :-1]).mean()
    return float(1 / mean) if mean > 0 else float("inf")
