from __future__ import annotations

import numpy as np
import pytest

from selfsort.trust.calibration import INTERCEPT, WEIGHTS, probabilities, quantities
from selfsort.trust.evidence import Evidence


def some_evidence() -> Evidence:
    between = np.array([[0.0, 0.1], [0.1, 0.0]])
    parts = {1: (0.02, np.array([1]))}
    same, least, most, distance = (np.array(pair) for pair in ((1.0, 0.5), (0.9, 0.2), (1.0, 0.4), (1.0, 1.0)))
    return Evidence(same, least, most, between, 5, parts, distance, around=np.array([0, 1]), vouched=same)


def test_quantities_by_hand() -> None:
    found = quantities(some_evidence(), np.array([0, 1]))
    np.testing.assert_allclose(found["leak"], np.log([0.1, 0.1]))
    np.testing.assert_allclose(found["part"], [0, np.log(0.02)])
    assert set(found) == set(WEIGHTS)


def test_probabilities_by_hand() -> None:
    likely = probabilities(some_evidence(), np.array([0, 1]))
    values = {"same": 1.0, "least": 0.9, "most": 1.0, "leak": np.log(0.1), "part": 0.0}
    total = INTERCEPT + sum(WEIGHTS[name] * value for name, value in values.items())
    assert likely[0] == pytest.approx(1 / (1 + np.exp(-total)), rel=1e-6)
    assert likely[1] < likely[0]


def test_better_evidence_never_lowers_it() -> None:
    assert all(WEIGHTS[name] >= 0 for name in ("least", "most", "part"))
    assert WEIGHTS["leak"] <= 0
