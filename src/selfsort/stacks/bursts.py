"""Bursts: pictures taken within seconds of each other that show nearly the same.

The time alone is not enough (two people may photograph two things), nor is likeness (the same scene on another day).
So only pictures near in time are compared: by an encoder if there is one, else by their colours on few pixels.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from selfsort.stacks.traits import Traits
from selfsort.stacks.versions import Pairs, distinct_rows
from selfsort.types import F32, I64

SECONDS = 3.0
"""How far apart in time two frames of a burst may be; a long burst is a chain of them."""
_AFTER = 8
"""So many pictures after each in time are compared with it."""
ALIKE_SEEN, ALIKE_COLOURS = 0.80, 0.65
"""What the cosine of an encoder's features, or the correlation of colours, must reach. Frames measured .846 and .674 at
least; of other pictures of the same kind, taken at any time, a hundredth reaches .851 and .86."""

Encode = Callable[[I64], F32]
"""Gives features (M, D) of the pictures at some rows."""


def find_bursts(traits: Traits, encode: Encode | None) -> Pairs:
    """Return pairs of frames of one burst."""
    pairs = near_in_time(traits)
    if not len(pairs):
        return pairs
    rows, place = np.unique(pairs, return_inverse=True)
    place = place.reshape(pairs.shape)
    vectors = _of_length_one(_colours(traits, rows) if encode is None else encode(rows))
    alike = (vectors[place[:, 0]] * vectors[place[:, 1]]).sum(axis=1)
    found: Pairs = pairs[alike >= (ALIKE_COLOURS if encode is None else ALIKE_SEEN)]
    return found


def near_in_time(traits: Traits) -> Pairs:
    """Return pairs of pictures taken within seconds, whatever they show."""
    rows = distinct_rows(traits)
    known = rows[np.isfinite(traits.taken[rows])]
    order = known[np.argsort(traits.taken[known], kind="stable")]
    found = [np.empty((0, 2), np.int64)]
    for after in range(1, _AFTER + 1):
        left, right = order[:-after], order[after:]
        is_near = traits.taken[right] - traits.taken[left] <= SECONDS
        found.append(np.sort(np.stack([left[is_near], right[is_near]], axis=1), axis=1))
    return np.concatenate(found)


def _colours(traits: Traits, rows: I64) -> F32:
    few = traits.colour[rows].astype(np.float32).reshape(len(rows), -1)
    centred: F32 = few - few.mean(axis=1, keepdims=True)
    return centred


def _of_length_one(vectors: F32) -> F32:
    unit: F32 = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-6)
    return unit
