"""`--train-on N`: a method learns from some images, drawn by the seed; its model then sorts all of them.

Those it learned from keep what the method itself said of them. The others get what the model says of new images: a
network's answer, or the vote of the nearest images that were learned from. Of several processes each asks the model
about some of the images.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import torch

from selfsort import distributed
from selfsort.data.store import gather
from selfsort.errors import InvalidInput, invalid
from selfsort.learning.encode import apply_in_blocks
from selfsort.learning.seeds import derive_seed
from selfsort.pages import put
from selfsort.text import plural
from selfsort.types import I64, Arrays, Assignment, Clustering, Encoded, Images, Inputs, Model, Snapshot, State

_CHUNK = 4096
"""Images judged together: as many as when a saved run is asked, so that it repeats the very same products."""


def check_train_on(n_learned: int | None, n_clusters: int, n_images: int, *, is_finetuned: bool = False) -> None:
    """Refuse what cannot work before anything is done."""
    if n_learned is None:
        return
    if n_learned < max(2, n_clusters):
        raise invalid(
            "--train-on", f"be at least the number of clusters ({max(2, n_clusters)})", n_learned, "Give more images."
        )
    if is_finetuned and n_learned < n_images:
        raise InvalidInput(
            "--train-on cannot be used where the encoder learns too. Expected an encoder that stays as it is. "
            "Leave out encoder.finetune, or --train-on."
        )


def drawn(n_images: int, n_learned: int | None, seed: int) -> I64 | None:
    """Return the rows to learn from, in order; None: all."""
    if n_learned is None or n_learned >= n_images:
        return None
    draw = np.random.default_rng(derive_seed(seed, "train on"))
    return np.sort(draw.choice(n_images, n_learned, replace=False)).astype(np.int64)


def part_of(images: Inputs, rows: I64) -> Inputs:
    """Return the images at these rows, held within the budget of the process."""
    if isinstance(images, Encoded):
        return Encoded(gather(images.features, rows), None if images.views is None else gather(images.views, rows))
    return Images(gather(images.pixels, rows))


def said_of_all(
    snapshots: Iterator[Snapshot], learned: I64, images: Inputs, restore: Callable[[State], Model]
) -> Iterator[Snapshot]:
    """Pass snapshots on; the result becomes one of all images.

    Args:
        snapshots: of the images that are learned from. Labels on the way stay those of these images alone.
        learned: (M,) which of all images they are.
        images: all.
        restore: makes a model of what the result holds.
    """
    for snapshot in snapshots:
        history, result = _rows_of_all(snapshot.history, learned), snapshot.result
        if result is None:
            yield replace(snapshot, history=history)
            continue
        whole = _of_all(result, learned, images, restore(result.model))
        note = (
            f"Learned from {len(learned):,} of {plural(len(images), 'image')}, drawn by the seed; the others were "
            "sorted by the model."
        )
        yield replace(
            snapshot,
            labels=whole.labels,
            event={**snapshot.event, "trained_on": len(learned)},
            result=whole,
            warnings=(*snapshot.warnings, note),
            history=history,
        )


def _of_all(result: Clustering, learned: I64, images: Inputs, model: Model) -> Clustering:
    """Ask the model about all images, and keep what the method said of its own."""
    said = _asked(model, images)
    labels = said.labels
    labels[learned] = result.labels
    put(said.features, learned, result.features)
    put(said.soft, learned, result.soft)
    # What has one row for each image that was learned from says nothing of the others.
    extras = {name: array for name, array in result.extras.items() if not array.ndim or len(array) != len(learned)}
    return Clustering(labels, said.soft, said.features, result.model, _renumbered(extras, learned))


def _asked(model: Model, images: Inputs) -> Assignment:
    """Ask the model about all images; of several processes each asks about some, and holds all answers."""
    if distributed.world_size() == 1:
        return apply_in_blocks(model, images, block=_CHUNK)

    def ask(idx: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        said = model.apply(images.subset(slice(int(idx[0]), int(idx[-1]) + 1)))
        return torch.from_numpy(said.features), torch.from_numpy(said.soft)

    chunks = torch.split(torch.arange(len(images)), _CHUNK)
    return Assignment(*distributed.rows_in_shares(chunks, len(images), ask))


def _rows_of_all(history: Arrays, learned: I64) -> Arrays:
    """Number the images of a stage as all images are numbered."""
    if not history:
        return history
    return _renumbered({"rows": np.arange(len(learned)), **history}, learned)


def _renumbered(arrays: Arrays, learned: I64) -> Arrays:
    is_named = {name: name in ("rows", "neighbours") or name.endswith("_rows") for name in arrays}
    return {name: learned[array] if is_named[name] else array for name, array in arrays.items()}
