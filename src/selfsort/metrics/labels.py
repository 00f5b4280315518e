"""What every metric needs first: labels that are known to be whole numbers, and their numbering from zero."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from selfsort.errors import invalid
from selfsort.types import I64


def check_labels(name: str, labels: npt.ArrayLike) -> I64:
    """Return labels as a one-dimensional int64 array, or say what is wrong with them.

    Any whole numbers will do as names of clusters: negative ones, gaps, huge ones.
    """
    array = np.asarray(labels)
    if array.ndim != 1:
        remedy = "Give one label per image; of soft assignments take the argmax of each row first."
        raise invalid(name, "be one-dimensional", f"shape {array.shape}", remedy)
    if array.size == 0:
        raise invalid(name, "hold at least one label", "none", "Give the labels of one image or more.")
    if array.dtype.kind not in "iub":
        remedy = "Convert with labels.astype(int) if they are whole, or number names with numpy.unique."
        raise invalid(name, "hold whole numbers of an integer type", array.dtype, remedy)
    if array.dtype == np.uint64 and array.max() > np.iinfo(np.int64).max:
        remedy = "Renumber them with numpy.unique(labels, return_inverse=True)."
        raise invalid(name, "fit into 64-bit signed integers", array.max(), remedy)
    return array.astype(np.int64, copy=False)


def check_label_pair(predicted: npt.ArrayLike, truth: npt.ArrayLike) -> tuple[I64, I64]:
    """Return two labellings of the same images as int64 arrays."""
    predicted_N, truth_N = check_labels("predicted", predicted), check_labels("truth", truth)
    if len(predicted_N) != len(truth_N):
        got = f"{len(predicted_N)} and {len(truth_N)}"
        remedy = "Give one label of each kind per image, in the same order."
        raise invalid("predicted and truth", "have the same length", got, remedy)
    return predicted_N, truth_N


def number_labels(labels: I64) -> tuple[I64, I64]:
    """Return the distinct labels in ascending order, and each item's position among them.

    >>> names, position = number_labels(np.array([7, -2, 7]))
    >>> names.tolist(), position.tolist()
    ([-2, 7], [1, 0, 1])
    """
    lowest, highest = int(labels.min()), int(labels.max())
    if not is_tabular(highest - lowest + 1, len(labels)):
        names, position = np.unique(labels, return_inverse=True)
        return names, position.astype(np.int64, copy=False)
    offset = labels - lowest
    is_used = np.bincount(offset) > 0
    return np.flatnonzero(is_used) + lowest, (np.cumsum(is_used) - 1)[offset]


def is_tabular(n_values: int, n_items: int) -> bool:
    """Say whether counting in a table of all possible values beats sorting the items."""
    return n_values <= 4 * n_items + 1024
