"""What stands between an encoder and the clusters: projections, and the heads of methods that learn on its features.

Shape letters: B batch, D features.
"""

from __future__ import annotations

from typing import ClassVar

import torch
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


class PixelRows(nn.Module):
    """Images in [0, 1] as rows of unit length, less a mean image where there is one; features pass as they are."""

    def __init__(self, mean_D: Tensor | None = None) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(()) if mean_D is None else mean_D)

    def forward(self, x: Tensor) -> Tensor:
        """Return rows (B, D)."""
        return unit(x.permute(0, 2, 3, 1).flatten(1) - self.get_buffer("mean")) if x.ndim == 4 else x


def _squared_distances(x_BD: Tensor, y_KD: Tensor) -> Tensor:
    squares_BK = x_BD.square().sum(dim=1, keepdim=True) + y_KD.square().sum(dim=1)
    return (squares_BK - 2 * x_BD @ y_KD.T).clamp(min=0)


class VoteHead(nn.Module):
    """The affinity-weighted vote of the nearest stored rows (`graph.affinity.vote`) as part of a network."""

    def __init__(self, stored_ND: Tensor, labels_N: Tensor, n_clusters: int, n_voters: int, sigma_sq: float) -> None:
        super().__init__()
        self.n_voters, self.sigma_sq = min(n_voters, len(stored_ND)), sigma_sq
        self.register_buffer("stored", stored_ND)
        self.register_buffer("votes", F.one_hot(labels_N, n_clusters).to(stored_ND.dtype))

    def forward(self, x_BD: Tensor) -> Tensor:
        """Return soft assignments (B, K)."""
        near_BM, idx_BM = _squared_distances(x_BD, self.get_buffer("stored")).topk(self.n_voters, largest=False)
        weights_BM = F.softmax(-(near_BM - near_BM[:, :1]) / self.sigma_sq, dim=1)
        return (weights_BM[:, :, None] * self.get_buffer("votes")[idx_BM]).sum(dim=1)


class CentroidHead(nn.Module):
    """A mixture of equal round Gaussians around stored centres, as part of a network."""

    def __init__(self, centroids_KD: Tensor, variance: float) -> None:
        super().__init__()
        self.variance = variance
        self.register_buffer("centroids", centroids_KD)

    def forward(self, x_BD: Tensor) -> Tensor:
        """Return soft assignments (B, K)."""
        return F.softmax(-_squared_distances(x_BD, self.get_buffer("centroids")) / (2 * self.variance), dim=1)


class Compared(nn.Module):
    """Something that makes rows of images, and a head that compares them with what it has stored."""

    def __init__(self, rows: nn.Module, head: nn.Module) -> None:
        super().__init__()
        self.rows, self.head = rows, head

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return soft assignments (B, K) and features (B, D)."""
        rows_BD = self.rows(x)
        return self.head(rows_BD), rows_BD


def unit(x_BD: Tensor) -> Tensor:
    """Bring every row to length one; a row of zeros stays finite."""
    return F.normalize(x_BD, dim=1, eps=1e-8)
