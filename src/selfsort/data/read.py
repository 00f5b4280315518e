"""The one way in: open a source, bring its images to one shape, find its labels, and account for it all."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np

from selfsort.data import labels as truth
from selfsort.data.datasets import MAX_SIDE, Dataset, Fit, ImageSpec, Skipped, fingerprint
from selfsort.data.detect import Recorded, Source, open_recorded, open_source
from selfsort.data.folder import Files, expanded, printable
from selfsort.data.gallery import Choice, Gallery, check_heic, check_share, choose_spec
from selfsort.data.lasting import decode_lasting
from selfsort.data.lazy import Mapped, chosen
from selfsort.data.store import Stored, allocate
from selfsort.data.tables import CLASS, OTHER_LABELS, Table, fill, parse_where, select, table_shape
from selfsort.errors import invalid
from selfsort.types import I64, U8, Images, Json

_LISTED_SIZES = 20


def read_source(
    source: Source,
    *,
    size: int | None = None,
    side: int | None = None,
    channels: Literal[1, 3] | None = None,
    fit: Fit = "crop",
    where: str | None = None,
    labels: str | os.PathLike[str] | None = None,
    labels_from_folders: bool = False,
    max_bad: float = 0.05,
    memory_bytes: int | None = None,
    spec: ImageSpec | None = None,
    min_images: int = 2,
    recorded: Recorded | None = None,
) -> Dataset:
    """Read images from any source we know (docs/sources.md) into one uint8 array.

    Args:
        source: a folder, a file, or a list of picture files.
        size: side of the square that pictures are brought to; None takes the common size, else `side`.
        side: of the square that pictures of different or large sizes are brought to; None is 96.
        channels: 1 gray, 3 colour; None is gray only if every image is gray.
        fit: what happens to other aspect ratios.
        where: NAME=VALUE keeps the rows whose array NAME has this value; NAME=VALUE,VALUE and NAME!=VALUE work too.
        labels: file of true labels, for scoring only; or coarse, the twenty superclasses of CIFAR-100.
        labels_from_folders: take the folder of each picture as its true label.
        max_bad: share of unreadable pictures above which reading fails.
        memory_bytes: above this the images go to a temporary mapped file; None is half of the memory.
        spec: the exact shape to conform to; overrides size, channels and fit.
        min_images: fewer readable images than this are refused.
        recorded: what a run folder says about this source, where it was the run that named it and not a person.

    Raises:
        InvalidInput: if the source cannot be used as asked.
        MissingData: if something named is not there.
    """
    start = time.perf_counter()
    wishes = _Wishes(
        size=size, side=side, channels=channels, fit=fit, where=where, max_bad=max_bad, memory_bytes=memory_bytes
    )
    if recorded is not None:
        spec = recorded.spec
    if spec is not None:
        wishes = _Wishes(spec=spec, where=where, max_bad=max_bad, memory_bytes=memory_bytes)
    other = labels if labels in OTHER_LABELS else None
    wanted = _WantedLabels(None if labels is None or other else expanded(labels), labels_from_folders)
    opened = open_source(source) if recorded is None else open_recorded(str(source), recorded)
    shown = printable(str(source)) if isinstance(source, str | os.PathLike) else f"the list of {len(source)} files"
    if other is not None and (isinstance(opened, Gallery) or other not in opened.other_labels):
        raise invalid(f"--labels {other}", "be asked of the CIFAR-100 binaries", shown, "Name a file of labels.")
    result = _read_gallery(opened, wishes, shown) if isinstance(opened, Gallery) else _read_table(opened, wishes, other)
    if len(result.pixels) < min_images:
        remedy = "Add pictures, or see what was skipped."
        raise invalid(shown, f"hold at least {min_images} readable images", len(result.pixels), remedy)
    known, origin = wanted.find(result, shown)
    images = Images(result.pixels)
    account = _account(source, opened.kind, result)
    account |= {"labels": origin, "settings": wishes.to_json() | wanted.to_json()}
    if other is not None:
        account["settings"]["labels"] = other
    return Dataset(
        images=images,
        names=result.names,
        paths=result.paths,
        labels=known[0] if known else None,
        label_names=known[1] if known else None,
        spec=result.choice.spec,
        fingerprint=fingerprint(images),
        ingest=account | {"seconds": round(time.perf_counter() - start, 3)},
    )


@dataclass(frozen=True, kw_only=True)
class _Wishes:
    """How the caller wants the images."""

    size: int | None = None
    side: int | None = None
    channels: Literal[1, 3] | None = None
    fit: Fit = "crop"
    where: str | None = None
    max_bad: float = 0.05
    memory_bytes: int | None = None
    spec: ImageSpec | None = None

    def __post_init__(self) -> None:
        # Everything that can be refused is refused before the first picture is read.
        if self.size is not None and not 1 <= self.size <= MAX_SIDE:
            raise invalid("--size", f"be between 1 and {MAX_SIDE} pixels", self.size, "Write for example --size 96.")
        if self.where is not None:
            parse_where(self.where)
        if not 0 <= self.max_bad <= 1:
            raise invalid("--max-bad", "be a share between 0 and 1", self.max_bad, "Write for example --max-bad 0.1.")
        ImageSpec(1, 1, 3 if self.channels is None else self.channels, self.fit)

    def to_json(self) -> Json:
        spec = None if self.spec is None else self.spec.to_json()
        names = ("size", "side", "channels", "fit", "where", "max_bad", "memory_bytes")
        return {name: getattr(self, name) for name in names} | {"spec": spec}


@dataclass(frozen=True, eq=False)
class _Result:
    """Images of one shape, and where they came from."""

    pixels: U8
    stored: Stored
    choice: Choice
    names: tuple[str, ...]
    kept: I64
    """Places of the images among all that the source holds."""
    total: int
    found: int
    """How many of them were asked for (--where)."""
    paths: Sequence[Path] | None = None
    labels: truth.Labels | None = None
    skipped: list[Skipped] = field(default_factory=list)
    sizes: Counter[tuple[int, int]] = field(default_factory=Counter)
    ignored: Json = field(default_factory=dict)
    note: str = ""
    """What the user should know first."""


def _read_gallery(gallery: Gallery, wishes: _Wishes, shown: str) -> _Result:
    """Read encoded pictures."""
    items, places = gallery.items, np.arange(len(gallery.items))
    if wishes.where is not None:
        columns = gallery.columns
        if gallery.kind == "folder":
            columns = {CLASS: np.array([truth.class_folder(item.name) for item in items])}
        wanted = select(wishes.where, columns.get(parse_where(wishes.where).name), columns, len(items))
        places = np.flatnonzero(wanted)
        items = chosen(items, places)
    note = check_heic(items, wishes.max_bad, shown)
    choice = (
        Choice(wishes.spec, "given", "given")
        if wishes.spec is not None
        else choose_spec(items, wishes.size, wishes.channels, wishes.fit, wishes.side)
    )
    pixels, stored, decoded = decode_lasting(gallery, items, places, choice.spec, wishes.memory_bytes)
    skipped = [*gallery.failed, *decoded.skipped.values()]
    found = len(items) + len(gallery.failed)
    check_share(skipped, found, wishes.max_bad, shown)
    kept = places[decoded.rows()]
    read = chosen(gallery.items, kept)
    labels = None if gallery.labels is None or not len(kept) else truth.as_numbers(gallery.labels)[kept]
    return _Result(
        pixels,
        stored,
        choice,
        tuple(item.name for item in read),
        kept,
        total=len(gallery.items),
        found=found,
        paths=Mapped(read, lambda item: item.path) if isinstance(gallery.items, Files) else None,
        labels=truth.encode_known(labels, gallery.unknown_label, gallery.label_names),
        skipped=skipped,
        sizes=decoded.sizes,
        ignored=gallery.ignored,
        note=note,
    )


def _read_table(table: Table, wishes: _Wishes, other: str | None = None) -> _Result:
    """Read stored pixels, and other labels than the usual ones if their name is given."""
    wanted = None
    if wishes.where is not None:
        column = table.columns(parse_where(wishes.where).name)
        wanted = select(wishes.where, column, table.column_names, len(table))
    kept = np.arange(len(table)) if wanted is None else np.flatnonzero(wanted)
    height, width, channels = table_shape(table)
    spec = wishes.spec or ImageSpec(
        wishes.size or height, wishes.size or width, wishes.channels or channels, wishes.fit
    )
    choice = Choice(
        spec,
        "given" if wishes.spec else "asked for" if wishes.size else "as stored",
        "given" if wishes.spec else "asked for" if wishes.channels else "as stored",
    )
    pixels, stored = allocate((len(kept), *spec.shape), wishes.memory_bytes)
    fill(table, wanted, spec, pixels)
    found, called = (table.labels, table.label_names) if other is None else table.other_labels[other]
    labels = truth.encode_known(None if found is None else found[kept], table.unknown_label, called)
    names = tuple(map(str, kept.tolist()))
    sizes = Counter({(width, height): len(kept)})
    return _Result(pixels, stored, choice, names, kept, len(table), len(kept), labels=labels, sizes=sizes)


@dataclass(frozen=True)
class _WantedLabels:
    """Where the caller wants the ground truth from."""

    file: Path | None
    from_folders: bool

    def __post_init__(self) -> None:
        if self.file is not None and self.from_folders:
            raise invalid("the labels", "come from one place", "--labels and --labels-from-folders", "Leave one out.")
        if self.file is not None:
            truth.require_file(self.file)

    def find(self, result: _Result, shown: str) -> tuple[truth.Labels | None, str]:
        """Return labels and their origin; what the caller names goes before what the source brings along."""
        if self.file is not None:
            return truth.from_file(self.file, result.names, result.kept.tolist(), result.total), "a file"
        if self.from_folders:
            return truth.from_folders(result.names, shown), "folders"
        return result.labels, "none" if result.labels is None else "the source"

    def to_json(self) -> Json:
        file = None if self.file is None else str(self.file.absolute())
        return {"labels": file, "labels_from_folders": self.from_folders}


def _account(source: Source, kind: str, result: _Result) -> Json:
    """Tell what was found, what was skipped and why, and how the shape was chosen."""
    spec = result.choice.spec
    most = result.sizes.most_common(_LISTED_SIZES)
    return {
        "source": (
            str(expanded(source).absolute())
            if isinstance(source, str | os.PathLike)
            else [str(path) for path in source]
        ),
        "kind": kind,
        "found": result.found,
        "read": len(result.pixels),
        "skipped": [{"name": skipped.name, "reason": skipped.reason} for skipped in result.skipped],
        "ignored": result.ignored,
        **({"note": result.note} if result.note else {}),
        "sizes_seen": {f"{width}x{height}": count for (width, height), count in most},
        "sizes_seen_total": len(result.sizes),
        "size": [spec.height, spec.width],
        "size_reason": result.choice.size_reason,
        "channels": spec.channels,
        "channels_reason": result.choice.channels_reason,
        "fit": spec.fit,
        "stored": result.stored,
        "bytes": int(result.pixels.nbytes),
    }
