"""The labels of a run as a table for people and their spreadsheets; for programs there is the run's labels.csv."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Sequence
from typing import IO, Any

from selfsort.data.spreadsheet import as_text
from selfsort.runs.folder import RunFolder
from selfsort.runs.labels import RunLabels, WholeClusterEdits
from selfsort.runs.moved import picture_paths
from selfsort.runs.outliers import written
from selfsort.runs.table import label_csv
from selfsort.types import Assignment


def csv_file(folder: RunFolder, labels: RunLabels) -> Callable[[IO[bytes]], object]:
    """Prepare name, cluster, confidence, label, path; of corrected labels also marks and what the method had said."""
    # Behind the first cell quotes do not hold where the comma stands in numbers: what a semicolon or a tab would cut
    # into a formula is left out.
    paths = ["" if re.search(r"[;\t\r\n]", path) else path for path in picture_paths(folder, labels.table.names)]
    table = _corrected(labels, paths) if labels.n_edits else _plain(labels, paths)
    return lambda file: file.write(table)


def predicted_csv(names: Sequence[str], assignment: Assignment, edits: WholeClusterEdits) -> bytes:
    """Return the table of new images: name, cluster, confidence, and a column of names once a person gave some."""
    labels, confidence = edits.labels(assignment)
    if not edits.names:
        return label_csv(names, written(labels, edits.outliers), confidence)
    stream = io.StringIO(newline="")
    writer = csv.writer(stream, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC)
    writer.writerow(["name", "cluster", "confidence", "label"])
    numbers = written(labels, edits.outliers).tolist()
    for name, number, cluster, sure in zip(names, numbers, labels.tolist(), confidence.tolist(), strict=True):
        writer.writerow([name, number, round(sure, 6), edits.name(cluster)])
    return stream.getvalue().encode("utf-8", "surrogateescape")


def _plain(labels: RunLabels, paths: Sequence[str]) -> bytes:
    table, stream, writer = labels.table, *_writer()
    writer.writerow(["name", "cluster", "confidence", "label", "path"])
    rows = zip(table.names, table.written.tolist(), table.confidence.tolist(), _titles(labels), paths, strict=True)
    for name, cluster, sure, title, path in rows:
        writer.writerow([as_text(name), cluster, round(sure, 6), title, as_text(path)])
    return stream.getvalue().encode("utf-8", "surrogateescape")


def _corrected(labels: RunLabels, paths: Sequence[str]) -> bytes:
    table, stream, writer = labels.table, *_writer()
    writer.writerow(["name", "cluster", "label", "is_wrong", "original_cluster", "original_confidence", "path"])
    original = zip(written(labels.original, table.outliers).tolist(), table.confidence.tolist(), strict=True)
    marks = labels.is_wrong.tolist()
    rows = zip(table.names, table.written.tolist(), _titles(labels), marks, original, paths, strict=True)
    for name, cluster, title, wrong, (was, sure), path in rows:
        writer.writerow([as_text(name), cluster, title, int(wrong), was, round(sure, 6), as_text(path)])
    return stream.getvalue().encode("utf-8", "surrogateescape")


def _writer() -> tuple[io.StringIO, Any]:
    """Quote all texts: the writer would forget to where a name holds a carriage return."""
    stream = io.StringIO(newline="")
    return stream, csv.writer(stream, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC)


def _titles(labels: RunLabels) -> list[str]:
    return [as_text(labels.name(cluster)) for cluster in labels.table.labels.tolist()]
