"""A run made from a finished one without training: what every such run takes over, and its place beside the first.

`cut` gives a run another number of clusters, `derive` adds pictures or corrections to it. Both are built in a folder of
their own and put into place when they are complete; the run they come from stays as it is.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from itertools import count
from pathlib import Path

from selfsort import __version__
from selfsort.errors import invalid
from selfsort.improve.stages import STAGES
from selfsort.registry import OURS
from selfsort.runs.edits import Edit
from selfsort.runs.encoder import FEATURES_FROM
from selfsort.runs.export.folders import put
from selfsort.runs.folder import RunFolder, format_of
from selfsort.runs.journal import Journal
from selfsort.runs.loop import versions
from selfsort.runs.model import STARTED_FROM, other_name, other_runs
from selfsort.types import Json

_OF_TRAINING = (
    "format",
    "settings",
    "improve",
    "recipe",
    "clusters",
    "method_from",
    "method_choice",
    "outliers",
    "train_on",
)
"""What config.json says of the training and not of the images."""


def describe(folder: RunFolder, base: RunFolder, stage: str, n_clusters: int) -> Json:
    """Return config.json of a run made from another: its images, and the stage in place of the training."""
    kept = {key: value for key, value in folder.config.items() if key not in _OF_TRAINING}
    return {
        **kept,
        "selfsort": __version__,
        "method": stage,
        "method_from": OURS.to_json(),
        "settings": {"n_clusters": n_clusters},
        "recipe": {"name": "default", "reason": f"{stage} has no settings", "source": "ours"},
        "versions": versions(),
        STARTED_FROM: str(folder.path.resolve()),
        "refines": base.field("method", str),
    }


def embed_whole(made: RunFolder, source: RunFolder, name: str = STARTED_FROM) -> None:
    """Copy a model, and for a stage also those that it went on from. The encoder before them is the new run's own."""
    is_stage = source.field("method", str) in STAGES
    # A method's model is whole, also one that was trained further. A model knows no outliers.
    left_out = (
        ("format", "outliers", FEATURES_FROM) if is_stage else ("format", "outliers", FEATURES_FROM, STARTED_FROM)
    )
    described = {key: value for key, value in source.config.items() if key not in left_out}
    made.write_state(f"{name}/model.safetensors", source.read_state("model.safetensors"))
    if is_stage:
        embed_whole(made, RunFolder.open(source.path / STARTED_FROM), f"{name}/{STARTED_FROM}")
        for number, other in enumerate(other_runs(source), start=2):
            embed_whole(made, other, f"{name}/{other_name(number)}")
    made.write_json(f"{name}/config.json", {"format": format_of(described), **described})


def write_edits(run: Path, edits: Sequence[Edit]) -> None:
    """Give a new run its corrections."""
    if not edits:
        return
    journal = Journal.open(run)
    try:
        for edit in edits:
            journal.add(edit)
    finally:
        journal.close()


def put_beside(made: Path, out: Path | None, folder: RunFolder, what: str) -> Path:
    """Put a complete run into its place; without one, beside the first under a name that is free."""
    if out is not None:
        RunFolder.refuse_occupied(out)
        if out.is_dir():  # it is empty, or what a killed start left; a folder is put in the place of an empty one only
            shutil.rmtree(out)
        place = put(made, [out])
    else:
        run = folder.path.resolve()
        place = put(made, (run.with_name(f"{run.name}-{what}{'' if i == 1 else f'-{i}'}") for i in count(1)))
    if place is None:
        raise invalid("--out", "be new", str(out), "Choose another --out.")
    return place
