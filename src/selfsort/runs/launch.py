"""From what a user asked for to a run ready to start: read the source, settle the settings, open the folder."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Literal

import torch
from threadpoolctl import threadpool_limits

from selfsort import distributed
from selfsort.data import Dataset, ImageSpec, read_source
from selfsort.data.options import Reading
from selfsort.errors import InvalidInput, invalid
from selfsort.improve.stages import STAGES, find_stage
from selfsort.learning.device import choose_device
from selfsort.methods.registry import DEFAULT_METHOD, find_method
from selfsort.runs.folder import RunFolder
from selfsort.runs.loop import Fit, Outcome, run_config
from selfsort.runs.model import FEATURES_FROM, STARTED_FROM, embed, going_on, kind_of, load_featuriser
from selfsort.runs.settings import read_words, settle, stored_settings
from selfsort.types import Json, Method, Stage

_MAX_THREADS = 1024
"""More than any machine has use for; a stranger's config.json must not start millions."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """A fit as asked for on the command line."""

    reading: Reading
    clusters: int
    method: str = DEFAULT_METHOD
    stage: str | None = None
    """What to do after the run `start_from`, in place of a method."""
    recipe: str = "auto"
    settings: tuple[str, ...] = ()
    """`key=value` words."""
    seed: int = 0
    features: str | None = None
    """Another run, as PATH or PATH:layer."""
    start_from: RunFolder | None = None
    """A finished run whose model is the beginning of this one."""
    device: str = "auto"


@dataclass(frozen=True, eq=False)
class Session:
    """A run ready to start (or to go on)."""

    fit: Fit
    folder: RunFolder
    dataset: Dataset
    notes: tuple[str, ...] = ()
    """What the user should know before it starts."""

    @property
    def recipe(self) -> str:
        """The recipe taken, and that it was a choice."""
        recipe = self.folder.field("recipe", dict)
        return f"{recipe.get('name')} ({recipe.get('reason')})"


def start(request: Request, out: Path | None) -> Session:
    """Check the request, read the images and create the run folder."""
    kind = _kind_of(request)
    settings, notes = read_words(kind, request.settings)
    if "n_clusters" in settings:
        raise InvalidInput("--set n_clusters says twice how many clusters to find. Expected it once. Use --clusters.")
    device = choose_device(request.device)
    features_run, layer = split_layer(request.features)
    settle_for = partial(settle, kind, request.clusters, settings, recipe=request.recipe, device=device)
    settle_for(shape=(1, 1, 1))  # anything that can be refused before minutes of decoding is refused first
    if out is not None and distributed.is_main():
        RunFolder.refuse_occupied(out)
    dataset = request.reading.read()
    settled = settle_for(shape=dataset.images.shape)
    if request.start_from is not None:
        refuse_other_images(request.start_from, dataset)
        kind = going_on(kind, request.start_from, device)
    assert isinstance(kind, Method), "a stage is one, given a run"
    fit = Fit(
        images=dataset.images,
        method=kind,
        config=settled.config,
        improve=settled.improve,
        device=device,
        seed=request.seed,
        truth=dataset.labels,
        names=dataset.names,
        featuriser=None if features_run is None else load_featuriser(features_run, device, layer),
    )
    fit.check()
    described = run_config(
        fit, settled.choice, dataset.spec, fingerprint=dataset.fingerprint, source=request.reading.to_json()
    )
    if features_run is not None:
        described |= {FEATURES_FROM: str(features_run.path), "features_layer": layer}
    if request.start_from is not None:
        described |= {STARTED_FROM: str(request.start_from.path), "refines": request.start_from.field("method", str)}
    fit.folder = folder = _opened_by_all(lambda: _create(request, out, described, dataset, features_run))
    return Session(fit, folder, dataset, notes)


def _kind_of(request: Request) -> Method | Stage:
    if request.stage is None and request.method not in STAGES:
        return find_method(request.method)
    stage = find_stage(request.stage or request.method)
    if request.stage is None or request.start_from is None:
        raise InvalidInput(
            f"{stage.name} is no method but a stage after a finished run. Expected that run. "
            f"Use selfsort refine RUN --stage {stage.name}."
        )
    return stage


def _create(
    request: Request, out: Path | None, described: Json, dataset: Dataset, features_run: RunFolder | None
) -> RunFolder:
    with RunFolder.creating(out or free_name(request), described) as folder:
        folder.write_json("ingest.json", dataset.ingest)
        if dataset.paths is not None:
            folder.save_names(dataset.names)
        if dataset.labels is not None:
            folder.save_truth(dataset.labels, dataset.label_names)
        if features_run is not None:
            embed(folder, features_run, FEATURES_FROM)
        if request.start_from is not None:
            embed(folder, request.start_from, STARTED_FROM)
    return folder


def _opened_by_all(create: Callable[[], RunFolder]) -> RunFolder:
    """Of several processes the first one creates the folder, the others open it."""
    if distributed.is_main():
        folder = create()
        distributed.agree(str(folder.path))
        return folder
    return RunFolder.open(Path(distributed.agree(None)))


def resume(path: Path, *, source: str | None = None, device: str | None = None) -> Session:
    """Open an unfinished run and read its source again; other pixels than before are refused."""
    folder = RunFolder.open(path)
    folder.refuse_finished()
    dataset = (reading := _source_of(folder, source)).read()
    if dataset.fingerprint != folder.field("fingerprint", str):
        raise InvalidInput(
            f"the images in {reading.path} are not those the run {path} was started with. "
            "Expected the same pixels in the same order. Restore the source, or start a new run."
        )
    kind = kind_of(folder)
    config, improve = stored_settings(kind, folder)
    torch_device = choose_device(device or folder.field("device", str))
    featuriser = None
    if (folder.path / STARTED_FROM).is_dir():
        kind = going_on(kind, RunFolder.open(folder.path / STARTED_FROM), torch_device)
    if isinstance(kind, Stage):
        raise InvalidInput(
            f"the run {path} went on from another one, whose folder {STARTED_FROM} is missing. Expected it there. "
            "Restore it, or start again with selfsort refine."
        )
    if (folder.path / FEATURES_FROM).is_dir():
        inner = RunFolder.open(folder.path / FEATURES_FROM)
        featuriser = load_featuriser(inner, torch_device, str(folder.config.get("features_layer", "top")))
    fit = Fit(
        images=dataset.images,
        method=kind,
        config=config,
        improve=improve,
        device=torch_device,
        seed=folder.field("seed", int),
        truth=folder.truth(),
        names=dataset.names,
        folder=folder,
        featuriser=featuriser,
    )
    return Session(fit, folder, dataset, take_threads_of(folder))


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


def _source_of(folder: RunFolder, named: str | None) -> Reading:
    """Say where an unfinished run's images are; the labels for scoring are in the folder."""
    source = folder.field("source", dict)
    if named is not None:
        return replace(Reading.from_json(source), path=named, labels=None, labels_from_folders=False)
    kind, names = folder.source_kind, folder.names()
    if names is None and kind in ("folder", "list"):
        raise InvalidInput(
            f"the run {folder.path} does not say which pictures it was started with. Expected its names.csv, or the "
            f"source. Name it: selfsort fit SOURCE --resume {folder.path}."
        )
    return Reading.from_run(source, kind, names or (), folder.field("image", dict))


def reading_like(earlier: RunFolder, given: Reading | None) -> Reading:
    """How to read images for a run that goes on from another: its own source, or a new one in the same form."""
    if given is None:
        source, image = earlier.field("source", dict), earlier.field("image", dict)
        reading = Reading.from_run(source, earlier.source_kind, earlier.label_table().names, image)
        return replace(
            reading, labels=source.get("labels"), labels_from_folders=bool(source.get("labels_from_folders"))
        )
    spec = ImageSpec.from_json(earlier.field("image", dict))
    size = given.size if given.size is not None else min(spec.height, spec.width)
    channels: Literal[1, 3] = 1 if spec.channels == 1 else 3
    return replace(given, size=size, channels=given.channels or channels)


def refuse_other_images(earlier: RunFolder, dataset: Dataset) -> None:
    """The network of a run takes images of one shape only."""
    spec = ImageSpec.from_json(earlier.field("image", dict))
    if dataset.images.shape != spec.shape:
        raise InvalidInput(
            f"the images have shape {dataset.images.shape}. The run {earlier.path} was made from {spec.shape} (height, "
            "width, channels). Bring them to that form with --size, --fit and --gray or --color."
        )


def open_finished(path: Path) -> RunFolder:
    """Open a run that has a model to go on from."""
    folder = RunFolder.open(path)
    folder.require_finished()
    return folder


def summary(session: Session, outcome: Outcome) -> Json:
    """The object `fit --json` prints."""
    result: Json = {
        "run": str(session.folder.path),
        "method": session.fit.method.name,
        "recipe": session.folder.field("recipe", dict).get("name"),
        "seed": session.fit.seed,
        "images": len(session.dataset.images),
        "skipped_files": len(session.dataset.ingest.get("skipped", ())),
        "clusters_asked": session.fit.config.n_clusters,
        "clusters_found": len(set(outcome.clustering.labels.tolist())),
        "seconds": round(outcome.seconds, 3),
        "peak_memory_mb": outcome.peak_memory_mb,
        "warnings": list(outcome.warnings),
    }
    if outcome.metrics is not None:
        result["metrics"] = outcome.metrics
    if outcome.metrics_sf is not None:
        result["metrics_sf"] = outcome.metrics_sf
    return result


def parse_clusters(text: str | None) -> int:
    """Read --clusters: a whole number; finding k by itself is not offered yet and is refused."""
    if text is None:
        raise InvalidInput("--clusters is missing. Expected how many clusters to find. Add for example --clusters 10.")
    if text == "auto" or re.fullmatch(r"\d*:\d*", text):
        raise invalid(
            "--clusters",
            "be a whole number: finding the number of clusters is not available yet",
            repr(text),
            "Give for example --clusters 10, and compare a few values with selfsort report.",
        )
    if not re.fullmatch(r"\+?\d{1,9}", text) or int(text) < 2:
        raise invalid("--clusters", "be a whole number of at least 2", repr(text), "Give for example --clusters 10.")
    return int(text)


def parse_size(text: str) -> int | None:
    """Read --size: pixels, or auto."""
    if text == "auto":
        return None
    if not re.fullmatch(r"\d{1,4}", text) or not 4 <= int(text) <= 4096:
        raise invalid("--size", "be auto or a whole number from 4 to 4096", repr(text), "Give for example --size 96.")
    return int(text)


def parse_memory(text: str | None) -> int | None:
    """Read --memory: bytes, with K, M, G or T.

    >>> parse_memory("1.5G")
    1610612736
    """
    if text is None:
        return None
    match = re.fullmatch(r"(\d{1,15}(?:\.\d+)?)\s*([KMGT]?)i?B?", text.strip(), re.IGNORECASE)
    if match is None:
        raise invalid("--memory", "be a size such as 500M or 8G", repr(text), "Give for example --memory 8G.")
    return int(float(match[1]) * 1024 ** " KMGT".index(match[2].upper() or " "))


def split_layer(text: str | None) -> tuple[RunFolder | None, str]:
    """Read --features: RUN or RUN:layer."""
    if text is None:
        return None, "top"
    path, layer = text, "top"
    # The colon after the letter of a Windows drive has a path behind it, which is no layer.
    if (match := re.fullmatch(r"(.*):([^/\\]*)", text, re.DOTALL)) and not Path(text).is_dir():
        path, layer = match.groups()
    folder = RunFolder.open(path)
    folder.require_finished()  # an unfinished run has no network to give
    return folder, layer


def free_name(request: Request) -> Path:
    """Pick a run folder nobody uses: selfsort-runs/SOURCE-METHOD-kK-seedS."""
    stem = re.sub(r"[^\w.-]+", "-", Path(request.reading.path).absolute().stem)[:60] or "images"
    base = Path("selfsort-runs") / f"{stem}-{request.stage or request.method}-k{request.clusters}-seed{request.seed}"
    candidate, number = base, 2
    while candidate.exists():
        candidate, number = base.with_name(f"{base.name}-{number}"), number + 1
    return candidate


def read_like(folder: RunFolder, source: str, *, max_bad: float) -> Dataset:
    """Read new images the way a run's own images were made equal."""
    spec = ImageSpec.from_json(folder.field("image", dict))
    return read_source(source, spec=spec, max_bad=max_bad, min_images=1)


def channels_of(gray: bool | None) -> Literal[1, 3] | None:
    """Turn the --gray/--color switch into a channel count."""
    if gray is None:
        return None
    return 1 if gray else 3
