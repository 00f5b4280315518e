"""What the labels alone tell, without any ground truth: how the images spread over the clusters."""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np
import numpy.typing as npt

from selfsort.errors import invalid
from selfsort.metrics.labels import check_labels, number_labels
from selfsort.types import I64, Json

COLLAPSE_SHARE = 0.9
"""A cluster with more than this share of the images is called a collapse."""


@dataclass(frozen=True)
class SizeReport:
    """The sizes of the clusters in a few numbers."""

    asked: int
    """Clusters asked for."""
    used: int
    """Clusters that hold at least one image; more than asked while a method is still merging."""
    min: int
    """Images in the smallest cluster in use."""
    max: int
    """Images in the largest cluster."""
    entropy: float
    """Entropy of the sizes in nats: 0 for a single cluster, log(used) for equal sizes."""

    def to_json(self) -> Json:
        """Return the numbers as JSON types."""
        return asdict(self)


def size_report(labels: npt.ArrayLike, n_clusters: int, *, outliers: int | None = None) -> SizeReport:
    """Count the clusters in use and their sizes; that of `outliers` is none.

    >>> size_report([0, 0, 0, 2], n_clusters=3)
    SizeReport(asked=3, used=2, min=1, max=3, entropy=0.562...)
    """
    if outliers is not None:
        inside = np.asarray(labels)[np.asarray(labels) != outliers]
        if not len(inside):
            return SizeReport(n_clusters, 0, 0, 0, 0.0)
        labels = inside
    sizes = _cluster_sizes(labels, n_clusters)
    share = sizes / sizes.sum()
    # Written as p log(1/p), so that a single cluster gives 0.0 and not -0.0.
    entropy = float((share * np.log(1 / share)).sum())
    return SizeReport(n_clusters, len(sizes), int(sizes.min()), int(sizes.max()), entropy)


def collapse_warnings(labels: npt.ArrayLike, n_clusters: int) -> tuple[str, ...]:
    """Say in plain sentences whether clusters were lost or one swallowed nearly everything.

    >>> collapse_warnings([0, 0, 1, 1], n_clusters=2)
    ()
    """
    sizes = _cluster_sizes(labels, n_clusters)
    used, largest, n_items = len(sizes), int(sizes.max()), int(sizes.sum())
    warnings = []
    if used < n_clusters:
        warnings.append(
            f"Only {used} of the {n_clusters} clusters asked for hold any image. "
            "Ask for fewer clusters, or try another seed or method."
        )
    if n_clusters > 1 and largest > COLLAPSE_SHARE * n_items:
        warnings.append(
            f"One cluster holds {largest:,} of the {n_items:,} images ({_percent(largest, n_items)}): "
            "the clustering has collapsed. Try another seed or method, or look whether the images differ at all."
        )
    return tuple(warnings)


def _cluster_sizes(labels: npt.ArrayLike, n_clusters: int) -> I64:
    """Return the sizes of the clusters in use; a cluster nobody is in has no entry."""
    if n_clusters < 1:
        raise invalid("n_clusters", "be at least 1", n_clusters, "Give the number of clusters that was asked for.")
    sizes: I64 = np.bincount(number_labels(check_labels("labels", labels))[1])
    return sizes


def _percent(part: int, whole: int) -> str:
    """Round down, so that 100 % is said only of everything.

    >>> _percent(9_996, 10_000)
    '99.9 %'
    """
    return "100 %" if part == whole else f"{part * 1000 // whole / 10:.1f} %"
