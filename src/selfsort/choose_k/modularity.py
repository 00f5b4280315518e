"""How many communities has the graph? Leiden's own answer, at Newman's resolution.

Modularity weighs the ties inside clusters against what their degrees alone would give, over the whole graph. So it
sees clusters that touch everywhere and have no gap between them, where the criterion of separation sees none; and it
cuts what is long and thin. The two are good where the other is not.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from scipy.sparse import csr_array

from selfsort.choose_k.evidence import Criterion
from selfsort.graph.communities import find_communities
from selfsort.types import I64

FARTHEST = 0.9
"""Numbers that differ by more than this, as logarithms, all speak against the communities in the same measure."""
_LARGE = 0.1
"""A community below this share of an equal one is a crumb."""


def n_communities(graph: csr_array, seeds: Iterable[int]) -> float:
    """Return the number of communities that are no crumbs, the geometric mean over seeds."""
    found = [find_communities(graph, seed=seed) for seed in seeds]
    counts = [one.n_large(_LARGE * graph.shape[0] / one.n_clusters) for one in found]
    return float(np.exp(np.mean(np.log(np.maximum(counts, 1)))))


def modularity(number: float, ks: I64) -> Criterion:
    """Return how near each number is to that of the communities: minus the square of the difference of logarithms."""
    away = np.minimum(np.abs(np.log(ks / number)), FARTHEST)
    return Criterion("modularity", ks, -(away**2), max(round(number), 1))
