"""Data with a known number of clusters."""

from __future__ import annotations

import numpy as np

from selfsort.types import F32, I64


def blobs(sizes: list[int], spread: float = 6.0, n_dims: int = 10, seed: int = 0) -> tuple[F32, I64]:
    """Draw normal clouds around centres that are drawn too, `spread` times as wide."""
    truth = np.repeat(np.arange(len(sizes)), sizes)
    draw = np.random.default_rng(seed)
    centres = spread * draw.standard_normal((len(sizes), n_dims))
    return (centres[truth] + draw.standard_normal((len(truth), n_dims))).astype(np.float32), truth
