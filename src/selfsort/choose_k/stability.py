"""Do the same clusters appear again from another seed, and from a part of the images?"""

from __future__ import annotations

import numpy as np
from sklearn.metrics import adjusted_rand_score

from selfsort.choose_k.evidence import Criterion
from selfsort.graph.neighbours import Neighbours
from selfsort.graph.tree import MergeTree
from selfsort.types import F64, I64

_STABLE = 0.95


def keep_rows(neighbours: Neighbours, rows: I64) -> Neighbours:
    """Return the neighbours of some rows among themselves, from longer lists of all: exact as far as they reach."""
    place = np.full(len(neighbours) + 1, -1, dtype=np.int64)
    place[rows] = np.arange(len(rows))
    idx = place[neighbours.idx[rows]]
    is_gone = idx < 0
    sq_dist = np.where(is_gone, np.float32(np.inf), neighbours.sq_dist[rows])
    order = np.argsort(is_gone, axis=1, kind="stable")
    return Neighbours(
        np.take_along_axis(idx, order, axis=1), np.take_along_axis(sq_dist, order, axis=1), neighbours.n_asked
    )


def stability(tree: MergeTree, others: list[tuple[I64, MergeTree]], ks: I64) -> Criterion:
    """Compare clusters with those found from other seeds and subsamples, at every number.

    Args:
        tree: merges of all items.
        others: rows of a sample, and the merges of these rows alone.
        ks: numbers to look at.

    Returns:
        The mean adjusted Rand index. The answer is the largest number that is as good as stable, or the most stable.
    """
    values = np.array([np.mean([_agreement(tree, rows, other, int(k)) for rows, other in others]) for k in ks])
    return Criterion("stability", ks, values, largest_good(ks, values, min(_STABLE, float(values.max(initial=0)))))


def largest_good(ks: I64, values: F64, level: float) -> int:
    """Return the largest number whose value reaches a level.

    >>> largest_good(np.array([2, 3, 4]), np.array([0.9, 0.96, 0.5]), 0.9)
    3
    """
    good = ks[values >= level]
    return int(good.max(initial=1))


def _agreement(tree: MergeTree, rows: I64, other: MergeTree, k: int) -> float:
    if not (tree.n_clusters <= k <= tree.n_start and other.n_clusters <= k <= other.n_start):
        return 0.0
    return float(adjusted_rand_score(tree.cut(k)[rows], other.cut(k)))
