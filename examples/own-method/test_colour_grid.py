"""What the package promises, in the words of selfsort: the same suite that its own methods pass."""

from __future__ import annotations

from pathlib import Path

import pytest
from colour_grid import METHOD

from selfsort.contract import CHECKS, Check


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_contract(check: Check, tmp_path: Path) -> None:
    check(METHOD, {"rounds": 3}, tmp_path)
