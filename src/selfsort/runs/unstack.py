"""A method learns from one picture of each stack; the others get what it says of that one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from selfsort.types import I64, Arrays, Clustering, Snapshot


def unstacked(snapshots: Iterator[Snapshot], place: I64) -> Iterator[Snapshot]:
    """Pass on what a method says of the pictures it learned from, said of all.

    Args:
        snapshots: of the pictures that stand for stacks.
        place: (N,) which of these stands for each picture.
    """
    for snapshot in snapshots:
        # On the way, a method that learns from some pictures only says nothing of the others (`train_on`).
        is_whole = len(snapshot.labels) == int(place.max()) + 1
        labels, result = snapshot.labels[place] if is_whole else snapshot.labels, snapshot.result
        history = _unstacked(snapshot.history, place, len(snapshot.labels)) if is_whole else snapshot.history
        yield replace(
            snapshot, labels=labels, history=history, result=None if result is None else _of_all(result, place)
        )


def _of_all(result: Clustering, place: I64) -> Clustering:
    extras = _unstacked(result.extras, place, len(result.labels))
    return Clustering(result.labels[place], result.soft[place], result.features[place], result.model, extras)


def _unstacked(arrays: Arrays, place: I64, n_learned: int) -> Arrays:
    """Extend what has one row for each picture."""
    return {name: array[place] if array.ndim and len(array) == n_learned else array for name, array in arrays.items()}
