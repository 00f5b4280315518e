"""Small finished runs to explore, made as a user would make them."""

from __future__ import annotations

from pathlib import Path

from selfsort.data.options import ReadOptions
from selfsort.runs.folder import RunFolder
from selfsort.runs.launch import Request, launch


def fitted(source: Path, out: Path, clusters: int = 3, **reading: object) -> RunFolder:
    """Cluster a source by k-means."""
    wanted = ReadOptions(path=str(source), **reading)  # type: ignore[arg-type]
    launched = launch(Request(source=wanted, clusters=clusters, method="kmeans", settings=("n_restarts=2",), out=out))
    launched.fit.run()
    return launched.folder


def labels_of(folder: RunFolder) -> list[int]:
    found: list[int] = folder.label_table().labels.tolist()
    return found
