"""From what a user asked for to a run ready to start: read the source, settle the settings, open the folder."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from threadpoolctl import threadpool_limits

from selfsort import distributed
from selfsort.classic.one import METHOD as ONE
from selfsort.data import Dataset, ImageSpec, read_source
from selfsort.data.options import ReadOptions
from selfsort.data.store import limit_memory
from selfsort.encoders.finetune import tuned
from selfsort.encoders.fitted import FittedEncoder
from selfsort.errors import InvalidInput, invalid
from selfsort.improve.around import ImproveConfig
from selfsort.improve.shrink import SEEN_FROM, restored
from selfsort.learning.device import choose_device
from selfsort.methods.registry import METHODS
from selfsort.progress import stage
from selfsort.runs.auto import AUTO_METHOD, choose_method
from selfsort.runs.clusters import Clusters, Found, find_number, read_clusters
from selfsort.runs.duplicates import stacks_of
from selfsort.runs.encoder import ENCODER_FILE, FEATURES_FROM, EncodedModel, has_encoder
from selfsort.runs.folder import RunFolder
from selfsort.runs.loop import FitRun, Outcome, run_config
from selfsort.runs.model import STARTED_FROM, embed, going_on, kind_of, other_name, other_runs
from selfsort.runs.moved import recorded_reading
from selfsort.runs.request import Asked, Request, check, free_name
from selfsort.runs.seen import RunWords
from selfsort.runs.settings import stored_settings
from selfsort.runs.sight import Sight, encode_images, encode_like, read_images
from selfsort.runs.stacks import save_stacks, stored_representatives
from selfsort.runs.train_on import check_train_on, drawn, part_of
from selfsort.stacks.stack import Stack, representatives
from selfsort.text import plural
from selfsort.types import I64, Clustering, Inputs, Json, Method, Model, Stage

_MAX_THREADS = 1024
"""More than any machine has use for; a stranger's config.json must not start millions."""


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
        own = restored(self.fit.method, self.fit.config, result.model, device=self.fit.device)
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
    asked = check(request)
    request, sight = asked.request, read_images(asked)
    dataset = sight.dataset
    kind, told = _method_for(asked, sight)
    settle = partial(asked.settle, kind, shape=dataset.images.shape, on_encoder=sight.opened is not None)
    method = _going_on(kind, request, dataset, asked.device)
    features = encode_images(asked, sight, method, settle(asked.n_clusters).encode)
    counted = _count(asked, dataset, features.encoded or dataset.images)
    settled = settle(max(counted.number.n_clusters, 2))
    if counted.number.n_clusters == 1:
        method, settled = ONE, replace(settled, config=ONE.config.from_json({}), improve=ImproveConfig())
    improve = _as_before(settled.improve, method, request.start_from)
    resized = () if improve.shrink == settled.improve.shrink else (_AS_BEFORE,)
    fit = FitRun(
        images=dataset.images,
        method=method,
        config=settled.config,
        improve=improve,
        device=asked.device,
        seed=request.seed,
        truth=dataset.labels,
        names=dataset.names,
        encoded=features.encoded,
        clusters=request.clusters,
        outliers=request.outliers,
        stands_for=counted.stands_for,
        train_on=request.train_on,
    )
    fit.check()
    described = run_config(fit, settled.choice, dataset.spec, fingerprint=dataset.fingerprint, source=sight.source)
    embedded = _made_from(request, sight)
    launched = Launched(
        fit,
        dataset,
        described | features.told | {"clusters": counted.number.told} | told | _told_of_runs(request, embedded),
        (*sight.notes, *features.notes, *counted.notes, *resized),
        asked.renamed,
        embedded,
        features.encoder,
        counted.stacks,
        asked.words,
    )
    if isinstance(request.source, ReadOptions):
        named = replace(request, method=method.name) if asked.is_method_open else request
        fit.folder = _opened_by_all(lambda: _create(launched, request.out or free_name(named)))
    return launched


def _method_for(asked: Asked, sight: Sight) -> tuple[Method | Stage, Json]:
    """Return what was asked for, or what fits the images, and what config.json says of a choice."""
    if not asked.is_method_open:
        return asked.kind, {}
    opened, clusters = sight.opened, asked.request.clusters
    chosen = choose_method(
        sight.dataset.images,
        clusters if isinstance(clusters, int) else None,
        has_encoder=opened is not None,
        has_views=opened is not None and opened.has_views,
    )
    return METHODS[chosen.name], {"method_choice": {"asked": AUTO_METHOD, "reason": chosen.reason}}


def _going_on(kind: Method | Stage, request: Request, dataset: Dataset, device: torch.device) -> Method:
    """Return the method that trains: of a run to go on from, with what that run has learned."""
    if request.start_from is not None:
        for run in (request.start_from, *request.others):
            refuse_other_images(run, dataset)
        kind = going_on(kind, request.start_from, device, request.others)
    assert isinstance(kind, Method), "a stage is one, given a run"
    return kind


_AS_BEFORE = "improve.shrink is as in the run that this one begins with: what was learned there goes on with its images"


def _as_before(improve: ImproveConfig, method: Method, start: RunFolder | None) -> ImproveConfig:
    """A network that goes on learning is shown images of the size that it knows; a run that is asked, of its own."""
    if start is None:
        return improve
    goes_on = method.train_from is not None
    return replace(improve, shrink=goes_on and SEEN_FROM in start.read_state("model.safetensors").meta)


@dataclass(frozen=True, eq=False)
class _Counted:
    """How many clusters there are, and which images count."""

    number: Found
    stacks: Sequence[Stack] | None
    stands_for: I64 | None
    notes: tuple[str, ...]


def _count(asked: Asked, dataset: Dataset, seen: Inputs) -> _Counted:
    """Find the number of clusters, in the images that count and that the method will learn from."""
    request = asked.request
    stage("finding how many clusters there are")
    stacks = stacks_of(dataset, asked.device) if request.stack_duplicates else None
    stands_for = None if stacks is None else representatives(stacks, len(dataset.images))
    distinct = seen if stands_for is None else seen.subset(np.unique(stands_for))
    check_train_on(request.train_on, asked.n_clusters, len(distinct))
    learned = drawn(len(distinct), request.train_on, request.seed)
    is_told = isinstance(request.clusters, int)
    number = find_number(
        request.clusters,
        distinct if learned is None or is_told else part_of(distinct, learned),
        seed=request.seed,
        device=asked.device,
        unstacked=seen if learned is None else None,
    )
    told = () if stacks is None else (_told_of(stacks, len(dataset.images)),)
    return _Counted(number, stacks, stands_for, (*told, number.note) if number.note else told)


def _made_from(request: Request, sight: Sight) -> dict[str, RunFolder]:
    """Return the runs that this one is made from, by the folder inside it that will hold their models."""
    embedded = {}
    if sight.opened is not None and sight.opened.run is not None:
        embedded[FEATURES_FROM] = sight.opened.run
    if request.start_from is not None:
        embedded[STARTED_FROM] = request.start_from
    return embedded | {other_name(i): run for i, run in enumerate(request.others, start=2)}


def _told_of_runs(request: Request, embedded: Mapping[str, RunFolder]) -> Json:
    """Return what config.json says of them."""
    told = {name: str(run.path) for name, run in embedded.items()}
    return told if request.start_from is None else told | {"refines": request.start_from.field("method", str)}


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
        fitted, encoded = encode_like(folder, kind, dataset, torch_device, encoder, is_cached=cache, is_resumed=True)
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


def read_like(
    folder: RunFolder, source: str, *, max_bad: float, where: str | None = None, labels: str | None = None
) -> Dataset:
    """Read new images the way a run's own images were made equal."""
    spec = ImageSpec.from_json(folder.field("image", dict))
    return read_source(source, spec=spec, where=where, labels=labels, max_bad=max_bad, min_images=1)
