"""How learnable cluster centres move: SeCu's rule, and the three it is compared with.

SeCu's centre loss looks like cross-entropy, but only the centre an image is assigned to receives a gradient. With
plain cross-entropy every image also pushes all other centres away; in a batch most centres then see nothing but such
negatives, and drift. The closed form is the centre loss's fixed point; the running mean is that of CoKe.

Symbols: x unit features; w_j unit centres, as columns; y labels; p softmax of x.w/lam; lam temperature.
Shape letters: B batch, D features, K clusters.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def unit_columns(w_DK: Tensor) -> Tensor:
    """Centres as they are used: columns of length one."""
    return F.normalize(w_DK, dim=0, eps=1e-8)


def centre_loss(x_BD: Tensor, w_DK: Tensor, y_B: Tensor, lam: float) -> Tensor:
    """l_c: cross-entropy in which only the assigned centre is alive; features and all other centres stand still."""
    x_BD = x_BD.detach()
    own_B = (x_BD * w_DK.T[y_B]).sum(dim=1)
    logits_BK = (x_BD @ w_DK.detach()).scatter(1, y_B[:, None], own_B[:, None])
    return F.cross_entropy(logits_BK / lam, y_B)


def plain_centre_loss(x_BD: Tensor, w_DK: Tensor, y_B: Tensor, lam: float) -> Tensor:
    """The comparison: plain cross-entropy, where every image also pushes every other centre away."""
    return F.cross_entropy(x_BD.detach() @ w_DK / lam, y_B)


def hardness_sums(x_BD: Tensor, w_DK: Tensor, y_B: Tensor, lam: float) -> tuple[Tensor, Tensor]:
    """Sums of (1 - p) x and of (1 - p) over the images of each cluster: the closed form's two halves."""
    hard_B = 1 - F.softmax(x_BD @ w_DK / lam, dim=1).gather(1, y_B[:, None])[:, 0]
    sums_DK = torch.zeros_like(w_DK).index_add_(1, y_B, (x_BD * hard_B[:, None]).T)
    return sums_DK, torch.zeros(w_DK.shape[1]).to(w_DK).index_add_(0, y_B, hard_B)


def closed_form(w_DK: Tensor, sums_DK: Tensor, weights_K: Tensor) -> Tensor:
    """The fixed point of the centre loss: means of the images, hard ones weighing more; empty clusters stay."""
    means_DK = unit_columns(sums_DK / weights_K.clamp(min=1e-12))
    return torch.where(weights_K > 1e-8, means_DK, w_DK)


def running_mean(w_DK: Tensor, counts_K: Tensor, x_BD: Tensor, y_B: Tensor) -> tuple[Tensor, Tensor]:
    """CoKe's update: each centre the mean of its images so far in this epoch; returns new centres and counts."""
    new_K = torch.bincount(y_B, minlength=len(counts_K)).to(w_DK)
    sums_DK = torch.zeros_like(w_DK).index_add_(1, y_B, x_BD.T)
    total_K = (counts_K + new_K).clamp(min=1)
    moved_DK = unit_columns(counts_K / total_K * w_DK + sums_DK / total_K)
    return torch.where(new_K > 0, moved_DK, w_DK), counts_K + new_K
