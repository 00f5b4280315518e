"""DAC's pair selection and losses, one pair at a time, from the definitions."""

from __future__ import annotations

import math

from selfsort.types import F64


def pair_loss(features: F64, targets: F64, upper: float, lower: float, kind: str) -> float:
    """Walk over all ordered pairs, the diagonal included."""
    total, n_selected = 0.0, 0
    for i in range(len(features)):
        for j in range(len(features)):
            judged = sum(a * b for a, b in zip(targets[i], targets[j], strict=True))
            if lower <= judged < upper:
                continue
            same = 1.0 if judged >= upper else 0.0
            s = sum(a * b for a, b in zip(features[i], features[j], strict=True))
            if kind == "mse":
                total += (s - same) ** 2
            else:
                s = min(max(s, 1e-5), 1 - 1e-5)
                total += -same * math.log(s) - (1 - same) * math.log(1 - s)
            n_selected += 1
    return total / n_selected if n_selected else 0.0
