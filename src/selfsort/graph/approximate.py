"""Nearest neighbours of very many images: most of them, by an inverted file (faiss), and how many these are.

The rows are put into about 4 sqrt(N) cells by k-means, and each is compared with those in the cells nearest to it. How
many cells that takes depends on the data: some rows, drawn by a fixed seed, are also searched for exactly, and more
cells are visited until at least 99 of 100 neighbours of these are found. The distances of what is found are exact.

Nothing depends on the number of threads or processes: the first process finds the cells, every process visits them for
its share of the rows, and a row is compared with the same ones wherever that is done.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from selfsort import distributed
from selfsort.errors import missing_extra
from selfsort.graph._kernels.knn import refine
from selfsort.graph.knn import as_table, in_threads, nearest_neighbours
from selfsort.graph.neighbours import Neighbours
from selfsort.pages import passes, scattered, take
from selfsort.progress import track
from selfsort.types import F32, I64

EXACT_LIMIT = 100_000
"""Up to so many images the search is exact: a minute of one core. From 20,000 on the approximate one is quicker."""
RECALL = 0.99
"""Share of the true neighbours that must be found."""

_N_SAMPLE = 1000
"""Rows that are also searched for exactly."""
_FIRST_PROBES, _MORE_PROBES = 8, 1.5
"""Cells visited at first, and by what factor more of them until enough is found."""
_PER_CELL, _N_ITERATIONS = 64, 10
"""Rows for each cell that k-means sees, and its passes over them."""
_N_SPARE = 8
"""Candidates beyond K that the index hands to the exact measure: it rounds differently."""
_BLOCK = 4096


def find_neighbours(
    features: npt.NDArray[Any],
    n_neighbours: int,
    *,
    device: str | torch.device = "cpu",
    exact_limit: int | None = EXACT_LIMIT,
    is_shared: bool = False,
) -> Neighbours:
    """Search exactly up to `exact_limit` rows (None: always), approximately above it.

    The usual limit holds only where faiss is installed; any other one was asked for, and without faiss is refused.
    `is_shared`: as for `nearest_neighbours`.
    """
    is_exact = exact_limit is None or len(features) <= exact_limit
    if is_exact or (exact_limit == EXACT_LIMIT and find_spec("faiss") is None):
        return nearest_neighbours(features, n_neighbours, device=device, is_shared=is_shared)
    return approximate_neighbours(features, n_neighbours, device=device, is_shared=is_shared)


def approximate_neighbours(
    features: npt.NDArray[Any],
    n_neighbours: int,
    *,
    n_probe: int | None = None,
    goal: float = RECALL,
    device: str | torch.device = "cpu",
    is_shared: bool = False,
) -> Neighbours:
    """Find most of the nearest other rows of every row; `recall` of the answer says how many.

    Args:
        features: (N, D) finite numbers, used as float32.
        n_neighbours: K, as for `nearest_neighbours`.
        n_probe: cells visited for each row; None: as many as it takes to reach the goal.
        goal: share of the true neighbours to be found.
        device: where a few rows are searched for exactly.
        is_shared: as for `nearest_neighbours`.
    """
    try:
        import faiss  # an optional extra, and slow to load
    except ImportError:
        raise missing_extra("faiss-cpu", "The approximate neighbour search", "approx") from None
    table = as_table("features", features)
    if n_neighbours >= len(table):
        return nearest_neighbours(table, n_neighbours, device=device)
    faiss.omp_set_num_threads(torch.get_num_threads())
    index = _Index.of(table, faiss, is_shared=is_shared)
    sample = np.sort(np.random.default_rng(0).choice(len(table), min(_N_SAMPLE, len(table)), replace=False))
    exact = _exactly(table, sample, n_neighbours, device)
    probes = n_probe or _FIRST_PROBES
    recall = _recall(index.search(sample, n_neighbours, probes), exact)
    while n_probe is None and recall < goal and probes < index.n_cells:
        probes = min(int(_MORE_PROBES * probes), index.n_cells)
        recall = _recall(index.search(sample, n_neighbours, probes), exact)
    found = _search_all(index, n_neighbours, probes, is_shared=is_shared)
    # The visited cells held too few rows: rare.
    short = np.flatnonzero(found.idx[:, -1] < 0)
    if len(short):
        again = _exactly(table, short, n_neighbours, device)
        found.idx[short], found.sq_dist[short] = again.idx, again.sq_dist
    return replace(found, recall=recall)


@dataclass(frozen=True, eq=False)
class _Index:
    """Rows in cells."""

    table: F32
    inverted: Any
    """faiss.IndexIVFFlat."""
    order: I64
    """(N,) all rows, those of a cell together: searched in this order, a cell is still near the processor."""

    @classmethod
    def of(cls, table: F32, faiss: Any, *, is_shared: bool) -> _Index:
        """Put every row into the cell with the nearest centre."""
        n_rows, width = table.shape
        # Fewer than 39 rows for each cell, and faiss warns that its k-means has little to go by.
        n_cells = max(1, min(int(4 * n_rows**0.5), n_rows // 39))
        centres = _centres(table, n_cells, faiss) if distributed.is_main() or not is_shared else None
        coarse = faiss.IndexFlatL2(width)
        coarse.add(distributed.agree(centres) if is_shared else centres)
        inverted = faiss.IndexIVFFlat(coarse, width, n_cells)
        inverted.is_trained = True
        for block in passes(table):
            inverted.add(table[block])
        lists = inverted.invlists
        sizes = [lists.list_size(cell) for cell in range(n_cells)]
        members = [faiss.rev_swig_ptr(lists.get_ids(cell), size) for cell, size in enumerate(sizes) if size]
        return cls(table, inverted, np.concatenate(members).astype(np.int64))

    @property
    def n_cells(self) -> int:
        return int(self.inverted.nlist)

    def search(self, rows: I64, n_neighbours: int, n_probe: int) -> Neighbours:
        """Find the nearest others of these rows; -1 marks a place that nobody in the visited cells fills."""
        idx: I64 = np.full((len(rows), n_neighbours), -1, dtype=np.int64)
        sq_dist: F32 = np.full(idx.shape, np.inf, dtype=np.float32)
        self.inverted.nprobe = n_probe
        wanted = take(self.table, rows)
        _, candidates = self.inverted.search(wanted, n_neighbours + _N_SPARE + 1)
        candidates[candidates == rows[:, None]] = -1  # nobody is its own neighbour
        for begin, end in scattered(self.table, len(rows), candidates.shape[1]):
            in_threads(refine, begin, end, wanted, self.table, candidates, idx, sq_dist)
        return Neighbours(idx, sq_dist, n_neighbours)


def _centres(table: F32, n_cells: int, faiss: Any) -> F32:
    """Return the centres of the cells (n_cells, D), found by k-means on some of the rows."""
    draw = np.random.default_rng(0)
    some = take(table, np.sort(draw.choice(len(table), min(len(table), _PER_CELL * n_cells), replace=False)))
    kmeans = faiss.Clustering(table.shape[1], n_cells)
    kmeans.seed, kmeans.niter, kmeans.max_points_per_centroid = 0, _N_ITERATIONS, _PER_CELL
    kmeans.train(some, faiss.IndexFlatL2(table.shape[1]))
    centres: F32 = faiss.vector_to_array(kmeans.centroids).reshape(n_cells, -1)
    return centres


def _exactly(table: F32, rows: I64, n_neighbours: int, device: str | torch.device) -> Neighbours:
    """Search exactly for the nearest others of some rows."""
    found = nearest_neighbours(table, n_neighbours + 1, queries=take(table, rows), device=device)
    is_other = found.idx != rows[:, None]
    is_other[is_other.all(axis=1), -1] = False  # a row with more copies than places: it is not among its own nearest
    shape = (len(rows), n_neighbours)
    return Neighbours(found.idx[is_other].reshape(shape), found.sq_dist[is_other].reshape(shape), n_neighbours)


def _recall(found: Neighbours, exact: Neighbours) -> float:
    """Return the share of places filled as well as they can be; of equally near rows any will do."""
    return float((found.sq_dist <= exact.sq_dist[:, -1:]).mean())


def _search_all(index: _Index, n_neighbours: int, n_probe: int, *, is_shared: bool) -> Neighbours:
    """Search for all rows, block by block; of several processes each takes some of the blocks."""
    n_rows = len(index.table)
    idx: I64 = np.zeros((n_rows, n_neighbours), dtype=np.int64)
    sq_dist: F32 = np.zeros((n_rows, n_neighbours), dtype=np.float32)
    starts = range(0, n_rows, _BLOCK)
    if is_shared:
        starts = starts[distributed.rank() :: distributed.world_size()]
    for start in track(starts, "approximate neighbours", len(starts)):
        rows = index.order[start : start + _BLOCK]
        found = index.search(rows, n_neighbours, n_probe)
        idx[rows], sq_dist[rows] = found.idx, found.sq_dist
    if is_shared:
        for rows_of_all in (idx, sq_dist):
            distributed.add_up(torch.from_numpy(rows_of_all))  # in place: each has filled in its own rows
    return Neighbours(idx, sq_dist, n_neighbours)
