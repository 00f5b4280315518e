"""A verdict in plain words: steady, mixed, or not to be trusted, and which clusters are why."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import torch

from selfsort.choose_k.separation import SMALL_LEAK
from selfsort.trust.calibration import probabilities
from selfsort.trust.evidence import FEWEST_IMAGES, Evidence, gather
from selfsort.trust.outliers import Bools, find_outliers
from selfsort.types import F32, I64, Json

Level = Literal["steady", "mixed", "doubtful", "unknown"]

STEADY, MIXED = 0.85, 0.6
"""The share of pictures among their own kind from which on a clustering is steady, or still mixed."""
HARDLY_APART = 0.15
"""Two clusters that leak into each other so much are hardly apart."""
_CLEARLY = 0.5
"""Halves are two kinds if they leak this much less than the two clusters that are least apart, or hardly at all."""
_N_NAMED, _N_SHOWN = 3, 8


@dataclass(frozen=True, eq=False)
class Verdict:
    """How far to trust a clustering."""

    level: Level
    sentence: str
    confidence: F32
    """(N,) how likely each image is among its own kind."""
    hardly_apart: tuple[tuple[int, int], ...] = ()
    two_kinds: dict[int, I64] = field(default_factory=dict)
    """Clusters that are likely two kinds, and some images of the smaller one."""
    is_outlier: Bools | None = None
    """(N,) images that belong nowhere, if they were looked for and could be judged."""

    def to_json(self) -> Json:
        """What the run folder keeps; the confidence of images is in labels.csv."""
        return {
            "level": self.level,
            "sentence": self.sentence,
            "expected": round(float(self.confidence.mean(dtype=np.float64)), 4),
            "hardly_apart": [list(pair) for pair in self.hardly_apart],
            "two_kinds": {str(cluster): rows.tolist() for cluster, rows in self.two_kinds.items()},
        }


def judge(
    rows: F32,
    labels: I64,
    own: F32,
    n_clusters: int,
    *,
    seed: int,
    device: torch.device,
    with_outliers: bool = False,
) -> Verdict:
    """Judge a clustering by the features it started from.

    Args:
        rows: (N, D) features of the images before the method.
        labels: (N,) clusters 0..K-1.
        own: (N,) how sure the method itself is; stands in where nothing can be judged.
        n_clusters: K.
        seed: decides the second opinions.
        device: where neighbours are searched.
        with_outliers: also look for images that belong nowhere.
    """
    n_used = len(np.unique(labels))
    if n_used < 2:
        return Verdict("unknown", "All pictures are in one cluster: there is nothing to judge.", own)
    if not _has_distinct(rows, max(FEWEST_IMAGES, 2 * n_clusters)):
        return Verdict("unknown", f"{len(rows)} pictures are too few to say how far to trust this.", own)
    evidence = gather(rows, labels, n_clusters, seed=seed, device=device)
    confidence = probabilities(evidence, labels)
    expected = float(confidence.mean(dtype=np.float64))
    pairs, kinds = hardly_apart(evidence), two_kinds(evidence) if expected >= MIXED else {}
    level: Level = "doubtful" if expected < MIXED else "mixed" if expected < STEADY or kinds else "steady"
    is_outlier = find_outliers(evidence, labels) if with_outliers else None
    return Verdict(level, say(level, expected, pairs, tuple(kinds)), confidence, pairs, kinds, is_outlier)


def _has_distinct(rows: F32, n: int) -> bool:
    """Say whether so many rows differ, looking at no more of them than it takes: sorting all would copy them thrice."""
    seen: set[bytes] = set()
    for row in rows:
        seen.add((row + 0.0).tobytes())  # a negative zero is a zero
        if len(seen) >= n:
            return True
    return False


def hardly_apart(evidence: Evidence) -> tuple[tuple[int, int], ...]:
    """Return the pairs of clusters that leak into each other most, the worst first."""
    first, second = np.nonzero(np.triu(evidence.between > HARDLY_APART, 1))
    order = np.argsort(-evidence.between[first, second], kind="stable")[:_N_NAMED]
    return tuple((int(first[i]), int(second[i])) for i in order)


def two_kinds(evidence: Evidence) -> dict[int, I64]:
    """Return the clusters whose halves are clearly farther apart than some clusters are."""
    limit = max(_CLEARLY * float(evidence.between.max(initial=0)), SMALL_LEAK * evidence.width)
    return {c: rows[:_N_SHOWN] for c, (leak, rows) in evidence.parts.items() if leak < limit}


def say(level: Level, expected: float, pairs: tuple[tuple[int, int], ...], kinds: tuple[int, ...]) -> str:
    """Put it in words.

    >>> say("mixed", 0.78, ((3, 7),), ())
    'Mixed: about 8 of 10 pictures are among their own kind. Clusters 3 and 7 are hardly apart.'
    """
    share = f"about {round(10 * expected)} of 10 pictures are among their own kind"
    begin = {"steady": f"Steady: {share}.", "mixed": f"Mixed: {share}.", "doubtful": f"Do not trust this: {share}."}
    said = [begin[level]]
    if level != "steady" and pairs:
        said.append("; ".join(f"clusters {a} and {b} are hardly apart" for a, b in pairs).capitalize() + ".")
    said += [f"Cluster {cluster} is likely two kinds." for cluster in kinds[:_N_NAMED]]
    return " ".join(said)
