"""From what a user asked for to a run ready to start: read the source, settle the settings, open the folder."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
import torch
from threadpoolctl import threadpool_limits

from selfsort import distributed
from selfsort.classic.one import METHOD as ONE
from selfsort.data import Dataset, Fit, ImageSpec, read_source
from selfsort.data.options import ReadOptions
from selfsort.data.store import limit_memory
from selfsort.encoders.cache import cache_folder
from selfsort.encoders.finetune import check_tunable, tunable, tuned
from selfsort.encoders.fitted import FittedEncoder, fit_encoder
from selfsort.encoders.options import EncodeConfig
from selfsort.encoders.pictures import Pictures
from selfsort.encoders.registry import best_installed
from selfsort.encoders.table import VectorTable
from selfsort.errors import InvalidInput, invalid
from selfsort.improve.around import ImproveConfig
from selfsort.improve.stages import STAGES, find_stage
from selfsort.learning.device import choose_device
from selfsort.methods.registry import DEFAULT_METHOD, METHODS, OWN, find_method
from selfsort.progress import stage
from selfsort.runs.auto import (
    AUTO_METHOD,
    BEFORE_CHOICE,
    Judgement,
    choose_method,
    judge,
    judge_at_sight,
    judge_without,
)
from selfsort.runs.clusters import Clusters, find_number, read_clusters
from selfsort.runs.duplicates import stacks_of
from selfsort.runs.encoder import (
    AUTO_ENCODER,
    ENCODER_FILE,
    FEATURES_FROM,
    NO_ENCODER,
    EncodedModel,
    Opened,
    describe,
    described_parts,
    has_encoder,
    open_encoder,
    sees_alike,
    side_of,
    stored_encoder,
    unused_rows,
)
from selfsort.runs.folder import RunFolder
from selfsort.runs.loop import FitRun, Outcome, run_config
from selfsort.runs.model import STARTED_FROM, embed, going_on, kind_of, other_name, other_runs
from selfsort.runs.moved import recorded_reading
from selfsort.runs.renamed import ENCODE, renamings, split
from selfsort.runs.seen import RunWords, check_list, check_list_for
from selfsort.runs.settings import read_words, settle, stored_settings
from selfsort.runs.stacks import save_stacks, stored_representatives
from selfsort.runs.train_on import check_train_on, drawn, part_of
from selfsort.stacks.stack import Stack, representatives
from selfsort.text import plural
from selfsort.types import Clustering, Encoded, Encoder, Inputs, Json, Method, Model, Stage

_MAX_THREADS = 1024
"""More than any machine has use for; a stranger's config.json must not start millions."""


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


@dataclass(frozen=True, eq=False)
class Launched:
    """A run ready to start (or to go on)."""

    fit: FitRun
    dataset: Dataset
    described: Json
    """What config.json says of it."""
    notes: tuple[str, ...] = ()
    """What the user should know before it starts."""
    renamed: tuple[str, ...] = ()
    """Those of them that say which settings have another name today."""
    embedded: Mapping[str, RunFolder] = field(default_factory=dict)
    """Runs that it is made from, by the folder inside it that holds their models."""
    encoder: FittedEncoder | None = None
    stacks: Sequence[Stack] | None = None
    """Duplicates that count once, where that was asked for."""
    words: tuple[str, ...] | None = None
    """What its clusters may be called."""

    @property
    def folder(self) -> RunFolder:
        """The run folder, of a run that has one."""
        assert self.fit.folder is not None, "made from images in memory"
        return self.fit.folder

    @property
    def method(self) -> str:
        """The method, and why, where the images chose it."""
        choice = self.described.get("method_choice")
        return self.fit.method.name + (f" (chosen for {choice['reason']})" if isinstance(choice, dict) else "")

    @property
    def recipe(self) -> str:
        """The recipe taken, and that it was a choice."""
        recipe = self.folder.field("recipe", dict)
        return f"{recipe.get('name')}, {recipe.get('reason')}"

    def model(self, result: Clustering) -> Model:
        """Return the fitted model, without the way through a folder."""
        own = self.fit.method.restore(self.fit.config, result.model, device=self.fit.device)
        return own if self.encoder is None else EncodedModel(tuned(self.encoder, result.model), own)


def fill(
    folder: RunFolder,
    dataset: Dataset,
    embedded: Mapping[str, RunFolder],
    encoder: FittedEncoder | None = None,
    stacks: Sequence[Stack] | None = None,
    words: tuple[str, ...] | None = None,
) -> None:
    """Write the first files of a new run folder: what is known before the training."""
    folder.write_json("ingest.json", dataset.ingest)
    if words is not None:
        RunWords(words).save(folder)
    if stacks is not None:
        save_stacks(folder, stacks)
    if dataset.paths is not None:
        folder.save_names(dataset.names)
    if dataset.labels is not None:
        folder.save_truth(dataset.labels, dataset.label_names)
    for name, run in embedded.items():
        embed(folder, run, name)
    if encoder is not None:
        folder.write_state(ENCODER_FILE, encoder.state)


def launch(request: Request) -> Launched:
    """Check the request, read the images and create the run folder: the one way to a run that begins anew."""
    if request.start_from is not None and request.method == AUTO_METHOD:
        request = replace(request, method=request.start_from.field("method", str))
    is_open = request.stage is None and request.method == AUTO_METHOD
    if is_open:
        _refuse_settings_of_methods(request)
    kind = METHODS[BEFORE_CHOICE] if is_open else _kind_of(request)
    settings, renamed = _settings_of(kind, request.settings)
    notes = renamed
    if "n_clusters" in settings:
        raise InvalidInput("--set n_clusters says twice how many clusters to find. Expected it once. Use --clusters.")
    if isinstance(kind, Method) and kind.check is not None:
        kind.check()
    device = choose_device(request.device)
    wanted, is_auto = _wanted_encoder(request, kind), request.encoder == AUTO_ENCODER
    opened = None if wanted is None or is_auto else _open_encoder(wanted, kind, settings, device)
    words = request.words
    if words is None and request.start_from is not None:
        words = RunWords.load(request.start_from).given
    elif words is not None and not (is_auto and request.start_from is None):
        if request.start_from is not None:
            note = check_list_for(request.start_from, words)
        else:
            note = check_list([] if opened is None else described_parts(opened), words)
        notes = (*notes, note) if note else notes
    settle_for = partial(settle, kind, settings=settings, recipe=request.recipe, device=device)
    # Anything that can be refused before minutes of decoding is refused first.
    told_number = request.clusters if isinstance(request.clusters, int) else request.clusters.low
    settle_for(told_number, shape=(1, 1, 1), on_encoder=wanted is not None)
    if request.out is not None and distributed.is_main():
        RunFolder.refuse_occupied(request.out)
    side = opened.side if opened is not None else side_of(wanted or NO_ENCODER)
    stage("reading the images")
    source, dataset = _read(request.source, side, None if opened is None else opened.fit)
    if dataset.ingest.get("note"):
        notes = (dataset.ingest["note"], *notes)
    reason = "asked for"
    if is_auto and request.start_from is None:
        stage("choosing what sees the images")
        judged, opened = _judge(
            wanted,
            lambda: _open_encoder(wanted or NO_ENCODER, kind, settings, device),
            dataset,
            device,
            is_cached=request.cache,
        )
        reason = judged.reason
        notes = (*notes, judged.note) if judged.note else notes
        if words is not None:
            notes = (*notes, *_told_of_words(opened, words))
        if opened is None and min(dataset.images.shape[:2]) == side:  # decoded for it: pixels want their own size
            source, dataset = _read(request.source, None, None)
    chosen = None
    if is_open:
        asked = request.clusters if isinstance(request.clusters, int) else None
        has_views = opened is not None and opened.has_views
        chosen = choose_method(dataset.images, asked, has_encoder=opened is not None, has_views=has_views)
        kind = METHODS[chosen.name]
        settle_for = partial(settle, kind, settings=settings, recipe=request.recipe, device=device)
    settle_for = partial(settle_for, shape=dataset.images.shape, on_encoder=opened is not None)
    if request.start_from is not None:
        for run in (request.start_from, *request.others):
            refuse_other_images(run, dataset)
        kind = going_on(kind, request.start_from, device, request.others)
    assert isinstance(kind, Method), "a stage is one, given a run"
    encoder, encoded, told = None, None, cast(Json, {})
    stage("seeing the images with the encoder")
    if request.start_from is not None and has_encoder(request.start_from):
        now = None if request.encoder in (AUTO_ENCODER, NO_ENCODER) else request.encoder
        encoder, encoded = _encoded_like(request.start_from, kind, dataset, device, now, is_cached=request.cache)
        told = {"encoder": request.start_from.config.get("encoder")}
    elif opened is not None:
        config = settle_for(told_number).encode
        encoder, encoded = _encoded(opened, kind, dataset, config, device, is_cached=request.cache)
        told = {"encoder": describe(opened, encoder, reason)}
        notes = (*notes, *unused_rows(opened.parts, dataset.names))
    stage("finding how many clusters there are")
    stacks = stacks_of(dataset, device) if request.stack_duplicates else None
    stands_for = None if stacks is None else representatives(stacks, len(dataset.images))
    if stacks is not None:
        notes = (*notes, _told_of(stacks, len(dataset.images)))
    seen: Inputs = encoded or dataset.images
    distinct = seen if stands_for is None else seen.subset(np.unique(stands_for))
    check_train_on(request.train_on, told_number, len(distinct))
    learned = drawn(len(distinct), request.train_on, request.seed)
    is_told = isinstance(request.clusters, int)
    counted = distinct if learned is None or is_told else part_of(distinct, learned)
    unstacked = seen if learned is None else None
    number = find_number(request.clusters, counted, seed=request.seed, device=device, unstacked=unstacked)
    told |= {"clusters": number.told}
    notes = (*notes, number.note) if number.note else notes
    settled = settle_for(max(number.n_clusters, 2))
    if number.n_clusters == 1:
        kind, settled = ONE, replace(settled, config=ONE.config.from_json({}), improve=ImproveConfig())
    fit = FitRun(
        images=dataset.images,
        method=kind,
        config=settled.config,
        improve=settled.improve,
        device=device,
        seed=request.seed,
        truth=dataset.labels,
        names=dataset.names,
        encoded=encoded,
        clusters=request.clusters,
        outliers=request.outliers,
        stands_for=stands_for,
        train_on=request.train_on,
    )
    fit.check()
    if chosen is not None:
        told |= {"method_choice": {"asked": AUTO_METHOD, "reason": chosen.reason}}
    described = run_config(fit, settled.choice, dataset.spec, fingerprint=dataset.fingerprint, source=source) | told
    embedded = {}
    if opened is not None and opened.run is not None:
        described |= {FEATURES_FROM: str(opened.run.path)}
        embedded[FEATURES_FROM] = opened.run
    if request.start_from is not None:
        described |= {STARTED_FROM: str(request.start_from.path), "refines": request.start_from.field("method", str)}
        embedded[STARTED_FROM] = request.start_from
        for i, run in enumerate(request.others, start=2):
            described |= {other_name(i): str(run.path)}
            embedded[other_name(i)] = run
    launched = Launched(fit, dataset, described, notes, renamed, embedded, encoder, stacks, words)
    if isinstance(request.source, ReadOptions):
        named = replace(request, method=kind.name) if is_open else request
        fit.folder = _opened_by_all(lambda: _create(launched, request.out or free_name(named)))
    return launched


def _told_of_words(opened: Opened | None, words: Sequence[str]) -> tuple[str, ...]:
    """Say what becomes of a list of words where the images have chosen the encoder: it is no reason to stop."""
    try:
        note = check_list([] if opened is None else described_parts(opened), words)
    except InvalidInput as error:
        note = f"No cluster will be named by the list: {error}"
    return (note,) if note else ()


def _read(source: ReadOptions | Dataset | Reader, side: int | None, fit: Fit | None) -> tuple[Json, Dataset]:
    """Return images and how to read them again; pictures of different or large sizes come in that of an encoder."""
    if not isinstance(source, ReadOptions):
        dataset = source if isinstance(source, Dataset) else source(side, fit)
        return dataset.ingest, dataset
    reading = replace(source, side=side, fit=source.fit or fit or "crop")
    limit_memory(reading.memory_bytes)
    return reading.to_json(), reading.read()


def _judge(
    wanted: str | None, open_it: Callable[[], Opened], dataset: Dataset, device: torch.device, *, is_cached: bool
) -> tuple[Judgement, Opened | None]:
    """Let the images decide about the encoder at hand; it is opened only if they may want it."""
    if wanted is None or (early := judge_at_sight(dataset.images)) is not None:
        return judge_without(dataset.images) if wanted is None else cast(Judgement, early), None
    opened = open_it()
    encoder = opened.parts[0].source
    assert isinstance(encoder, Encoder), "one of ours"
    found = judge(dataset.images, encoder, folder=cache_folder() if is_cached else None, device=device)
    return found, opened if found.is_used else None


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


def _open_encoder(wanted: str, kind: Method | Stage, settings: Mapping[str, Any], device: torch.device) -> Opened:
    """Open an encoder, and refuse what the method cannot learn on."""
    assert isinstance(kind, Method), "a stage has a run to go on from"
    if kind.learns_on is None:
        raise InvalidInput(
            f"{kind.name} learns from pixels alone, so --encoder cannot be used with it. Expected a method that takes "
            "features. Choose for example --method ac-gdl, or --encoder none."
        )
    config = EncodeConfig.from_json(split(settings)[2])
    check_tunable(kind, (), config)
    opened = open_encoder(wanted, device, config)
    check_tunable(kind, opened.parts, config)
    if kind.needs_views and not opened.has_views:
        raise InvalidInput(
            f"{kind.name} learns from augmented pictures, which a table of features does not have. Expected a network "
            "as encoder. Choose for example --method ac-gdl, kmeans or jule for this table."
        )
    return opened


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


def _learns_from_views(kind: Method) -> bool:
    """Classical methods see features once; the others train a head on them."""
    return kind.train_on_features is None


def _encoded_like(
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


def _settings_of(
    kind: Method | Stage, given: tuple[str, ...] | Mapping[str, Any]
) -> tuple[Mapping[str, Any], tuple[str, ...]]:
    """Return settings by name, and say which of them have another name today."""
    if isinstance(given, Mapping):
        return given, renamings(kind.name, given)
    return read_words(kind, given)


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


def _create(launched: Launched, path: Path) -> RunFolder:
    with RunFolder.creating(path, launched.described) as folder:
        fill(folder, launched.dataset, launched.embedded, launched.encoder, launched.stacks, launched.words)
    return folder


def _opened_by_all(create: Callable[[], RunFolder]) -> RunFolder:
    """Of several processes the first one creates the folder, the others open it."""
    if distributed.is_main():
        folder = create()
        distributed.agree(str(folder.path))
        return folder
    return RunFolder.open(Path(distributed.agree(None)))


def resume(
    path: Path,
    *,
    source: str | None = None,
    encoder: str | None = None,
    device: str | None = None,
    cache: bool = True,
) -> Launched:
    """Open an unfinished run and read its source again; other pixels than before are refused, and other encoders."""
    folder = RunFolder.open(path)
    folder.refuse_finished()
    stage("reading the images")
    reading = _source_of(folder, source)
    limit_memory(reading.memory_bytes)
    dataset = reading.read()
    if dataset.fingerprint != folder.field("fingerprint", str):
        raise InvalidInput(
            f"the images in {reading.path} are not those the run {path} was started with. "
            "Expected the same pixels in the same order. Restore the source, or start a new run."
        )
    kind = kind_of(folder)
    config, improve = stored_settings(kind, folder)
    torch_device = choose_device(device or folder.field("device", str))
    notes = take_threads_of(folder)  # before anything is computed: also how an encoder rounds
    if (folder.path / STARTED_FROM).is_dir():
        kind = going_on(kind, RunFolder.open(folder.path / STARTED_FROM), torch_device, other_runs(folder))
    if isinstance(kind, Stage):
        raise InvalidInput(
            f"the run {path} went on from another one, whose folder {STARTED_FROM} is missing. Expected it there. "
            "Restore it, or start again with selfsort refine."
        )
    fitted, encoded = None, None
    stage("seeing the images with the encoder")
    if has_encoder(folder):
        fitted, encoded = _encoded_like(folder, kind, dataset, torch_device, encoder, is_cached=cache, is_resumed=True)
    elif encoder is not None:
        raise InvalidInput(f"the run {path} was made from pixels. Expected one with an encoder. Leave --encoder out.")
    fit = FitRun(
        images=dataset.images,
        method=kind,
        config=config,
        improve=improve,
        device=torch_device,
        seed=folder.field("seed", int),
        truth=folder.truth(),
        names=dataset.names,
        folder=folder,
        encoded=encoded,
        clusters=_clusters_asked(folder),
        outliers=folder.has_outliers,
        stands_for=stored_representatives(folder, len(dataset.images)),
        train_on=folder.train_on,
    )
    return Launched(fit, dataset, folder.config, notes, encoder=fitted)


def _told_of(stacks: Sequence[Stack], n_images: int) -> str:
    n_spare = sum(len(stack.others) for stack in stacks)
    return (
        f"{plural(n_images, 'image')} show {n_images - n_spare} pictures: {plural(len(stacks), 'stack')} of copies, "
        "versions and bursts count once each."
    )


def _clusters_asked(folder: RunFolder) -> Clusters | None:
    """Return what a run says about the number it was asked for; runs of earlier versions say nothing."""
    told = folder.config.get("clusters")
    asked = told.get("asked") if isinstance(told, dict) else None
    return read_clusters(asked, "clusters in config.json") if isinstance(asked, str) else None


def take_threads_of(folder: RunFolder) -> tuple[str, ...]:
    """Compute with as many threads as a run was started with, because another number rounds differently.

    Left alone among several processes, whose number is not kept and changes the result as well.
    """
    here = torch.get_num_threads()
    if "threads" not in folder.config or distributed.world_size() > 1:
        return ()
    recorded = folder.field("threads", int)
    if not 1 <= recorded <= _MAX_THREADS:
        raise invalid("threads in config.json", f"be from 1 to {_MAX_THREADS}", recorded, "Restore the file.")
    if recorded == here:
        return ()
    torch.set_num_threads(recorded)
    threadpool_limits(recorded)  # those of NumPy, SciPy and scikit-learn
    return (
        f"threads: {recorded}, as the run was started with, and not {here}, as this process was: another number would "
        "change the result.",
    )


def _source_of(folder: RunFolder, named: str | None) -> ReadOptions:
    """Say where an unfinished run's images are; the labels for scoring are in the folder."""
    source = folder.field("source", dict)
    if named is not None:
        return replace(ReadOptions.from_json(source), path=named, labels=None, labels_from_folders=False)
    kind, names = folder.source_kind, folder.names()
    if names is None and kind in ("folder", "list"):
        raise InvalidInput(
            f"the run {folder.path} does not say which pictures it was started with. Expected its names.csv, or the "
            f"source. Name it: selfsort fit SOURCE --resume {folder.path}."
        )
    return ReadOptions.from_run(source, kind, names or (), folder.field("image", dict))


def reading_like(earlier: RunFolder, given: ReadOptions | None) -> ReadOptions:
    """How to read images for a run that goes on from another: its own source, or a new one in the same form."""
    if given is None:
        source, reading = earlier.field("source", dict), recorded_reading(earlier, earlier.label_table().names)
        return replace(
            reading, labels=source.get("labels"), labels_from_folders=bool(source.get("labels_from_folders"))
        )
    spec = ImageSpec.from_json(earlier.field("image", dict))
    size = given.size if given.size is not None else min(spec.height, spec.width)
    channels: Literal[1, 3] = 1 if spec.channels == 1 else 3
    return replace(given, size=size, channels=given.channels or channels, fit=given.fit or spec.fit)


def refuse_other_images(earlier: RunFolder, dataset: Dataset) -> None:
    """The network of a run takes images of one shape only."""
    spec = ImageSpec.from_json(earlier.field("image", dict))
    if dataset.images.shape != spec.shape:
        raise InvalidInput(
            f"the images have shape {dataset.images.shape}. The run {earlier.path} was made from {spec.shape} (height, "
            "width, channels). Bring them to that form with --size, --fit and --gray or --color."
        )


def split_runs(given: Sequence[Path]) -> tuple[list[Path], Path | None]:
    """Tell run folders from the source that may follow them; the first is a run, whatever it looks like."""
    first, *rest = given
    if rest and not (rest[-1] / "config.json").is_file():
        return [first, *rest[:-1]], rest[-1]
    return [first, *rest], None


def open_finished(path: Path) -> RunFolder:
    """Open a run that has a model to go on from."""
    folder = RunFolder.open(path)
    folder.require_finished()
    return folder


def summary(launched: Launched, outcome: Outcome) -> Json:
    """The object `fit --json` prints."""
    result: Json = {
        "run": str(launched.folder.path),
        "method": launched.fit.method.name,
        "recipe": launched.folder.field("recipe", dict).get("name"),
        "seed": launched.fit.seed,
        "images": len(launched.dataset.images),
        "skipped_files": len(launched.dataset.ingest.get("skipped", ())),
        "clusters_asked": launched.fit.config.n_clusters,
        "clusters_found": len(set(outcome.clustering.labels.tolist())),
        **({} if outcome.n_outliers is None else {"n_outliers": outcome.n_outliers}),
        "seconds": round(outcome.seconds, 3),
        "peak_memory_mb": outcome.peak_memory_mb,
        "warnings": list(outcome.warnings),
    }
    if outcome.verdict is not None:
        result["verdict"] = outcome.verdict.to_json()
    if outcome.metrics is not None:
        result["metrics"] = outcome.metrics
    if outcome.metrics_sf is not None:
        result["metrics_sf"] = outcome.metrics_sf
    return result


def free_name(request: Request) -> Path:
    """Pick a run folder nobody uses: selfsort-runs/SOURCE-METHOD-kK-seedS."""
    assert isinstance(request.source, ReadOptions), "images in memory have no name"
    stem = re.sub(r"[^\w.-]+", "-", Path(request.source.path).absolute().stem)[:60] or "images"
    base = Path("selfsort-runs") / f"{stem}-{request.stage or request.method}-k{request.clusters}-seed{request.seed}"
    candidate, number = base, 2
    while candidate.exists():
        candidate, number = base.with_name(f"{base.name}-{number}"), number + 1
    return candidate


def read_like(
    folder: RunFolder, source: str, *, max_bad: float, where: str | None = None, labels: str | None = None
) -> Dataset:
    """Read new images the way a run's own images were made equal."""
    spec = ImageSpec.from_json(folder.field("image", dict))
    return read_source(source, spec=spec, where=where, labels=labels, max_bad=max_bad, min_images=1)
