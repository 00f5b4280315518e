"""The tables of merging: flat arrays of records, on which every stage agrees. Letters are those of `agglomerate`."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from selfsort.types import F64, I64

I32 = npt.NDArray[np.int32]
I8 = npt.NDArray[np.int8]
Records = npt.NDArray[Any]

# The frontier of a cluster Q: items v outside it with r(v), arriving from Q, and c(v), leaving to Q; each item once.
# It lies in chunks, one per start cluster. Item -1 is an entry out of use. The rank counts the entries of a frontier
# that has an index.
FRONT = np.dtype([("item", "i4"), ("rank", "i4"), ("arriving", "f8"), ("leaving", "f8")], align=True)
# The handle of the item's cluster; scratch: where the item is in the smaller cluster's frontier, -1 between merges.
ITEM = np.dtype([("label", "i4"), ("place", "i4")])
CHUNK = np.dtype([("next", "i4"), ("begin", "i8"), ("end", "i8")], align=True)
CLUSTER = np.dtype(
    [
        ("name", "i4"),
        ("first_item", "i4"),
        ("last_item", "i4"),
        ("first_chunk", "i4"),
        ("last_chunk", "i4"),
        ("first_half", "i4"),
        ("last_half", "i4"),
        ("best", "i4"),  # handle of the closest cluster, -1 for none
        ("index", "i4"),  # row of the index of its frontier, -1 for none
        ("n_front", "i4"),  # entries of the frontier, some of them perhaps out of use
        ("n_ranks", "i4"),  # entries that its index has ever had
        ("tree_id", "i8"),  # number in the merge history
        ("size", "i8"),
        ("best_affinity", "f8"),
        ("kth_affinity", "f8"),  # smallest affinity that the score depends on
    ],
    align=True,
)
HALF = np.dtype(
    [
        ("other", "i4"),  # handle of the cluster at the other end, or DEAD
        ("twin", "i4"),  # the half-edge of that cluster, -1 while there is none
        ("next", "i4"),  # linked list of a cluster's half-edges
        ("flow", "f8"),  # U arriving at this end from the other
        ("affinity", "f8"),  # A of the two ends, the same on both halves
    ],
    align=True,
)
NAME = np.dtype([("handle", "i4"), ("score", "f8")], align=True)  # handle -1 and score -1 for names out of use
MERGE = np.dtype(
    [
        ("first", "i8"),  # number in the history of the cluster with the lower name
        ("second", "i8"),
        ("name", "i8"),
        ("old_name", "i8"),
        ("affinity", "f8"),
        ("size", "i8"),
    ]
)

DEAD = -1
# Frontiers that have an index: the last few clusters are the wide ones, and more would be used little.
N_WIDE = 8
# Places in MergeState.counts.
N_LIVE, N_MERGED, N_FREE = 0, 1, 2
# What `run` says when it stops.
DONE, ISOLATED, FULL = 0, 1, 2
# How the weight arriving at a merged cluster is found.
EXACT, APPROX_SIZE, APPROX_ALPHA = 0, 1, 2


# Compiled code on disk refers to the two classes below by name: a new name needs the old one to stay importable.


class MergeRule(NamedTuple):
    """What to merge and how to update."""

    update: int
    alpha: float
    structure_weight: float
    n_structure: int


class MergeState(NamedTuple):
    """All that changes while merging: n items, c start clusters, h places of half-edges, p a power of two >= c."""

    items: Records  # (n,) ITEM
    next_item: I32  # (n,) linked list of a cluster's items
    front: Records  # FRONT
    chunks: Records  # (c,) CHUNK
    clusters: Records  # (c,) CLUSTER by handle
    names: Records  # (p,) NAME
    winner: I32  # (2p,) tournament over names
    halves: Records  # (h,) HALF
    free: I32  # (h,) stack of unused places of half-edges
    counts: I64  # (3,)
    wide: I32  # (w,) handles of the clusters whose frontiers have an index, -1 for a free row
    places: I32  # (w, n) where in the frontier each item is, -1 for nowhere
    merges: Records  # (c,) MERGE
    # Scratch:
    found: I32  # (n,)
    shared: I64  # (n,)
    half_to: I32  # (c,) half-edge from the cluster being merged to each other one, else -1
    cross: F64  # (c,) cross terms of the exact update
    crossed: I32  # (c,) clusters that have such terms
    top: F64  # (n_structure,)
