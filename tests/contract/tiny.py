"""Settings that make each method small enough for the contract suite; a method not listed runs with its defaults."""

from __future__ import annotations

from typing import Any

TINY: dict[str, dict[str, Any]] = {
    "jule": {"epochs": 1, "batch_size": 12, "K_s": 5, "eta": 0.5},
}
