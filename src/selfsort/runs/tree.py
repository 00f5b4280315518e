"""The tree of a run on disk: written at the end of every fit, and made when it is first wanted for older runs.

tree.safetensors   start (N,) leaf of each image; rows (L,) image that stands for each leaf; merges (L - 1, 2) in
                   order, numbered as SciPy's linkage does; affinity and reasons (L - 1,); clusters (K,) numbers of
                   the run's clusters, in the order of their leaves
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np
import numpy.typing as npt

from selfsort.errors import CannotWrite, InvalidInput
from selfsort.graph.hierarchy import Hierarchy
from selfsort.graph.tree import BY_DISTANCE, MergeTree
from selfsort.runs.arrays import as_counts, finite, read_rows, with_columns
from selfsort.runs.folder import RunFolder
from selfsort.types import F32, I64, Arrays, State

TREE_FILE = "tree.safetensors"


def save_tree(folder: RunFolder, tree: Hierarchy) -> None:
    """Keep the tree of a run."""
    merged = tree.tree
    arrays: Arrays = {
        "start": merged.start,
        "rows": tree.rows,
        "merges": merged.merges,
        "affinity": merged.affinity,
        "reasons": merged.reasons,
        "clusters": tree.clusters,
    }
    folder.write_state(TREE_FILE, State(arrays))


def tree_of(folder: RunFolder) -> Hierarchy:
    """Return the tree of a finished run; one that has none yet gets it now, where its folder can be written."""
    labels = folder.label_table().labels
    if (folder.path / TREE_FILE).is_file():
        tree = _read(folder)
        if tree is None or len(tree.tree.start) != len(labels) or (tree.labels() != labels).any():
            raise InvalidInput(
                f"{folder.path / TREE_FILE} is not the tree of this run. Expected one that holds the clusters of "
                "labels.csv. It was changed or damaged: restore it, or remove it, and it is made again."
            )
        return tree
    from selfsort.improve.grow import grow

    mapped = _mapped_features(folder, len(labels))
    tree = grow(read_rows(mapped, slice(0, len(mapped))), labels)  # very wide ones thinned out
    with suppress(CannotWrite):  # somebody else's folder: the next one who wants it makes it again
        save_tree(folder, tree)
    return tree


def features_of(folder: RunFolder, n_images: int) -> F32:
    """Read the features of all images; what is not a number becomes zero."""
    return finite(_mapped_features(folder, n_images))


def _mapped_features(folder: RunFolder, n_images: int) -> npt.NDArray[Any]:
    path = folder.path / "features.npy"
    features = with_columns(folder.features(), path)
    if len(features) != n_images:
        raise InvalidInput(
            f"{path} speaks of {len(features)} images. Expected the {n_images} of labels.csv. "
            "The folder was changed or damaged: restore it, or run selfsort fit again."
        )
    return features


def _read(folder: RunFolder) -> Hierarchy | None:
    """Read the file, or return None if its arrays are not those of a tree."""
    arrays = folder.read_state(TREE_FILE).arrays
    start, rows, clusters = (as_counts(arrays.get(name)) for name in ("start", "rows", "clusters"))
    if start is None or rows is None or clusters is None or not len(start) or not len(rows) or not len(clusters):
        return None
    merges, affinity, reasons = (arrays.get(name) for name in ("merges", "affinity", "reasons"))
    n_leaves = len(rows)
    if merges is None or merges.shape != (n_leaves - 1, 2) or merges.dtype.kind not in "iu":
        return None
    for values, kind in ((affinity, "f"), (reasons, "i")):
        if values is None or values.shape != (n_leaves - 1,) or values.dtype.kind != kind:
            return None
    assert affinity is not None, "looked at"
    assert reasons is not None, "looked at"
    sizes = _sizes(start, merges.astype(np.int64), n_leaves)
    is_sound = (
        sizes is not None
        and rows.max() < len(start)
        and (start[rows] == np.arange(n_leaves)).all()
        and len(clusters) <= n_leaves
        and bool((np.diff(clusters) > 0).all())
        and bool(np.isfinite(affinity).all())
        and (n_leaves == 1 or 0 <= int(reasons.min()) <= int(reasons.max()) <= BY_DISTANCE)
    )
    if not is_sound or sizes is None:
        return None
    merged = MergeTree(start, merges.astype(np.int64), affinity.astype(np.float64), reasons.astype(np.int8), sizes)
    return Hierarchy(merged, rows, clusters)


def _sizes(start: I64, merges: I64, n_leaves: int) -> I64 | None:
    """Count the images of every node; None unless each exists when it is merged, and once."""
    if start.max() >= n_leaves or (merges >= n_leaves + np.arange(len(merges))[:, None]).any() or (merges < 0).any():
        return None
    if len(np.unique(merges)) != merges.size:
        return None
    sizes = np.bincount(start, minlength=n_leaves).tolist()
    for a, b in merges.tolist():
        sizes.append(sizes[a] + sizes[b])
    return np.array(sizes, dtype=np.int64) if min(sizes) > 0 else None
