"""The eigengap of the normalised Laplacian: k clusters that hardly touch leave k eigenvalues near zero.

Von Luxburg, "A tutorial on spectral clustering", 2007. On real images the gaps are small beside those at 1 and 2, so
the ratio of neighbouring eigenvalues is taken; a reference, not the rule.
"""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array, diags_array, eye_array
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import ArpackNoConvergence, eigsh

from selfsort.choose_k.evidence import Criterion
from selfsort.types import F64

# An eigenvalue this small is one more piece of the graph; ratios of such values mean nothing.
_SMALLEST = 1e-3
_TINY_PIECE = 3
# Up to this many items all eigenvalues are as quick.
_DENSE = 300


def eigengap(graph: csr_array, largest_k: int, *, seed: int = 0) -> Criterion:
    """Return log(lambda_{k+1} / lambda_k) for every number, pieces of fewer than three items left out."""
    _, piece = connected_components(graph, directed=False)
    sizes = np.bincount(piece)
    found = [
        _smallest_eigenvalues(csr_array(graph[rows][:, rows]), largest_k + 1, seed)
        # Each piece has one zero of its own; in the whole graph they would be one value many times, which the
        # iteration cannot count.
        for rows in (np.flatnonzero(piece == p) for p in np.flatnonzero(sizes >= _TINY_PIECE))
    ]
    values = np.sort(np.concatenate([np.zeros(0), *found]))[: largest_k + 1]
    if len(values) < 3:
        return Criterion("eigengap", np.zeros(0, dtype=np.int64), np.zeros(0), 1)
    values = np.maximum(values, _SMALLEST)
    ks = np.arange(2, len(values))
    gaps = np.log(values[ks] / values[ks - 1])
    return Criterion("eigengap", ks, gaps, int(ks[gaps.argmax()]) if gaps.max() > 0 else 1)


def _smallest_eigenvalues(graph: csr_array, n_values: int, seed: int) -> F64:
    """Return the smallest eigenvalues of the normalised Laplacian of a connected graph."""
    root = 1 / np.sqrt(np.asarray(graph.sum(axis=1)).ravel())
    walk = csr_array(diags_array(root) @ graph @ diags_array(root))
    n_items = graph.shape[0]
    if n_items <= _DENSE or n_values >= n_items - 1:
        values: F64 = 1 - np.linalg.eigvalsh(walk.toarray())[::-1][:n_values]
        return values
    start = np.random.default_rng(seed).random(n_items)
    try:  # the largest of 1 + walk are found at once; the smallest of the Laplacian would need a factorisation
        found = eigsh(walk + eye_array(n_items), k=n_values, which="LA", v0=start, tol=1e-4, return_eigenvectors=False)
    except ArpackNoConvergence as partial:
        found = partial.eigenvalues
    return np.sort(2 - found)
