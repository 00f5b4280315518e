"""How outliers are numbered: -1 in files and in Python, as in scikit-learn; inside, one more cluster behind the others.

So whatever shows, sorts or corrects clusters treats them as one, and only what is read and written knows better.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from selfsort.types import I64

OUTLIERS = -1
"""Their cluster in labels.csv, in exports and in `labels_`."""


def marked(labels: I64, is_outlier: npt.NDArray[np.bool_] | None) -> I64:
    """Return labels with -1 for outliers."""
    return labels if is_outlier is None else np.where(is_outlier, OUTLIERS, labels)


def numbered(labels: I64, n_clusters: int) -> tuple[I64, int]:
    """Give outliers the number behind all clusters, and say which that is.

    >>> labels, outliers = numbered(np.array([0, -1, 2, 0]), n_clusters=4)
    >>> labels.tolist(), outliers
    ([0, 4, 2, 0], 4)
    """
    # There are never more clusters than images, whatever a stranger's config.json says.
    outliers = max(int(labels.max()) + 1, min(n_clusters, len(labels)))
    return np.where(labels == OUTLIERS, outliers, labels), outliers


def written(labels: I64, outliers: int | None) -> I64:
    """Return labels as files have them: the opposite of `numbered`."""
    return labels if outliers is None else np.where(labels == outliers, OUTLIERS, labels)


def cluster_name(cluster: int, outliers: int | None) -> str:
    """Return what a cluster is called as long as nobody has named it."""
    return "Outliers" if cluster == outliers else f"Cluster {cluster}"
