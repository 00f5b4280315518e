from __future__ import annotations

from pathlib import Path

import numpy as np
from tests.explore.runs import fitted

from selfsort.data import read_source
from selfsort.runs.edits import Mark, Rename
from selfsort.runs.export.table import export_run
from selfsort.runs.journal import Journal
from selfsort.runs.labels import current_labels


def test_pixels_with_labels_and_without_what_is_marked_wrong(photos: Path, tmp_path: Path) -> None:
    folder = fitted(photos, tmp_path / "run")
    journal = Journal.open(folder.path)
    journal.add(Mark((0, 5), True))
    journal.add(Rename(1, "cats"))
    journal.close()
    labels = current_labels(folder)
    dataset = read_source(export_run(folder, labels, "npz", tmp_path / "out.npz"))
    kept = np.setdiff1d(np.arange(len(labels.original)), [0, 5])
    assert (dataset.images.pixels == read_source(photos).images.pixels[kept]).all()
    assert dataset.labels is not None
    assert dataset.labels.tolist() == labels.original[kept].tolist()
    assert dataset.label_names == ("Cluster 0", "cats", "Cluster 2")
