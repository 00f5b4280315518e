"""From evidence to a probability: how likely is a picture among its own kind?

A logistic regression on five quantities, fitted with labels on the data sets and clusterings that docs/trust.md
names, each data set once left out to see what it says of data it has never seen. "Among its own kind" means that
the picture is of the class that most pictures of its cluster are of.
"""

from __future__ import annotations

import numpy as np

from selfsort.trust.evidence import Evidence
from selfsort.types import F32, F64, I64

_FAINTEST = 0.003
"""Leaks below this are none."""
WEIGHTS = {"same": -0.258, "least": 2.677, "most": 0.761, "leak": -0.479, "part": 0.266}
"""Given the others, neighbours add next to nothing: whatever is cut between them leaks."""
INTERCEPT = -1.459


def quantities(evidence: Evidence, labels: I64) -> dict[str, F64]:
    """Return what the regression is made of, each (N,), by name."""
    part = np.ones(len(evidence.between))
    for cluster, (leak, _) in evidence.parts.items():
        part[cluster] = leak
    return {
        "same": evidence.same,
        "least": evidence.least,
        "most": evidence.most,
        "leak": np.log(np.maximum(evidence.leak, _FAINTEST))[labels],
        "part": np.log(np.maximum(part, _FAINTEST))[labels],
    }


def probabilities(evidence: Evidence, labels: I64) -> F32:
    """Return how likely each image is among its own kind (N,)."""
    found = quantities(evidence, labels)
    total = INTERCEPT + sum(weight * found[name] for name, weight in WEIGHTS.items())
    likely: F32 = (1 / (1 + np.exp(-total))).astype(np.float32)
    return likely
