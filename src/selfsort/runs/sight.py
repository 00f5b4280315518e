"""How the images of a run are seen: read, judged, and turned into features by an encoder where there is one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import torch

from selfsort.data import Dataset, Fit
from selfsort.data.options import ReadOptions
from selfsort.data.store import limit_memory
from selfsort.encoders.cache import cache_folder
from selfsort.encoders.finetune import tunable
from selfsort.encoders.fitted import FittedEncoder, fit_encoder
from selfsort.encoders.options import EncodeConfig
from selfsort.encoders.pictures import Pictures
from selfsort.encoders.table import VectorTable
from selfsort.errors import InvalidInput
from selfsort.progress import stage
from selfsort.runs.auto import Judgement, judge, judge_at_sight, judge_without
from selfsort.runs.encoder import (
    AUTO_ENCODER,
    NO_ENCODER,
    Opened,
    describe,
    described_parts,
    has_encoder,
    side_of,
    stored_encoder,
    unused_rows,
)
from selfsort.runs.folder import RunFolder
from selfsort.runs.model import STARTED_FROM
from selfsort.runs.request import Asked, Reader
from selfsort.runs.seen import check_list
from selfsort.types import Encoded, Encoder, Json, Method


@dataclass(frozen=True, eq=False)
class Sight:
    """Images, and what is to see them."""

    source: Json
    """How to read them again."""
    dataset: Dataset
    opened: Opened | None
    """The encoder; None: their pixels are what is seen."""
    reason: str
    """Why it is this one."""
    notes: tuple[str, ...]
    """What the user should know."""


@dataclass(frozen=True, eq=False)
class Features:
    """What an encoder makes of the images; nothing where their pixels are seen."""

    encoder: FittedEncoder | None = None
    encoded: Encoded | None = None
    told: Json = field(default_factory=dict)
    """What config.json says of it."""
    notes: tuple[str, ...] = ()


def read_images(asked: Asked) -> Sight:
    """Read the images, and let them choose the encoder where it is theirs to choose."""
    request, opened = asked.request, asked.opened
    side = opened.side if opened is not None else side_of(asked.wanted or NO_ENCODER)
    stage("reading the images")
    source, dataset = _read(request.source, side, None if opened is None else opened.fit)
    notes = (dataset.ingest["note"], *asked.notes) if dataset.ingest.get("note") else asked.notes
    if not asked.is_encoder_open:
        return Sight(source, dataset, opened, "asked for", notes)
    stage("choosing what sees the images")
    judged, opened = _judge(asked, dataset)
    notes = (*notes, judged.note) if judged.note else notes
    if asked.words is not None:
        notes = (*notes, *_told_of_words(opened, asked.words))
    if opened is None and min(dataset.images.shape[:2]) == side:  # decoded for it: pixels want their own size
        source, dataset = _read(request.source, None, None)
    return Sight(source, dataset, opened, judged.reason, notes)


def _read(source: ReadOptions | Dataset | Reader, side: int | None, fit: Fit | None) -> tuple[Json, Dataset]:
    """Return images and how to read them again; pictures of different or large sizes come in that of an encoder."""
    if not isinstance(source, ReadOptions):
        dataset = source if isinstance(source, Dataset) else source(side, fit)
        return dataset.ingest, dataset
    reading = replace(source, side=side, fit=source.fit or fit or "crop")
    limit_memory(reading.memory_bytes)
    return reading.to_json(), reading.read()


def _judge(asked: Asked, dataset: Dataset) -> tuple[Judgement, Opened | None]:
    """Let the images decide about the encoder at hand; it is opened only if they may want it."""
    if asked.wanted is None:
        return judge_without(dataset.images), None
    if (early := judge_at_sight(dataset.images)) is not None:
        return early, None
    opened = asked.open_encoder(asked.wanted)
    encoder = opened.parts[0].source
    assert isinstance(encoder, Encoder), "one of ours"
    folder = cache_folder() if asked.request.cache else None
    found = judge(dataset.images, encoder, folder=folder, device=asked.device)
    return found, opened if found.is_used else None


def _told_of_words(opened: Opened | None, words: Sequence[str]) -> tuple[str, ...]:
    """Say what becomes of a list of words where the images have chosen the encoder: it is no reason to stop."""
    try:
        note = check_list([] if opened is None else described_parts(opened), words)
    except InvalidInput as error:
        note = f"No cluster will be named by the list: {error}"
    return (note,) if note else ()


def encode_images(asked: Asked, sight: Sight, kind: Method, config: EncodeConfig) -> Features:
    """Encode the images, with the encoder of the run before where there is one, as the method will learn from them."""
    request, dataset = asked.request, sight.dataset
    stage("seeing the images with the encoder")
    if request.start_from is not None and has_encoder(request.start_from):
        now = None if request.encoder in (AUTO_ENCODER, NO_ENCODER) else request.encoder
        fitted, encoded = encode_like(request.start_from, kind, dataset, asked.device, now, is_cached=request.cache)
        return Features(fitted, encoded, {"encoder": request.start_from.config.get("encoder")})
    if sight.opened is None:
        return Features()
    fitted, encoded = _encoded(sight.opened, kind, dataset, config, asked.device, is_cached=request.cache)
    told = {"encoder": describe(sight.opened, fitted, sight.reason)}
    return Features(fitted, encoded, told, unused_rows(sight.opened.parts, dataset.names))


def _encoded(
    opened: Opened, kind: Method, dataset: Dataset, config: EncodeConfig, device: torch.device, *, is_cached: bool
) -> tuple[FittedEncoder, Encoded]:
    on = kind.learns_on
    assert on is not None, "refused before"
    is_frozen = config.finetune == "none"
    fitted, encoded = fit_encoder(
        opened.parts,
        Pictures(dataset.images, dataset.names, dataset.fingerprint),
        config,
        on=on,
        with_views=_learns_from_views(kind) and opened.has_views and is_frozen,
        device=device,
        folder=cache_folder() if is_cached else None,
    )
    return fitted, encoded if is_frozen else tunable(fitted, encoded, dataset.images)


def encode_like(
    earlier: RunFolder,
    kind: Method,
    dataset: Dataset,
    device: torch.device,
    now: str | None,
    *,
    is_cached: bool,
    is_resumed: bool = False,
) -> tuple[FittedEncoder, Encoded]:
    """Encode images with the encoder of a run (`now`: where it is now), for what goes on from it or for itself."""
    is_tuning = is_resumed and not (earlier.path / STARTED_FROM).is_dir()
    fitted = stored_encoder(earlier, device, now, as_given=is_tuning)
    is_tuning = is_tuning and fitted.config.finetune != "none"
    pictures = Pictures(dataset.images, dataset.names, dataset.fingerprint)
    has_views = not any(isinstance(part.source, VectorTable) for part in fitted.parts)
    with_views = _learns_from_views(kind) and has_views and not is_tuning
    encoded = fitted.encode(pictures, folder=cache_folder() if is_cached else None, with_views=with_views)
    return fitted, tunable(fitted, encoded, dataset.images) if is_tuning else encoded


def _learns_from_views(kind: Method) -> bool:
    """Classical methods see features once; the others train a head on them."""
    return kind.train_on_features is None
