"""Regroup the pieces of clusters, where that is at least as stable; ours, off unless asked for.

A method that learns from its own guesses cannot correct them: classes that fell together at the start are taught to be
the same, and a class that was cut stays cut. Both show without labels. Cut every cluster into a few pieces by its
features, augment every image twice, and count which pieces the two views fall into: between pieces of one class images
wander, between classes they do not. Then join pieces, always the two whose joining costs the least mutual information
of the two views, until as many are left as there are clusters (the agglomerative information bottleneck of Slonim and
Tishby, NIPS 1999, on this table). If those are as stable as the clusters were, the network is taught them, and goes on
learning as its method says.

Shape letters: N images, B batch, C, H, W image, D features, K clusters, P pieces.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from selfsort import distributed
from selfsort.augment.policy import Policy
from selfsort.classic.kmeans import kmeans
from selfsort.improve.stability import Probe, probe_twice
from selfsort.learning.batches import InputTensor, shuffled_batches
from selfsort.learning.checkpoint import to_numpy
from selfsort.learning.epoch import run_epoch
from selfsort.learning.seeds import torch_generator
from selfsort.learning.trainee import Trainee
from selfsort.metrics.information import mutual_information
from selfsort.metrics.stability import count_pairs
from selfsort.types import F64, I64

# Pieces of a cluster; fewer where there would be more than so many in all. Smaller clusters, among those judged, stay
# whole.
_N_PIECES, _MOST_PIECES, _SMALLEST = 4, 1000, 20
# Images that new clusters are taught on.
_N_TAUGHT = 10_000
# Borders between pieces are rough, which costs a little stability that learning gives back.
_LEAST_GAIN = -0.005
# Share of the images that change their cluster: below, there is nothing to teach; above, these are no better clusters
# but others, and the features do not know the classes yet. Of few clusters, one and a half may always move.
_LEAST_MOVED, _MOST_MOVED, _MOST_CLUSTERS_MOVED = 0.005, 0.25, 1.5
# The rest of the training is for settling.
_REGROUPING_SHARE = 0.85
_BLOCK = 500


def is_due(before: int, done: int, n_total: int, every: int) -> bool:
    """Whether to regroup now that, of all units of training, so many are done; `before` is the count last time.

    >>> [n for n in range(1, 61) if is_due(n - 1, n, 60, 10)]
    [10, 20, 30, 40, 50]
    """
    return done // every > before // every and done <= _REGROUPING_SHARE * n_total


@dataclass(frozen=True, eq=False)
class Regrouping:
    """New clusters, made of pieces of the old ones."""

    centres: dict[int, Tensor]
    """Centres of the pieces (at most P / K, D) of each cluster that was cut."""
    groups: Tensor
    """The new cluster of each piece."""
    gain: float
    """In stability, nats."""

    def relabel(self, labels_N: Tensor, features_ND: Tensor) -> Tensor:
        """Return the new labels."""
        return self.groups[number_pieces(labels_N, features_ND, self.centres)]


def regroup(probe: Probe, pixels: InputTensor, policy: Policy, n_clusters: int) -> Regrouping:
    """Find the new clusters; those that change least keep their numbers."""
    (labels_N, features_ND), (others_N, other_features_ND) = probe_twice(probe, pixels, policy)
    centres = cut_clusters(labels_N, features_ND, n_clusters)
    first_N = number_pieces(labels_N, features_ND, centres)
    second_N = number_pieces(others_N, other_features_ND, centres)
    counts_PP = count_pairs(to_numpy(first_N), to_numpy(second_N), _N_PIECES * n_clusters)
    used = np.flatnonzero(counts_PP.sum(axis=0) + counts_PP.sum(axis=1))
    counts: F64 = counts_PP[np.ix_(used, used)].astype(np.float64)
    before = used // _N_PIECES
    groups = renumbered(join_pieces(counts, n_clusters), before, counts.sum(axis=0) + counts.sum(axis=1), n_clusters)
    now, then = (mutual_information(_added_up(counts, numbers, n_clusters)) for numbers in (before, groups))
    groups_P = torch.arange(_N_PIECES * n_clusters) // _N_PIECES
    groups_P[used] = torch.from_numpy(groups)
    # Processes that share a training must decide alike, also where their machines round differently.
    gain = float(distributed.average(torch.tensor(then - now, device=pixels.device)))
    return Regrouping(centres, groups_P.to(pixels.device), gain)


def cut_clusters(labels_N: Tensor, features_ND: Tensor, n_clusters: int) -> dict[int, Tensor]:
    """Return the centres of the pieces of each cluster by k-means, for those that are large enough."""
    n_pieces, centres = min(_N_PIECES, _MOST_PIECES // n_clusters), {}
    for cluster in range(n_clusters):
        members = features_ND[labels_N == cluster]
        if n_pieces > 1 and len(members) >= _SMALLEST:
            found = kmeans(to_numpy(members), n_pieces, seed=0, n_restarts=3).centroids
            centres[cluster] = torch.from_numpy(found).to(features_ND)
    return centres


def number_pieces(labels_N: Tensor, features_ND: Tensor, centres: dict[int, Tensor]) -> Tensor:
    """Number the pieces of cluster c from 4 c on, by the nearest centre; a cluster that stays whole is its first."""
    pieces_N = _N_PIECES * labels_N
    for cluster, centres_PD in centres.items():
        rows = torch.nonzero(labels_N == cluster)[:, 0]
        pieces_N[rows] += torch.cdist(features_ND[rows], centres_PD).argmin(dim=1)
    return pieces_N


def join_pieces(counts_PP: F64, n_groups: int) -> I64:
    """Join the two pieces whose joining costs the least mutual information until `n_groups` are left.

    With f(x) = x log x the information is the sum of f over the table less that over its row and column sums. What
    joining a and b does to it needs the sum over j of f(p_aj + p_bj), which is kept for all pairs, up to date.
    """
    p_PP = (counts_PP + counts_PP.T) / (2 * counts_PP.sum())
    groups = np.arange(len(p_PP))
    joined_PP = np.stack([_f(p_P + p_PP).sum(axis=1) for p_P in p_PP])
    alive = np.arange(len(p_PP))
    while len(p_PP) > n_groups:
        a, b = np.unravel_index(_change_by_joining(p_PP, joined_PP).argmax(), p_PP.shape)
        a, b = min(a, b), max(a, b)
        groups[groups == alive[b]] = alive[a]
        to_a, to_b = (p_PP[:, i, None] + p_PP[None, :, i] for i in (a, b))
        joined_PP += _f(to_a + to_b) - _f(to_a) - _f(to_b)
        p_PP[a] += p_PP[b]
        p_PP[:, a] += p_PP[:, b]
        p_PP, joined_PP = (np.delete(np.delete(table, b, axis=0), b, axis=1) for table in (p_PP, joined_PP))
        joined_PP[a] = joined_PP[:, a] = _f(p_PP[a] + p_PP).sum(axis=1)
        alive = np.delete(alive, b)
    numbers: I64 = np.unique(groups, return_inverse=True)[1].astype(np.int64)
    return numbers


def _change_by_joining(p_PP: F64, joined_PP: F64) -> F64:
    """Return what joining each pair of a symmetric table does to the information; nothing is joined to itself."""
    f_PP, own_P, sum_P = _f(p_PP), np.diag(p_PP), p_PP.sum(axis=1)
    row_P, f_own_P, f_sum_P = f_PP.sum(axis=1), _f(own_P), _f(sum_P)
    # The four cells where the two rows meet the two columns become one.
    rest_PP = joined_PP - _f(own_P[:, None] + p_PP) - _f(own_P[None] + p_PP)
    after_PP = 2 * rest_PP + _f(own_P[:, None] + 2 * p_PP + own_P[None])
    before_PP = 2 * (row_P[:, None] + row_P[None]) - f_own_P[:, None] - f_own_P[None] - 2 * f_PP
    sums_PP = _f(sum_P[:, None] + sum_P[None]) - f_sum_P[:, None] - f_sum_P[None]
    change_PP: F64 = after_PP - before_PP - 2 * sums_PP
    np.fill_diagonal(change_PP, -np.inf)
    return change_PP


def _f(x: F64) -> F64:
    found: F64 = x * np.log(np.where(x > 0, x, 1.0))
    return found


def renumbered(groups_P: I64, before_P: I64, weights_P: F64, n_clusters: int) -> I64:
    """Give the groups the numbers of the clusters they have most in common with, so that the network changes least."""
    from scipy.optimize import linear_sum_assignment

    shared_KK = np.zeros((n_clusters, n_clusters))
    np.add.at(shared_KK, (groups_P, before_P), weights_P)
    numbers: I64 = linear_sum_assignment(-shared_KK)[1].astype(np.int64)[groups_P]
    return numbers


def _added_up(counts_PP: F64, numbers_P: I64, n_clusters: int) -> F64:
    is_in = np.eye(n_clusters)[numbers_P]
    counts_KK: F64 = is_in.T @ counts_PP @ is_in
    return counts_KK


def propose(
    probe: Probe, pixels: InputTensor, rows_N: Tensor, policy: Policy, n_clusters: int
) -> tuple[Tensor | None, dict[str, float | int]]:
    """Return new labels for some images, or None if the clusters had better stay, and what there is to say."""
    found = regroup(probe, pixels, policy, n_clusters)
    with torch.inference_mode():
        parts = [probe(pixels.floats(idx)) for idx in torch.split(rows_N, _BLOCK)]
        labels_N, features_ND = (torch.cat(part) for part in zip(*parts, strict=True))
        new_N = found.relabel(labels_N, features_ND)
    moved = float((new_N != labels_N).double().mean())
    most_moved = max(_MOST_MOVED, _MOST_CLUSTERS_MOVED / n_clusters)
    is_better = found.gain >= _LEAST_GAIN and _LEAST_MOVED <= moved <= most_moved
    event = {"regrouping_gain": found.gain, "regrouping_moves": moved, "regrouped": int(is_better)}
    # A copy made outside may take part in what is differentiated later.
    return new_N.clone() if is_better else None, event


def regroup_and_teach(trainee: Trainee, n_clusters: int) -> dict[str, float | int]:
    """Regroup the clusters of a network in training if that is as stable, and teach it; return what there is to say."""
    order = torch_generator(trainee.begin_teaching(), "mending")  # the stream's name is older than ours for the thing
    pixels = trainee.pixels
    rows_N = torch.randperm(len(pixels), generator=order)[:_N_TAUGHT]
    trainee.net.eval()
    labels_N, event = propose(trainee.probe, pixels, rows_N, trainee.policy, n_clusters)
    if labels_N is None:
        return event
    trainee.net.train()
    run_epoch(
        lambda place_B: trainee.teaching_loss(rows_N[place_B], labels_N[place_B.to(labels_N.device)]),
        shuffled_batches(len(rows_N), min(trainee.batch_size, len(rows_N)), order, drop_last=True),
        trainee.optimizer,
        what="teaching regrouped clusters",
        total=len(rows_N),
    )
    distributed.average_buffers(trainee.net)
    return event
