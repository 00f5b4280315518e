"""The outer loop around every method: log, score, save, stop.

This is the only place where labels meet results. A method gets `Images` and yields snapshots; what is
logged, scored against `truth`, saved or stopped is decided here.
"""

from __future__ import annotations

import platform
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from importlib.metadata import version
from types import ModuleType

import numpy as np
import torch

from selfsort import __version__, distributed
from selfsort.classic.method import rows_of
from selfsort.config import Config
from selfsort.data import ImageSpec
from selfsort.encoders.finetune import finetuning
from selfsort.errors import CannotWrite, Interrupted, InvalidInput, MissingData, TimeIsUp, TrainingFailed, invalid
from selfsort.graph.absorb import member_sums
from selfsort.improve.around import ImproveConfig, check_improvable, train_improved
from selfsort.improve.grow import grow
from selfsort.improve.shrink import restored
from selfsort.learning.checkpoint import weights_within
from selfsort.methods.recipes import Choice
from selfsort.methods.registry import METHODS
from selfsort.metrics.external import match_clusters, scores
from selfsort.metrics.internal import collapse_warnings, size_report
from selfsort.nets.averaged import averaged_blocks
from selfsort.pages import all_finite, passes, take
from selfsort.progress import stage, until
from selfsort.runs.clusters import Clusters, find_again
from selfsort.runs.folder import RunFolder, Thumbnails
from selfsort.runs.outliers import OUTLIERS, marked, numbered
from selfsort.runs.suggested import suggest_names
from selfsort.runs.train_on import check_train_on, drawn, part_of, said_of_all
from selfsort.runs.tree import save_tree
from selfsort.runs.unstack import unstacked
from selfsort.trust.evidence import STAGE as JUDGING
from selfsort.trust.outliers import Bools
from selfsort.trust.verdict import Verdict, judge
from selfsort.types import (
    F32,
    F64,
    I64,
    U8,
    Clustering,
    Encoded,
    Images,
    Inputs,
    Json,
    Method,
    Model,
    Snapshot,
    State,
    Tunable,
)

resource: ModuleType | None
try:
    import resource
except ImportError:  # Windows
    resource = None

_N_OUTLIERS_SHOWN = 48
_SHRUNK_AT_ONCE = 256


@dataclass(frozen=True, eq=False)
class Outcome:
    """A finished run as the outer loop saw it."""

    clustering: Clustering
    events: list[Json]
    warnings: tuple[str, ...]
    seconds: float
    peak_memory_mb: float | None
    metrics: dict[str, float] | None = None
    metrics_sf: dict[str, float] | None = None
    """Scores of JULE's straight-forward labels, kept beside those of its re-run clustering."""
    verdict: Verdict | None = None
    """How far to trust it; of several processes only the first one asks."""
    number_again: str = ""
    """What the learned features say about the number of clusters, where they disagree."""
    is_outlier: Bools | None = None
    """(N,) images that belong nowhere, in a run that looked for them."""

    @property
    def labels(self) -> I64:
        """(N,) cluster of each image, -1 for outliers."""
        return marked(self.clustering.labels, self.is_outlier)

    @property
    def n_outliers(self) -> int | None:
        """How many images belong nowhere, in a run that looked for them."""
        return None if self.is_outlier is None else int(self.is_outlier.sum())


@dataclass(eq=False)
class FitRun:
    """One run of one method over one set of images; `run` executes or resumes it."""

    images: Images
    method: Method
    config: Config
    device: torch.device
    seed: int = 0
    truth: I64 | None = None
    """For scoring only: never handed on to the method."""
    names: Sequence[str] | None = None
    folder: RunFolder | None = None
    improve: ImproveConfig = field(default_factory=ImproveConfig)
    """What is ours around the method."""
    encoded: Encoded | None = None
    """What an encoder made of the images: learned from in place of pixels."""
    clusters: Clusters | None = None
    """What was asked for; where it was a range, learned features are asked for the number once more."""
    outliers: bool = False
    """Whether images that belong nowhere become a group of their own, once the method is done."""
    stands_for: I64 | None = None
    """(N,) which image stands for each while the method learns, where duplicates count once."""
    train_on: int | None = None
    """How many images the method learns from; its model sorts the others. None: all."""
    max_seconds: float | None = None
    save_interval: float = 2.0
    """Seconds between resume states; a kill loses at most this much work."""
    on_snapshot: Callable[[Snapshot], None] | None = None
    _said: dict[str, None] = field(default_factory=dict)
    """Warnings of the method so far, in order, each once."""

    def run(self) -> Outcome:
        """Train to the end. Raises Interrupted, with the state saved, when the time is up."""
        self.check()
        is_held = self.folder is not None and distributed.is_main()
        # Of several processes none may leave the others in the middle of a step.
        limit = self.max_seconds if distributed.world_size() == 1 else None
        held = self.folder.held() if self.folder is not None and is_held else nullcontext()
        with held, distributed.company(), until(limit):
            try:
                return self._run()
            except (InvalidInput, MissingData):
                # The method refused the images before its first step: a new run has nothing to go on from.
                if self.folder is not None and is_held and not self.folder.events():
                    self.folder.discard()
                raise

    def _run(self) -> Outcome:
        started = time.monotonic()
        resume, earlier = self._resume_point()
        # Of several processes all train and read, and the first one writes.
        folder = self.folder if distributed.is_main() else None
        saved_at = started
        events: list[Json] = []
        what = f"sorting with {self.method.name}"
        stage(what, self._n_done(resume))
        for snapshot in self._in_time(self._going_on(resume), started):
            stage(what, snapshot.step, snapshot.total)
            elapsed = earlier + time.monotonic() - started
            event = self._event(snapshot, elapsed)
            events.append(event)
            if folder is not None:
                folder.append_event(event)
                if snapshot.history:
                    folder.save_history(snapshot.step, snapshot.history)
            if self.on_snapshot is not None:
                self.on_snapshot(snapshot)
            if snapshot.result is not None:
                stage(JUDGING)
                with until(None):  # the result is there: now it is kept
                    return self._finish(snapshot.result, events, elapsed)
            now = time.monotonic()
            is_time_up = distributed.agree(self.max_seconds is not None and now - started >= self.max_seconds)
            if folder is not None and (is_time_up or now - saved_at >= self.save_interval):
                folder.save_resume(snapshot.step, snapshot.state())
                if len(snapshot.labels) == len(self.images):  # else they are those of some images only
                    folder.save_labels_so_far(snapshot.labels)
                if not (folder.path / "thumbnails.npz").is_file():
                    folder.save_thumbnails(spread_thumbnails(self.images))
                saved_at = now
            if is_time_up:
                raise Interrupted(
                    f"stopped after {elapsed / 60:.1f} minutes at step {snapshot.step} of {snapshot.total}, as asked."
                )
        raise TrainingFailed(
            f"{self.method.name} ended without a result. This is a fault of selfsort: please report it."
        )

    def _in_time(self, snapshots: Iterator[Snapshot], started: float) -> Iterator[Snapshot]:
        """Pass snapshots on; a step that has no time to end is given up, and done again when the run goes on."""
        last: Snapshot | None = None
        try:
            for last in snapshots:
                yield last
        except TimeIsUp:
            assert self.max_seconds is not None, "no time was given"
            taken = f"stopped after {(time.monotonic() - started) / 60:.1f} minutes"
            if last is None:
                raise Interrupted(
                    f"{taken}, as asked, in the middle of a step: none of {self.method.name} ended within the "
                    f"{self.max_seconds / 60:.1f} minutes that were left for it. Give more, or nothing is gained."
                ) from None
            raise Interrupted(
                f"{taken}, as asked, in the middle of the step after {last.step} of {last.total}, which begins again."
            ) from None

    def _n_done(self, resume: State | None) -> int:
        """Return how many steps an interrupted run has behind it."""
        events = [] if self.folder is None or resume is None else self.folder.events()
        return max((int(event["step"]) for event in events if "step" in event), default=0)

    def check(self) -> None:
        """Refuse what cannot work before anything is written."""
        fewest = min(2, self.config.n_clusters)  # one, where there is nothing to sort
        n_images = len(self.images) if self.stands_for is None else len(np.unique(self.stands_for))
        if not fewest <= self.config.n_clusters <= n_images:
            raise invalid(
                "n_clusters",
                f"be between 2 and the number of images ({n_images})",
                self.config.n_clusters,
                "Lower n_clusters or add images.",
            )
        check_train_on(self.train_on, self.config.n_clusters, n_images, is_finetuned=isinstance(self.encoded, Tunable))
        check_improvable(self.method, self.improve)
        if distributed.world_size() > 1 and not self.method.is_shareable:
            raise InvalidInput(
                f"{self.method.name} cannot be trained by several processes. Expected one of those that can, such as "
                "secu, dbc or jule. Run it without torchrun."
            )
        if self.truth is not None and len(self.truth) != len(self.images):
            raise invalid(
                "labels", f"have one entry per image ({len(self.images)})", len(self.truth), "Check the labels file."
            )

    def _resume_point(self) -> tuple[State | None, float]:
        """Where an interrupted run left off, and the seconds it had taken."""
        if self.folder is None:
            return None, 0.0
        found = self.folder.load_resume()
        if distributed.is_main():
            self.folder.keep_events_until(found[0] if found else 0)
        events = self.folder.events()
        for event in events:
            self._said.update(dict.fromkeys(event.get("warnings", ())))
        return (found[1], float(events[-1].get("elapsed", 0.0)) if events else 0.0) if found else (None, 0.0)

    def _going_on(self, resume: State | None) -> Iterator[Snapshot]:
        """Yield the snapshots; what a damaged state makes a method raise before the first one is told as such."""
        if resume is None:
            yield from self._snapshots(None)
            return
        try:
            with weights_within(sum(array.nbytes for array in resume.arrays.values())):
                snapshots = self._snapshots(resume)
                first = next(snapshots)
        except (InvalidInput, Interrupted, CannotWrite):
            raise
        except Exception as error:
            reason = (str(error).splitlines() or [""])[0][:120]
            raise InvalidInput(
                f"the run cannot go on from its saved state ({type(error).__name__}: {reason}). Expected what selfsort "
                "fit wrote. It was changed or damaged: restore it, or start a new run."
            ) from error
        yield first
        yield from snapshots

    def _snapshots(self, resume: State | None) -> Iterator[Snapshot]:
        images: Inputs = self.images if self.encoded is None else self.encoded
        if self.stands_for is None:
            return self._learned(images, resume)
        kept, place = np.unique(self.stands_for, return_inverse=True)
        return unstacked(self._learned(images.subset(kept), resume), place)

    def _learned(self, images: Inputs, resume: State | None) -> Iterator[Snapshot]:
        """Learn from all of these images, or from those drawn."""
        rows = drawn(len(images), self.train_on, self.seed)
        if rows is None:
            return self._train(images, resume)

        def restore(state: State) -> Model:
            return restored(self.method, self.config, state, device=self.device)

        return said_of_all(self._train(part_of(images, rows), resume), rows, images, restore)

    def _train(self, images: Inputs, resume: State | None) -> Iterator[Snapshot]:
        train = self.method.train_on_features
        if isinstance(images, Encoded) and train is not None:
            return train(images.features, self.config, device=self.device, seed=self.seed, resume=resume)
        return train_improved(
            finetuning(self.method) if isinstance(images, Tunable) else self.method,
            images,
            self.config,
            self.improve,
            device=self.device,
            seed=self.seed,
            resume=resume,
        )

    def _event(self, snapshot: Snapshot, elapsed: float) -> Json:
        n_current = int(snapshot.labels.max()) + 1
        sizes = size_report(snapshot.labels, max(n_current, self.config.n_clusters))
        event: Json = {
            "step": snapshot.step,
            "total": snapshot.total,
            "elapsed": round(elapsed, 3),
            "clusters": sizes.used,
            "size_entropy": round(sizes.entropy, 6),
            **snapshot.event,
        }
        if (truth := self._truth_for(snapshot.labels)) is not None:
            event.update({name: round(value, 6) for name, value in scores(snapshot.labels, truth).items()})
        if snapshot.warnings:
            event["warnings"] = list(snapshot.warnings)
            self._said.update(dict.fromkeys(snapshot.warnings))
        # Agglomeration passes through many more clusters than asked for; only too few of them is a sign of trouble.
        if collapse := collapse_warnings(snapshot.labels, self.config.n_clusters):
            event["collapse"] = list(collapse)
        return event

    def _truth_for(self, labels: I64) -> I64 | None:
        """Return what these images show: on the way they may be only those that are learned from."""
        if self.truth is None or len(labels) == len(self.truth):
            return self.truth
        kept = self.truth if self.stands_for is None else self.truth[np.unique(self.stands_for)]
        rows = drawn(len(kept), self.train_on, self.seed)
        return kept if rows is None else kept[rows]

    def _finish(self, result: Clustering, events: list[Json], seconds: float) -> Outcome:
        if not (all_finite(result.features) and all_finite(result.soft)):
            raise TrainingFailed(
                "the features or assignments are not finite numbers. They must be. "
                "Lower the learning rate with --set, or look for broken images."
            )
        labels_sf = result.extras.get("labels_sf")
        verdict = self._verdict(result) if distributed.is_main() else None
        is_outlier = self._outliers(verdict)
        told = OUTLIERS if self.outliers else None
        outcome = Outcome(
            clustering=result,
            events=events,
            # A collapse that healed on the way is in the events; here counts how it ended.
            warnings=(*self._said, *collapse_warnings(result.labels, self.config.n_clusters)),
            seconds=seconds,
            peak_memory_mb=peak_memory_mb(),
            metrics=None
            if self.truth is None
            else scores(marked(result.labels, is_outlier), self.truth, outliers=told),
            metrics_sf=None if self.truth is None or labels_sf is None else scores(labels_sf, self.truth),
            verdict=verdict,
            number_again=self._number_again(result) if distributed.is_main() else "",
            is_outlier=is_outlier,
        )
        if self.folder is not None and distributed.is_main():
            write_outcome(self.folder, outcome, self.images, self.names, self.truth)
        return outcome

    def _number_again(self, result: Clustering) -> str:
        """Ask learned features for the number of clusters; those of classical methods were asked before."""
        if self.clusters is None or self.method.train_on_features is not None or self.config.n_clusters < 2:
            return ""
        before, rows = len(np.unique(result.labels)), drawn(len(result.features), self.train_on, self.seed)
        features = result.features if rows is None else result.features[rows]
        return find_again(self.clusters, before, features, seed=self.seed, device=self.device)

    def _verdict(self, result: Clustering) -> Verdict:
        """Judge the clusters by what the method started from."""
        # The features of a classical method are the rows themselves, unless it has centred them.
        is_made = self.method.train_on_features is not None and "mean_image" not in result.model.arrays
        rows = result.features if is_made else rows_of(self.images if self.encoded is None else self.encoded)
        sure = result.soft[np.arange(len(result.labels)), result.labels]
        n_clusters = result.soft.shape[1]
        return judge(
            rows,
            result.labels,
            sure,
            n_clusters,
            seed=self.seed,
            device=self.device,
            with_outliers=self.outliers,
        )

    def _outliers(self, verdict: Verdict | None) -> Bools | None:
        """Return the outliers, if asked for; what could not be judged has none."""
        if not self.outliers:
            return None
        found = None if verdict is None else verdict.is_outlier
        return np.zeros(len(self.images), np.bool_) if found is None else found


def write_outcome(
    folder: RunFolder, outcome: Outcome, images: Images, names: Sequence[str] | None, truth: I64 | None = None
) -> None:
    """Put a finished run on disk; labels.csv is written last."""
    result = outcome.clustering
    if outcome.metrics is not None:
        both = {"metrics_sf": outcome.metrics_sf} if outcome.metrics_sf is not None else {}
        folder.write_json("metrics.json", {**outcome.metrics, **both})
    verdict = outcome.verdict
    shown = [] if verdict is None else list(verdict.two_kinds.values())
    if outcome.is_outlier is not None:
        shown.append(np.flatnonzero(outcome.is_outlier)[:_N_OUTLIERS_SHOWN])
    thumbnails = pick_thumbnails(images, result, truth, also=shown)
    folder.save_thumbnails(thumbnails)
    # In the tree outliers are one more group, as everywhere inside.
    seen = result.labels if outcome.is_outlier is None else numbered(outcome.labels, folder.n_clusters)[0]
    stage("growing the tree of the clusters")
    save_tree(folder, grow(result.features, seen))
    folder.append_event(
        {
            "kind": "end",
            "seconds": round(outcome.seconds, 3),
            "peak_memory_mb": outcome.peak_memory_mb,
            "clusters_found": len(np.unique(result.labels)),
            **({} if outcome.n_outliers is None else {"n_outliers": outcome.n_outliers}),
            "warnings": list(outcome.warnings),
            **({} if verdict is None else {"verdict": verdict.to_json()}),
            **({"number_again": outcome.number_again} if outcome.number_again else {}),
        }
    )
    confidence = None if verdict is None else verdict.confidence
    names = names if names is not None else [str(i) for i in range(len(images))]
    suggest_names(folder, names, outcome.labels, thumbnails)
    folder.save_result(result, names, confidence, outcome.is_outlier)


def pick_thumbnails(
    images: Images,
    result: Clustering,
    truth: I64 | None = None,
    *,
    also: Sequence[I64] = (),
    per_kind: int = 12,
    spread: int = 1500,
) -> Thumbnails:
    """Choose what the report will want to show, and shrink it.

    That is: the most typical and the least sure images of each cluster, images evenly spaced over the whole set for
    the map, with labels the surest mistakes, and what is asked for also.
    """
    labels, n = result.labels, len(images)
    confidence = result.soft[np.arange(n), labels]
    off_centre = _off_centre(result.features, labels)
    chosen = [np.unique(np.linspace(0, n - 1, min(n, spread)).astype(np.int64)), *also]
    for cluster in np.unique(labels):
        members = np.flatnonzero(labels == cluster)
        # Votes are often unanimous; among equally sure images those near the centre are the typical ones.
        ranked = members[np.lexsort((off_centre[members], -confidence[members]))]
        chosen += [ranked[:per_kind], ranked[-per_kind:]]
    if truth is not None:
        mapping = match_clusters(labels, truth)
        wrong = np.flatnonzero(np.array([mapping.get(int(label), -1) for label in labels]) != truth)
        chosen.append(wrong[np.argsort(-confidence[wrong], kind="stable")[:100]])
    return _small_copies(images, np.unique(np.concatenate(chosen)).astype(np.int64))


def _small_copies(images: Images, rows: I64) -> Thumbnails:
    blocks = np.split(rows, range(_SHRUNK_AT_ONCE, len(rows), _SHRUNK_AT_ONCE))
    return Thumbnails(rows, np.concatenate([shrink(take(images.pixels, block)) for block in blocks]))


def _off_centre(features: F32, labels: I64) -> F64:
    """Return the squared distance of each image to the mean of its cluster, in two passes over the features."""
    n_clusters = int(labels.max()) + 1
    sums = np.zeros((n_clusters, features.shape[1]))
    for block in passes(features):
        sums += member_sums(features[block], labels[block], n_clusters)
    means = (sums / np.maximum(np.bincount(labels), 1)[:, None]).astype(np.float32)
    away = np.empty(len(features))
    for block in passes(features):
        gap = features[block] - means[labels[block]]
        away[block] = np.einsum("nd,nd->n", gap, gap)
    return away


def spread_thumbnails(images: Images, most: int = 600) -> Thumbnails:
    """Take images evenly from the whole set, as long as nobody knows which ones matter."""
    rows = np.unique(np.linspace(0, len(images) - 1, min(len(images), most)).astype(np.int64))
    return _small_copies(images, rows)


def shrink(pixels_NHWC: U8, side: int = 64) -> U8:
    """Bring pictures to at most `side` pixels by averaging whole blocks: no resampling library, no blur.

    A side that is shorter than a block becomes one pixel: a thin picture is still a picture.
    """
    height, width = pixels_NHWC.shape[1:3]
    step = -(-max(height, width) // side)
    if step == 1:
        return pixels_NHWC
    down, across = min(step, height), min(step, width)
    return averaged_blocks(pixels_NHWC, down, across)


def run_config(fit: FitRun, choice: Choice, spec: ImageSpec, *, fingerprint: str, source: Json) -> Json:
    """Everything config.json says about a run before it starts."""
    return {
        "selfsort": __version__,
        "method": fit.method.name,
        "method_from": METHODS.origin(fit.method.name).to_json(),
        "settings": fit.config.to_json(),
        **({"improve": fit.improve.to_json()} if fit.method.improvable is not None or fit.improve.shrink else {}),
        **({"outliers": True} if fit.outliers else {}),
        **({} if fit.stands_for is None else {"stack_duplicates": True}),
        **({} if fit.train_on is None else {"train_on": fit.train_on}),
        "seed": fit.seed,
        "recipe": {"name": choice.recipe.name, "reason": choice.reason, "source": choice.recipe.source},
        "image": spec.to_json(),
        "n_images": len(fit.images),
        "fingerprint": fingerprint,
        "source": source,
        "device": str(fit.device),
        "threads": torch.get_num_threads(),
        "versions": versions(),
    }


def versions() -> dict[str, str]:
    """Return the versions of what a result may depend on."""
    packages = ("torch", "numpy", "scipy", "scikit-learn", "numba", "pillow")
    return {"python": platform.python_version(), **{name: version(name) for name in packages}}


def peak_memory_mb() -> float | None:
    """The process's largest resident size so far, where the system keeps count."""
    if resource is None:
        return None
    peak: int = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return round(peak / (2**20 if sys.platform == "darwin" else 2**10), 1)
