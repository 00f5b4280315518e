"""Short curves of the methods that train a network: a change that should not alter results must not move them.

The networks are of double precision and take a few steps only, so that processors that add in another order agree to
many digits while any change of meaning shows; `test_a_small_change_moves_a_curve` proves that it does.

Recorded with the pinned versions by `python -m tests.golden.test_curves`; a commit that records them again says why.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from tests.contract.tiny import TINY
from tests.precision import double_precision

from selfsort.data.synthetic import shapes
from selfsort.improve import self_label
from selfsort.methods import _secu_balance, dac, dbc, gatcluster, jule, secu, teach
from selfsort.methods.registry import METHODS
from selfsort.types import Arrays, Clustering, FinishedRun, Snapshot

Curves = dict[str, list[float]]

CURVES = Path(__file__).with_name("curves.json")
GOLDEN: dict[str, Curves] = json.loads(CURVES.read_text()) if CURVES.exists() else {}
TRAINED = sorted(name for name, method in METHODS.items() if method.train_on_features is None)
CPU = torch.device("cpu")
N_CLUSTERS = 3
FEW_STEPS: dict[str, dict[str, Any]] = {
    # k-means is believed, else the relations would be those of an image with itself
    "gatcluster": {"min_share": 0.0},
    "secu": {"epochs": 2},
}
REFINED = "dbc"
SELF_LABEL = self_label.SelfLabelConfig(
    n_clusters=N_CLUSTERS, epochs=2, warmup=1, batch_size=12, threshold=0.5, min_agreement=0.0, lr=0.05
)
TOLERANCE = 1e-6
"""Relative. Other processors and numbers of threads differ by less than 1e-9, a hundredth more of a loss by 1e-3."""
CLOCK = ("seconds", "images_per_second")


def snapshots(name: str) -> Iterator[Snapshot]:
    """Train a method on a few drawings."""
    images, _ = shapes(12, size=16, seed=1, n_classes=N_CLUSTERS)
    if name == self_label.STAGE.name:
        *_, last = snapshots(REFINED)
        assert last.result is not None
        model = METHODS[REFINED].restore(_config(REFINED), last.result.model, device=CPU)
        return self_label.train(FinishedRun(REFINED, model), images, SELF_LABEL, device=CPU, seed=0)
    return METHODS[name].train(images, _config(name), device=CPU, seed=0)


def _config(name: str) -> Any:
    settings = {**TINY.get(name, {}), **FEW_STEPS.get(name, {})}
    return METHODS[name].config.from_json({"n_clusters": N_CLUSTERS, **settings})


def curves(name: str) -> Curves:
    """Return every number the method reports, step by step, but for those of the clock, and the sizes of what is left.

    The last step shows in no loss, and much that is learned in none at all.
    """
    found: Curves = {}
    with double_precision():
        for snapshot in snapshots(name):
            for key, value in snapshot.event.items():
                if not isinstance(value, str) and key not in CLOCK:
                    found.setdefault(key, []).append(float(value))
        return found | _state_sizes(snapshot.state().arrays) | _result_sizes(snapshot.result)


def _state_sizes(arrays: Arrays) -> Curves:
    """Mean magnitudes, added up over the network, the optimiser and whatever else a run is resumed from."""
    sizes: dict[str, float] = defaultdict(float)
    for name, array in sorted(arrays.items()):
        if array.dtype.kind == "f" and array.size:
            sizes[f"state of {name.split('.')[0]}"] += float(np.abs(array).mean())
    return {key: [size] for key, size in sizes.items()}


def _result_sizes(result: Clustering | None) -> Curves:
    assert result is not None
    return {
        "labels": np.bincount(result.labels, minlength=N_CLUSTERS).astype(float).tolist(),
        "soft": result.soft.mean(axis=0, dtype=np.float64).tolist(),
        "confidence": [float(result.soft.max(axis=1).mean(dtype=np.float64))],
        "features": [float(np.abs(result.features).mean(dtype=np.float64))],
    }


def moved(found: Curves, recorded: Curves) -> dict[str, float]:
    """Return the curves that are not what they were, each with its largest relative difference."""
    differences = {key: _difference(found.get(key, []), recorded.get(key, [])) for key in found | recorded}
    return {key: value for key, value in differences.items() if not value <= TOLERANCE}


def _difference(found: list[float], recorded: list[float]) -> float:
    if len(found) != len(recorded):
        return float("inf")
    a, b = np.array(found), np.array(recorded)
    return float((np.abs(a - b) / np.maximum(np.abs(b), 1e-3)).max())


@pytest.mark.floats
@pytest.mark.parametrize("name", GOLDEN)
def test_the_curves_are_what_they_were(name: str) -> None:
    assert moved(curves(name), GOLDEN[name]) == {}


def test_every_method_that_trains_is_recorded() -> None:
    assert set(GOLDEN) == {*TRAINED, self_label.STAGE.name}


@pytest.mark.parametrize("factor", [1.01, -1])
@pytest.mark.parametrize(
    ("name", "module", "function"),
    [
        ("dac", dac, "pair_loss"),
        ("dbc", dbc, "kl_loss"),
        ("dec", dbc, "kl_loss"),
        ("fcae-kmeans", dbc, "reconstruction_loss"),
        ("gatcluster", gatcluster, "similarity_loss"),
        ("gatcluster", gatcluster, "relation_loss"),
        ("gatcluster", gatcluster, "attention_loss"),
        ("gatcluster", gatcluster, "entropy_loss"),
        ("jule", jule, "triplet_loss"),
        ("jule", jule, "learning_rate"),
        ("secu", secu, "representation_loss"),
        ("secu", secu, "centre_loss"),
        ("secu", secu, "encoder_rate"),
        ("secu", _secu_balance, "raise_lower"),
        ("teach", teach, "teaching_loss"),
        ("teach", teach, "one_cycle"),
        ("self-label", self_label, "label_loss"),
        ("self-label", self_label, "learning_rate"),
    ],
)
def test_a_small_change_moves_a_curve(
    name: str, module: ModuleType, function: str, factor: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    right: Callable[..., Any] = getattr(module, function)
    monkeypatch.setattr(module, function, lambda *args, **kwargs: factor * right(*args, **kwargs))
    assert max(moved(curves(name), GOLDEN[name]).values(), default=0.0) > 100 * TOLERANCE


def test_a_curve_that_is_missing_or_no_number_has_moved() -> None:
    assert moved({"a": [1.0]}, {"a": [1.0], "b": [2.0]}).keys() == {"b"}
    assert moved({"a": [1.0, float("nan")]}, {"a": [1.0, 2.0]}).keys() == {"a"}
    assert moved({"a": [1.0 + 1e-9, 0.0]}, {"a": [1.0, 0.0]}) == {}


if __name__ == "__main__":
    recorded = {
        name: {key: [float(f"{value:.12g}") for value in values] for key, values in curves(name).items()}
        for name in sorted([*TRAINED, self_label.STAGE.name])
    }
    CURVES.write_text(json.dumps(recorded, indent=1) + "\n")
