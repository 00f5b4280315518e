"""Nearest neighbours of every image: exact by blocks of one matrix product, or by an approximate index.

The matrix product gives rough distances |q|^2 + |x|^2 - 2 q.x; the best few of each row are measured again by
their definition, so near-duplicates lose nothing to cancellation, and order and ties do not depend on how the
product was blocked or threaded. A row whose K-th neighbour cannot be told from the items left out, given the
rounding error of the product, is searched again in full.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from selfsort.errors import invalid, missing_extra
from selfsort.graph._knn_kernels import refine, rescan
from selfsort.graph.neighbours import Neighbours
from selfsort.progress import track
from selfsort.types import F32, F64, I64

__all__ = ["Neighbours", "approximate_neighbours", "find_neighbours", "nearest_neighbours"]

# Candidates beyond K that the rough search hands to the exact one.
_N_SPARE = 8


def nearest_neighbours(
    features: npt.NDArray[Any],
    n_neighbours: int,
    *,
    queries: npt.NDArray[Any] | None = None,
    device: str | torch.device = "cpu",
    block_bytes: int = 256 * 2**20,
) -> Neighbours:
    """Find the exact nearest rows of `features`.

    Args:
        features: (N, D) finite numbers, used as float32.
        n_neighbours: K. With fewer items than that, all of them are returned (see `Neighbours.is_short`).
        queries: (Q, D) rows to search for. Without it every row of `features` is searched for among the others;
            a row is never its own neighbour, its exact duplicates are.
        device: where the matrix product runs.
        block_bytes: memory for one block of rough distances.
    """
    features, rows, n_kept = _check(features, n_neighbours, queries)
    is_self = queries is None
    idx, sq_dist = _tables(len(rows), n_kept)
    n_candidates = min(n_kept + _N_SPARE, len(features))
    features_ND = torch.from_numpy(features).to(device)
    rows_QD = features_ND if is_self else torch.from_numpy(rows).to(device)
    norms_N = torch.linalg.vector_norm(features_ND, dim=1)
    own_sq = np.einsum("qd,qd->q", rows, rows, dtype=np.float64)
    slack_Q = _rounding_slack(rows_QD, norms_N)
    n_block = max(1, min(block_bytes // (4 * len(features)), len(rows)))
    rough = torch.empty((n_block, len(features)), device=device)
    starts = range(0, len(rows), n_block) if n_kept else range(0)
    for start in track(starts, "nearest neighbours", len(starts)):
        block = slice(start, min(start + n_block, len(rows)))
        rough_BN = rough[: block.stop - start]
        query_BD = rows_QD[block]
        # |x|^2 - 2 q.x ranks a row as the distance does; |q|^2 is added to the few values that are used.
        torch.addmm(norms_N[None, :] ** 2, query_BD, features_ND.T, alpha=-2, out=rough_BN)
        if is_self:
            rough_BN.diagonal(offset=start).fill_(torch.inf)
        best = torch.topk(rough_BN, n_candidates, dim=1, largest=False)
        candidates = best.indices.masked_fill_(torch.isinf(best.values), -1).cpu().numpy()
        refine(rows[block], features, candidates, idx[block], sq_dist[block])
        # An item left out is truly at least (worst candidate - slack) away: is that surely beyond the K-th?
        edge = best.values[:, -1].double().cpu().numpy() + own_sq[block] - slack_Q[block]
        is_open = (edge <= sq_dist[block, -1]) & (n_candidates < len(features))
        if is_open.any():
            again = np.flatnonzero(is_open)
            found_idx, found_dist = idx[start + again], sq_dist[start + again]
            rough_rows = rough_BN[torch.from_numpy(again).to(device)].cpu().numpy()
            margin = slack_Q[start + again] - own_sq[start + again]
            rescan(rows[start + again], features, rough_rows, margin, found_idx, found_dist)
            idx[start + again], sq_dist[start + again] = found_idx, found_dist
    return Neighbours(idx, sq_dist, n_neighbours)


def approximate_neighbours(
    features: npt.NDArray[Any],
    n_neighbours: int,
    *,
    queries: npt.NDArray[Any] | None = None,
    n_probe: int = 32,
) -> Neighbours:
    """Find most of the nearest rows by an inverted-file index (faiss), for data sets too large for the exact search.

    The distances of what is found are exact. A higher `n_probe` (cells visited per query, of about
    4 sqrt(N)) finds more and takes longer. Same conventions as `nearest_neighbours`.
    """
    try:
        import faiss  # an optional extra, and slow to load
    except ImportError:
        raise missing_extra("faiss-cpu", "The approximate neighbour search", "approx") from None
    features, rows, n_kept = _check(features, n_neighbours, queries)
    is_self = queries is None
    idx, sq_dist = _tables(len(rows), n_kept)
    # faiss asks for at least 39 training points per cell and says so on stderr.
    n_cells = max(1, min(int(4 * len(features) ** 0.5), len(features) // 39))
    index = faiss.IndexIVFFlat(faiss.IndexFlatL2(features.shape[1]), features.shape[1], n_cells)
    index.cp.seed = 0
    index.train(features)
    index.add(features)
    index.nprobe = min(n_probe, n_cells)
    n_block = 4096
    n_candidates = min(n_kept + _N_SPARE + is_self, len(features))
    starts = range(0, len(rows), n_block) if n_kept else range(0)
    for start in track(starts, "approximate neighbours", len(starts)):
        block = slice(start, min(start + n_block, len(rows)))
        _, candidates = index.search(rows[block], n_candidates)
        if is_self:
            candidates[candidates == np.arange(block.start, block.stop)[:, None]] = -1
        is_short = (candidates >= 0).sum(axis=1) < n_kept
        refine(rows[block], features, candidates, idx[block], sq_dist[block])
        for i in start + np.flatnonzero(is_short):  # the visited cells held too few items: rare, so one by one
            idx[i], sq_dist[i] = _search_one(features, rows[i], n_kept, int(i) if is_self else -1)
    return Neighbours(idx, sq_dist, n_neighbours)


def find_neighbours(
    features: npt.NDArray[Any],
    n_neighbours: int,
    *,
    queries: npt.NDArray[Any] | None = None,
    device: str | torch.device = "cpu",
    exact_limit: int | None = None,
) -> Neighbours:
    """Search exactly up to `exact_limit` items (None: always), approximately above it."""
    if exact_limit is not None and len(features) > exact_limit:
        return approximate_neighbours(features, n_neighbours, queries=queries)
    return nearest_neighbours(features, n_neighbours, queries=queries, device=device)


def _check(features: npt.NDArray[Any], n_neighbours: int, queries: npt.NDArray[Any] | None) -> tuple[F32, F32, int]:
    """Return features and query rows as float32, and the number of neighbours there really are."""
    features = _as_table("features", features)
    rows = features if queries is None else _as_table("queries", queries)
    if rows.shape[1] != features.shape[1]:
        raise invalid(
            "queries",
            f"have as many columns as features ({features.shape[1]})",
            rows.shape[1],
            "Use the same features.",
        )
    if n_neighbours < 1:
        raise invalid("n_neighbours", "be at least 1", n_neighbours, "Raise n_neighbours.")
    n_others = len(features) - (queries is None)
    return features, rows, min(n_neighbours, n_others)


def _as_table(name: str, values: npt.NDArray[Any]) -> F32:
    table = np.ascontiguousarray(values, dtype=np.float32)
    if table.ndim != 2 or table.size == 0:
        raise invalid(
            name, "be a table with at least one row and column", f"shape {table.shape}", "Flatten each image."
        )
    if not np.isfinite(table).all():
        raise invalid(name, "be finite", "NaN or infinity", "Look for a training run that diverged.")
    return table


def _tables(n_rows: int, n_kept: int) -> tuple[I64, F32]:
    return np.full((n_rows, n_kept), -1, dtype=np.int64), np.full((n_rows, n_kept), np.inf, dtype=np.float32)


def _rounding_slack(rows_QD: torch.Tensor, norms_N: torch.Tensor) -> F64:
    """Bound the rounding error of a rough distance, for each query.

    A float32 sum of D products is off by at most about D units of rounding times |q||x|, in any order.
    """
    n_terms = rows_QD.shape[1] + 8
    reach_Q = (torch.linalg.vector_norm(rows_QD, dim=1) + norms_N.max()).double()
    slack: F64 = (n_terms * 2.0**-24 * reach_Q**2).cpu().numpy()
    return slack


def _search_one(features: F32, query: F32, n_kept: int, own_idx: int) -> tuple[I64, F32]:
    everyone = np.arange(len(features), dtype=np.int64)[None, :]
    everyone[everyone == own_idx] = -1
    idx, sq_dist = _tables(1, n_kept)
    refine(query[None, :], features, everyone, idx, sq_dist)
    return idx[0], sq_dist[0]
