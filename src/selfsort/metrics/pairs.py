"""The pairs that a pair-based method (DAC) chooses to learn from, and how right they are.

Shape letters: B images of one batch or pool, K clusters.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from selfsort.errors import invalid
from selfsort.metrics.labels import check_labels
from selfsort.types import F32, Json


def label_features(soft_BK: F32, *, restraint: bool) -> F32:
    """Return DAC's label features of soft assignments: at unit length, or as they are without the restraint layer."""
    return soft_BK / np.maximum(np.linalg.norm(soft_BK, axis=1, keepdims=True), 1e-12) if restraint else soft_BK


def select_pairs(features_BK: F32, upper: float, lower: float) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    """Return which pairs DAC calls "same cluster", and which it learns from at all, judged by their dot product.

    >>> same, selected = select_pairs(np.array([[1, 0], [0.5, 0.5]], np.float32), upper=0.6, lower=0.5)
    >>> same.tolist(), selected.tolist()
    ([[True, False], [False, False]], [[True, False], [False, False]])
    """
    similarity_BB = features_BK @ features_BK.T
    same_BB = similarity_BB >= upper
    return same_BB, same_BB | (similarity_BB < lower)


@dataclass(frozen=True)
class PairQuality:
    """Quality of the selected pairs; an image paired with itself never counts."""

    positive_precision: float | None
    """Of the pairs selected as "same cluster", the fraction that share a class; None if there are none."""
    negative_precision: float | None
    """Of the pairs selected as "different clusters", the fraction of different classes; None if there are none."""
    positive_fraction: float
    """Pairs selected as "same cluster" among all pairs."""
    selected_fraction: float
    """Pairs selected either way among all pairs."""

    def to_json(self) -> Json:
        """Return the numbers as JSON types."""
        return asdict(self)


def pair_selection_quality(
    same_BB: npt.NDArray[np.bool_], selected_BB: npt.NDArray[np.bool_], truth: npt.ArrayLike
) -> PairQuality:
    """Compare the pairs a method is sure about with the true classes.

    Args:
        same_BB: True where the method calls the pair "same cluster"; read only where selected.
        selected_BB: True where the pair takes part in the loss.
        truth: (B,) true classes.

    >>> sure = np.ones((3, 3), dtype=bool)
    >>> quality = pair_selection_quality(sure, sure, [0, 0, 1])
    >>> round(quality.positive_precision or 0, 3), quality.negative_precision, quality.selected_fraction
    (0.333, None, 1.0)
    """
    truth_B = check_labels("truth", truth)
    if len(truth_B) < 2:
        raise invalid("truth", "hold at least 2 labels", len(truth_B), "A pair needs two images.")
    same_BB, selected_BB = (
        _check_pairs("same_BB", same_BB, len(truth_B)),
        _check_pairs("selected_BB", selected_BB, len(truth_B)),
    )
    truly_same_BB = truth_B[:, None] == truth_B
    # Self-pairs are always right: in a small batch they would flatter the precision.
    counted_BB = selected_BB & ~np.eye(len(truth_B), dtype=bool)
    positive_BB, negative_BB = counted_BB & same_BB, counted_BB & ~same_BB
    n_pairs = len(truth_B) * (len(truth_B) - 1)
    return PairQuality(
        positive_precision=_fraction(positive_BB & truly_same_BB, positive_BB),
        negative_precision=_fraction(negative_BB & ~truly_same_BB, negative_BB),
        positive_fraction=int(positive_BB.sum()) / n_pairs,
        selected_fraction=int(counted_BB.sum()) / n_pairs,
    )


def _fraction(part_BB: npt.NDArray[np.bool_], whole_BB: npt.NDArray[np.bool_]) -> float | None:
    n_whole = int(whole_BB.sum())
    return int(part_BB.sum()) / n_whole if n_whole else None


def _check_pairs(name: str, pairs_BB: npt.NDArray[Any], n_items: int) -> npt.NDArray[np.bool_]:
    array = np.asarray(pairs_BB)
    if array.shape != (n_items, n_items):
        requirement = f"have a row and a column per true label ({n_items} x {n_items})"
        raise invalid(name, requirement, f"shape {array.shape}", "Give the matrix of the batch that truth belongs to.")
    if array.dtype != np.bool_:
        remedy = "Compare similarities with the thresholds first."
        raise invalid(name, "hold True and False", array.dtype, remedy)
    return array
