"""The labels of a run as a table for people and their spreadsheets; for programs there is the run's labels.csv."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence
from typing import IO

from selfsort.data.spreadsheet import as_text
from selfsort.runs.folder import RunFolder, label_csv
from selfsort.runs.labels import RunLabels, WholeClusterEdits
from selfsort.runs.outliers import written
from selfsort.types import Assignment


def csv_file(folder: RunFolder, labels: RunLabels) -> Callable[[IO[bytes]], object]:
    """Prepare name, cluster, confidence; of corrected labels also names, marks and what the method had said."""
    del folder
    table = _corrected(labels) if labels.n_edits else _plain(labels)
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


def _plain(labels: RunLabels) -> bytes:
    table = labels.table
    return label_csv([as_text(name) for name in table.names], table.written, table.confidence)


def _corrected(labels: RunLabels) -> bytes:
    table, stream = labels.table, io.StringIO(newline="")
    # All texts are quoted: the writer would forget to where a name holds a carriage return.
    writer = csv.writer(stream, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC)
    writer.writerow(["name", "cluster", "label", "is_wrong", "original_cluster", "original_confidence"])
    original = zip(written(labels.original, table.outliers).tolist(), table.confidence.tolist(), strict=True)
    titles = [as_text(labels.name(cluster)) for cluster in table.labels.tolist()]
    rows = zip(table.names, table.written.tolist(), titles, labels.is_wrong.tolist(), original, strict=True)
    for name, cluster, title, wrong, (was, sure) in rows:
        writer.writerow([as_text(name), cluster, title, int(wrong), was, round(sure, 6)])
    return stream.getvalue().encode("utf-8", "surrogateescape")
