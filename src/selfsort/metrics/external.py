"""Agreement of a clustering with known classes: accuracy, normalised mutual information, adjusted Rand index.

All of them are read off one contingency table, of which only the cells that hold something are kept: counting costs
O(N), and a million images of many clusters need no P x T array.

Shape letters: N images, P predicted clusters in use, T true classes in use, M cells of the table that are not zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt
from scipy.optimize import linear_sum_assignment
from scipy.sparse import csr_array, diags_array, hstack
from scipy.sparse.csgraph import min_weight_full_bipartite_matching

from selfsort.errors import invalid
from selfsort.metrics.information import information_of_cells
from selfsort.metrics.labels import check_label_pair, is_tabular, number_labels
from selfsort.types import I64

Normaliser = Literal["geometric", "arithmetic", "max", "min"]

MAX_DENSE_CELLS = 20_000**2
_QUICK_CELLS = 2_000**2
"""Up to here matching in the full table is quick and small; above, only the cells that hold something are used."""


@dataclass(frozen=True, eq=False)
class Contingency:
    """How many images each pair of a predicted cluster and a true class shares; cells of zero are left out."""

    predicted_names: I64
    """(P,) the predicted labels in use, ascending: the rows."""
    truth_names: I64
    """(T,) the true labels in use, ascending: the columns."""
    row_idx: I64
    """(M,) row of each cell."""
    column_idx: I64
    """(M,) column of each cell."""
    counts: I64
    """(M,) images in each cell, all positive."""

    @property
    def shape(self) -> tuple[int, int]:
        """Predicted clusters and true classes in use."""
        return len(self.predicted_names), len(self.truth_names)

    @property
    def n_items(self) -> int:
        """The number of images."""
        return int(self.counts.sum())

    @property
    def predicted_sizes(self) -> I64:
        """(P,) images in each predicted cluster."""
        return _sum_by(self.row_idx, self.counts, self.shape[0])

    @property
    def truth_sizes(self) -> I64:
        """(T,) images in each true class."""
        return _sum_by(self.column_idx, self.counts, self.shape[1])

    @property
    def is_renaming(self) -> bool:
        """True if the two labellings are the same partition under different names."""
        return len(self.counts) == self.shape[0] == self.shape[1]

    def dense(self) -> I64:
        """Return the (P, T) table with its zeros."""
        self.check_size()
        table_PT = np.zeros(self.shape, dtype=np.int64)
        table_PT[self.row_idx, self.column_idx] = self.counts
        return table_PT

    def check_size(self) -> None:
        """Refuse a table too large to be matched."""
        n_rows, n_columns = self.shape
        if n_rows * n_columns > MAX_DENSE_CELLS:
            raise invalid(
                "the table of predicted clusters by true classes",
                f"have at most {MAX_DENSE_CELLS:,} cells",
                f"{n_rows:,} x {n_columns:,}",
                "Score fewer clusters; NMI and ARI have no such limit.",
            )


def contingency(predicted: npt.ArrayLike, truth: npt.ArrayLike) -> Contingency:
    """Count the images of each predicted cluster and true class.

    >>> contingency([5, 5, 8], [0, 1, 1]).dense().tolist()
    [[1, 1], [0, 1]]
    """
    predicted_N, truth_N = check_label_pair(predicted, truth)
    predicted_names, row_N = number_labels(predicted_N)
    truth_names, column_N = number_labels(truth_N)
    n_columns = len(truth_names)
    cell_N = row_N * n_columns + column_N
    if is_tabular(len(predicted_names) * n_columns, len(cell_N)):
        count_of_cell = np.bincount(cell_N)
        cells = np.flatnonzero(count_of_cell)
        counts = count_of_cell[cells]
    else:
        cells, counts = np.unique(cell_N, return_counts=True)
    return Contingency(predicted_names, truth_names, cells // n_columns, cells % n_columns, counts)


def match_clusters(predicted: npt.ArrayLike, truth: npt.ArrayLike, *, outliers: int | None = None) -> dict[int, int]:
    """Match clusters to classes one to one so that as many images as possible agree (the Hungarian method).

    With more clusters than classes the surplus clusters are absent from the answer. A cluster may be matched to a
    class it shares no image with, when the others are taken. The cluster `outliers` stands for no class.

    >>> match_clusters([3, 3, 9, 9, 4], [1, 1, 0, 0, 0])
    {3: 1, 9: 0}
    """
    table = _without(contingency(predicted, truth), outliers)
    row_idx, column_idx, _ = _best_matching(table)
    rows, columns = table.predicted_names[row_idx], table.truth_names[column_idx]
    return dict(zip(rows.tolist(), columns.tolist(), strict=True))


def accuracy(predicted: npt.ArrayLike, truth: npt.ArrayLike) -> float:
    """ACC: the fraction of images whose cluster is matched to their class by `match_clusters`.

    >>> accuracy([3, 3, 9, 9, 4], [1, 1, 0, 0, 0])
    0.8
    """
    return _accuracy(contingency(predicted, truth))


def nmi(predicted: npt.ArrayLike, truth: npt.ArrayLike, normaliser: Normaliser) -> float:
    """Return mutual information divided by a mean of the two entropies; the mean must be named.

    It is 1 if both labellings have a single cluster and 0 if exactly one has.

    >>> nmi([0, 0, 1, 1], [5, 5, 6, 6], "max")
    1.0
    """
    if normaliser not in get_args(Normaliser):
        choices = "be one of " + ", ".join(get_args(Normaliser))
        raise invalid("normaliser", choices, repr(normaliser), "Name the variant of the paper you compare with.")
    return _nmi(contingency(predicted, truth), normaliser)


def ari(predicted: npt.ArrayLike, truth: npt.ArrayLike) -> float:
    """Adjusted Rand index (Hubert and Arabie): agreement on pairs, 0 for chance and 1 for the same partition.

    >>> ari([0, 0, 1, 1], [0, 0, 1, 2])
    0.5714285714285714
    """
    return _ari(contingency(predicted, truth))


def scores(predicted: npt.ArrayLike, truth: npt.ArrayLike, *, outliers: int | None = None) -> dict[str, float]:
    """Return the numbers of metrics.json: acc, nmi_geometric, nmi_arithmetic, nmi_max, ari.

    The cluster `outliers` stands for no class, so its images are wrong in ACC, and n_outliers says how many they are;
    to NMI and ARI it is a cluster like the others.

    >>> found = scores([0, 0, 1, 1, -1], [5, 5, 6, 6, 7], outliers=-1)
    >>> found["acc"], found["n_outliers"]
    (0.8, 1)
    """
    table = contingency(predicted, truth)
    told = _without(table, outliers)
    return {
        "acc": _best_matching(told)[2] / table.n_items,
        "nmi_geometric": _nmi(table, "geometric"),
        "nmi_arithmetic": _nmi(table, "arithmetic"),
        "nmi_max": _nmi(table, "max"),
        "ari": _ari(table),
        **({} if outliers is None else {"n_outliers": table.n_items - told.n_items}),
    }


def _without(table: Contingency, cluster: int | None) -> Contingency:
    """Leave a cluster out, as if its images stood for no class; the classes stay."""
    if cluster is None or cluster not in table.predicted_names:
        return table
    row = int(np.flatnonzero(table.predicted_names == cluster)[0])
    kept = table.row_idx != row
    row_idx = table.row_idx[kept] - (table.row_idx[kept] > row)
    names = np.delete(table.predicted_names, row)
    return Contingency(names, table.truth_names, row_idx, table.column_idx[kept], table.counts[kept])


def _sum_by(index: I64, counts: I64, n_groups: int) -> I64:
    # bincount with weights would go through floats.
    sums = np.zeros(n_groups, dtype=np.int64)
    np.add.at(sums, index, counts)
    return sums


def _best_matching(table: Contingency) -> tuple[I64, I64, int]:
    """Return the rows and columns of the best matching, as many as the shorter side has, and the images in it."""
    if table.shape[0] * table.shape[1] <= _QUICK_CELLS:
        table_PT = table.dense()
        # The solver takes a rectangle as it is; padding it with zeros to a square would not change the answer.
        row_idx, column_idx = linear_sum_assignment(table_PT, maximize=True)
        return row_idx, column_idx, int(table_PT[row_idx, column_idx].sum())
    table.check_size()
    return _sparse_matching(table)


def _sparse_matching(table: Contingency) -> tuple[I64, I64, int]:
    """Match in memory O(M); a full table of 12,000 x 12,000 would take gigabytes and minutes."""
    (n_rows, n_columns), is_tall = table.shape, table.shape[0] > table.shape[1]
    cells = csr_array((table.counts.astype(float), (table.row_idx, table.column_idx)), shape=table.shape)
    if is_tall:
        cells, n_rows, n_columns = cells.T.tocsr(), n_columns, n_rows
    # The solver wants every row matched and knows no cells of zero: each row may take a column of its own instead,
    # for so little that all of them together never outweigh an image.
    alone = diags_array(np.full(n_rows, 0.5 / (n_rows + 1)))
    row_idx, column_idx = min_weight_full_bipartite_matching(hstack([cells, alone], format="csr"), maximize=True)
    is_free = column_idx >= n_columns
    n_matched = int(np.asarray(cells[row_idx[~is_free], column_idx[~is_free]]).sum())
    others = np.setdiff1d(np.arange(n_columns), column_idx[~is_free])
    column_idx = column_idx.astype(np.int64)
    column_idx[is_free] = others[: int(is_free.sum())]
    return (column_idx, row_idx, n_matched) if is_tall else (row_idx, column_idx, n_matched)


def _accuracy(table: Contingency) -> float:
    return _best_matching(table)[2] / table.n_items


def _nmi(table: Contingency, normaliser: Normaliser) -> float:
    # Decided on the counts: rounding would give 0.9999999999999998, and 0/0 for two single clusters.
    if table.is_renaming:
        return 1.0
    if 1 in table.shape:
        return 0.0
    entropy_p, entropy_t = _entropy(table.predicted_sizes), _entropy(table.truth_sizes)
    means = {
        "geometric": sqrt(entropy_p * entropy_t),
        "arithmetic": (entropy_p + entropy_t) / 2,
        "max": max(entropy_p, entropy_t),
        "min": min(entropy_p, entropy_t),
    }
    return min(1.0, information_of_cells(table.row_idx, table.column_idx, table.counts) / means[normaliser])


def _entropy(sizes: I64) -> float:
    share = sizes / sizes.sum()
    return float(-(share * np.log(share)).sum())


def _ari(table: Contingency) -> float:
    if table.is_renaming:
        return 1.0
    # Python's integers: the product of two pair counts passes 64 bits at about 80,000 images.
    together_both = _count_pairs(table.counts)
    together_p, together_t = _count_pairs(table.predicted_sizes), _count_pairs(table.truth_sizes)
    all_pairs = table.n_items * (table.n_items - 1) // 2
    above_chance = together_both * all_pairs - together_p * together_t
    most_above_chance = (together_p + together_t) * all_pairs - 2 * together_p * together_t
    return 2 * above_chance / most_above_chance


def _count_pairs(sizes: I64) -> int:
    return int((sizes * (sizes - 1) // 2).sum())
