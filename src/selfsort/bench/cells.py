"""A cell: one method, so set, with one seed, on one data set, with an encoder or without; and how it is measured.

Each cell is measured in a process of its own, so that its peak memory is its own, on one thread, so that seconds
mean the same on a busy machine. What is measured is the fit alone: reading, encoding and compiling come before. Cells
find the features of an encoder in the cache; what encoding costs is measured apart, on a few images.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import platform
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from selfsort import __version__
from selfsort.bench.datasets import DATASETS, read
from selfsort.config import written
from selfsort.errors import SelfsortError, TrainingFailed
from selfsort.types import I64, Encoder, Images, Json, Snapshot

if TYPE_CHECKING:
    from selfsort.data import Dataset
    from selfsort.runs.settings import Settled
    from selfsort.types import Clustering

resource: ModuleType | None
try:
    import resource
except ImportError:  # Windows
    resource = None

PROTOCOLS = {
    "same-images": "fitted and scored on the same images, the true number of clusters given",
    "held-out": "fitted on the training images and scored on the test images, the true number of clusters given",
}

ONE_THREAD = {
    **dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1"),
    "NUMBA_THREADING_LAYER": "workqueue",
}

CPU_LIMIT = 900
"""Seconds of processor time after which a fit is given up, where the system can count them."""

CURVE_POINTS = 20
"""How many of the states that a fit went through a record keeps, at most."""

NO_ENCODER = "none"

CONTENT = (
    *("encoder_settings_digest", "dataset", "split", "size", "protocol", "method", "encoder", "settings_digest"),
    "seed",
)
"""What makes two measurements the same, apart from the pixels: see `Cell.content`."""

_TIMED_BATCHES, _TIMED_BATCH = 5, 8


@dataclass(frozen=True, kw_only=True)
class Cell:
    """What can be measured once."""

    dataset: str
    method: str
    seed: int
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Those that differ from what the method's recipe says."""
    encoder: str = NO_ENCODER
    """Also METHOD@DATASET, METHOD/RECIPE@DATASET, METHOD@DATASET:LAYER: what that method has learned from that data
    set, with this seed."""
    protocol: str = "same-images"
    recipe: str = "auto"

    @property
    def name(self) -> str:
        """How it is called on the screen.

        >>> Cell(dataset="usps", method="ac-gdl", seed=0, settings={"absorb": False, "K_s": 5}).name
        'usps ac-gdl (absorb=no, K_s=5) seed 0'
        """
        return f"{self.dataset} {label(self.method, self.settings, self.encoder, self.recipe)} seed {self.seed}"

    @property
    def side(self) -> int | None:
        """The size that photographs are decoded to; None if the encoder, or its absence, leaves it to the reader."""
        from selfsort.runs.encoder import side_of

        return side_of(self.encoder)

    def read(self) -> Dataset:
        """Read the images as the cell's encoder wants them."""
        return read(self.dataset, self.side)

    def full_settings(self) -> Json:
        """Return every setting that counts: defaults, then the recipe, then the cell's own."""
        from selfsort.improve.around import ImproveConfig

        settled = self._settled()
        improve = settled.improve
        if not self._has_large_images:  # then there is nothing to shrink: saying so makes no other cell
            improve = replace(improve, shrink=False)
        around = {} if improve == ImproveConfig() else {"improve": improve.to_json()}
        before = {} if self.encoder == NO_ENCODER else {"encoder": settled.encode.to_json()}
        return {**_reached(settled.config.to_json(), self.dataset), **around, **before}

    @property
    def _has_large_images(self) -> bool:
        from selfsort.nets.averaged import averaging_factor

        shape = DATASETS[self.dataset].shape_for(self.side)
        return self.encoder == NO_ENCODER and averaging_factor(shape) > 1

    def _settled(self) -> Settled:
        import torch

        from selfsort.methods.registry import find_method
        from selfsort.runs.settings import settle

        known = DATASETS[self.dataset]
        return settle(
            find_method(self.method),
            known.n_classes,
            self.settings,
            shape=known.shape_for(self.side),
            device=torch.device("cpu"),
            on_encoder=self.encoder != NO_ENCODER,
            recipe=self.recipe,
        )

    @property
    def device(self) -> str:
        """Where it is measured: the recipe that is taken by itself is the one for a CPU."""
        return "cpu" if self.recipe == "auto" else "auto"

    @property
    def base(self) -> Cell | None:
        """The cell whose network is this one's encoder, if it is one."""
        found = re.fullmatch(r"([a-z-]+)(?:/([a-z0-9-]+))?@([a-z0-9-]+)(:[a-z0-9-]+)?", self.encoder)
        if found is None or found[3] not in DATASETS:
            return None
        return Cell(dataset=found[3], method=found[1], seed=self.seed, recipe=found[2] or "auto")

    def content(self) -> Json:
        """Return what makes two measurements the same, apart from the pixels.

        Settings count as they end up: saying a default aloud makes no other cell.
        """
        known, base = DATASETS[self.dataset], self.base
        learned = {} if base is None else {"encoder_settings_digest": digest(base.full_settings())}
        return {
            **learned,
            "dataset": self.dataset,
            "split": known.split,
            "size": known.size,
            "protocol": self.protocol,
            "method": self.method,
            "encoder": self.encoder,
            "settings_digest": digest(self.full_settings()),
            "seed": self.seed,
        }


def _reached(settings: Json, dataset: str) -> Json:
    """Leave out what holds only for more images than there are: a new limit makes no other cell."""
    n_images, settings = DATASETS[dataset].n_images, dict(settings)
    if n_images <= settings.get("exact_search_limit", 0):
        settings["exact_search_limit"] = 0
    if n_images <= settings.get("max_images", 0):
        settings.pop("n_sparse", None)
    return settings


def as_of_today(record: Json) -> Json:
    """Read a record as one of today: a setting that did not exist then has its default, which must change nothing.

    So a new setting makes no measurement stale; a changed default does. Records of scripts have no settings.
    """
    from selfsort.encoders.options import EncodeConfig
    from selfsort.improve.around import ImproveConfig
    from selfsort.methods.registry import METHODS

    if "all_settings" not in record or record["dataset"] not in DATASETS or record["method"] not in METHODS:
        return record
    known = DATASETS[record["dataset"]]
    new = METHODS[record["method"]].config.from_json({"n_clusters": known.n_classes}).to_json()
    settings = _reached({**new, **record["all_settings"]}, record["dataset"])
    for name, config in (("improve", ImproveConfig), ("encoder", EncodeConfig)):
        if name in settings:
            settings[name] = {**config().to_json(), **settings[name]}
    content = {name: record[name] for name in CONTENT if name in record} | {"settings_digest": digest(settings)}
    return record | content | {"key": key_of(content, record["fingerprint"])}


def label(method: str, settings: Mapping[str, Any], encoder: str = NO_ENCODER, recipe: str = "auto") -> str:
    """Name a method with its recipe, the settings that were changed and the encoder before it.

    >>> label("kmeans", {}), label("kmeans", {"centre": True}, "efficientnet-lite0")
    ('kmeans', 'kmeans (centre=yes) with efficientnet-lite0')
    """
    words = [] if recipe == "auto" else [f"recipe {recipe}"]
    said = ", ".join([*words, *(f"{key}={written(value)}" for key, value in settings.items())])
    named = f"{method} ({said})" if said else method
    return named if encoder == NO_ENCODER else f"{named} with {encoder}"


def digest(values: Mapping[str, Any]) -> str:
    """Return the sha256 of JSON values, whatever the order of their names.

    >>> digest({"a": 1, "b": 2}) == digest({"b": 2, "a": 1})
    True
    """
    return hashlib.sha256(json.dumps(values, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def key_of(content: Mapping[str, Any], fingerprint: str) -> str:
    """Return the address of a measurement: of its content and of the pixels."""
    return digest({**content, "fingerprint": fingerprint})


def measure(cell: Cell, fingerprint: str, cpu_limit: int = CPU_LIMIT) -> Json:
    """Measure a cell in a process of its own and return its record: nothing that tells whose machine it was.

    A fit that takes more than `cpu_limit` seconds of processor time is stopped; its record says how far it had come.
    """
    from selfsort.methods.registry import METHODS
    from selfsort.runs.loop import versions

    content = cell.content()
    started = time.monotonic()
    measured = _in_a_child(cell, cpu_limit)
    return {
        "key": key_of(content, fingerprint),
        **content,
        "settings": dict(cell.settings),
        "all_settings": cell.full_settings(),
        "fingerprint": fingerprint,
        **measured,
        "total_seconds": round(time.monotonic() - started, 2),
        "method_from": METHODS.origin(cell.method).to_json(),
        "versions": {"selfsort": __version__, **versions()},
        "cpu": cpu_model(),
        "date": datetime.now(UTC).date().isoformat(),
    }


def _in_a_child(cell: Cell, cpu_limit: int) -> Json:
    done = subprocess.run(
        [sys.executable, "-m", "selfsort.bench.cells", str(cpu_limit)],
        input=json.dumps(asdict(cell)),
        capture_output=True,
        text=True,
        env={**os.environ, **ONE_THREAD},
        check=False,
    )
    lines = done.stdout.splitlines()
    passed = states(lines)
    if done.returncode == -getattr(signal, "SIGXCPU", 0) != 0:
        return stopped_after(cpu_limit, passed)
    if done.returncode != 0 or not lines:
        said = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        raise TrainingFailed(f"{cell.name} ended with code {done.returncode} ({said}). Expected scores. Look into it.")
    measured: Json = json.loads(lines[-1])
    return {**measured, "curve": thinned(passed)} if len(passed) > 1 and "scores" in measured else measured


def stopped_after(cpu_limit: int, passed: Sequence[Json] = ()) -> Json:
    """Return the record of what took too long, with the states it went through.

    >>> stopped_after(90, [{"step": 3, "total": 9, "acc": 0.5, "nmi_geometric": 0.25}])["refused"]
    'stopped after 1.5 minutes of processor time, at step 3 of 9: ACC 0.500, NMI 0.250'
    """
    said = f"stopped after {round(cpu_limit / 60, 1):g} minutes of processor time"
    if not passed:
        return {"refused": said, "cpu_limit": cpu_limit}
    last = passed[-1]
    reached = f"step {last['step']} of {last['total']}: ACC {last['acc']:.3f}, NMI {last['nmi_geometric']:.3f}"
    return {"refused": f"{said}, at {reached}", "cpu_limit": cpu_limit, "curve": thinned(passed)}


def states(lines: Sequence[str]) -> list[Json]:
    """Read the states that a fit has told while it ran.

    >>> [state["step"] for state in states(['{"step": 3, "total": 9}', '{"scores": {}}', '{"step": 4, "to'])]
    [3]
    """
    found = []
    for line in lines:
        with suppress(ValueError):  # the last line of one that was stopped may be torn
            told = json.loads(line)
            if isinstance(told, dict) and "step" in told:
                found.append(told)
    return found


def thinned(passed: Sequence[Json], most: int = CURVE_POINTS) -> list[Json]:
    """Keep the first, the last and a few between, evenly.

    >>> [state["step"] for state in thinned([{"step": step} for step in range(11)], most=3)]
    [0, 5, 10]
    """
    if len(passed) <= most:
        return list(passed)
    return [passed[round(place * (len(passed) - 1) / (most - 1))] for place in range(most)]


def fit_and_score(cell: Cell, cpu_limit: int | None = None) -> Json:
    """Measure a cell in this process, which `cpu_limit` ends if the fit takes longer."""
    import torch

    from selfsort.runs.launch import launch
    from selfsort.runs.request import Request

    dataset = cell.read()
    launched = launch(
        Request(
            source=lambda side, fit: dataset,
            clusters=DATASETS[cell.dataset].n_classes,
            method=cell.method,
            recipe=cell.recipe,
            settings=cell.settings,
            seed=cell.seed,
            encoder=learned_encoder(cell, cpu_limit),
            device=cell.device,
        )
    )
    encoding: Json = {}
    if launched.encoder is not None:
        sources = [part.source for part in launched.encoder.parts]
        encoding["dimension"] = sum(source.dim for source in sources)
        encoders = [source for source in sources if isinstance(source, Encoder)]
        encoding["encode_ms"] = round(sum(encode_milliseconds(one, dataset.images) for one in encoders), 2)
    try:
        _compile(cell)
        began = time.process_time()
        if cpu_limit is not None:
            _limit(began + cpu_limit)
        if dataset.labels is not None and cpu_limit is not None:
            launched.fit.on_snapshot = partial(_tell, dataset.labels)
        outcome = launched.fit.run()
        metrics = outcome.metrics if cell.protocol == "same-images" else _held_out_scores(cell, outcome.clustering)
    except SelfsortError as error:
        return {"refused": str(error)}
    return {
        **encoding,
        "scores": _rounded(metrics or {}),
        **({} if outcome.metrics_sf is None else {"scores_sf": _rounded(outcome.metrics_sf)}),
        "clusters_asked": launched.fit.config.n_clusters,
        "clusters_found": len(set(outcome.clustering.labels.tolist())),
        "seconds": round(outcome.seconds, 2),
        "cpu_seconds": round(time.process_time() - began, 2),
        "peak_memory_mb": peak_memory_mb(),
        "threads": torch.get_num_threads(),
    }


def _rounded(metrics: Mapping[str, float]) -> Json:
    return {name: round(value, 5) for name, value in metrics.items()}


def _tell(truth: I64, snapshot: Snapshot) -> None:
    """Print how far the fit is, for those who wait for it."""
    from selfsort.metrics.external import scores

    told = {"step": snapshot.step, "total": snapshot.total, **_rounded(scores(snapshot.labels, truth))}
    print(json.dumps(told), flush=True)


def learned_encoder(cell: Cell, cpu_limit: int | None = None) -> str:
    """Return what --encoder takes; the network that a cell stands on is fitted first, and kept for other cells."""
    base = cell.base
    if base is None:
        return cell.encoder
    from selfsort.encoders.cache import cache_folder
    from selfsort.errors import MissingData
    from selfsort.runs.folder import RunFolder
    from selfsort.runs.launch import fill, launch
    from selfsort.runs.loop import write_outcome
    from selfsort.runs.request import Request

    kept = cache_folder()
    if kept is None:
        raise MissingData("there is no folder for what was learned. Expected the cache. Set SELFSORT_CACHE.")
    images = base.read()
    run = kept / "bench" / key_of(base.content(), images.fingerprint)[:16]
    if not run.exists():
        if cpu_limit is not None and resource is not None:  # a soft limit, which the cell itself moves further
            resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(time.process_time() + cpu_limit), -1))
        launched = launch(
            Request(
                source=lambda side, fit: images,
                clusters=DATASETS[base.dataset].n_classes,
                method=base.method,
                recipe=base.recipe,
                seed=base.seed,
                device=base.device,
            )
        )
        outcome = launched.fit.run()
        run.parent.mkdir(parents=True, exist_ok=True)
        with RunFolder.creating(run, launched.described) as folder:
            fill(folder, images, launched.embedded, launched.encoder)
            write_outcome(folder, outcome, images.images, images.names)
    RunFolder.open(run).require_finished()
    layer = cell.encoder.partition(":")[2]
    return f"{run}:{layer}" if layer else str(run)


def _held_out_scores(cell: Cell, clustering: Clustering) -> dict[str, float]:
    """Score the labels that the model gives to images that it has not learned from."""
    import torch

    from selfsort.improve.shrink import restored
    from selfsort.methods.registry import find_method
    from selfsort.metrics.external import scores

    name = DATASETS[cell.dataset].held_out
    assert name is not None, "the protocol needs a second data set"
    unseen = read(name, cell.side)
    assert unseen.labels is not None
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = restored(find_method(cell.method), cell._settled().config, clustering.model, device=device)
    return scores(model.apply(unseen.images).labels, unseen.labels)


def encode_milliseconds(encoder: Encoder, images: Images) -> float:
    """Return the processor time of one image through an encoder, once and not mirrored: the least of a few batches."""
    import torch

    from selfsort.encoders.encode import fit_of, fitted_batch
    from selfsort.learning.batches import PixelTensor

    pixels = PixelTensor(images, torch.device("cpu"))
    taken = []
    for batch in torch.split(torch.arange(min(len(images), _TIMED_BATCHES * _TIMED_BATCH)), _TIMED_BATCH):
        began = time.process_time()
        with torch.inference_mode():
            encoder.features(fitted_batch(pixels.floats(batch), encoder.shape, fit_of(encoder)))
        taken.append((time.process_time() - began) / len(batch))
    return 1000 * min(taken)


def _compile(cell: Cell) -> None:
    """Fit a few drawn shapes, so that no timing contains the compiler. The classical methods alone have one."""
    import torch

    from selfsort.data.synthetic import shapes
    from selfsort.methods.registry import find_method

    method = find_method(cell.method)
    if method.train_on_features is not None:
        config = method.config.from_json({**cell.settings, "n_clusters": 4})
        list(method.train(shapes(20, size=12)[0], config, device=torch.device("cpu"), seed=0))


def peak_memory_mb() -> float | None:
    """Return the largest resident size of this process.

    Where there is /proc it is asked: what `getrusage` counts begins, in a child, with the size of its parent.
    """
    from selfsort.runs.loop import peak_memory_mb as counted_by_the_system

    status = Path("/proc/self/status")
    if status.is_file() and (found := re.search(r"VmHWM:\s+(\d+) kB", status.read_text())):
        return round(int(found[1]) / 1024, 1)
    return counted_by_the_system()


def cpu_model() -> str:
    """Return the name of the processor, as far as the system tells it."""
    listing = Path("/proc/cpuinfo")
    if listing.is_file() and (found := re.search(r"model name\s*:\s*(.+)", listing.read_text())):
        return found[1].strip()
    return platform.processor() or platform.machine()


def _limit(cpu_seconds: float) -> None:
    """End this process when it has taken so much processor time."""
    if resource is not None:
        resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(cpu_seconds), math.ceil(cpu_seconds) + 5))


def main() -> None:
    """Measure the cell on standard input within so many seconds; the last line of what is printed is the result."""
    print(json.dumps(fit_and_score(Cell(**json.load(sys.stdin)), int(sys.argv[1]))))


if __name__ == "__main__":
    main()
