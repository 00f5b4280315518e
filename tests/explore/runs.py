"""Small finished runs to explore, made as a user would make them."""

from __future__ import annotations

from pathlib import Path

from selfsort.data.options import Reading
from selfsort.runs.folder import RunFolder
from selfsort.runs.launch import Request, start


def fitted(source: Path, out: Path, clusters: int = 3, **reading: object) -> RunFolder:
    """Cluster a source by k-means."""
    wanted = Reading(path=str(source), **reading)  # type: ignore[arg-type]
    session = start(Request(reading=wanted, clusters=clusters, method="kmeans", settings=("n_restarts=2",)), out)
    session.fit.run()
    return session.folder


def labels_of(folder: RunFolder) -> list[int]:
    found: list[int] = folder.label_table().labels.tolist()
    return found
