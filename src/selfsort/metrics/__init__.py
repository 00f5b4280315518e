"""Numbers that say how good a clustering is: arrays in, plain numbers out, nothing trained, no torch.

`external` compares with known classes, `internal` looks at the labels alone, `neighbourhood` judges features and
`pairs` judges the pairs a method chose to learn from. `published` holds what papers print; report and bench, which do
not see each other, both show it.
"""

from __future__ import annotations

from selfsort.metrics.external import (
    Contingency,
    Normaliser,
    accuracy,
    ari,
    contingency,
    match_clusters,
    nmi,
    scores,
)
from selfsort.metrics.internal import SizeReport, collapse_warnings, size_report
from selfsort.metrics.neighbourhood import knn_purity, one_nn_error, trustworthiness
from selfsort.metrics.pairs import PairQuality, pair_selection_quality

__all__ = [
    "Contingency",
    "Normaliser",
    "PairQuality",
    "SizeReport",
    "accuracy",
    "ari",
    "collapse_warnings",
    "contingency",
    "knn_purity",
    "match_clusters",
    "nmi",
    "one_nn_error",
    "pair_selection_quality",
    "scores",
    "size_report",
    "trustworthiness",
]
