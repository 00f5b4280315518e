"""How far clusters are apart in the graph, for every number of them; the criterion the rule rests on.

Fine communities are merged pair by pair, always the two that leak most into each other. The leak of two clusters is
the share of the ties of one that go to the other, counted inside the two, plus the same seen from the other: 0 for
separate pieces, about 1 for the halves of a random graph. It is near twice the conductance of the cut.

The leak at k, of the merge that leads from k clusters to k - 1, falls slowly with k while halves of clusters are put
together, and fast once clusters are. So it is compared with what the larger numbers lead to expect: a line through
their logarithms. As long as a number lies well below its line, the evidence for so many clusters grows; it shrinks
where the line holds. A small leak as such speaks for a number too, a large one against it, and so does a jump to the
next number. The answer is where the sum is largest. No unit of the data enters.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array

from selfsort.choose_k.evidence import Criterion
from selfsort.graph.absorb import member_sums
from selfsort.graph.communities import find_communities, in_order
from selfsort.graph.tree import BY_AFFINITY, BY_ISOLATION, MergeTree
from selfsort.types import F32, F64, I64

EXPECTED_SHARE = 0.7
"""A leak below this share of the expected one speaks for the number, one above it against it."""
SMALL_LEAK = 0.005
"""So does a leak below this much for each neighbour in a list: longer lists reach into other clusters more often ..."""
SMALL_WEIGHT = 0.2
"""... with this weight."""
JUMP_WEIGHT = 0.15
"""What it counts for that the next number lies nearer to its line by a factor of e."""
_MOST = 0.7
"""What a comparison can add to the evidence, or take from it: pieces that do not touch would outweigh the rest."""
_LONGEST_JUMP = 3.0
_REACH = 2.5
"""The line for k is drawn through the numbers up to this many times k, and not from fewer than the next."""
_LEAST_REACH = 1.4
_STEEPEST = 0.7
"""Leaks of halves grow at most like this power of the number, in data of any dimension above one."""
_PIECE = 3
"""Pieces of fewer images than this many times the neighbours say more about the graph than about the data."""
_FAINTEST = 0.1
"""Leaks below this share of a small one are none: their ratios are accidents of single images."""
_MOST_COMMUNITIES = 2000


@dataclass(frozen=True, eq=False)
class Leaks:
    """The leak at every number of clusters in one graph, with the widths of its lists."""

    n_items: int
    n_neighbours: int
    at: F64
    """at[k] is the largest leak on the way from k clusters to one; at[0] and at[1] are not numbers."""

    @property
    def largest_k(self) -> int:
        """The largest number worth looking at."""
        return int(min(len(self.at) - 1, self.n_items // (_PIECE * self.n_neighbours)))


def separation_tree(
    graph: csr_array, features: F32, *, smallest: int = 5, resolution: float = 12.0, seed: int = 0
) -> MergeTree:
    """Merge fine communities by their leak, down to one.

    Communities with fewer images than `smallest` (half a list of neighbours) go to the one they are tied to most, or
    to the nearest centroid: a few outliers are no cluster. The affinity of a merge is the leak.
    """
    most = min(_MOST_COMMUNITIES, max(graph.shape[0] // (2 * smallest), 2))
    labels = find_communities(graph, resolution=resolution, seed=seed).labels
    while labels.max() >= most and resolution > 1:  # crumbs of a small data set
        resolution /= 2
        labels = find_communities(graph, resolution=resolution, seed=seed).labels
    labels = _without_tiny(graph, features, labels, smallest)
    return _merge(_ties(graph, labels), labels)


def leaks(trees: list[MergeTree], n_neighbours: int) -> Leaks:
    """Return the leak at every number, the geometric mean over the better half of trees of the same graph.

    A tree that begins badly leaks more than it must. And a merge may make a cluster that leaks more than any did
    before: what counts at k is the largest leak still to come.
    """
    n_numbers = min(tree.n_start for tree in trees) + 1
    none = _FAINTEST * SMALL_LEAK * n_neighbours
    logs = [np.log(np.maximum(tree.affinity[::-1][: n_numbers - 2], none)) for tree in trees]
    better = np.sort(logs, axis=0)[: (len(trees) + 1) // 2]
    largest = np.maximum.accumulate(np.exp(better.mean(axis=0)))
    return Leaks(len(trees[0].start), n_neighbours, np.concatenate([[np.nan, np.nan], largest]))


def leaks_between(graph: csr_array, labels: I64, n_clusters: int) -> F64:
    """Return the leak of each two clusters into each other (K, K); zero on the diagonal."""
    leak: F64 = np.maximum(_leak_rows(_ties(graph, labels, n_clusters), np.arange(n_clusters)), 0)
    return leak


def shares(found: Leaks) -> F64:
    """Return the leak at k as a share of what the larger numbers lead to expect; not a number where they are few."""
    ks = np.arange(found.largest_k + 1)
    log_k, log_leak = np.log(np.maximum(ks, 1)), np.log(found.at[: len(ks)])
    share = np.full(len(ks), np.nan)
    for k in ks[2:]:
        beyond = ks[k + 1 : int(np.ceil(_REACH * k)) + 1]
        if len(beyond) < 2 or beyond[-1] < _LEAST_REACH * k:
            continue
        expected = _line(log_k[beyond] - log_k[k], log_leak[beyond], 1.0 / beyond)
        share[k] = np.exp(log_leak[k] - expected)
    return share


def separation(found: Leaks) -> Criterion:
    """Add the evidence up from 2 on.

    A number counts as much as its logarithm is away from the next: going from 2 to 4 is as far as from 20 to 40.
    """
    log_share = np.log(shares(found))
    below_line = np.clip(np.log(EXPECTED_SHARE) - log_share, -_MOST, _MOST)
    log_leak = np.log(found.at[: len(log_share)])
    is_small = np.clip(np.log(SMALL_LEAK * found.n_neighbours) - log_leak, -2 * _MOST, 2 * _MOST)
    gain = below_line + SMALL_WEIGHT * is_small
    jump = np.clip(np.append(np.diff(log_share), np.nan), 0, _LONGEST_JUMP)
    ks = np.flatnonzero(~np.isnan(gain))
    values = np.cumsum(gain[ks] / ks) + JUMP_WEIGHT * np.nan_to_num(jump[ks])
    answer = int(ks[values.argmax()]) if len(ks) and values.max() > 0 else 1
    return Criterion("separation", ks.astype(np.int64), values, answer)


def _line(x: F64, y: F64, weights: F64) -> float:
    """Fit a line by weighted least squares, its slope between 0 and the steepest, and return its value at 0."""
    mean_x, mean_y = np.average(x, weights=weights), np.average(y, weights=weights)
    spread = max(float(np.average((x - mean_x) ** 2, weights=weights)), 1e-12)
    slope = float(np.average((x - mean_x) * (y - mean_y), weights=weights)) / spread
    return float(mean_y - np.clip(slope, 0, _STEEPEST) * mean_x)


def _ties(graph: csr_array, labels: I64, n_clusters: int | None = None) -> F64:
    """Return the (C, C) weights between communities; the diagonal counts the weight inside twice."""
    n_items = len(labels)
    shape = (n_items, n_clusters or int(labels.max()) + 1)
    member = csr_array((np.ones(n_items), (np.arange(n_items), labels)), shape=shape)
    ties: F64 = (member.T @ graph @ member).toarray()
    return ties


def _without_tiny(graph: csr_array, features: F32, labels: I64, smallest: int) -> I64:
    sizes = np.bincount(labels)
    tiny = np.flatnonzero(sizes < smallest)
    if len(tiny) == 0 or len(tiny) == len(sizes):
        return labels
    ties = _ties(graph, labels)
    ties[:, tiny] = 0
    centroids = member_sums(features, labels, len(sizes)) / sizes[:, None]
    goes_to = np.arange(len(sizes))
    for c in tiny:
        away = ((centroids - centroids[c]) ** 2).sum(axis=1)
        away[tiny] = np.inf
        goes_to[c] = ties[c].argmax() if ties[c].max() > 0 else away.argmin()
    return in_order(goes_to[labels])


def _merge(ties: F64, labels: I64) -> MergeTree:
    """Merge the two clusters with the largest leak, again and again; ties of rank go to the lowest numbers."""
    n_start = len(ties)
    leak = _leak_rows(ties, np.arange(n_start))
    number = np.arange(n_start)
    is_alive = np.ones(n_start, dtype=bool)
    best = leak.argmax(axis=1)
    merges, affinity = [], []
    sizes = np.bincount(labels, minlength=n_start).tolist()
    for m in range(n_start - 1):
        i = int(leak[np.arange(n_start), best].argmax())
        j = int(best[i])
        i, j = min(i, j), max(i, j)
        affinity.append(float(leak[i, j]))
        merges.append((int(number[i]), int(number[j])))
        sizes.append(sizes[number[i]] + sizes[number[j]])
        number[i] = n_start + m
        ties[i] += ties[j]
        ties[:, i] += ties[:, j]
        ties[j] = ties[:, j] = 0
        leak[j] = leak[:, j] = -1
        is_alive[j] = False
        row = _leak_rows(ties, np.array([i]))[0]
        row[~is_alive] = -1
        leak[i], leak[:, i] = row, row
        stale = np.flatnonzero((best == i) | (best == j) | (leak[:, i] >= leak[np.arange(n_start), best]))
        best[stale] = leak[stale].argmax(axis=1)
        best[i] = leak[i].argmax()
    reasons = np.where(np.array(affinity) > 0, BY_AFFINITY, BY_ISOLATION).astype(np.int8)
    return MergeTree(
        labels, np.array(merges, dtype=np.int64).reshape(-1, 2), np.array(affinity), reasons, np.array(sizes)
    )


def _leak_rows(ties: F64, rows: I64) -> F64:
    """Return the leaks of some clusters with all; -1 with themselves."""
    inside = np.diag(ties)
    between = ties[rows]
    with np.errstate(invalid="ignore", divide="ignore"):
        leak = between / (inside[rows][:, None] + between) + between / (inside + between)
    leak = np.nan_to_num(leak, nan=0.0, posinf=0.0)
    leak[np.arange(len(rows)), rows] = -1
    return leak
