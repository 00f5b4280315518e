"""How strongly each image of a run belongs to each cluster: the one door to it, whichever way it is stored.

soft.npy           (N, K) float32, whole, up to a gigabyte
soft.safetensors   beyond that the strongest of each image: clusters (N, 5) int32, strongest first, their shares (N, 5)
                   float32, and the number of clusters. What is left of one is spread evenly over the other clusters:
                   never more than the fifth has, so the order stays.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from selfsort.data.store import allocate_floats
from selfsort.errors import InvalidInput
from selfsort.pages import passes
from selfsort.types import F32, I64, State

if TYPE_CHECKING:
    from selfsort.runs.folder import RunFolder

WHOLE, STRONGEST = "soft.npy", "soft.safetensors"
N_STRONGEST = 5
_LARGEST_WHOLE = 2**30
_MOST_CLUSTERS = 2**31


@dataclass(frozen=True, eq=False)
class Soft:
    """Soft assignments of all images, on disk or as the strongest of each."""

    shape: tuple[int, int]
    path: Path
    whole: npt.NDArray[Any] | None = None
    """(N, K) mapped."""
    clusters: npt.NDArray[np.int32] | None = None
    shares: F32 | None = None

    def __len__(self) -> int:
        return self.shape[0]

    def rows(self, rows: I64 | slice) -> F32:
        """Return the assignments of some images, (M, K)."""
        if self.whole is not None:
            return np.array(self.whole[rows], np.float32)
        assert self.clusters is not None, "one of the two"
        assert self.shares is not None, "one of the two"
        clusters, shares = self.clusters[rows], self.shares[rows]
        left = np.maximum(1 - shares.sum(axis=1), 0) / max(1, self.shape[1] - shares.shape[1])
        found: F32 = np.empty((len(clusters), self.shape[1]), np.float32)
        found[:] = left[:, None]
        np.put_along_axis(found, clusters.astype(np.int64), shares, axis=1)
        return found

    def all(self) -> F32:
        """Return those of all images, (N, K), mapped from a file where they are many."""
        if self.whole is not None:
            mapped: F32 = self.whole
            return mapped
        found: F32 = allocate_floats(self.shape)
        for block in passes(found):
            found[block] = self.rows(block)
        return found


def write_soft(folder: RunFolder, soft: F32, inside: str = "") -> None:
    """Keep the assignments of a run, or of one inside it: all of them, or of very many the strongest."""
    if soft.nbytes <= _LARGEST_WHOLE or soft.shape[1] <= N_STRONGEST:
        folder.write_array(inside + WHOLE, soft)
        return
    clusters = np.empty((len(soft), N_STRONGEST), np.int32)
    shares = np.empty((len(soft), N_STRONGEST), np.float32)
    for block in passes(soft):
        # Ties go to the lowest number, as everywhere.
        clusters[block] = np.argsort(-soft[block], axis=1, kind="stable")[:, :N_STRONGEST]
        shares[block] = np.take_along_axis(soft[block], clusters[block].astype(np.int64), axis=1)
    strongest = State({"clusters": clusters, "shares": shares}, {"n_clusters": soft.shape[1]})
    folder.write_state(inside + STRONGEST, strongest)


def read_soft(folder: RunFolder, inside: str = "") -> Soft:
    """Open the assignments of a run, which may be a stranger's, or of one inside it."""
    path = folder.path / (inside + STRONGEST)
    if not path.is_file():
        whole = folder.read_array(inside + WHOLE, 2, np.float32)
        return Soft((len(whole), whole.shape[1]), folder.path / (inside + WHOLE), whole)
    state = folder.read_state(inside + STRONGEST)
    clusters, shares, n_clusters = (
        state.arrays.get("clusters"),
        state.arrays.get("shares"),
        state.meta.get("n_clusters"),
    )
    is_sound = (
        clusters is not None
        and shares is not None
        and isinstance(n_clusters, int)
        and clusters.dtype == np.int32
        and shares.dtype == np.float32
        and clusters.ndim == 2
        and clusters.shape == shares.shape
        and clusters.size > 0
        and clusters.shape[1] <= n_clusters < _MOST_CLUSTERS
        and bool((clusters >= 0).all())
        and bool((clusters < n_clusters).all())
        and bool((np.abs(shares) < 2).all())
    )
    if not is_sound:
        raise InvalidInput(
            f"{path} cannot be used (its arrays do not fit together). Expected a run folder as selfsort wrote it. "
            "It was changed or damaged: restore it, or run selfsort fit again."
        )
    return Soft((len(clusters), n_clusters), path, None, clusters, shares)  # type: ignore[arg-type]
