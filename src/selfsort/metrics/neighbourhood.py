"""Who is near whom, and how well features keep neighbours together: k-NN purity, trustworthiness, 1-NN error.

Everything runs over blocks of rows, so memory grows with N and never with N x N. Equal distances are ordered by
index, lowest first.

Shape letters: N points, K neighbours, D features, B rows of a block.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import sqrt
from typing import Any

import numpy as np
import numpy.typing as npt

from selfsort.errors import invalid
from selfsort.metrics.labels import check_labels
from selfsort.pages import all_finite
from selfsort.progress import track
from selfsort.types import F64, I64


def knn_purity(
    neighbours_idx: npt.ArrayLike,
    truth: npt.ArrayLike,
    ks: Sequence[int] | None = None,
    *,
    rows: I64 | None = None,
    block: int = 65_536,
) -> F64:
    """Return, for each k of `ks`, the mean fraction of a point's k nearest neighbours that share its class.

    Args:
        neighbours_idx: (N, K) rows of each point's neighbours, nearest first, the point itself left out.
        truth: (N,) true classes.
        rows: which points are judged, if not all; then there is a row of neighbours for each of these.
        ks: numbers of neighbours to count; 1..K if not given.
        block: rows judged together.

    >>> knn_purity([[1, 2], [0, 2], [1, 0]], [0, 0, 1]).round(2).tolist()
    [0.67, 0.33]
    """
    truth_N = check_labels("truth", truth)
    judged = np.arange(len(truth_N)) if rows is None else rows
    neighbours_NK = _check_neighbours(neighbours_idx, len(judged), len(truth_N))
    n_items, n_ranks = neighbours_NK.shape
    wanted = np.arange(1, n_ranks + 1) if ks is None else np.asarray(ks)
    is_counting = wanted.dtype.kind in "iu" and wanted.ndim == 1 and wanted.size > 0
    if not is_counting or wanted.min() < 1 or wanted.max() > n_ranks:
        requirement = f"be whole numbers between 1 and the number of neighbours given ({n_ranks})"
        raise invalid("ks", requirement, wanted.tolist(), "Change ks or search for more neighbours.")
    hits_K = np.zeros(n_ranks, dtype=np.int64)
    for part in _blocks(n_items, block, "k-NN purity"):
        near_BK, own_B1 = neighbours_NK[part], judged[part, None]
        if (near_BK == own_B1).any():
            remedy = "Drop the first column if the search returned each point as its own nearest."
            raise invalid("neighbours_idx", "leave each point itself out", "a point among its own neighbours", remedy)
        hits_K += (truth_N[near_BK] == truth_N[own_B1]).sum(axis=0)
    purity: F64 = np.cumsum(hits_K)[wanted - 1] / (n_items * wanted)
    return purity


def nearest(points: npt.ArrayLike, n_neighbours: int, rows: I64 | None = None, *, block: int = 1024) -> I64:
    """Return the (N, K) nearest other points of each, or of those at some rows, nearest first.

    Distances are rounded to nine digits of the points' spread: the last bits of a matrix product depend on the number
    of threads, and the answer must not.

    >>> nearest([[0.0], [1.0], [5.0]], 2).tolist()
    [[1, 2], [0, 2], [1, 0]]
    """
    points_ND = _check_points("points", points)
    if not 1 <= n_neighbours < len(points_ND):
        requirement = f"lie between 1 and the number of other points ({len(points_ND) - 1})"
        raise invalid("n_neighbours", requirement, n_neighbours, "Ask for fewer neighbours or add points.")
    del points  # wide ones are large, and from here on there is a copy
    rows = np.arange(len(points_ND)) if rows is None else rows
    points_ND -= points_ND.mean(axis=0)
    points_ND /= sqrt(float(_squared_norms(points_ND).mean())) or 1.0
    norm_N = _squared_norms(points_ND)
    idx_NK = np.empty((len(rows), n_neighbours), dtype=np.int64)
    for start in range(0, len(rows), block):
        own_B = rows[start : start + block]
        distance_BN = np.round(_squared_distances(points_ND[own_B], points_ND, norm_N), 9)
        near_BK = np.sort(_nearest(_leave_self_out(distance_BN, own_B), n_neighbours), axis=1)
        order_BK = np.argsort(np.take_along_axis(distance_BN, near_BK, axis=1), axis=1, kind="stable")
        idx_NK[start : start + len(own_B)] = np.take_along_axis(near_BK, order_BK, axis=1)
    return idx_NK


def trustworthiness(
    x_input: npt.ArrayLike, x_embedded: npt.ArrayLike, n_neighbors: int = 12, *, block: int = 256
) -> float:
    """T(K): 1 if every neighbour in the embedding was a neighbour in the input, less the further off it was.

    Args:
        x_input: (N, ...) the data before embedding; images are flattened.
        x_embedded: (N, D) the same points after it.
        n_neighbors: K, below N / 2.
        block: rows whose distances to all N points are held at a time.
    """
    input_ND, embedded_ND = _check_points("x_input", x_input), _check_points("x_embedded", x_embedded)
    n_items = len(input_ND)
    if len(embedded_ND) != n_items:
        got, remedy = f"{n_items} and {len(embedded_ND)}", "Embed every point once, in the same order."
        raise invalid("x_input and x_embedded", "have the same number of rows", got, remedy)
    if not 1 <= n_neighbors < n_items / 2:
        # From N / 2 on the sum below can pass its normaliser, and T would leave [0, 1].
        remedy = "Lower n_neighbors or add points."
        raise invalid("n_neighbors", f"lie between 1 and half the number of points ({n_items})", n_neighbors, remedy)
    input_ND, embedded_ND = input_ND - _origin(input_ND), embedded_ND - _origin(embedded_ND)
    input_norm_N, embedded_norm_N = _squared_norms(input_ND), _squared_norms(embedded_ND)
    penalty = 0
    for rows in _blocks(n_items, block, "trustworthiness"):
        embedded_BN = _squared_distances(embedded_ND[rows], embedded_ND, embedded_norm_N)
        own_B = np.arange(n_items)[rows]
        near_BK = _nearest(_leave_self_out(embedded_BN, own_B), n_neighbors)
        input_BN = _squared_distances(input_ND[rows], input_ND, input_norm_N)
        rank_BK = _ranks(_leave_self_out(input_BN, own_B), near_BK)
        # The definition sums over neighbours that were not among the K nearest before: exactly those of rank > K.
        penalty += int(np.maximum(rank_BK - n_neighbors, 0).sum())
    worst = n_items * n_neighbors * (2 * n_items - 3 * n_neighbors - 1)
    return 1 - 2 * penalty / worst


def one_nn_error(
    train_emb: npt.ArrayLike,
    train_y: npt.ArrayLike,
    test_emb: npt.ArrayLike | None = None,
    test_y: npt.ArrayLike | None = None,
    *,
    block: int = 256,
) -> float:
    """Return the fraction of points whose nearest reference point is of another class.

    With test points the training points are the reference. Without them the training points are judged against each
    other, each left out of its own search.

    >>> one_nn_error([[0.0], [1.0]], [0, 1], [[0.2], [0.4], [0.8], [0.9]], [0, 1, 1, 1])
    0.25
    >>> one_nn_error([[0.0], [0.1], [5.0], [5.1]], [0, 0, 0, 1])
    0.5
    """
    reference_ND, reference_y = _check_labelled("train_emb", train_emb, "train_y", train_y)
    is_self = test_emb is None
    if test_emb is None or test_y is None:
        if test_emb is not None or test_y is not None:
            remedy = "Give both to judge test points, or neither to leave one out."
            raise invalid("test_emb and test_y", "be given together", "one of them", remedy)
        query_MD, query_y = reference_ND, reference_y
    else:
        query_MD, query_y = _check_labelled("test_emb", test_emb, "test_y", test_y)
    if query_MD.shape[1] != reference_ND.shape[1]:
        got = f"{reference_ND.shape[1]} and {query_MD.shape[1]}"
        raise invalid("train_emb and test_emb", "have the same features", got, "Embed both with the same model.")
    if is_self and len(reference_ND) < 2:
        raise invalid("train_emb", "hold at least 2 points to leave one out", 1, "Add points, or give test points.")
    origin = _origin(reference_ND)
    query_MD, reference_ND = query_MD - origin, reference_ND - origin
    norm_N = _squared_norms(reference_ND)
    errors = 0
    for rows in _blocks(len(query_MD), block, "1-NN error"):
        distance_BN = _squared_distances(query_MD[rows], reference_ND, norm_N)
        if is_self:
            _leave_self_out(distance_BN, np.arange(len(query_MD))[rows])
        errors += int((reference_y[distance_BN.argmin(axis=1)] != query_y[rows]).sum())
    return errors / len(query_MD)


def _blocks(n_items: int, block: int, what: str) -> Iterator[slice]:
    if block < 1:
        raise invalid("block", "be at least 1", block, "Give the number of rows to take together.")
    starts = range(0, n_items, block)
    for start in track(starts, what, n_items, lambda begin: min(block, n_items - begin)):
        yield slice(start, start + block)


def _origin(points_ND: F64) -> F64:
    """Find a point near the middle from which distances can be computed without losing digits.

    Distances come from a matrix product, which cancels badly when all points lie far from zero. Whole numbers keep
    pixels whole, so that equal images have exactly equal distances.
    """
    middle: F64 = np.rint(points_ND.mean(axis=0))
    return middle


def _squared_norms(points_ND: F64) -> F64:
    norms: F64 = np.einsum("nd,nd->n", points_ND, points_ND)
    return norms


def _squared_distances(query_BD: F64, reference_ND: F64, norm_N: F64) -> F64:
    distance_BN: F64 = query_BD @ reference_ND.T
    distance_BN *= -2
    distance_BN += _squared_norms(query_BD)[:, None]
    distance_BN += norm_N
    return distance_BN


def _leave_self_out(distance_BN: F64, own_B: I64) -> F64:
    """Put each point infinitely far from itself, in place."""
    distance_BN[np.arange(len(distance_BN)), own_B] = np.inf
    return distance_BN


def _nearest(distance_BN: F64, n_neighbors: int) -> I64:
    """(B, K) columns of the smallest entries of each row, in no particular order; ties go to the lowest column."""
    near_BK: I64 = np.argpartition(distance_BN, n_neighbors - 1, axis=1)[:, :n_neighbors]
    furthest_B = np.take_along_axis(distance_BN, near_BK, axis=1).max(axis=1)
    # argpartition chooses freely among equal distances; only rows tied at the border need the full sort.
    is_tied_B = (distance_BN <= furthest_B[:, None]).sum(axis=1) > n_neighbors
    for row in np.flatnonzero(is_tied_B):
        near_BK[row] = np.argsort(distance_BN[row], kind="stable")[:n_neighbors]
    return near_BK


def _ranks(distance_BN: F64, column_BK: I64) -> I64:
    """(B, K) place of each given column in its row's order of distances, counting from 1."""
    rank_BK = np.empty(column_BK.shape, dtype=np.int64)
    for k, column_B in enumerate(column_BK.T):
        limit_B1 = np.take_along_axis(distance_BN, column_B[:, None], axis=1)
        # K counts over the block are several times cheaper than sorting it.
        rank_BK[:, k] = 1 + np.count_nonzero(distance_BN < limit_B1, axis=1)
        is_equal_BN = distance_BN == limit_B1
        for row in np.flatnonzero(np.count_nonzero(is_equal_BN, axis=1) > 1):
            rank_BK[row, k] += np.count_nonzero(is_equal_BN[row, : column_B[row]])
    return rank_BK


def _check_points(name: str, points: npt.ArrayLike) -> F64:
    array: npt.NDArray[Any] = np.asarray(points)
    if array.ndim < 2 or 0 in array.shape:
        remedy = "Reshape a single feature with x[:, None]."
        raise invalid(name, "be an array of points by features, none of them empty", f"shape {array.shape}", remedy)
    if array.dtype.kind not in "iubf":
        raise invalid(name, "hold numbers", array.dtype, "Convert the array with astype(float).")
    points_ND: F64 = array.reshape(len(array), -1).astype(np.float64)
    if not all_finite(points_ND):
        raise invalid(name, "be finite", "NaN or infinity", "Look for the training step that produced it.")
    return points_ND


def _check_labelled(
    points_name: str, points: npt.ArrayLike, labels_name: str, labels: npt.ArrayLike
) -> tuple[F64, I64]:
    points_ND, labels_N = _check_points(points_name, points), check_labels(labels_name, labels)
    if len(points_ND) != len(labels_N):
        got = f"{len(points_ND)} and {len(labels_N)}"
        raise invalid(f"{points_name} and {labels_name}", "have the same length", got, "Give one label per point.")
    return points_ND, labels_N


def _check_neighbours(neighbours_idx: npt.ArrayLike, n_rows: int, n_items: int) -> npt.NDArray[np.integer[Any]]:
    array: npt.NDArray[Any] = np.asarray(neighbours_idx)
    if array.ndim != 2 or array.shape[1] == 0 or len(array) != n_rows:
        requirement = f"have one row of neighbours per true label ({n_rows})"
        raise invalid(
            "neighbours_idx", requirement, f"shape {array.shape}", "Search among the points that truth names."
        )
    if array.dtype.kind not in "iu":
        remedy = "Give the rows of the neighbours, not their distances."
        raise invalid("neighbours_idx", "hold whole numbers of an integer type", array.dtype, remedy)
    if array.min() < 0 or array.max() >= n_items:
        got, remedy = f"{array.min()}..{array.max()}", "Search among the points that truth names."
        raise invalid("neighbours_idx", f"lie between 0 and {n_items - 1}", got, remedy)
    return array
