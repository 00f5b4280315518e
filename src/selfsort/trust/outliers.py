"""Images that belong nowhere: far from all others, and no neighbour of theirs takes them for one of its own.

Both have to say so. By density an image is an outlier if its tenth neighbour is much farther away than is usual in
its cluster, and than is usual in the cluster around it: what was only sorted wrongly lies well among others. By vote
it is one if hardly any of its nearest images is in its cluster and has it among its own nearest. That its neighbours
are in its cluster says little by itself: far from everything, they all are in the cluster that is least far.

A small cluster is usual by its own measure, and three copies of a picture vouch for each other.

Shape letters: N images, K clusters.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from selfsort.trust.evidence import Evidence
from selfsort.types import F64, I64

Bools = npt.NDArray[np.bool_]

FAR = 3.5
"""Distances above the usual one, counted in usual deviations of their logarithms."""
FEWEST_VOTES = 0.1
"""Below this share of the nearest nobody vouches for an image: one of twenty may."""
_LEAST_DEVIATION = 0.05
"""In many dimensions all distances are alike; what is 5 % farther is not far."""
_TO_DEVIATION = 1.4826
"""Of a normal distribution: standard deviations in a median absolute deviation."""


def find_outliers(evidence: Evidence, labels: I64) -> Bools:
    """Say of each image (N,) whether it belongs nowhere.

    Args:
        evidence: what was seen of the clustering.
        labels: (N,) clusters 0..K-1.
    """
    far = np.minimum(excess(evidence.distance, labels, labels), excess(evidence.distance, labels, evidence.around))
    is_outlier: Bools = (far > FAR) & (evidence.vouched < FEWEST_VOTES)
    return is_outlier


def excess(distance: F64, labels: I64, judged_by: I64) -> F64:
    """Return how far above the usual distance of a cluster each image is, in deviations (N,).

    Copies are at no distance from each other, which is no measure for others: they are left out of what is usual.

    Args:
        distance: (N,) of each image to its neighbours.
        labels: (N,) clusters.
        judged_by: (N,) the cluster that each image is compared with.
    """
    n_clusters = int(max(labels.max(), judged_by.max())) + 1
    usual, deviation = np.full(n_clusters, np.inf), np.ones(n_clusters)
    is_apart = distance > 0
    logs = np.log(distance, where=is_apart, out=np.full(len(distance), -np.inf))
    order = np.argsort(labels, kind="stable")
    order = order[is_apart[order]]
    for members in np.split(order, np.flatnonzero(np.diff(labels[order])) + 1):
        if len(members):
            cluster, own = labels[members[0]], logs[members]
            usual[cluster] = np.median(own)
            spread = float(np.median(np.abs(own - usual[cluster])))
            deviation[cluster] = max(_TO_DEVIATION * spread, _LEAST_DEVIATION)
    above: F64 = (logs - usual[judged_by]) / deviation[judged_by]
    return above
