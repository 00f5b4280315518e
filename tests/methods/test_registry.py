from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests import foreign

from selfsort.errors import InvalidInput
from selfsort.methods.registry import METHODS, find_method


def test_names_are_keys() -> None:
    assert all(name == method.name for name, method in METHODS.items())


def test_a_near_miss_is_named() -> None:
    with pytest.raises(InvalidInput, match=r"--method must be auto or one of .*; got 'k-means'. Did you mean kmeans\?"):
        find_method("k-means")


def test_a_method_is_imported_when_it_is_asked_for() -> None:
    code = (
        "import sys\nfrom selfsort.methods.registry import find_method\nassert 'torch' not in sys.modules\n"
        "find_method('kmeans')\nprint([m for m in sys.modules if m.startswith('selfsort.methods.')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['selfsort.methods.registry']"


def test_methods_of_other_packages_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    foreign.install(tmp_path, monkeypatch)
    assert find_method("foreign-means").summary == "k-means of others"
    with pytest.raises(InvalidInput, match="Did you mean foreign-means"):
        find_method("foreign-mean")
