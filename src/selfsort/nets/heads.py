"""What stands between an encoder and the clusters: multi-layer projections onto the unit sphere.

Shape letters: B batch, D features.
"""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn


def projection(n_in: int, n_out: int, *, is_centred: bool = False) -> nn.Sequential:
    """Two layers: Linear(n_in, n_in), batch normalisation, ReLU, Linear(n_in, n_out).

    If centred, a last batch normalisation takes away what all images share, so that they cannot all point one way.
    """
    layers = [nn.Linear(n_in, n_in, bias=False), nn.BatchNorm1d(n_in), nn.ReLU(inplace=True), nn.Linear(n_in, n_out)]
    return nn.Sequential(*layers, *([nn.BatchNorm1d(n_out, affine=False)] if is_centred else []))


def deep_projection(n_in: int, n_out: int) -> nn.Sequential:
    """Three layers, batch normalisation after every one of them."""
    return nn.Sequential(
        nn.Linear(n_in, n_in, bias=False),
        nn.BatchNorm1d(n_in),
        nn.ReLU(inplace=True),
        nn.Linear(n_in, n_in, bias=False),
        nn.BatchNorm1d(n_in),
        nn.ReLU(inplace=True),
        nn.Linear(n_in, n_out, bias=False),
        nn.BatchNorm1d(n_out),
    )


def predictor(n_out: int, n_hidden: int = 2048) -> nn.Sequential:
    """Linear(n_out, n_hidden), batch normalisation, ReLU, Linear(n_hidden, n_out)."""
    return nn.Sequential(
        nn.Linear(n_out, n_hidden, bias=False),
        nn.BatchNorm1d(n_hidden),
        nn.ReLU(inplace=True),
        nn.Linear(n_hidden, n_out),
    )


def unit(x_BD: Tensor) -> Tensor:
    """Bring every row to length one; a row of zeros stays finite."""
    return F.normalize(x_BD, dim=1, eps=1e-8)
