"""Copies and bursts count once: pictures that stand in a data set several times must not fill each other's lists.

A copy is far nearer than anything else. An image and its m nearest are one picture when the m-th is much nearer than
the one after it (a gap in the list of distances), nearer than neighbours usually are, and when the others say the
same of nearly the same images. A sequence of views (an object that rotates) is no such group: its members' nearest
differ.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.sparse import coo_array, csr_array, eye_array
from scipy.sparse.csgraph import connected_components

from selfsort.graph.communities import in_order
from selfsort.graph.neighbours import Neighbours
from selfsort.types import F32, I64

GAP = 0.6
"""The last copy is nearer than this share of the distance to the next image ..."""
NEAR = 0.6
"""... and than this share of the usual distance to a tenth neighbour."""
_LONGEST = 10
# Two images that belong together name mostly the same ones: at least this share of those that either names.
_SAME = 0.7


@dataclass(frozen=True, eq=False)
class Distinct:
    """Pictures, each once."""

    group: I64
    """(N,) which picture each image shows, in the order of first images."""
    first: I64
    """(P,) the first image of each picture."""
    neighbours: Neighbours
    """Of the P pictures among each other. Lists are as long as the shortest: a place in it that no other picture
    fills has index -1 and an infinite distance."""

    def __len__(self) -> int:
        return len(self.first)


def exact_copies(features: F32) -> tuple[I64, I64]:
    """Return which distinct row each row is (N,), and the first row of each (P,)."""
    rows = np.ascontiguousarray(features)
    rows = rows + np.zeros(1, dtype=rows.dtype)  # minus zero is zero, bit by bit
    as_bytes = rows.view(np.dtype((np.void, rows.dtype.itemsize * rows.shape[1]))).ravel()
    _, first, inverse = np.unique(as_bytes, return_index=True, return_inverse=True)
    group = in_order(inverse.ravel())
    return group, np.sort(first).astype(np.int64)


def find_copies(neighbours: Neighbours) -> I64:
    """Return which picture each image shows (N,), in the order of first images."""
    n_items, n_kept = neighbours.idx.shape
    distance = np.sqrt(neighbours.sq_dist.astype(np.float64))
    is_copy = np.zeros(neighbours.idx.shape, dtype=bool)
    longest = min(_LONGEST, n_kept - 1)
    if longest > 0:
        usual = float(np.median(distance[:, min(9, n_kept - 1)]))
        near = distance[:, :longest]
        is_last = (near < GAP * distance[:, 1 : longest + 1]) & (near < NEAR * usual)
        n_copies = np.where(is_last.any(axis=1), longest - np.argmax(is_last[:, ::-1], axis=1), 0)
        is_copy = np.arange(n_kept) < n_copies[:, None]
    named = _table(is_copy, neighbours) + eye_array(n_items, format="csr")
    mutual = coo_array(named.multiply(named.T))
    n_named = np.asarray(named.sum(axis=1)).ravel()
    shared = np.asarray(named[mutual.row].multiply(named[mutual.col]).sum(axis=1)).ravel()
    is_same = shared >= _SAME * (n_named[mutual.row] + n_named[mutual.col] - shared)
    agreed = csr_array((np.ones(is_same.sum()), (mutual.row[is_same], mutual.col[is_same])), shape=(n_items, n_items))
    # What is equal is equal from both sides, even where a list has no room for all of them.
    equal = _table(distance == 0, neighbours)
    _, group = connected_components(agreed + equal, directed=False)
    return in_order(group)


def _table(is_named: npt.NDArray[np.bool_], neighbours: Neighbours) -> csr_array:
    """Return who names whom, at these places of the lists."""
    rows, places = np.nonzero(is_named)
    n_items = len(neighbours)
    return csr_array((np.ones(len(rows)), (rows, neighbours.idx[rows, places])), shape=(n_items, n_items))


def count_once(neighbours: Neighbours) -> Distinct:
    """Join the copies, and give every picture the nearest other pictures of its first image."""
    group = find_copies(neighbours)
    _, first = np.unique(group, return_index=True)
    idx: I64 = group[neighbours.idx[first]]
    sq_dist = neighbours.sq_dist[first].copy()
    order = np.argsort(idx, axis=1, kind="stable")
    ordered = np.take_along_axis(idx, order, axis=1)
    is_again = np.zeros(idx.shape, dtype=bool)
    repeats = np.pad(ordered[:, 1:] == ordered[:, :-1], ((0, 0), (1, 0)))
    np.put_along_axis(is_again, order, repeats, axis=1)
    is_again |= idx == np.arange(len(first))[:, None]
    idx[is_again], sq_dist[is_again] = -1, np.inf
    to_front = np.argsort(is_again, axis=1, kind="stable")
    moved = Neighbours(
        np.take_along_axis(idx, to_front, axis=1), np.take_along_axis(sq_dist, to_front, axis=1), neighbours.n_asked
    )
    return Distinct(group, first.astype(np.int64), moved)
