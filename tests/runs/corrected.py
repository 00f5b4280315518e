"""The tiny run with corrections, as the page of the explorer would have written them."""

from __future__ import annotations

from pathlib import Path

from tests.tiny_run import CONFIG, fill

from selfsort.runs.edits import Edit
from selfsort.runs.folder import RunFolder
from selfsort.runs.journal import Journal


def corrected(path: Path, *edits: Edit) -> RunFolder:
    """Write the tiny run (clusters 0, 1, 0, 0) and correct it."""
    folder = fill(RunFolder.create(path, CONFIG))
    if edits:
        journal = Journal.open(folder.path)
        for edit in edits:
            journal.add(edit)
        journal.close()
    return folder
