from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from selfsort.choose_k.evidence import Criterion


def test_a_criterion_cannot_be_changed() -> None:
    said = Criterion("silhouette", np.array([2, 3]), np.array([0.1, 0.2]), 3)
    with pytest.raises(dataclasses.FrozenInstanceError):
        said.answer = 2  # type: ignore[misc]
