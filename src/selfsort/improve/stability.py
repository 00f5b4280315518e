"""How steady clusters are: what the labels of two changed copies of the same images tell of each other. Ours.

Change every image twice, by chance: where clusters follow what the images have in common, both copies get the same
label, and where all clusters are in use that label says much. Both together is the mutual information of the two
labels, at most log K; it is least, 0, if all images share a cluster. No true label is needed for it.

Shape letters: B batch, K clusters.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import torch
from torch import Tensor, nn

from selfsort import distributed
from selfsort.augment.policy import Policy, augment
from selfsort.learning.batches import PixelTensor
from selfsort.learning.checkpoint import unpack_module
from selfsort.learning.seeds import seeded_init, torch_generator
from selfsort.types import State

_N_JUDGED, _BLOCK = 4000, 200

Net = TypeVar("Net", bound=nn.Module)


def count_pairs(first: Tensor, second: Tensor, n_clusters: int) -> Tensor:
    """Count how often each label of the first copies (rows) meets each label of the second ones: (K, K), float64."""
    return torch.bincount(first * n_clusters + second, minlength=n_clusters**2).double().view(n_clusters, -1)


def mutual_information(counts_KK: Tensor) -> float:
    """Return what row and column of a table of counts tell of each other, in nats.

    >>> round(mutual_information(torch.tensor([[0.0, 2.0], [2.0, 0.0]])), 4)
    0.6931
    """
    joint_KK = counts_KK / counts_KK.sum()
    independent_KK = joint_KK.sum(dim=1, keepdim=True) * joint_KK.sum(dim=0, keepdim=True)
    is_used = joint_KK > 0
    return float((joint_KK[is_used] * (joint_KK[is_used] / independent_KK[is_used]).log()).sum())


def look_twice(
    look: Callable[[Tensor], tuple[Tensor, ...]], pixels: PixelTensor, policy: Policy
) -> list[tuple[Tensor, ...]]:
    """Change some images twice; return what `look` finds in the first and in the second copies.

    `look` takes images (B, C, H, W) in [0, 1]. The copies are the same whenever this is called.
    """
    chance = torch_generator(0, "steadiness", pixels.device)
    rows = torch.randperm(len(pixels), generator=torch_generator(0, "judged"))[:_N_JUDGED]
    found = []
    with torch.inference_mode():
        for _ in range(2):
            parts = [look(augment(pixels.floats(idx), policy, chance)) for idx in torch.split(rows, _BLOCK)]
            found.append(tuple(torch.cat(part) for part in zip(*parts, strict=True)))
    return found


def steadiness(label: Callable[[Tensor], Tensor], pixels: PixelTensor, policy: Policy, n_clusters: int) -> float:
    """Return the mutual information of the labels of two changed copies of some images.

    `label` takes images (B, C, H, W) in [0, 1] to clusters (B,).
    """
    (first,), (second,) = look_twice(lambda x_BCHW: (label(x_BCHW),), pixels, policy)
    found = mutual_information(count_pairs(first, second, n_clusters))
    # Processes that share a training must prefer the same start, also where their machines round differently.
    return float(distributed.average(torch.tensor(found, device=pixels.device)))


def judge_by(
    build: Callable[[], Net],
    label: Callable[[Net, Tensor], Tensor],
    pixels: PixelTensor,
    policy: Policy,
    n_clusters: int,
) -> Callable[[State], float]:
    """Return what tells the steadiness of a saved state.

    `build` makes the network the state belongs to, `label` takes it and images to scores (B, K).
    """

    def judge(state: State) -> float:
        with seeded_init(0):
            net = build().to(pixels.device)
        unpack_module("net", net, state.arrays)
        net.eval()
        return steadiness(lambda x_BCHW: label(net, x_BCHW).argmax(dim=1), pixels, policy, n_clusters)

    return judge
