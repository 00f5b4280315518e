"""What a user asked for, and what can be said of it, or refused, before an image is read."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from selfsort import distributed
from selfsort.data import Dataset, Fit
from selfsort.data.options import ReadOptions
from selfsort.encoders.finetune import check_tunable
from selfsort.encoders.options import EncodeConfig
from selfsort.encoders.registry import best_installed
from selfsort.errors import InvalidInput
from selfsort.improve.stages import STAGES, find_stage
from selfsort.learning.device import choose_device
from selfsort.methods.registry import DEFAULT_METHOD, METHODS, OWN, find_method
from selfsort.runs.auto import AUTO_METHOD, BEFORE_CHOICE
from selfsort.runs.clusters import Clusters
from selfsort.runs.encoder import (
    AUTO_ENCODER,
    NO_ENCODER,
    Opened,
    described_parts,
    has_encoder,
    open_encoder,
    sees_alike,
)
from selfsort.runs.folder import RunFolder
from selfsort.runs.renamed import ENCODE, renamings, split
from selfsort.runs.seen import RunWords, check_list, check_list_for
from selfsort.runs.settings import Settled, read_words, settle
from selfsort.types import Method, Stage

Reader = Callable[[int | None, Fit | None], Dataset]
"""Gives images, those of different or large sizes as an encoder wants them: their side, and what is done about another
aspect ratio; None: in their own size, and as usual."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """A fit as asked for, on the command line or in Python."""

    source: ReadOptions | Dataset | Reader
    """How to read images; or images, or what reads them, for a run that has no folder until somebody saves it."""
    clusters: Clusters
    method: str = DEFAULT_METHOD
    stage: str | None = None
    """What to do after the run `start_from`, in place of a method."""
    recipe: str = "auto"
    settings: tuple[str, ...] | Mapping[str, Any] = ()
    """`key=value` words, or values by name."""
    seed: int = 0
    encoder: str = NO_ENCODER
    """What turns images into features before a method starts; see `runs.encoder.open_encoder`. What goes on from a run
    has that of the run, and this says where it is now."""
    cache: bool = True
    """Whether features are kept for the next run."""
    outliers: bool = False
    """Whether images that belong nowhere become a group of their own."""
    stack_duplicates: bool = False
    """Whether copies, versions and bursts of a picture count once."""
    train_on: int | None = None
    """How many images a method learns from; None: all."""
    start_from: RunFolder | None = None
    """A finished run whose model is the beginning of this one."""
    words: tuple[str, ...] | None = None
    """What clusters may be called, if the encoder can tell; None: everyday words, or those of `start_from`."""
    others: tuple[RunFolder, ...] = ()
    """Further finished runs of the same images, for a stage that takes several."""
    device: str = "auto"
    out: Path | None = None
    """The run folder to make; without one a free name is found."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Asked:
    """A request that was checked as far as that goes without images."""

    request: Request
    kind: Method | Stage
    """What is to be done; where the images choose the method, one that stands for any of those they may choose."""
    settings: Mapping[str, Any]
    device: torch.device
    wanted: str | None
    """The encoder asked for; of `auto`, the one that the images may want."""
    opened: Opened | None = None
    """That encoder, where it does not depend on the images."""
    words: tuple[str, ...] | None = None
    """What clusters may be called."""
    renamed: tuple[str, ...] = ()
    """Settings that have another name today, in sentences."""
    notes: tuple[str, ...] = ()
    """What the user should know, `renamed` among it."""

    @property
    def is_method_open(self) -> bool:
        """Whether the images choose the method."""
        return self.request.stage is None and self.request.method == AUTO_METHOD

    @property
    def is_encoder_open(self) -> bool:
        """Whether the images choose what sees them."""
        return self.request.encoder == AUTO_ENCODER and self.request.start_from is None

    @property
    def n_clusters(self) -> int:
        """The number asked for, or the least that may be found."""
        clusters = self.request.clusters
        return clusters if isinstance(clusters, int) else clusters.low

    def settle(
        self, kind: Method | Stage, n_clusters: int, *, shape: tuple[int, int, int], on_encoder: bool
    ) -> Settled:
        """Settle every setting of a method for images of this shape."""
        return settle(
            kind,
            n_clusters,
            self.settings,
            shape=shape,
            device=self.device,
            on_encoder=on_encoder,
            recipe=self.request.recipe,
        )

    def open_encoder(self, wanted: str) -> Opened:
        """Open an encoder, and refuse what the method cannot learn on."""
        kind = self.kind
        assert isinstance(kind, Method), "a stage has a run to go on from"
        if kind.learns_on is None:
            raise InvalidInput(
                f"{kind.name} learns from pixels alone, so --encoder cannot be used with it. Expected a method that "
                "takes features. Choose for example --method ac-gdl, or --encoder none."
            )
        config = EncodeConfig.from_json(split(self.settings)[2])
        check_tunable(kind, (), config)
        opened = open_encoder(wanted, self.device, config)
        check_tunable(kind, opened.parts, config)
        if kind.needs_views and not opened.has_views:
            raise InvalidInput(
                f"{kind.name} learns from augmented pictures, which a table of features does not have. Expected a "
                "network as encoder. Choose for example --method ac-gdl, kmeans or jule for this table."
            )
        return opened


def check(request: Request) -> Asked:
    """Refuse what can be refused before minutes of decoding."""
    if request.start_from is not None and request.method == AUTO_METHOD:
        request = replace(request, method=request.start_from.field("method", str))
    is_open = request.stage is None and request.method == AUTO_METHOD
    if is_open:
        _refuse_settings_of_methods(request)
    kind = METHODS[BEFORE_CHOICE] if is_open else _kind_of(request)
    settings, renamed = _settings_of(kind, request.settings)
    if "n_clusters" in settings:
        raise InvalidInput("--set n_clusters says twice how many clusters to find. Expected it once. Use --clusters.")
    if isinstance(kind, Method) and kind.check is not None:
        kind.check()
    device, wanted = choose_device(request.device), _wanted_encoder(request, kind)
    asked = Asked(request=request, kind=kind, settings=settings, device=device, wanted=wanted, renamed=renamed)
    if wanted is not None and not asked.is_encoder_open:
        asked = replace(asked, opened=asked.open_encoder(wanted))
    words, note = _words_of(asked)
    asked = replace(asked, words=words, notes=(*renamed, note) if note else renamed)
    asked.settle(kind, asked.n_clusters, shape=(1, 1, 1), on_encoder=wanted is not None)
    if request.out is not None and distributed.is_main():
        RunFolder.refuse_occupied(request.out)
    return asked


def _words_of(asked: Asked) -> tuple[tuple[str, ...] | None, str]:
    """Return what clusters may be called, and what is to be said of that as far as it does not depend on the images."""
    request, words = asked.request, asked.request.words
    if words is None:
        return None if request.start_from is None else RunWords.load(request.start_from).given, ""
    if asked.is_encoder_open:
        return words, ""
    if request.start_from is not None:
        return words, check_list_for(request.start_from, words)
    return words, check_list([] if asked.opened is None else described_parts(asked.opened), words)


def _kind_of(request: Request) -> Method | Stage:
    if request.stage is None and request.method not in STAGES:
        return find_method(request.method)
    name = request.stage or request.method
    if name in METHODS and METHODS[name].train_after is not None:
        return METHODS[name]
    # Generated, because finding them loads every method of ours.
    others = (name for name in OWN if METHODS[name].train_after is not None)
    stage = find_stage(name, others)
    if stage.made_by:
        raise InvalidInput(f"{name} is made from a run folder, not by training. Expected {stage.made_by}. Use that.")
    _refuse_others(stage, request)
    if request.stage is None or request.start_from is None:
        raise InvalidInput(
            f"{stage.name} is no method but a stage after a finished run. Expected that run. "
            f"Use selfsort refine RUN --stage {stage.name}."
        )
    return stage


def _refuse_others(stage: Stage, request: Request) -> None:
    """Further runs are for a stage that takes several, and must see the images as the first one does."""
    if request.others and not stage.takes_several:
        raise InvalidInput(
            f"{stage.name} goes on from one run, and {1 + len(request.others)} are given. Expected one run. "
            "Give one, or use --stage consensus, which takes several."
        )
    if stage.takes_several and request.start_from is not None and not request.others:
        raise InvalidInput(
            f"{stage.name} makes one clustering of several runs, and one is given. Expected two or more. "
            f"Name them: selfsort refine RUN RUN --stage {stage.name}."
        )
    for run in request.others:
        assert request.start_from is not None
        if not sees_alike(request.start_from, run):
            raise InvalidInput(
                f"the runs {request.start_from.path} and {run.path} do not see the images through the same encoder. "
                "Expected runs that differ in method, settings or seed. Make them with the same --encoder."
            )


def _refuse_settings_of_methods(request: Request) -> None:
    """Where the method is not known before the images are, nothing can be set in it."""
    given = request.settings
    names = given if isinstance(given, Mapping) else [word.partition("=")[0] for word in given]
    own = [f"--set {name}" for name in names if not name.startswith((ENCODE, "n_clusters"))]
    if request.recipe != "auto":
        own.append(f"--recipe {request.recipe}")
    if own:
        raise InvalidInput(
            f"{own[0]} belongs to a method, and --method auto chooses one only when the images are known. "
            "Expected a method with it. Name one, for example --method teach."
        )


def _settings_of(
    kind: Method | Stage, given: tuple[str, ...] | Mapping[str, Any]
) -> tuple[Mapping[str, Any], tuple[str, ...]]:
    """Return settings by name, and say which of them have another name today."""
    if isinstance(given, Mapping):
        return given, renamings(kind.name, given)
    return read_words(kind, given)


def _wanted_encoder(request: Request, kind: Method | Stage) -> str | None:
    """Say which encoder is to be used, or may be; what goes on from a run has that of the run."""
    if request.encoder == AUTO_ENCODER:
        has_choice = isinstance(kind, Method) and kind.learns_on is not None and request.start_from is None
        return best_installed() if has_choice else None
    if request.encoder == NO_ENCODER:
        return None
    if request.start_from is not None:
        if not has_encoder(request.start_from):
            raise InvalidInput(
                f"the run {request.start_from.path} was made from pixels, so it goes on without an encoder. Expected "
                "a run with one. Leave --encoder out."
            )
        return None
    return request.encoder


def free_name(request: Request) -> Path:
    """Pick a run folder nobody uses: selfsort-runs/SOURCE-METHOD-kK-seedS."""
    assert isinstance(request.source, ReadOptions), "images in memory have no name"
    stem = re.sub(r"[^\w.-]+", "-", Path(request.source.path).absolute().stem)[:60] or "images"
    base = Path("selfsort-runs") / f"{stem}-{request.stage or request.method}-k{request.clusters}-seed{request.seed}"
    candidate, number = base, 2
    while candidate.exists():
        candidate, number = base.with_name(f"{base.name}-{number}"), number + 1
    return candidate
