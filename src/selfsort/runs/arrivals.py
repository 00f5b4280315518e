"""Where new pictures belong: in a group of the run, aside, or in a group of their own.

The nearest pictures of the run vote. A new one that is much farther from its group than is usual there fits nowhere;
so does one that is rather far and whose nearest are nearly all new as well. Of these, those that are nearer to each
other than to the run, and enough, are proposed as a new group. One on which the vote is divided is doubtful. What fits
nowhere and what is doubtful is put aside, as outliers are.

Shape letters: N pictures of the run, M new ones, D features, K clusters.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from selfsort.classic.method import VoteModel
from selfsort.graph.knn import nearest_neighbours
from selfsort.improve.vote import voters
from selfsort.trust.outliers import FAR, excess
from selfsort.types import F32, I64

RATHER_FAR, AMONG_NEW = 1.0, 0.8
"""Usual deviations beyond which a picture may be of a kind of its own, if this share of its nearest is new."""
_N_AROUND = 10
DOUBTFUL = 0.5
"""A vote below this share is divided."""
SMALLEST_GROUP = 5
"""So many pictures that fit nowhere else are a group."""
_NTH = 5
"""Distances are those to the fifth nearest, as one copy says little."""
ASIDE = -1


@dataclass(frozen=True, eq=False)
class Arrived:
    """Where new pictures were put."""

    labels: I64
    """(M,) clusters of the run, new ones from `first_new` on, -1 for those put aside."""
    confidence: F32
    first_new: int
    n_new: int
    """Groups that are proposed."""
    n_nowhere: int
    n_doubtful: int


def place(old: F32, labels: I64, new: F32, first_new: int, device: torch.device) -> Arrived:
    """Find the places of new pictures.

    Args:
        old: (N, D) features of the run.
        labels: (N,) its clusters as they hold now, -1 for outliers.
        new: (M, D) features of the new pictures.
        first_new: the first number that no cluster has had.
        device: where neighbours are searched.
    """
    inside = labels >= 0
    old, labels = old[inside], labels[inside]
    soft = VoteModel(voters(old, labels, int(labels.max()) + 1), device).assign(new)
    found: I64 = soft.argmax(axis=1).astype(np.int64)
    sure: F32 = soft.max(axis=1)
    is_nowhere = _is_far(old, labels, new, found, device)
    is_doubtful = ~is_nowhere & (sure < DOUBTFUL)
    rows = np.flatnonzero(is_nowhere)
    groups = _groups(new[rows], old, device)
    found[is_nowhere | is_doubtful] = ASIDE
    found[rows] = np.where(groups >= 0, first_new + groups, ASIDE)
    return Arrived(
        found, sure, first_new, int(groups.max(initial=-1)) + 1, int((groups < 0).sum()), int(is_doubtful.sum())
    )


def _is_far(
    old: F32, labels: I64, new: F32, found: I64, device: torch.device
) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Say which new pictures are much farther from the run's than these usually are from each other."""
    nth = min(_NTH, len(old) - 1)
    own = np.sqrt(nearest_neighbours(old, nth, device=device).sq_dist[:, -1].astype(np.float64))
    theirs = np.sqrt(nearest_neighbours(old, nth, queries=new, device=device).sq_dist[:, -1].astype(np.float64))
    # Beside the run's own, so that each is judged by the cluster it would go to; new ones do not change what is usual.
    both, where = np.concatenate([own, theirs]), np.concatenate([labels, np.full(len(found), int(labels.max()) + 1)])
    far = excess(both, where, np.concatenate([labels, found]))[len(own) :]
    all_rows = np.concatenate([old, new])
    near = nearest_neighbours(all_rows, min(_N_AROUND + 1, len(all_rows)), queries=new, device=device)
    # Itself is among them, and is new.
    share = ((near.idx >= len(old)).sum(axis=1) - 1) / max(near.idx.shape[1] - 1, 1)
    nowhere: np.ndarray[tuple[int], np.dtype[np.bool_]] = (far > FAR) | ((far > RATHER_FAR) & (share >= AMONG_NEW))
    return nowhere


def _groups(rows: F32, old: F32, device: torch.device) -> I64:
    """Number the groups among pictures that fit nowhere (M,), largest first; -1 for those that are alone."""
    none: I64 = np.full(len(rows), -1, np.int64)
    if len(rows) < SMALLEST_GROUP:
        return none
    near = nearest_neighbours(rows, min(_NTH, len(rows) - 1), device=device)
    to_run = nearest_neighbours(old, 1, queries=rows, device=device).sq_dist[:, :1]
    # Nearer to each other than either is to anything in the run.
    left, at = np.nonzero(near.sq_dist < np.minimum(to_run, to_run[near.idx, 0]))
    links = coo_array((np.ones(len(left)), (left, near.idx[left, at])), shape=(len(rows), len(rows))).tocsr()
    _, part = connected_components(links, directed=False)
    sizes = np.bincount(part)
    order = np.argsort(-sizes, kind="stable")
    number = np.full(len(sizes), -1, np.int64)
    kept = order[sizes[order] >= SMALLEST_GROUP]
    number[kept] = np.arange(len(kept))
    found: I64 = number[part]
    return found
