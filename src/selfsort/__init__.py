"""selfsort: sorts unlabelled images into clusters by learning the representation and the clusters together.

The public names are loaded on first use, so that `import selfsort` stays light (no torch).
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from selfsort.estimator import ImageClusterer, load
    from selfsort.runs.duplicates import duplicates

__version__ = "0.1.0"
__all__ = ["ImageClusterer", "__version__", "duplicates", "load"]

_HOME = {
    "ImageClusterer": "selfsort.estimator",
    "load": "selfsort.estimator",
    "duplicates": "selfsort.runs.duplicates",
}


def __dir__() -> list[str]:
    return sorted(__all__)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'selfsort' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME[name]), name)
