"""Nearest neighbours of every image, exactly, by blocks of one matrix product.

The matrix product gives rough distances |q|^2 + |x|^2 - 2 q.x; the best few of each row are measured again by
their definition, so near-duplicates lose nothing to cancellation, and order and ties do not depend on how the
product was blocked, threaded or shared among processes. A row whose K-th neighbour cannot be told from the items left
out, given the rounding error of the product, is searched again in full.

Of rows in a mapped file a few are in memory at a time: the product is then made in tiles, and pages are given back.

Several processes (torchrun) take turns at the blocks and put together what each has found.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from selfsort import distributed
from selfsort.errors import invalid
from selfsort.graph._kernels.knn import refine, rescan, scan_columns, scan_rows
from selfsort.graph.neighbours import Neighbours
from selfsort.pages import all_finite, forget, is_mapped, n_at_once, passes, scattered, take
from selfsort.progress import track
from selfsort.types import F32, F64, I64

__all__ = ["Neighbours", "as_table", "in_threads", "nearest_neighbours"]

# Candidates beyond K that the rough search hands to the exact one.
_N_SPARE = 8
# Blocks of each of several processes.
_N_TURNS = 8
# Rows whose candidates the processes exchange at once.
_N_TOGETHER = 65_536

_QUERY_NUMBERS = 2**24


def nearest_neighbours(
    features: npt.NDArray[Any],
    n_neighbours: int,
    *,
    queries: npt.NDArray[Any] | None = None,
    device: str | torch.device = "cpu",
    block_bytes: int = 256 * 2**20,
    is_shared: bool = False,
) -> Neighbours:
    """Find the exact nearest rows of `features`.

    Args:
        features: (N, D) finite numbers, used as float32.
        n_neighbours: K. With fewer items than that, all of them are returned (see `Neighbours.is_short`).
        queries: (Q, D) rows to search for. Without it every row of `features` is searched for among the others;
            a row is never its own neighbour, its exact duplicates are.
        device: where the matrix product runs.
        block_bytes: memory for one block of rough distances.
        is_shared: all processes of a job ask for this together, without queries, and each finds a part of the answer.
    """
    search = _check(features, queries, torch.device(device), block_bytes)
    idx, sq_dist = _tables(len(search.rows), _clamp(n_neighbours, search))
    n_kept = idx.shape[1]
    if n_kept == 0:
        return Neighbours(idx, sq_dist, n_neighbours)
    n_candidates = min(n_kept + _N_SPARE, search.n_others)
    if search.is_self and search.device.type == "cpu":
        candidates, worst_sq = _candidates_by_pairs(search, n_candidates, is_shared=is_shared)
    else:
        candidates, worst_sq = _candidates_by_rows(search, n_candidates)
    for begin, end in search.turns(n_candidates):
        in_threads(refine, begin, end, search.rows, search.features, candidates, idx, sq_dist)
    if n_candidates < search.n_others:
        # An item left out is truly at least (worst candidate - slack) away: is that surely beyond the K-th?
        slack = _rounding_slack(search)
        open_rows = np.flatnonzero(worst_sq - slack <= sq_dist[:, -1])
        if len(open_rows):
            _search_again(search, open_rows, slack, idx, sq_dist)
    return Neighbours(idx, sq_dist, n_neighbours)


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
        """Return how many rows of rough distances to all items to hold at once."""
        return max(1, min(self.block_bytes // (4 * len(self.features)), n_rows))

    def turns(self, n_each: int) -> Iterator[tuple[int, int]]:
        """Walk over the rows, each of which is measured against some items from everywhere."""
        if not is_mapped(self.features):
            yield from ((block.start, block.stop) for block in passes(self.rows))
            return
        for begin, end in scattered(self.features, len(self.rows), n_each + 1):
            yield begin, end
            forget(self.rows)

    def columns(self, start: int = 0) -> Iterator[tuple[int, int]]:
        """Walk over the items from one on: all at once, or of a mapped file as many as a pass holds."""
        if self.device.type != "cpu":  # where all of them are already
            yield start, len(self.features)
            return
        n_columns, n_items = n_at_once(self.features), len(self.features)
        for first in range(start, n_items, n_columns):
            yield first, min(first + n_columns, n_items)
            forget(self.features)


def _check(
    features: npt.NDArray[Any], queries: npt.NDArray[Any] | None, device: torch.device, block_bytes: int
) -> _Search:
    table = as_table("features", features)
    rows = table if queries is None else as_table("queries", queries)
    if rows.shape[1] != table.shape[1]:
        raise invalid(
            "queries", f"have as many columns as features ({table.shape[1]})", rows.shape[1], "Use the same features."
        )
    return _Search(table, rows, queries is None, device, block_bytes)


def as_table(name: str, values: npt.NDArray[Any]) -> F32:
    """Check a table of finite numbers, and return it as float32."""
    table = np.ascontiguousarray(values, dtype=np.float32)
    if table.ndim != 2 or table.size == 0:
        raise invalid(
            name, "be a table with at least one row and column", f"shape {table.shape}", "Flatten each image."
        )
    if not all_finite(table):
        raise invalid(name, "be finite", "NaN or infinity", "Look for a training run that diverged.")
    return table


def _clamp(n_neighbours: int, search: _Search) -> int:
    if n_neighbours < 1:
        raise invalid("n_neighbours", "be at least 1", n_neighbours, "Raise n_neighbours.")
    return min(n_neighbours, search.n_others)


def _tables(n_rows: int, n_kept: int) -> tuple[I64, F32]:
    return np.full((n_rows, n_kept), -1, dtype=np.int64), np.full((n_rows, n_kept), np.inf, dtype=np.float32)


def _candidates_by_pairs(search: _Search, n_candidates: int, *, is_shared: bool = False) -> tuple[I64, F64]:
    """Find each row's roughly nearest others, and the rough squared distance of the last of them.

    Distances are symmetric: a block of rows is multiplied with itself and what comes after it only, and each product
    is offered to both of its items. That is half of the full matrix product. Of several processes each takes some of
    the blocks.
    """
    n_items, n_columns = len(search.features), n_at_once(search.features)
    idx, rough = _tables(n_items, n_candidates)
    worst = rough[:, -1].copy()
    half_sq = (_squares(search.features) / 2).astype(np.float32)
    features_ND = torch.from_numpy(search.features)
    n_block = max(1, min(search.block_bytes // (4 * n_columns), n_columns))
    if is_shared and distributed.world_size() > 1:
        n_block = min(n_block, -(-n_items // (_N_TURNS * distributed.world_size())))
    buffer = torch.empty(n_block * n_columns, dtype=torch.float32)
    shapes = [(start, min(n_block, n_items - start), n_items - start) for start in range(0, n_items, n_block)]
    if is_shared:
        shapes = _turns_of(shapes, distributed.rank(), distributed.world_size())
    n_pairs = sum(n_rows * n_cols for _, n_rows, n_cols in shapes)
    for start, n_rows, _ in track(shapes, "nearest neighbours", n_pairs, lambda shape: shape[1] * shape[2]):
        rows_BD = features_ND[start : start + n_rows]
        if n_columns < n_items:
            rows_BD = rows_BD.clone()  # the pages of the file go with those of the columns
        for first, last in search.columns(start):
            product = buffer[: n_rows * (last - first)].view(n_rows, last - first)
            torch.mm(rows_BD, features_ND[first:last].T, out=product)
            n_both = n_rows if first == start else 0  # the rows are among the columns: as rows they see each other
            if n_both:
                product.diagonal().fill_(-torch.inf)  # nobody is its own neighbour
            in_threads(scan_rows, 0, n_rows, start, first, product.numpy(), half_sq, idx, rough, worst)
            in_threads(scan_columns, n_both, last - first, start, first, product.numpy(), half_sq, idx, rough, worst)
    if is_shared and distributed.world_size() > 1:
        _put_together(idx, rough)
        worst = rough[:, -1]
    return idx, 2 * (worst.astype(np.float64) + half_sq)


def _turns_of(shapes: list[tuple[int, int, int]], rank: int, n_processes: int) -> list[tuple[int, int, int]]:
    """Deal out blocks that grow smaller: there and back again, so that everyone has about as many pairs."""
    turns = (*range(n_processes), *reversed(range(n_processes)))
    return [shape for place, shape in enumerate(shapes) if turns[place % len(turns)] == rank]


def _put_together(idx: I64, rough: F32) -> None:
    """Keep of each row the best candidates of all processes, in place."""
    n_candidates, n_processes = idx.shape[1], distributed.world_size()
    for start in range(0, len(idx), _N_TOGETHER):
        block = slice(start, start + _N_TOGETHER)
        found_idx, found_rough = (_side_by_side(rows[block], n_processes) for rows in (idx, rough))
        order = np.lexsort((found_idx, found_rough), axis=1)[:, :n_candidates]
        idx[block] = np.take_along_axis(found_idx, order, axis=1)
        rough[block] = np.take_along_axis(found_rough, order, axis=1)


def _side_by_side(rows: npt.NDArray[Any], n_processes: int) -> npt.NDArray[Any]:
    """Return the columns of all processes beside each other."""
    of_all = distributed.gather_rows(torch.from_numpy(rows)).numpy().reshape(n_processes, *rows.shape)
    return np.concatenate(list(of_all), axis=1)


def _candidates_by_rows(search: _Search, n_candidates: int) -> tuple[I64, F64]:
    """Find the same by whole rows of distances and torch's top-k: for other queries, and on accelerators."""
    found, worst_sq = [], []
    for block, rough_BN in _rough_rows(search, np.arange(len(search.rows)), "nearest neighbours"):
        best = torch.topk(rough_BN, n_candidates, dim=1, largest=False)
        found.append(best.indices.cpu().numpy())
        worst_sq.append(best.values[:, -1].double().cpu().numpy() + _squares(take(search.rows, block)))
    return np.concatenate(found), np.concatenate(worst_sq)


def _search_again(search: _Search, open_rows: I64, slack: F64, idx: I64, sq_dist: F32) -> None:
    """Search these rows in full, measuring every item that the rough distance does not rule out."""
    for block, rough_BN in _rough_rows(search, open_rows, "close neighbours"):
        rough, rows = rough_BN.cpu().numpy(), take(search.rows, block)
        margin = slack[block] - _squares(rows)
        found_idx, found_dist = idx[block], sq_dist[block]
        for begin, end in scattered(search.features, len(block), idx.shape[1] + _N_SPARE):
            in_threads(rescan, begin, end, rows, search.features, rough, margin, found_idx, found_dist)
        idx[block], sq_dist[block] = found_idx, found_dist


def _rough_rows(search: _Search, chosen: I64, what: str) -> Iterator[tuple[I64, torch.Tensor]]:
    """Yield blocks of the chosen rows with |x|^2 - 2 q.x for every item x, infinite for a row's own item."""
    features_ND = torch.from_numpy(search.features).to(search.device)
    squares_1N = torch.from_numpy(_squares(search.features).astype(np.float32)).to(search.device)[None, :]
    # Wide rows are copied for the product: of these, fewer at a time.
    n_block = min(search.n_block(len(chosen)), max(1, _QUERY_NUMBERS // search.features.shape[1]))
    buffer = torch.empty((n_block, len(search.features)), dtype=torch.float32, device=search.device)
    starts = range(0, len(chosen), n_block)
    for start in track(starts, what, len(starts)):
        block = chosen[start : start + n_block]
        query_BD, rough_BN = torch.from_numpy(take(search.rows, block)).to(search.device), buffer[: len(block)]
        for first, last in search.columns():
            items_MD, squares_1M = features_ND[first:last], squares_1N[:, first:last]
            torch.addmm(squares_1M, query_BD, items_MD.T, alpha=-2, out=rough_BN[:, first:last])
        if search.is_self:
            own_B = torch.from_numpy(block).to(search.device)
            rough_BN[torch.arange(len(block), device=search.device), own_B] = torch.inf
        yield block, rough_BN


def in_threads(kernel: Callable[..., None], begin: int, end: int, *arguments: Any) -> None:
    """Run a kernel on begin..end in as many parts as torch has threads; the parts share nothing they write."""
    if end - begin == 1:  # not worth a thread: of a mapped file rows come one by one
        kernel(begin, end, *arguments)
        return
    cuts = np.linspace(begin, end, torch.get_num_threads() + 1).astype(int).tolist()
    with ThreadPoolExecutor(len(cuts) - 1) as pool:
        parts = [pool.submit(kernel, a, b, *arguments) for a, b in pairwise(cuts) if a < b]
    for part in parts:
        part.result()


def _squares(rows: F32) -> F64:
    squares: F64 = np.empty(len(rows))
    for block in passes(rows):
        squares[block] = np.einsum("qd,qd->q", rows[block], rows[block], dtype=np.float64)
    return squares


def _rounding_slack(search: _Search) -> F64:
    """Bound the rounding error of a rough squared distance, for each row.

    A float32 sum of D products is off by at most about D units of rounding times |q||x|, in any order. Of many products
    the errors cancel: beyond eight times the root of D they are not met once in 1e13 sums (Higham and Mary, "A new
    approach to probabilistic rounding error analysis", SIAM J. Sci. Comput. 2019), and a product that sums in blocks,
    as all libraries do, stays below that also where all errors have the same sign.
    """
    n_columns = search.rows.shape[1]
    n_roundings = min(n_columns, 8 * math.sqrt(n_columns)) + 8
    reach = np.sqrt(_squares(search.rows)) + np.sqrt(_squares(search.features).max())
    slack: F64 = n_roundings * 2.0**-24 * reach**2
    return slack
