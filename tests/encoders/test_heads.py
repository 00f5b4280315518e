from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from selfsort.encoders import heads
from selfsort.encoders.cache import Wanted, computed_rows
from selfsort.encoders.heads import class_probabilities
from selfsort.encoders.weights import PUBLISHED
from selfsort.nets.efficientnet import N_FEATURES
from selfsort.types import Json

LITE = PUBLISHED["lite0"]
TOLD: Json = {"parts": [{"name": LITE.name, "digest": LITE.digest, "engine": "torch"}]}
ROWS = np.array([0, 2])


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache with the features of three pictures, and a head that reads the first two columns."""
    weight = torch.zeros(1000, N_FEATURES)
    weight[7, 0] = weight[9, 1] = 10
    monkeypatch.setattr(
        heads, "read_weights", lambda _: {"classifier.weight": weight, "classifier.bias": torch.zeros(1000)}
    )
    about = {"encoder": LITE.name, "digest": LITE.digest, "engine": "torch", "pictures": "abc"}
    wanted = Wanted(3, (N_FEATURES,), "<f4", about | {"size": list(LITE.shape), "mirror": True})
    rows = np.eye(3, N_FEATURES, dtype=np.float32)
    computed_rows(wanted, lambda first, last: rows[first:last], folder=tmp_path / "cache", what="", block=2)
    return tmp_path / "cache"


def test_the_head_speaks_of_what_is_kept(cache: Path) -> None:
    found = class_probabilities(TOLD, "abc", 3, ROWS, cache)
    assert found is not None
    np.testing.assert_allclose(found.sum(axis=1), 1, rtol=1e-5)
    assert found[0].argmax() == 7
    assert found[0, 7] > 0.9
    assert found[1].max() < 0.01, "the third picture is like no class"


@pytest.mark.parametrize(
    ("told", "fingerprint", "n"),
    [
        (TOLD, "abd", 3),
        (TOLD, "abc", 4),
        ({}, "abc", 3),
        ({"parts": []}, "abc", 3),
        ({"parts": [{"name": "hog"}]}, "abc", 3),
    ],
)
def test_without_a_head_or_features_nothing_is_said(cache: Path, told: Json, fingerprint: str, n: int) -> None:
    assert class_probabilities(told, fingerprint, n, ROWS, cache) is None
    assert class_probabilities(TOLD, "abc", 3, ROWS, None) is None
