"""Mutual information, in nats: what one label of an item tells of another. The one formula of the house.

Scores against classes normalise it (`external`), stability under augmentation is it (`stability`), and regrouping
clusters keeps as much of it as it can.
"""

from __future__ import annotations

import numpy as np

from selfsort.types import F64, I64


def mutual_information(counts: I64 | F64) -> float:
    """Return what row and column of a table of counts tell of each other.

    >>> round(mutual_information(np.array([[0, 2], [2, 0]])), 4)
    0.6931
    """
    row_idx, column_idx = np.nonzero(counts)
    return information_of_cells(row_idx, column_idx, counts[row_idx, column_idx])


def information_of_cells(row_idx: I64, column_idx: I64, counts: I64 | F64) -> float:
    """Return the same for a table given by its cells that are not zero: their rows, columns and counts."""
    log_rows, log_columns = (np.log(np.bincount(idx, weights=counts)[idx]) for idx in (row_idx, column_idx))
    gain = np.log(counts) + np.log(counts.sum()) - log_rows - log_columns
    # Independent labels tell nothing of each other, but rounding may leave a trace below zero.
    return max(0.0, float((counts / counts.sum() * gain).sum()))
