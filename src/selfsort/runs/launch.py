"""From what a user asked for to a run ready to start: read the source, settle the settings, open the folder."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from selfsort import distributed
from selfsort.config import parse_settings
from selfsort.data import Dataset, ImageSpec, read_source
from selfsort.data.options import Reading
from selfsort.errors import InvalidInput, invalid
from selfsort.learning.device import choose_device
from selfsort.methods.registry import DEFAULT_METHOD, find_method, make_config
from selfsort.runs.folder import RunFolder
from selfsort.runs.loop import Fit, Outcome, run_config
from selfsort.runs.model import FEATURES_FROM, STARTED_FROM, continued, embed, load_featuriser
from selfsort.types import Json


@dataclass(frozen=True, kw_only=True)
class Request:
    """A fit as asked for on the command line."""

    reading: Reading
    clusters: int
    method: str = DEFAULT_METHOD
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

    @property
    def recipe(self) -> str:
        """The recipe taken, and that it was a choice."""
        recipe = self.folder.field("recipe", dict)
        return f"{recipe.get('name')} ({recipe.get('reason')})"


def start(request: Request, out: Path | None) -> Session:
    """Check the request, read the images and create the run folder."""
    method = find_method(request.method)
    if method.name == "self-label" and request.start_from is None:
        raise InvalidInput("self-labelling needs a run to refine. Expected one. Use selfsort fit --self-label RUN.")
    settings = parse_settings(method.config, request.settings)
    if "n_clusters" in settings:
        raise InvalidInput("--set n_clusters says twice how many clusters to find. Expected it once. Use --clusters.")
    device = choose_device(request.device)
    features_run, layer = split_layer(request.features)
    # Anything that can be refused before minutes of decoding is refused first.
    make_config(method, request.clusters, settings, recipe=request.recipe, shape=(1, 1, 1), device=device)
    if out is not None and distributed.is_main():
        RunFolder.refuse_occupied(out)
    dataset = request.reading.read()
    config, choice = make_config(
        method, request.clusters, settings, recipe=request.recipe, shape=dataset.images.shape, device=device
    )
    if request.start_from is not None:
        refuse_other_images(request.start_from, dataset)
        method = continued(method, request.start_from, device)
    fit = Fit(
        images=dataset.images,
        method=method,
        config=config,
        device=device,
        seed=request.seed,
        truth=dataset.labels,
        names=dataset.names,
        featuriser=None if features_run is None else load_featuriser(features_run, device, layer),
    )
    fit.check()
    described = run_config(fit, choice, dataset.spec, fingerprint=dataset.fingerprint, source=request.reading.to_json())
    if features_run is not None:
        described |= {FEATURES_FROM: str(features_run.path), "features_layer": layer}
    if request.start_from is not None:
        described |= {STARTED_FROM: str(request.start_from.path), "refines": request.start_from.field("method", str)}
    fit.folder = folder = _opened_by_all(lambda: _create(request, out, described, dataset, features_run))
    return Session(fit, folder, dataset)


def _create(
    request: Request, out: Path | None, described: Json, dataset: Dataset, features_run: RunFolder | None
) -> RunFolder:
    with RunFolder.creating(out or free_name(request), described) as folder:
        folder.write_json("ingest.json", dataset.ingest)
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
    if folder.is_finished:
        raise InvalidInput(
            f"the run {path} is finished already. Expected an unfinished run. See it with: selfsort report {path}."
        )
    reading = Reading.from_json(folder.field("source", dict))
    if source is not None:
        reading = replace(reading, path=source)
    dataset = reading.read()
    if dataset.fingerprint != folder.field("fingerprint", str):
        raise InvalidInput(
            f"the images in {reading.path} are not those the run {path} was started with. "
            "Expected the same pixels in the same order. Restore the source, or start a new run."
        )
    method = find_method(folder.field("method", str))
    torch_device = choose_device(device or folder.field("device", str))
    featuriser = None
    if (folder.path / STARTED_FROM).is_dir():
        method = continued(method, RunFolder.open(folder.path / STARTED_FROM), torch_device)
    if (folder.path / FEATURES_FROM).is_dir():
        inner = RunFolder.open(folder.path / FEATURES_FROM)
        featuriser = load_featuriser(inner, torch_device, str(folder.config.get("features_layer", "top")))
    fit = Fit(
        images=dataset.images,
        method=method,
        config=method.config.from_json(folder.field("settings", dict)),
        device=torch_device,
        seed=folder.field("seed", int),
        truth=dataset.labels,
        names=dataset.names,
        folder=folder,
        featuriser=featuriser,
    )
    return Session(fit, folder, dataset)


def reading_like(earlier: RunFolder, given: Reading | None) -> Reading:
    """How to read images for a run that goes on from another: its own source, or a new one in the same form."""
    if given is None:
        return Reading.from_json(earlier.field("source", dict))
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
    base = Path("selfsort-runs") / f"{stem}-{request.method}-k{request.clusters}-seed{request.seed}"
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
