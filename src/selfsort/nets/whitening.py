"""PCA-whitening as a fixed layer: features become uncorrelated and of unit variance.

Shape letters: N images, B batch, D features.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from selfsort.types import F32, F64

# Directions with less than this share of the largest variance are dropped: stretched to unit variance, they would
# be as loud as all others and say nothing.
_SMALLEST_SHARE = 1e-4
# Variance that single precision leaves among features which are all alike.
_NO_VARIANCE = 1e-12
# Features that are doubled in precision at once.
_BLOCK = 2**14


class Whitening(nn.Module):
    """Features (B, D) to their principal components, the largest first, each divided by its standard deviation.

    Until it is fitted it changes nothing. The components that are dropped are zeros at the end: so shapes depend on
    the network alone, and distances are those without them.
    """

    def __init__(self, n_features: int) -> None:
        super().__init__()
        self.mean_D: Tensor
        self.matrix_DD: Tensor
        self.register_buffer("mean_D", torch.zeros(n_features))
        self.register_buffer("matrix_DD", torch.eye(n_features))

    def forward(self, z_BD: Tensor) -> Tensor:
        """Return the whitened features."""
        return (z_BD - self.mean_D) @ self.matrix_DD

    def fit(self, features: F32) -> int:
        """Take mean and components from these features (N, D); return how many are kept."""
        mean_D, covariance_DD = _moments(features)
        variances_D, axes_DD = np.linalg.eigh(covariance_DD)
        variances_D, axes_DD = variances_D[::-1], axes_DD[:, ::-1]
        is_kept_D = variances_D > max(_SMALLEST_SHARE * variances_D[0], _NO_VARIANCE)
        matrix_DD = np.where(is_kept_D, axes_DD / np.sqrt(np.where(is_kept_D, variances_D, 1)), 0)
        self.mean_D.copy_(torch.from_numpy(mean_D))
        self.matrix_DD.copy_(torch.from_numpy(matrix_DD))
        return int(is_kept_D.sum())


def _moments(features: F32) -> tuple[F64, F64]:
    """Return mean and covariance in double precision, block by block: a double of all features may not fit."""
    mean_D = features.mean(axis=0, dtype=np.float64)
    covariance_DD = np.zeros((len(mean_D), len(mean_D)))
    for start in range(0, len(features), _BLOCK):
        centred_BD = features[start : start + _BLOCK] - mean_D
        covariance_DD += centred_BD.T @ centred_BD
    return mean_D, covariance_DD / len(features)
