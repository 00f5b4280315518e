from __future__ import annotations

import numpy as np

from selfsort.runs.model import apply_in_chunks
from selfsort.types import Assignment, Images


class _Mean:
    """Calls bright images 1 and dark ones 0."""

    def apply(self, images: Images, layer: str = "top") -> Assignment:
        mean = images.pixels.mean(axis=(1, 2, 3), keepdims=False).astype(np.float32)[:, None] / 255
        return Assignment(mean, np.hstack([1 - mean, mean]))


def test_chunks_are_joined_in_order() -> None:
    pixels = np.arange(10, dtype=np.uint8).reshape(10, 1, 1, 1) * 25
    whole = apply_in_chunks(_Mean(), Images(pixels))
    parts = apply_in_chunks(_Mean(), Images(pixels), chunk=3)
    np.testing.assert_array_equal(whole.soft, parts.soft)
    np.testing.assert_array_equal(whole.features, parts.features)
    assert whole.labels.tolist() == [0] * 6 + [1] * 4
