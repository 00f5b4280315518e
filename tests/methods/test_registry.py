from __future__ import annotations

import pytest

from selfsort.errors import InvalidInput
from selfsort.methods.registry import METHODS, find_method


def test_names_are_keys() -> None:
    assert all(name == method.name for name, method in METHODS.items())


def test_a_near_miss_is_named() -> None:
    with pytest.raises(InvalidInput, match=r"--method must be one of .*; got 'k-means'. Did you mean kmeans\?"):
        find_method("k-means")
