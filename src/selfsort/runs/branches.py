"""The upper part of a run's tree, as pages show it: branches with their sizes and a few pictures."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from selfsort.graph.hierarchy import Hierarchy
from selfsort.types import F32, I64


@dataclass(frozen=True)
class Branch:
    """Some images that are one cluster at some number of clusters."""

    size: int
    cluster: int | None
    """The run's cluster that it is, or is a part of; None if it joins several."""
    children: tuple[int, ...]
    """The two that it is made of; none for the finest parts shown."""
    pictures: tuple[int, ...]
    """Images that stand for it, best first."""


@dataclass(frozen=True)
class Branches:
    """The tree from `n_parts` parts on: the parts, then what each merge makes, in order; the last one is all images."""

    nodes: tuple[Branch, ...]
    n_parts: int

    def at(self, n_clusters: int) -> list[int]:
        """Return the branches that are the clusters at a number of them, in order."""
        return self.below(len(self.nodes) - 1, n_clusters)

    def below(self, node: int, n_clusters: int) -> list[int]:
        """Return what a branch has fallen into at a number of clusters, in order; itself if it has not."""
        n_whole = 2 * self.n_parts - n_clusters
        found, pending = [], [node]
        while pending:
            inner = pending.pop()
            if inner < n_whole:
                found.append(inner)
            else:
                pending += reversed(self.nodes[inner].children)
        return found


def branches_of(tree: Hierarchy, n_parts: int, priority: F32, n_pictures: int) -> Branches:
    """Cut the top off a tree.

    Args:
        tree: of the run.
        n_parts: the finest parts to show, at least the clusters of the run.
        priority: (N,) which images stand for others: the highest first; minus infinity for never.
        n_pictures: images that stand for each branch.
    """
    merged = tree.tree
    lower = merged.down_to(n_parts)
    roots = lower.roots()
    ordered = list(dict.fromkeys(roots.tolist()))  # leaves are in order, so these come by their first leaf
    number = {root: i for i, root in enumerate(ordered)}
    number |= {merged.n_start + len(lower.merges) + m: n_parts + m for m in range(n_parts - 1)}
    own = tree.labels()
    nodes: list[Branch] = []
    of_part = lower.labels()
    by_part = np.argsort(of_part, kind="stable")
    for rows in np.split(by_part, np.cumsum(np.bincount(of_part))[:-1]):
        nodes.append(Branch(len(rows), int(own[rows[0]]), (), _best(rows, priority, n_pictures)))
    for pair in merged.merges[len(lower.merges) :].tolist():
        a, b = (number[node] for node in pair)
        cluster = nodes[a].cluster if nodes[a].cluster == nodes[b].cluster else None
        pictures = _shared(nodes[a], nodes[b], n_pictures)
        nodes.append(Branch(nodes[a].size + nodes[b].size, cluster, (a, b), pictures))
    return Branches(tuple(nodes), n_parts)


def coarser_levels(tree: Hierarchy) -> list[int]:
    """Choose the numbers of groups to show above the clusters: a level for each factor of about four."""
    k = tree.n_clusters
    return tree.coarser(max(1, round(math.log(k, 3.5)) - 1)) if k > 3 else []


def _best(rows: I64, priority: F32, most: int) -> tuple[int, ...]:
    ranked = rows[np.argsort(-priority[rows], kind="stable")[:most]]
    return tuple(ranked[np.isfinite(priority[ranked])].tolist())


def _shared(one: Branch, other: Branch, most: int) -> tuple[int, ...]:
    """Let both show pictures, the larger one more of them."""
    large, small = sorted((one, other), key=lambda branch: -branch.size)
    n_small = min(len(small.pictures), max(1, most * small.size // (small.size + large.size)))
    kept = large.pictures[: most - n_small]
    return (*kept, *small.pictures[: most - len(kept)])
