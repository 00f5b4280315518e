"""Do augmented images fall into the cluster of the image they were made from?

Each augmented image is labelled by a vote of its nearest images, its own left out. Clusters that an augmentation
crosses are parts of one.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from sklearn.metrics import adjusted_rand_score

from selfsort.choose_k.evidence import Criterion
from selfsort.choose_k.stability import largest_good
from selfsort.graph.affinity import vote
from selfsort.graph.knn import nearest_neighbours
from selfsort.graph.neighbours import Neighbours
from selfsort.graph.tree import MergeTree
from selfsort.types import F32, I64

_N_VOTERS = 10
# Agreement within this much of the best is as good.
_SLACK = 0.005


def view_neighbours(features: F32, views: Sequence[F32], device: torch.device) -> list[Neighbours]:
    """Find the images nearest to each augmented image, the one it was made from left out."""
    own = np.arange(len(features))[:, None]
    found = []
    for view in views:
        near = nearest_neighbours(features, _N_VOTERS + 1, queries=view, device=device)
        order = np.argsort(near.idx == own, axis=1, kind="stable")[:, : max(near.n_neighbours - 1, 1)]
        found.append(
            Neighbours(
                np.take_along_axis(near.idx, order, axis=1), np.take_along_axis(near.sq_dist, order, axis=1), _N_VOTERS
            )
        )
    return found


def view_agreement(tree: MergeTree, neighbours: list[Neighbours], ks: I64) -> Criterion:
    """Return the mean adjusted Rand index between clusters of images and of their augmented views."""
    values = np.zeros(len(ks))
    for place, k in enumerate(ks):
        labels = tree.cut(int(k))
        for near in neighbours:
            scale = float(near.sq_dist.mean(dtype=np.float64)) or 1.0
            said = vote(near, labels, int(k), scale).argmax(axis=1)
            values[place] += adjusted_rand_score(labels, said) / len(neighbours)
    return Criterion("views", ks, values, largest_good(ks, values, float(values.max(initial=0)) - _SLACK))
