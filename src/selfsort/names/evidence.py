"""When a word may name a cluster: most of its pictures have it, and it is clearly rarer everywhere else."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from selfsort.names.lists import LONGEST
from selfsort.text import one_line
from selfsort.types import I64

Source = Literal["folder", "seen", "date", "place", "screen", "look"]
SOURCES: tuple[Source, ...] = get_args(Source)

SHARE = 2 / 3
"""Least share of a cluster that must have a word."""
TIMES_RARER = 3
"""How many times as common a word must be in its cluster as in all others together."""
FEWEST = 8
"""Fewer pictures than these have something in common by chance."""


@dataclass(frozen=True)
class Suggestion:
    """A name for a cluster, and what speaks for it."""

    name: str
    source: Source
    share: float
    """Of the pictures of the cluster that were looked at: how many have it."""
    about: str = ""
    """What it stands for, where the name does not say it: the coordinates of a place."""


Words = Sequence[Sequence[str] | None]
"""What can be said of each picture, the most telling words first; None: it was not looked at."""


def suggest(labels: I64, evidence: Mapping[Source, Words]) -> dict[int, Suggestion]:
    """Name those clusters that the evidence carries a name for; no two get the same.

    Args:
        labels: (N,) clusters; negative ones are never named.
        evidence: words of the same pictures by source, the best source first.
    """
    found: dict[int, Suggestion] = {}
    for source, words in evidence.items():
        asked = [(cluster, some) for cluster, some in zip(labels.tolist(), words, strict=True) if some is not None]
        sizes = Counter(cluster for cluster, _ in asked)
        inside: dict[int, Counter[str]] = {cluster: Counter() for cluster in sizes}
        for cluster, some in asked:
            inside[cluster].update(dict.fromkeys(some, 1))
        overall = sum(inside.values(), Counter[str]())
        for cluster, counts in inside.items():
            if cluster < 0 or cluster in found or sizes[cluster] < FEWEST:
                continue
            word = _carried(counts, sizes[cluster], overall, len(asked))
            if word is not None:
                found[cluster] = Suggestion(word, source, round(counts[word] / sizes[cluster], 4))
    return _told_apart(found, Counter(labels.tolist()))


def _carried(counts: Counter[str], size: int, overall: Counter[str], n_pictures: int) -> str | None:
    """Return the word that says most of those that name a cluster, which is the rarest of them."""
    n_others = n_pictures - size
    if not n_others:
        return None  # nothing to tell it from
    carried = [
        word
        for word, count in counts.items()
        if count / size >= SHARE and count / size >= TIMES_RARER * (overall[word] - count) / n_others
    ]
    return min(carried, key=lambda word: overall[word], default=None)


def _told_apart(found: Mapping[int, Suggestion], sizes: Mapping[int, int]) -> dict[int, Suggestion]:
    """Number names that several clusters have, the largest cluster first.

    >>> found = {0: Suggestion("a/sea", "folder", 1.0), 1: Suggestion("b/sea", "folder", 0.9)}
    >>> [one.name for one in _told_apart(found, {0: 8, 1: 9}).values()]
    ['sea 2', 'sea']
    """
    told: dict[int, Suggestion] = {}
    taken: set[str] = set()
    for cluster, one in sorted(found.items(), key=lambda item: (-sizes[item[0]], item[0])):
        is_place = one.source == "place"
        inner = one.name.rsplit("/", 1)[-1] if one.source == "folder" else one.name
        plain = "place" if is_place else one_line(inner, LONGEST)
        if not plain:
            continue
        name, number = (f"{plain} 1" if is_place else plain), 2
        while name.casefold() in taken:
            name, number = f"{plain} {number}", number + 1
        taken.add(name.casefold())
        told[cluster] = Suggestion(name, one.source, one.share, one.name if is_place else "")
    return dict(sorted(told.items()))
