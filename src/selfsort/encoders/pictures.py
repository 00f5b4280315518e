"""Images with what identifies them: all that any source of features may want to know."""

from __future__ import annotations

from dataclasses import dataclass

from selfsort.types import Images


@dataclass(frozen=True, eq=False)
class Pictures:
    """Images with what identifies them."""

    images: Images
    names: tuple[str, ...]
    fingerprint: str | None
    """Of the pixels; without one nothing is looked for in the cache."""
