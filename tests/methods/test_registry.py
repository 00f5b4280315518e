from __future__ import annotations

import pytest
import torch

from selfsort.errors import InvalidInput
from selfsort.methods.registry import METHODS, find_method, make_config


def test_names_are_keys() -> None:
    assert all(name == method.name for name, method in METHODS.items())


def test_a_near_miss_is_named() -> None:
    with pytest.raises(InvalidInput, match=r"--method must be one of .*; got 'k-means'. Did you mean kmeans\?"):
        find_method("k-means")


def test_settings_beat_the_recipe_and_unknown_ones_name_the_nearest() -> None:
    kmeans = find_method("kmeans")
    config, choice = make_config(kmeans, 4, {"n_restarts": 2}, shape=(8, 8, 1), device=torch.device("cpu"))
    assert config.to_json() == {"n_clusters": 4, "centre": "no", "n_restarts": 2, "max_iterations": 0}
    assert choice.reason.startswith("chosen")
    with pytest.raises(InvalidInput, match=r"got 'n_restart'. Did you mean n_restarts\?"):
        make_config(kmeans, 4, {"n_restart": 2}, shape=(8, 8, 1), device=torch.device("cpu"))
