"""Agglomeration on a directed graph, written from the definition: dense, slow, and as plain as possible."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

Matrix = npt.NDArray[np.float64]
Labels = npt.NDArray[np.int64]


@dataclass
class Outcome:
    """Merges as (lower name, higher name, affinity), and the labels at the end."""

    labels: Labels
    merges: list[tuple[int, int, float]] = field(default_factory=list)
    isolated: list[int] = field(default_factory=list)
    """Which merges were made without affinity."""


def directed_affinity(weights: Matrix, source: list[int], destination: list[int]) -> float:
    """A(P -> Q) = 1' W[Q, P] W[P, Q] 1 / |Q|^2."""
    arriving = weights[np.ix_(destination, source)].sum(axis=0)
    leaving = weights[np.ix_(source, destination)].sum(axis=1)
    return float(arriving @ leaving) / len(destination) ** 2


def agglomerate(
    weights: Matrix,
    labels: Labels,
    n_clusters: int,
    *,
    update: str = "exact",
    alpha: float = 0.0,
    structure_weight: float = 0.0,
    n_structure: int = 5,
    features: Matrix | None = None,
) -> Outcome:
    """Merge by the largest score; a cluster's name is its lowest start label, and lower names win ties."""
    members = {int(name): [int(i) for i in np.flatnonzero(labels == name)] for name in np.unique(labels)}
    # toward[p][q] is A(p -> q).
    toward = {p: {q: directed_affinity(weights, members[p], members[q]) for q in members if q != p} for p in members}
    done = Outcome(labels=labels.copy())
    while len(members) > n_clusters:
        names = sorted(members)
        scores = [_score(toward, p, names, structure_weight, n_structure) for p in names]
        first = names[int(np.argmax(scores))]
        if max(scores) > 0:
            others = [q for q in names if q != first]
            second = others[int(np.argmax([toward[first][q] + toward[q][first] for q in others]))]
            affinity = toward[first][second] + toward[second][first]
        else:
            assert features is not None
            first, second = _join_loner(weights, members, features)
            affinity = 0.0
            done.isolated.append(len(done.merges))
        low, high = min(first, second), max(first, second)
        done.merges.append((low, high, affinity))
        _merge(weights, members, toward, low, high, update, alpha)
    for number, name in enumerate(sorted(members)):
        done.labels[members[name]] = number
    return done


def _score(
    toward: dict[int, dict[int, float]], p: int, names: list[int], structure_weight: float, n_structure: int
) -> float:
    affinities = sorted((toward[p][q] + toward[q][p] for q in names if q != p), reverse=True)
    n_near = min(n_structure, len(affinities))
    if n_near <= 1:
        return affinities[0]
    gaps = [affinities[0] - affinities[q] for q in range(1, n_near)]
    return affinities[0] + structure_weight / (n_near - 1) * sum(gaps)


def _join_loner(weights: Matrix, members: dict[int, list[int]], features: Matrix) -> tuple[int, int]:
    """Pick the smallest cluster and the nearest of those it has arcs with, or of all if it has none."""
    smallest = min(members, key=lambda p: (len(members[p]), p))
    others = [q for q in members if q != smallest]
    arcs = weights + weights.T
    near = [q for q in others if arcs[np.ix_(members[smallest], members[q])].any()] or others
    centroid = {p: features[m].mean(axis=0) for p, m in members.items()}
    return smallest, min(near, key=lambda q: (((centroid[q] - centroid[smallest]) ** 2).sum(), q))


def _merge(
    weights: Matrix,
    members: dict[int, list[int]],
    toward: dict[int, dict[int, float]],
    low: int,
    high: int,
    update: str,
    alpha: float,
) -> None:
    n_low, n_high = len(members[low]), len(members[high])
    members[low] = sorted(members[low] + members.pop(high))
    for q in members:
        if q == low:
            continue
        if update == "exact":
            into = directed_affinity(weights, members[q], members[low])
            out_of = directed_affinity(weights, members[low], members[q])
        else:
            to_low, to_high = toward[q][low], toward[q][high]
            out_of = toward[low][q] + toward[high][q]
            if update == "approx_size":
                into = n_low / (n_low + n_high) * to_low + n_high / (n_low + n_high) * to_high
            else:
                into = (1 + alpha) * (n_low**2 * to_low + n_high**2 * to_high) / (n_low + n_high) ** 2
        toward[q][low], toward[low][q] = into, out_of
        del toward[q][high]
    del toward[high], toward[low][high]
