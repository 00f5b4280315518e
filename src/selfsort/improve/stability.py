"""How stable a network's clusters are under augmentation, measured on some of the images it trains on.

Shape letters: B batch, C, H, W image, D features.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from selfsort import distributed
from selfsort.augment.policy import Policy
from selfsort.learning.batches import InputTensor
from selfsort.learning.checkpoint import to_numpy
from selfsort.learning.seeds import torch_generator
from selfsort.learning.trainee import Trainee
from selfsort.metrics.stability import stability

_N_JUDGED, _BLOCK = 4000, 200

Probe = Callable[[Tensor], tuple[Tensor, Tensor]]
"""From images (B, C, H, W) in [0, 1] to clusters (B,) and features (B, D)."""


def probe_twice(probe: Probe, pixels: InputTensor, policy: Policy) -> list[tuple[Tensor, Tensor]]:
    """Augment some images twice; return clusters and features of the first and of the second views.

    The views are the same whenever this is called.
    """
    chance = torch_generator(0, "steadiness", pixels.device)  # the stream's name is older than ours for the thing
    rows = torch.randperm(len(pixels), generator=torch_generator(0, "judged"))[:_N_JUDGED]
    found = []
    with torch.inference_mode():
        for _ in range(2):
            parts = [probe(pixels.augmented(idx, policy, chance)) for idx in torch.split(rows, _BLOCK)]
            labels_N, features_ND = (torch.cat(part) for part in zip(*parts, strict=True))
            found.append((labels_N, features_ND))
    return found


def stability_of(trainee: Trainee, n_clusters: int) -> float:
    """Return the stability of the clusters of a network in training, in nats."""
    trainee.net.eval()
    (first_N, _), (second_N, _) = probe_twice(trainee.probe, trainee.pixels, trainee.policy)
    found = stability(to_numpy(first_N), to_numpy(second_N), n_clusters)
    # Processes that share a training must prefer the same start, also where their machines round differently.
    return float(distributed.average(torch.tensor(found, device=trainee.pixels.device)))
