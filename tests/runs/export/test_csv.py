from __future__ import annotations

import io
from pathlib import Path

import numpy as np
from tests.runs.corrected import corrected

from selfsort.runs.edits import Mark, Merge, Move, Rename
from selfsort.runs.export.csv import csv_file, predicted_csv
from selfsort.runs.folder import RunFolder
from selfsort.runs.labels import current_labels, whole_cluster_edits
from selfsort.types import Assignment

SOFT = np.array([[0.25, 0.75]], np.float32)


def written(folder: RunFolder, *, is_original: bool = False) -> bytes:
    file = io.BytesIO()
    csv_file(folder, current_labels(folder, is_original=is_original))(file)
    return file.getvalue()


def test_labels_of_the_method_come_with_names_and_paths(tmp_path: Path) -> None:
    folder = corrected(tmp_path / "run")
    lines = written(folder).decode().splitlines()
    assert lines[:2] == ['"name","cluster","confidence","label","path"', '"a.png",0,0.9,"Cluster 0",""']
    folder.write_json("ingest.json", {"kind": "folder"})
    folder.config["source"] = {"path": "/photos"}
    assert written(folder).decode().splitlines()[1] == '"a.png",0,0.9,"Cluster 0","/photos/a.png"'


def test_corrected_labels_come_with_names_and_marks(tmp_path: Path) -> None:
    folder = corrected(tmp_path / "run", Rename(0, "=cats"), Move((1,), 0), Mark((0,), True))
    lines = written(folder).decode().splitlines()
    assert lines[:3] == [
        '"name","cluster","label","is_wrong","original_cluster","original_confidence","path"',
        '"a.png",0,"\'=cats",1,0,0.9,""',
        '"b,c.png",0,"\'=cats",0,1,0.8,""',
    ]
    assert written(folder, is_original=True).startswith(b'"name","cluster","confidence"')


def test_predicted_labels_have_names_once_somebody_gave_some(tmp_path: Path) -> None:
    merged = corrected(tmp_path / "merged", Merge((0, 1), 0))
    assert predicted_csv(["new.png"], Assignment(SOFT, SOFT), whole_cluster_edits(merged, 2)) == (
        b"name,cluster,confidence\nnew.png,0,1.000000\n"
    )
    named = corrected(tmp_path / "named", Rename(1, "cats"))
    assert predicted_csv(["new.png"], Assignment(SOFT, SOFT), whole_cluster_edits(named, 2)) == (
        b'"name","cluster","confidence","label"\n"new.png",1,0.75,"cats"\n'
    )
