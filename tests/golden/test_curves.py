"""Short curves of the methods that train a network: a change that should not alter results must not move them.

Recorded with the pinned versions by `python -m tests.golden.test_curves`; a commit that records them again says why.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from tests.contract.tiny import TINY

from selfsort.data.synthetic import shapes
from selfsort.methods.registry import METHODS

CURVES = Path(__file__).with_name("curves.json")
GOLDEN: dict[str, dict[str, list[float]]] = json.loads(CURVES.read_text()) if CURVES.exists() else {}
N_CLUSTERS = 3
AS_RECORDED: dict[str, dict[str, object]] = {"gatcluster": {"bn_eval": "running"}}
"""Recorded before statistics could be refreshed."""


def curves(name: str) -> dict[str, list[float]]:
    """Return every number the method reports, step by step, but for those of the clock."""
    method = METHODS[name]
    config = method.config.from_json({"n_clusters": N_CLUSTERS, **TINY.get(name, {}), **AS_RECORDED.get(name, {})})
    images, _ = shapes(12, size=16, seed=1, n_classes=N_CLUSTERS)
    found: dict[str, list[float]] = {}
    for snapshot in method.train(images, config, device=torch.device("cpu"), seed=0):
        for key, value in snapshot.event.items():
            if not isinstance(value, str) and key not in ("seconds", "images_per_second"):
                found.setdefault(key, []).append(round(float(value), 6))
    return found


@pytest.mark.parametrize("name", GOLDEN)
def test_the_curves_are_what_they_were(name: str) -> None:
    found = curves(name)
    assert found.keys() == GOLDEN[name].keys()
    for key, values in GOLDEN[name].items():
        # Sums are rounded differently by other processors; anything that matters moves a curve far more than this.
        assert found[key] == pytest.approx(values, rel=2e-3, abs=1e-5), key


def test_every_method_that_trains_is_recorded() -> None:
    assert set(GOLDEN) == {name for name, method in METHODS.items() if method.train_on_features is None}


if __name__ == "__main__":
    trained = sorted(name for name, method in METHODS.items() if method.train_on_features is None)
    CURVES.write_text(json.dumps({name: curves(name) for name in trained}, indent=1) + "\n")
