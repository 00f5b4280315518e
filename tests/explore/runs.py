"""Small finished runs to explore, made as a user would make them."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from selfsort.data.options import ReadOptions
from selfsort.errors import Interrupted
from selfsort.runs.folder import RunFolder
from selfsort.runs.launch import launch
from selfsort.runs.request import Request


def fitted(source: Path, out: Path, clusters: int = 3, **reading: object) -> RunFolder:
    """Cluster a source by k-means."""
    wanted = ReadOptions(path=str(source), **reading)  # type: ignore[arg-type]
    launched = launch(Request(source=wanted, clusters=clusters, method="kmeans", settings=("n_restarts=2",), out=out))
    launched.fit.run()
    return launched.folder


def half_done(source: Path, out: Path) -> RunFolder:
    """Begin a run that is stopped after its first step."""
    wanted = ReadOptions(path=str(source))
    launched = launch(Request(source=wanted, clusters=3, method="toy", out=out))
    launched.fit.max_seconds = 0.0
    with suppress(Interrupted):
        launched.fit.run()
    return launched.folder


def labels_of(folder: RunFolder) -> list[int]:
    found: list[int] = folder.label_table().labels.tolist()
    return found
