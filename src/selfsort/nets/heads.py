"""What stands between an encoder and the clusters: projections, and the heads of methods that learn on its features.

Shape letters: B batch, D features.
"""

from __future__ import annotations

from typing import ClassVar

import torch.nn.functional as F
from torch import Tensor, nn

N_EMBEDDED = 160
"""Features of JULE's own networks; those of an encoder are brought to as many."""


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


class EmbeddingHead(nn.Module):
    """One linear layer over the features of an encoder, for JULE."""

    is_embedding: ClassVar[bool] = False

    def __init__(self, n_in: int, n_out: int = N_EMBEDDED) -> None:
        super().__init__()
        self.linear = nn.Linear(n_in, min(n_in, n_out), bias=False)
        # Distances are kept as they are, as far as so few directions can: learning starts from the encoder's clusters.
        nn.init.orthogonal_(self.linear.weight)

    def forward(self, x_BD: Tensor) -> Tensor:
        """Return the embedding."""
        embedded: Tensor = self.linear(x_BD)
        return embedded

    def layer(self, x_BD: Tensor, name: str) -> Tensor:
        """Return the embedding (`top`), or the features below it."""
        return self(x_BD) if name == "top" else x_BD


class LabelHead(nn.Module):
    """One number per cluster from the features of an encoder, for DAC: a linear layer and batch normalisation."""

    def __init__(self, n_in: int, n_clusters: int) -> None:
        super().__init__()
        self.linear, self.norm = nn.Linear(n_in, n_clusters, bias=False), nn.BatchNorm1d(n_clusters)

    def forward(self, x_BD: Tensor) -> Tensor:
        """Return the activations (B, K)."""
        activations_BK: Tensor = self.norm(self.linear(x_BD))
        return activations_BK

    def pooled(self, x_BD: Tensor) -> Tensor:
        """Return the features below the clusters: the encoder's."""
        return x_BD


def unit(x_BD: Tensor) -> Tensor:
    """Bring every row to length one; a row of zeros stays finite."""
    return F.normalize(x_BD, dim=1, eps=1e-8)
