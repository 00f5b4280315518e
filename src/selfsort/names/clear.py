"""What a picture is clearly taken for: a word that is likely, and twice as likely as any other."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from selfsort.types import F32

LEAST = 0.2
"""How likely a word must be, where all of them add up to one."""
_TIMES_NEXT = 2.0


def clear_words(likely_NW: F32, words: Sequence[str], least: float = LEAST) -> list[tuple[str, ...]]:
    """Return the word of each picture, where one is clear.

    Args:
        likely_NW: how likely each word is for each picture; further columns are rivals that have no word.
        words: of the first columns.
        least: how likely a word must be.

    >>> clear_words(np.array([[0.6, 0.2, 0.1], [0.4, 0.3, 0.1], [0.1, 0.2, 0.7]], np.float32), ["cats", "dogs"])
    [('cats',), (), ()]
    """
    n, n_columns = likely_NW.shape
    best = likely_NW.argmax(axis=1)
    highest = likely_NW[np.arange(n), best]
    second = np.partition(likely_NW, -2, axis=1)[:, -2] if n_columns > 1 else np.zeros(n, np.float32)
    is_clear = (highest >= least) & (highest >= _TIMES_NEXT * second)
    return [
        (words[column],) if clear and column < len(words) else ()
        for column, clear in zip(best.tolist(), is_clear.tolist(), strict=True)
    ]
