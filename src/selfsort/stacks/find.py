"""From pairs to stacks: what belongs together, which of it is the best, and how the others differ from that."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from selfsort.stacks.bursts import SECONDS, Encode, find_bursts
from selfsort.stacks.stack import Kind, Member, Stack
from selfsort.stacks.traits import Traits
from selfsort.stacks.versions import Pairs, equal_files, find_versions
from selfsort.types import I64

_SIZE, _LIGHT = 0.1, 6.0
"""From which share of the pixels on a picture counts as resized, and from how many gray levels on as in other light."""
_SHARPER = 0.1
"""Sharpness that differs by less decides nothing."""


def find_stacks(traits: Traits, encode: Encode | None = None) -> list[Stack]:
    """Find all stacks, the largest first.

    Args:
        traits: the pictures.
        encode: gives an encoder's features of some of them; without it bursts are compared by colours.
    """
    same = same_picture(traits)
    frames = find_bursts(traits, encode)
    together = _joined(len(traits), np.stack([np.arange(len(same)), _first_of(same)], axis=1), frames)
    order = np.argsort(together, kind="stable")
    stacks = []
    for rows in np.split(order, np.cumsum(np.bincount(together))[:-1]):
        if len(rows) > 1:
            best = best_of(traits, rows)
            others = [row for row in rows.tolist() if row != best]
            stacks.append(Stack(best, tuple(_members(traits, same, best, others))))
    return sorted(stacks, key=lambda stack: (-len(stack.others), stack.rows))


def same_picture(traits: Traits) -> I64:
    """Number what is one picture, in however many files; what was taken a second later is another one."""
    versions = find_versions(traits)
    apart = np.abs(traits.taken[versions[:, 0]] - traits.taken[versions[:, 1]])
    return _joined(len(traits), equal_files(traits), versions[~((apart > 0) & (apart <= SECONDS))])


def _members(traits: Traits, same: I64, best: int, others: Sequence[int]) -> Iterator[Member]:
    """Say of each picture how it differs from the best one or, in a burst, from the frame that it is a version of."""
    leaders = {int(same[best]): best}
    met = {traits.digests[best]}
    for row in others:
        leader = leaders.setdefault(int(same[row]), row)
        kind: Kind = "burst" if leader == row else how_they_differ(traits, leader, row)
        yield Member(row, "copy" if traits.digests[row] in met else kind)
        met.add(traits.digests[row])


def how_they_differ(traits: Traits, one: int, other: int) -> Kind:
    """Say how two files of one picture differ."""
    if traits.digests[one] == traits.digests[other]:
        return "copy"
    pixels, light = traits.sizes[[one, other]].prod(axis=1), traits.gray[[one, other]].mean(axis=(1, 2))
    if abs(np.log(pixels[0] / pixels[1])) > _SIZE:
        return "resized"
    return "other light" if abs(light[0] - light[1]) > _LIGHT else "re-encoded"


def best_of(traits: Traits, rows: I64) -> int:
    """Propose which one to keep: most pixels, then sharpest, then as a camera wrote it, then the largest file."""
    pixels = traits.sizes[rows].prod(axis=1)
    large = rows[pixels >= (1 - 2 * _SIZE) * pixels.max()]
    sharp = traits.sharpness[large]
    sharpest = large[sharp >= (1 - _SHARPER) * sharp.max()]
    return int(min(sharpest.tolist(), key=lambda row: (np.isnan(traits.taken[row]), -traits.n_bytes[row], row)))


def _joined(n: int, *pairs: Pairs) -> I64:
    """Number what is connected."""
    links = np.concatenate(pairs)
    graph = coo_array((np.ones(len(links), np.int8), (links[:, 0], links[:, 1])), shape=(n, n))
    found: I64 = connected_components(graph, directed=False)[1].astype(np.int64)
    return found


def _first_of(group: I64) -> I64:
    """Return the first row of each row's group."""
    _, first, inverse = np.unique(group, return_index=True, return_inverse=True)
    found: I64 = first[inverse]
    return found
