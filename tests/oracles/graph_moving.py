"""Modularity and moving items, written down as they are defined: dense tables, everything computed anew."""

from __future__ import annotations

import numpy as np

from selfsort.types import F64, I64


def modularity(dense: F64, labels: I64, resolution: float) -> float:
    whole, degrees = dense.sum(), dense.sum(axis=1)
    beyond_chance = dense / whole - resolution * np.outer(degrees, degrees) / whole**2
    return float(beyond_chance[labels[:, None] == labels].sum())


def settled(dense: F64, labels: I64, resolution: float) -> I64:
    """Move items one by one to where the modularity of the whole is largest, until none moves."""
    found = labels.copy()
    for _ in range(10):
        has_moved = False
        for i in range(len(found)):
            met = {int(found[j]) for j in np.flatnonzero(dense[i])} - {int(found[i])}
            best, best_value = int(found[i]), modularity(dense, found, resolution)
            for c in sorted(met):
                trial = found.copy()
                trial[i] = c
                value = modularity(dense, trial, resolution)
                if value > best_value + 1e-12:
                    best, best_value = c, value
            has_moved |= best != found[i]
            found[i] = best
        if not has_moved:
            break
    return found
