"""`selfsort duplicates`: the stacks of a source, or of the pictures of a run."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch

from selfsort.data import Dataset, ImageSpec, Skipped, read_source
from selfsort.data.detect import open_recorded, open_source
from selfsort.data.folder import expanded, open_file
from selfsort.data.gallery import Gallery, Item, check_share, decode_all
from selfsort.data.spreadsheet import as_text
from selfsort.encoders.encode import plain_features
from selfsort.encoders.registry import best_installed, open_named
from selfsort.errors import InvalidInput, invalid
from selfsort.learning.device import choose_device
from selfsort.runs.encoder import AUTO_ENCODER, NO_ENCODER
from selfsort.runs.folder import RunFolder
from selfsort.runs.moved import recorded_reading
from selfsort.runs.stacks import save_stacks
from selfsort.stacks.bursts import Encode
from selfsort.stacks.find import find_stacks
from selfsort.stacks.stack import KINDS, Kind, Member, Stack
from selfsort.stacks.traits import Traits, traits_of, traits_of_arrays
from selfsort.types import F32, I64, Images


@dataclass(frozen=True, eq=False)
class Duplicates:
    """The stacks of a source or a run."""

    names: tuple[str, ...]
    paths: tuple[Path | None, ...]
    stacks: list[Stack]
    skipped: list[Skipped]

    @property
    def n_spare(self) -> int:
        """Pictures that are not the best of their stack."""
        return sum(len(stack.others) for stack in self.stacks)

    def counts(self) -> dict[Kind, int]:
        """Return how many pictures are spare for each reason."""
        found = Counter(member.kind for stack in self.stacks for member in stack.others)
        return {kind: found[kind] for kind in KINDS}

    def to_csv(self) -> bytes:
        """Return a table for people: stack, name, keep or what it duplicates."""
        stream = io.StringIO(newline="")
        writer = csv.writer(stream, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC)
        writer.writerow(["stack", "name", "is_best", "kind"])
        for number, stack in enumerate(self.stacks):
            writer.writerow([number, as_text(self.names[stack.best]), 1, "best"])
            writer.writerows([number, as_text(self.names[one.row]), 0, one.kind] for one in stack.others)
        return stream.getvalue().encode("utf-8", "surrogateescape")


def find_duplicates(
    source: str | RunFolder, *, encoder: str = AUTO_ENCODER, max_bad: float = 0.05, device: torch.device
) -> Duplicates:
    """Find the stacks of a source, or of the pictures of a run, which keeps them from then on."""
    name = best_installed() if encoder == AUTO_ENCODER else None if encoder == NO_ENCODER else encoder
    if isinstance(source, RunFolder):
        return _in_run(source, name, device)
    opened = open_source(source)
    if not isinstance(opened, Gallery):
        dataset = read_source(source, max_bad=max_bad)
        return _found(traits_of_arrays(dataset.images, dataset.names), {}, [], None)
    found = _in_items(opened.items, name, device)
    n_found = len(opened.items) + len(opened.failed)
    check_share([*opened.failed, *found.skipped], n_found, max_bad, source)
    return found


def duplicates(source: str | Path, *, encoder: str = AUTO_ENCODER, device: str = "auto") -> Duplicates:
    """Find copies, other versions and bursts among the pictures of a source or a run; nothing is changed.

    The twin of `selfsort duplicates`: `stacks` of the answer has the best row of each and the others with their kinds,
    `names` what the rows are called.
    """
    path = str(source)
    opened = RunFolder.open(path) if is_run(path) else path
    return find_duplicates(opened, encoder=encoder, device=choose_device(device))


def stacks_of(dataset: Dataset, device: torch.device, encoder: str | None = None) -> list[Stack]:
    """Find the stacks of images that were read for a run; rows are those of the images."""
    if dataset.paths is None:
        return find_stacks(traits_of_arrays(dataset.images, dataset.names))
    items = [
        Item(name, partial(open_file, path), path) for name, path in zip(dataset.names, dataset.paths, strict=True)
    ]
    found = _in_items(items, encoder or best_installed(), device)
    row = {name: place for place, name in enumerate(dataset.names)}
    return _renumbered(found.stacks, [row[name] for name in found.names])


def _in_run(folder: RunFolder, encoder: str | None, device: torch.device) -> Duplicates:
    names = folder.label_table().names
    reading = recorded_reading(folder, names)
    assert reading.recorded is not None
    opened = open_recorded(reading.path, reading.recorded)
    if isinstance(opened, Gallery):
        row = {name: place for place, name in enumerate(names)}
        found = _in_items([item for item in opened.items if item.name in row], encoder, device)
        rows = [row[name] for name in found.names]
        if not rows:
            raise invalid("the source", "still hold pictures of the run", reading.path, "Restore the pictures.")
        paths: list[Path | None] = [None] * len(names)
        for place, path in zip(rows, found.paths, strict=True):
            paths[place] = path
        found = Duplicates(tuple(names), tuple(paths), _renumbered(found.stacks, rows), found.skipped)
    else:
        dataset = reading.read(min_images=1)
        if dataset.names != names or dataset.fingerprint != folder.field("fingerprint", str):
            raise InvalidInput(
                f"the images in {reading.path} are not those of the run {folder.path}. Expected the same images. "
                "Restore the source."
            )
        found = _found(traits_of_arrays(dataset.images, names), {}, [], None)
    if not folder.config.get("stack_duplicates"):  # what a run was made of stays as it was
        save_stacks(folder, found.stacks)
    return found


def _in_items(items: Sequence[Item], encoder: str | None, device: torch.device) -> Duplicates:
    traits, skipped = traits_of(items)
    by_name = {item.name: item for item in items}
    return _found(traits, by_name, skipped, None if encoder is None else _encode(traits, by_name, encoder, device))


def _found(traits: Traits, items: dict[str, Item], skipped: list[Skipped], encode: Encode | None) -> Duplicates:
    paths = tuple(items[name].path if name in items else None for name in traits.names)
    return Duplicates(traits.names, paths, find_stacks(traits, encode), skipped)


def _encode(traits: Traits, items: dict[str, Item], name: str, device: torch.device) -> Encode:
    """Prepare to look at a few pictures with an encoder, which is opened only if there are some."""

    def encode(rows: I64) -> F32:
        encoder = open_named(name, device)
        spec = ImageSpec(*encoder.shape, "stretch")
        pixels = np.zeros((len(rows), *spec.shape), np.uint8)  # one that went away since stays black
        decode_all([items[traits.names[row]] for row in rows.tolist()], spec, pixels)
        found: F32 = np.asarray(
            plain_features(encoder, Images(pixels), "", is_mirrored=False, folder=None, device=device)
        )
        return found

    return encode


def _renumbered(stacks: Sequence[Stack], rows: Sequence[int]) -> list[Stack]:
    return [Stack(rows[s.best], tuple(Member(rows[one.row], one.kind) for one in s.others)) for s in stacks]


def is_run(path: str) -> bool:
    """Whether a path is a run folder rather than a source."""
    return (expanded(path) / "config.json").is_file()
