"""Nearest neighbours of every image: exact by blocks of one matrix product, or by an approximate index.

The matrix product gives rough distances |q|^2 + |x|^2 - 2 q.x; the best few of each row are measured again by
their definition, so near-duplicates lose nothing to cancellation, and order and ties do not depend on how the
product was blocked or threaded. A row whose K-th neighbour cannot be told from the items left out, given the
rounding error of the product, is searched again in full.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from selfsort.errors import invalid, missing_extra
from selfsort.graph._kernels.knn import refine, rescan, scan_columns, scan_rows
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
    search = _check(features, queries, torch.device(device), block_bytes)
    idx, sq_dist = _tables(len(search.rows), _clamp(n_neighbours, search))
    n_kept = idx.shape[1]
    if n_kept == 0:
        return Neighbours(idx, sq_dist, n_neighbours)
    n_candidates = min(n_kept + _N_SPARE, search.n_others)
    find = _candidates_by_pairs if search.is_self and search.device.type == "cpu" else _candidates_by_rows
    candidates, worst_sq = find(search, n_candidates)
    _in_threads(refine, 0, len(search.rows), search.rows, search.features, candidates, idx, sq_dist)
    if n_candidates < search.n_others:
        # An item left out is truly at least (worst candidate - slack) away: is that surely beyond the K-th?
        slack = _rounding_slack(search)
        open_rows = np.flatnonzero(worst_sq - slack <= sq_dist[:, -1])
        if len(open_rows):
            _search_again(search, open_rows, slack, idx, sq_dist)
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
    search = _check(features, queries, torch.device("cpu"), block_bytes=0)
    table, rows = search.features, search.rows
    idx, sq_dist = _tables(len(rows), _clamp(n_neighbours, search))
    n_kept = idx.shape[1]
    # faiss asks for at least 39 training points per cell and says so on stderr.
    n_cells = max(1, min(int(4 * len(table) ** 0.5), len(table) // 39))
    index = faiss.IndexIVFFlat(faiss.IndexFlatL2(table.shape[1]), table.shape[1], n_cells)
    index.cp.seed = 0
    index.train(table)
    index.add(table)
    index.nprobe = min(n_probe, n_cells)
    n_block = 4096
    n_candidates = min(n_kept + _N_SPARE + search.is_self, len(table))
    starts = range(0, len(rows), n_block) if n_kept else range(0)
    for start in track(starts, "approximate neighbours", len(starts)):
        block = slice(start, min(start + n_block, len(rows)))
        _, candidates = index.search(rows[block], n_candidates)
        if search.is_self:
            candidates[candidates == np.arange(block.start, block.stop)[:, None]] = -1
        is_short = (candidates >= 0).sum(axis=1) < n_kept
        _in_threads(refine, 0, len(candidates), rows[block], table, candidates, idx[block], sq_dist[block])
        for i in start + np.flatnonzero(is_short):  # the visited cells held too few items: rare, so one by one
            everyone = np.arange(len(table))[None, :]
            everyone[search.is_self & (everyone == i)] = -1
            idx[i], sq_dist[i] = -1, np.inf
            refine(0, 1, rows[i : i + 1], table, everyone, idx[i : i + 1], sq_dist[i : i + 1])
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


@dataclass(frozen=True, eq=False)
class _Search:
    """What is searched for, where, and with what means."""

    features: F32
    rows: F32
    is_self: bool
    """The rows are the features, and a row is not its own neighbour."""
    device: torch.device
    block_bytes: int

    @property
    def n_others(self) -> int:
        return len(self.features) - self.is_self

    def n_block(self, n_rows: int) -> int:
        """Return how many rows of rough distances to hold at once."""
        return max(1, min(self.block_bytes // (4 * len(self.features)), n_rows))


def _check(
    features: npt.NDArray[Any], queries: npt.NDArray[Any] | None, device: torch.device, block_bytes: int
) -> _Search:
    table = _as_table("features", features)
    rows = table if queries is None else _as_table("queries", queries)
    if rows.shape[1] != table.shape[1]:
        raise invalid(
            "queries", f"have as many columns as features ({table.shape[1]})", rows.shape[1], "Use the same features."
        )
    return _Search(table, rows, queries is None, device, block_bytes)


def _as_table(name: str, values: npt.NDArray[Any]) -> F32:
    table = np.ascontiguousarray(values, dtype=np.float32)
    if table.ndim != 2 or table.size == 0:
        raise invalid(
            name, "be a table with at least one row and column", f"shape {table.shape}", "Flatten each image."
        )
    if not np.isfinite(table).all():
        raise invalid(name, "be finite", "NaN or infinity", "Look for a training run that diverged.")
    return table


def _clamp(n_neighbours: int, search: _Search) -> int:
    if n_neighbours < 1:
        raise invalid("n_neighbours", "be at least 1", n_neighbours, "Raise n_neighbours.")
    return min(n_neighbours, search.n_others)


def _tables(n_rows: int, n_kept: int) -> tuple[I64, F32]:
    return np.full((n_rows, n_kept), -1, dtype=np.int64), np.full((n_rows, n_kept), np.inf, dtype=np.float32)


def _candidates_by_pairs(search: _Search, n_candidates: int) -> tuple[I64, F64]:
    """Find each row's roughly nearest others, and the rough squared distance of the last of them.

    Distances are symmetric: a block of rows is multiplied with itself and what comes after it only, and each product
    is offered to both of its items. That is half of the full matrix product.
    """
    n_items = len(search.features)
    idx, rough = _tables(n_items, n_candidates)
    worst = rough[:, -1].copy()
    half_sq = (_squares(search.features) / 2).astype(np.float32)
    features_ND = torch.from_numpy(search.features)
    n_block = search.n_block(n_items)
    buffer = torch.empty(n_block * n_items, dtype=torch.float32)
    shapes = [(start, min(n_block, n_items - start), n_items - start) for start in range(0, n_items, n_block)]
    n_pairs = sum(n_rows * n_cols for _, n_rows, n_cols in shapes)
    for start, n_rows, n_cols in track(shapes, "nearest neighbours", n_pairs, lambda shape: shape[1] * shape[2]):
        product = buffer[: n_rows * n_cols].view(n_rows, n_cols)
        torch.mm(features_ND[start : start + n_rows], features_ND[start:].T, out=product)
        product.diagonal().fill_(-torch.inf)  # nobody is its own neighbour
        _in_threads(scan_rows, 0, n_rows, start, product.numpy(), half_sq, idx, rough, worst)
        _in_threads(scan_columns, n_rows, n_cols, start, product.numpy(), half_sq, idx, rough, worst)
    return idx, 2 * (worst.astype(np.float64) + half_sq)


def _candidates_by_rows(search: _Search, n_candidates: int) -> tuple[I64, F64]:
    """Find the same by whole rows of distances and torch's top-k: for other queries, and on accelerators."""
    found, worst_sq = [], []
    for block, rough_BN in _rough_rows(search, np.arange(len(search.rows)), "nearest neighbours"):
        best = torch.topk(rough_BN, n_candidates, dim=1, largest=False)
        found.append(best.indices.cpu().numpy())
        worst_sq.append(best.values[:, -1].double().cpu().numpy() + _squares(search.rows[block]))
    return np.concatenate(found), np.concatenate(worst_sq)


def _search_again(search: _Search, open_rows: I64, slack: F64, idx: I64, sq_dist: F32) -> None:
    """Search these rows in full, measuring every item that the rough distance does not rule out."""
    for block, rough_BN in _rough_rows(search, open_rows, "close neighbours"):
        margin = slack[block] - _squares(search.rows[block])
        rough, rows = rough_BN.cpu().numpy(), search.rows[block]
        found_idx, found_dist = idx[block], sq_dist[block]
        _in_threads(rescan, 0, len(block), rows, search.features, rough, margin, found_idx, found_dist)
        idx[block], sq_dist[block] = found_idx, found_dist


def _rough_rows(search: _Search, chosen: I64, what: str) -> Iterator[tuple[I64, torch.Tensor]]:
    """Yield blocks of the chosen rows with |x|^2 - 2 q.x for every item x, infinite for a row's own item."""
    features_ND = torch.from_numpy(search.features).to(search.device)
    squares_1N = torch.from_numpy(_squares(search.features).astype(np.float32)).to(search.device)[None, :]
    n_block = search.n_block(len(chosen))
    buffer = torch.empty((n_block, len(search.features)), dtype=torch.float32, device=search.device)
    starts = range(0, len(chosen), n_block)
    for start in track(starts, what, len(starts)):
        block = chosen[start : start + n_block]
        query_BD = torch.from_numpy(search.rows[block]).to(search.device)
        rough_BN = torch.addmm(squares_1N, query_BD, features_ND.T, alpha=-2, out=buffer[: len(block)])
        if search.is_self:
            own_B = torch.from_numpy(block).to(search.device)
            rough_BN[torch.arange(len(block), device=search.device), own_B] = torch.inf
        yield block, rough_BN


def _in_threads(kernel: Callable[..., None], begin: int, end: int, *arguments: Any) -> None:
    """Run a kernel on begin..end in as many parts as torch has threads; the parts share nothing they write."""
    cuts = np.linspace(begin, end, torch.get_num_threads() + 1).astype(int).tolist()
    with ThreadPoolExecutor(len(cuts) - 1) as pool:
        parts = [pool.submit(kernel, a, b, *arguments) for a, b in pairwise(cuts) if a < b]
    for part in parts:
        part.result()


def _squares(rows: F32) -> F64:
    squares: F64 = np.einsum("qd,qd->q", rows, rows, dtype=np.float64)
    return squares


def _rounding_slack(search: _Search) -> F64:
    """Bound the rounding error of a rough squared distance, for each row.

    A float32 sum of D products is off by at most about D units of rounding times |q||x|, in any order.
    """
    reach = np.sqrt(_squares(search.rows)) + np.sqrt(_squares(search.features).max())
    slack: F64 = (search.rows.shape[1] + 8) * 2.0**-24 * reach**2
    return slack
