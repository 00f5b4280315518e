"""What a person has put right teaches the rest: corrected images pull those that are like them.

A picture that was moved belongs with those of its new cluster (must-link) and not with those it was among
(cannot-link). One that was marked wrong does not belong where it is. Labels spread over the graph of nearest
neighbours: those of corrected images with full weight, all others with little. Where the spread of the corrections
alone changes the answer, the answer changes; elsewhere the labels stay. A corrected image keeps what the person said,
whatever its neighbours are.

Shape letters: N images, D features, K clusters.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array, diags_array

from selfsort.graph.knn import nearest_neighbours
from selfsort.types import F32, F64, I64

N_NEAR = 10
"""Neighbours that an image passes its label on to, where clusters are large enough: at most half of one."""
_FEWEST_NEAR = 3
SPREAD = 0.8
"""Share of what an image has from its neighbours, as in Zhou et al., NIPS 2004."""
UNCONFIRMED = 0.05
"""Weight of a label that nobody has looked at, against one for those that somebody has."""
_N_ROUNDS = 40


@dataclass(frozen=True, eq=False)
class Said:
    """What a person has said of single images."""

    rows: I64
    """(C,) images whose cluster is confirmed: moved, or taken out by a split."""
    labels: I64
    """(C,) their clusters."""
    wrong: I64
    """(W,) images marked wrong where they are."""


def learn(features: F32, labels: I64, said: Said, n_clusters: int) -> I64:
    """Return labels (N,) that have learned from corrections.

    Args:
        features: (N, D) of the run.
        labels: (N,) as corrected.
        said: which of them a person has decided.
        n_clusters: K, the numbers that clusters may have.
    """
    if not len(said.rows) and not len(said.wrong):
        return labels.copy()
    half = len(labels) // (2 * max(len(np.unique(labels)), 1))
    graph = passing_on(features, min(N_NEAR, max(_FEWEST_NEAR, half)))
    trusted = np.full(len(labels), UNCONFIRMED)
    before = spread(graph, labels, trusted, n_clusters)
    trusted[said.rows] = 1
    trusted[said.wrong] = 0
    after = spread(graph, labels, trusted, n_clusters)
    after[said.wrong, labels[said.wrong]] = -1
    was, now = before.argmax(axis=1), after.argmax(axis=1)
    found: I64 = np.where(was == now, labels, now)
    found[said.wrong] = now[said.wrong]
    found[said.rows] = said.labels
    return found


def passing_on(features: F32, n_near: int = N_NEAR) -> csr_array:
    """Return how much each image passes on to each other: symmetric, normalised by what they have."""
    near = nearest_neighbours(features, min(n_near, len(features) - 1))
    distance = near.sq_dist.astype(np.float64)
    usual = np.maximum(distance[:, -1:], 1e-12)  # dense and thin regions pass on alike
    weight = np.exp(-distance / usual)
    n, k = near.idx.shape
    table = csr_array((weight.ravel(), (np.repeat(np.arange(n), k), near.idx.ravel())), shape=(n, n))
    both = table.maximum(table.T)
    root = diags_array(1 / np.sqrt(np.maximum(np.asarray(both.sum(axis=1)).ravel(), 1e-12)))
    return csr_array(root @ both @ root)


def spread(graph: csr_array, labels: I64, weight: F64, n_clusters: int) -> F64:
    """Let labels spread until nearly nothing changes (N, K)."""
    start: npt.NDArray[np.float64] = np.zeros((len(labels), n_clusters))
    start[np.arange(len(labels)), labels] = weight
    found = start.copy()
    for _ in range(_N_ROUNDS):
        found = SPREAD * (graph @ found) + (1 - SPREAD) * start
    return found
