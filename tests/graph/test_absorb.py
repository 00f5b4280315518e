from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array

from selfsort.graph.agglomerate import (
    agglomerate,
)
from selfsort.graph.tree import BY_ABSORPTION
from selfsort.types import F64, I64


def blobs_with_outliers() -> tuple[csr_array, I64, F64]:
    """Two complete graphs of 60 items joined by a bridge, and three single items nobody links to."""
    n_items = 123
    weights = np.zeros((n_items, n_items))
    weights[:60, :60] = weights[60:120, 60:120] = 1.0
    weights[0, 60] = weights[60, 0] = 0.01
    np.fill_diagonal(weights, 0)
    features = np.zeros((n_items, 1))
    features[60:120] = 1.0
    features[120:, 0] = [0.2, 0.9, 1.4]
    return csr_array(weights), np.concatenate([np.arange(120) // 4, [30, 31, 32]]), features


def test_absorbing_keeps_outliers_out_of_the_count() -> None:
    weights, labels, features = blobs_with_outliers()
    paper = agglomerate(weights, labels, 2, absorb=False, features=features)
    absorbed = agglomerate(weights, labels, 2, features=features)
    assert len(np.unique(paper.labels[:120])) == 1  # the blobs were glued together before the outliers were taken in
    assert absorbed.labels.tolist() == [0] * 60 + [1] * 60 + [0, 1, 1]
    assert absorbed.n_absorbed == 3
    assert absorbed.n_isolated == 0
    assert not absorbed.is_relaxed
    assert absorbed.large_size == pytest.approx(0.05 * 123 / 2)
    assert absorbed.cut.reasons[-3:].tolist() == [BY_ABSORPTION] * 3
    assert absorbed.cut.sizes[-1] == 62
    assert absorbed.n_clusters == 2


def test_absorbing_lowers_the_size_when_k_large_clusters_never_exist() -> None:
    weights, _, features = blobs_with_outliers()
    labels = np.concatenate([np.zeros(60), np.ones(60), [2, 3, 4]]).astype(np.int64)
    done = agglomerate(weights, labels, 3, features=features)
    assert done.is_relaxed
    assert done.n_clusters == 3
    assert "Fewer than 3 clusters of a fair size" in done.warnings[-1]


def test_absorbing_looks_at_the_way_down_not_at_the_way_up() -> None:
    # At the start exactly two of the clusters happen to be large, but the rest must merge before the cut.
    weights, _, features = blobs_with_outliers()
    labels = np.arange(123)
    labels[1:10] = 0
    labels[61:70] = 60
    done = agglomerate(weights, labels, 2, features=features)
    assert done.labels[:120].tolist() == [0] * 60 + [1] * 60
    assert done.n_absorbed == 3
