from __future__ import annotations

import numpy as np

from selfsort.graph.jit import kernel


def test_division_follows_numpy_and_sums_keep_their_order() -> None:
    @kernel
    def share(part: float, whole: float) -> float:
        return part / whole

    @kernel
    def total(values: np.ndarray[tuple[int], np.dtype[np.float32]]) -> np.float32:
        found = np.float32(0)
        for value in values:
            found += value
        return found

    assert np.isinf(share(1.0, 0.0))
    values = np.random.default_rng(0).random(1000).astype(np.float32)
    expected = np.float32(0)
    for value in values:
        expected += value
    assert total(values) == expected
