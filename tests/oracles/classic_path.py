"""Zeta and path-integral agglomeration from the definitions: dense inverses, every pair measured at every step."""

from __future__ import annotations

import numpy as np

from selfsort.types import F64, I64


def walk_matrix(weights: F64, z: float) -> F64:
    """Q = I - z P."""
    whole = weights + np.eye(len(weights))
    q: F64 = np.eye(len(weights)) - z * whole / whole.sum(axis=1, keepdims=True)
    return q


def path_affinity(q: F64, i: I64, j: I64) -> float:
    union = np.concatenate([i, j])
    inverse = np.linalg.inv(q[np.ix_(union, union)])
    m = len(i)
    together = inverse[:m, :m].sum() / m**2 + inverse[m:, m:].sum() / len(j) ** 2
    apart = sum(np.linalg.inv(q[np.ix_(c, c)]).sum() / len(c) ** 2 for c in (i, j))
    return float(together - apart)


def zeta_affinity(q: F64, i: I64, j: I64) -> float:
    union = np.concatenate([i, j])
    log_diagonal = np.log(np.diag(np.linalg.inv(q[np.ix_(union, union)])))
    m = len(i)
    together = log_diagonal[:m].mean() + log_diagonal[m:].mean()
    apart = sum(np.log(np.diag(np.linalg.inv(q[np.ix_(c, c)]))).mean() for c in (i, j))
    return float(together - apart)


def merge_all(q: F64, labels: I64, n_clusters: int, kind: str) -> tuple[I64, list[float]]:
    """Return final labels (by lowest start label) and the affinity of each merge."""
    measure = {"path": path_affinity, "zeta": zeta_affinity}[kind]
    clusters = {int(c): np.flatnonzero(labels == c) for c in np.unique(labels)}
    values = []
    while len(clusters) > n_clusters:
        names = sorted(clusters)
        pairs = [(i, j) for i in names for j in names if i < j]
        found = [measure(q, clusters[i], clusters[j]) for i, j in pairs]
        best = int(np.argmax(found))
        i, j = pairs[best]
        values.append(found[best])
        clusters[i] = np.concatenate([clusters[i], clusters.pop(j)])
    final = np.empty(len(labels), dtype=np.int64)
    for number, name in enumerate(sorted(clusters)):
        final[clusters[name]] = number
    return final, values
