"""Assignments that keep every cluster alive: bounds on the sizes by dual variables, or a price on low entropy.

Plain nearest-centre assignment lets one cluster swallow the others while the features are still being learned. Both
rules here change the cost of joining a cluster by how full it is, look at one batch at a time, and remember only a few
numbers per cluster, so that their price does not depend on the number of images.

Symbols: rho_j dual variable of cluster j; gamma, gamma' lower and upper bound on its size in units of n/K; N_j its
count; dH the change of sum_j (N_j/n) log(N_j/n), which is minus the entropy of the sizes.
Shape letters: B batch, K clusters.
"""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

from selfsort.errors import invalid


def raise_lower(rho_K: Tensor, share_K: Tensor, gamma: float, eta: float) -> Tensor:
    """Lower bound: rho_j <- max(0, rho_j - eta (share_j - gamma/K)); gamma = 1 is an equality, so nothing is cut off.

    >>> raise_lower(torch.tensor([0.0, 0.0]), torch.tensor([1.0, 0.0]), 0.8, 0.5)
    tensor([0.0000, 0.2000])
    """
    moved_K = rho_K - eta * (share_K - gamma / len(rho_K))
    return moved_K if gamma == 1 else moved_K.clamp(min=0)


def raise_upper(rho_K: Tensor, share_K: Tensor, gamma: float, eta: float) -> Tensor:
    """Upper bound: rho'_j <- max(0, rho'_j + eta (share_j - gamma'/K))."""
    return (rho_K + eta * (share_K - gamma / len(rho_K))).clamp(min=0)


def entropy_increments(counts_K: Tensor, old_B: Tensor) -> Tensor:
    """Exact dH of moving each image from its old cluster to every other, the others staying where they are.

    An image that has no cluster yet (old = -1) is added: the number of images grows by one. With g(m) = m log m the
    sum is sum_j g(N_j) / n - log n, so that a move changes two terms only.
    """
    counts = counts_K.double()
    n = counts.sum()
    g_K = torch.xlogy(counts, counts)
    up_K = torch.xlogy(counts + 1, counts + 1) - g_K
    fewer = (counts - 1).clamp(min=0)
    down_K = torch.xlogy(fewer, fewer) - g_K
    old = old_B.clamp(min=0)
    moved_BK = (up_K + down_K[old][:, None]) / n.clamp(min=1)
    moved_BK = moved_BK.scatter(1, old[:, None], 0.0)
    before = torch.where(n > 0, g_K.sum() / n.clamp(min=1) - n.clamp(min=1).log(), torch.zeros_like(n))
    added_K = (g_K.sum() + up_K) / (n + 1) - (n + 1).log() - before
    return torch.where((old_B < 0)[:, None], added_K, moved_BK)


class Balance(Protocol):
    """A rule of assignment that remembers how full the clusters are."""

    def assign(self, cost_BK: Tensor, old_B: Tensor) -> Tensor:
        """Return the cluster of each image; `old_B` is where it was, -1 if nowhere yet."""
        ...

    def update(self, new_B: Tensor, old_B: Tensor) -> None:
        """Take note of where all images of the batch went."""
        ...

    def tensors(self) -> dict[str, Tensor]:
        """What must survive an interruption, to be written into in place."""
        ...


class SizeBounds:
    """Size constraint: every cluster should hold gamma n/K images or more and, if asked, gamma' n/K or fewer."""

    def __init__(
        self, n_clusters: int, gamma: float, gamma_upper: float | None, eta: float, device: torch.device
    ) -> None:
        self.gamma, self.gamma_upper, self.eta = gamma, gamma_upper, eta
        self.lower_K = torch.zeros(n_clusters, device=device)
        self.upper_K = torch.zeros(n_clusters, device=device)

    def assign(self, cost_BK: Tensor, old_B: Tensor) -> Tensor:
        """argmin_j cost_j - rho_j + rho'_j."""
        return (cost_BK - self.lower_K + self.upper_K).argmin(dim=1)

    def update(self, new_B: Tensor, old_B: Tensor) -> None:
        """One step of gradient ascent on the duals, by the shares of this batch."""
        if not len(new_B):
            return
        share_K = torch.bincount(new_B, minlength=len(self.lower_K)).to(self.lower_K) / len(new_B)
        self.lower_K.copy_(raise_lower(self.lower_K, share_K, self.gamma, self.eta))
        if self.gamma_upper is not None:
            self.upper_K.copy_(raise_upper(self.upper_K, share_K, self.gamma_upper, self.eta))

    def tensors(self) -> dict[str, Tensor]:
        """Both duals."""
        return {"lower": self.lower_K, "upper": self.upper_K}


class EntropyPrice:
    """Entropy constraint: alpha dH is added to the cost. Counts persist and are frozen inside a batch."""

    def __init__(self, n_clusters: int, alpha: float, device: torch.device) -> None:
        self.alpha = alpha
        self.counts_K = torch.zeros(n_clusters, dtype=torch.int64, device=device)

    def assign(self, cost_BK: Tensor, old_B: Tensor) -> Tensor:
        """argmin_j cost_j + alpha dH_j."""
        return (cost_BK.double() + self.alpha * entropy_increments(self.counts_K, old_B)).argmin(dim=1)

    def update(self, new_B: Tensor, old_B: Tensor) -> None:
        """Subtract old labels, add new ones."""
        n_clusters = len(self.counts_K)
        self.counts_K += torch.bincount(new_B, minlength=n_clusters)
        self.counts_K -= torch.bincount(old_B[old_B >= 0], minlength=n_clusters)
        if bool((self.counts_K < 0).any()):
            raise invalid(
                "the old labels",
                "be those the counts were made of",
                "others",
                "This is a fault of selfsort: report it.",
            )

    def tensors(self) -> dict[str, Tensor]:
        """The counts."""
        return {"counts": self.counts_K}


class Greedy:
    """No constraint: the cheapest cluster."""

    def assign(self, cost_BK: Tensor, old_B: Tensor) -> Tensor:
        """argmin_j cost_j."""
        return cost_BK.argmin(dim=1)

    def update(self, new_B: Tensor, old_B: Tensor) -> None:
        """Nothing to remember."""

    def tensors(self) -> dict[str, Tensor]:
        """Nothing to keep."""
        return {}
