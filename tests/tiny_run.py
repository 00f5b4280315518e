"""A run folder with every file a run can have, small enough to be read at a glance."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from selfsort.errors import SelfsortError
from selfsort.runs.folder import RunFolder, Thumbnails
from selfsort.types import Clustering, State

CONFIG = {"method": "kmeans", "settings": {"n_clusters": 2}, "seed": 0, "image": {"height": 4}}
NAMES = ("a.png", "b,c.png", 'say "hi".png', "line\nbreak.png")
SOFT = np.array([[0.9, 0.1], [0.2, 0.8], [0.6, 0.4], [0.5, 0.5]], dtype=np.float32)
RESULT = Clustering(
    labels=SOFT.argmax(axis=1),
    soft=SOFT,
    features=np.arange(12, dtype=np.float32).reshape(4, 3),
    model=State({"centroids": np.ones((2, 3), dtype=np.float32)}, {"variance": 0.5}),
    extras={"labels_sf": np.array([1, 1, 0, 0])},
)


def fill(run: RunFolder) -> RunFolder:
    """Write every file a run can have."""
    run.write_json("ingest.json", {"skipped": []})
    run.append_event({"step": 1, "total": 2, "elapsed": 0.5, "loss": 1.5})
    run.save_history(1, {"labels": RESULT.labels})
    run.save_resume(1, State({"weights": np.ones(3)}, {"epoch": 1}))
    run.append_event({"step": 2, "total": 2, "elapsed": 1.5, "warnings": ["careful."]})
    run.write_json("metrics.json", {"acc": 0.5})
    run.save_truth(np.array([0, 1, 0, 1]), ["cat", "dog"])
    run.save_thumbnails(Thumbnails(np.array([0, 2]), np.zeros((2, 4, 4, 3), dtype=np.uint8)))
    run.append_event({"kind": "end", "seconds": 2.0, "warnings": []})
    run.save_result(RESULT, NAMES)
    return run


def read_everything(path: Path) -> None:
    """Call every reader; what one of them refuses must not keep the others from being tried."""
    run = RunFolder.open(path)
    readers: list[Callable[[], object]] = [
        run.result,
        run.label_table,
        run.events,
        run.history,
        run.load_resume,
        run.truth,
        run.truth_names,
        run.thumbnails,
        lambda: run.n_clusters,
        lambda: run.read_json("ingest.json"),
        lambda: run.read_json("metrics.json"),
    ]
    refusals = []
    for reader in readers:
        try:
            reader()
        except SelfsortError as error:
            refusals.append(error)
    if refusals:
        raise refusals[0]


def files_of(path: Path) -> dict[str, bytes]:
    """Return the content of every file under a folder."""
    return {str(file.relative_to(path)): file.read_bytes() for file in path.rglob("*") if file.is_file()}
