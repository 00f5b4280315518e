"""Commands that make runs: fit, refine and demo."""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from selfsort.cli.console import is_main, job, print_json, progress_bars, say, say_aside, scores_line
from selfsort.cli.parse import (
    DeviceOption,
    FitMode,
    JsonOption,
    LabelsOption,
    MaxBadOption,
    MaxMinutesOption,
    MemoryOption,
    NamesOption,
    OutOption,
    WhereOption,
    channels_of,
    parse_memory,
    parse_names,
    parse_size,
)
from selfsort.errors import CannotWrite, Interrupted, InvalidInput, TimeIsUp
from selfsort.progress import LEAST_SECONDS
from selfsort.text import plural

if TYPE_CHECKING:
    from selfsort.runs.folder import RunFolder
    from selfsort.runs.launch import Launched
    from selfsort.runs.loop import Outcome


@dataclass(frozen=True)
class Limit:
    """The time that a command may take in all, from its beginning."""

    seconds: float | None
    begun: float

    @classmethod
    def of_minutes(cls, minutes: float | None) -> Limit:
        """Begin to count."""
        return cls(None if minutes is None else minutes * 60, time.monotonic())

    def left(self) -> float | None:
        """Return how much of it is left."""
        return None if self.seconds is None else max(0.0, self.seconds - (time.monotonic() - self.begun))

    def _for_launching(self) -> float | None:
        """Return what is left; where imports have used it up, the least that is still a limit.

        No time at all is asked for by who wants one step, whose end is awaited. On a busy machine it must not be taken
        for that when the time has gone by before anything began.
        """
        left = self.left()
        is_limit = self.seconds is not None and self.seconds >= LEAST_SECONDS
        return max(left, LEAST_SECONDS) if left is not None and is_limit else left

    @contextmanager
    def while_launching(self) -> Iterator[None]:
        """Stop what comes before a run, too: reading images, and seeing them with an encoder."""
        from selfsort.progress import until

        # Of several processes none may leave the others alone.
        is_alone = "RANK" not in os.environ
        try:
            with until(self._for_launching() if is_alone else None):
                yield
        except TimeIsUp:
            minutes = (time.monotonic() - self.begun) / 60
            raise Interrupted(
                f"stopped after {minutes:.1f} minutes, as asked, before the sorting could begin. What an encoder has "
                "seen so far is kept. Give the same command again, with more minutes."
            ) from None


BEGUN = "selfsort.runs.folder"
"""Under this key a command that has begun a run says so, for the advice after an interruption."""


def fit(
    context: typer.Context,
    source: Annotated[
        str | None,
        typer.Argument(help="Folder, zip, list file, npz, npy, idx, CIFAR or STL-10 binary.", show_default=False),
    ] = None,
    clusters: Annotated[
        str | None,
        typer.Option(help="How many clusters to find: a number, a range such as 5:30, or auto.", show_default="auto"),
    ] = None,
    method: Annotated[
        str | None,
        typer.Option(help="A name from `selfsort methods`, or auto: the images choose.", show_default="auto"),
    ] = None,
    recipe: Annotated[str, typer.Option(help="A named set of settings; auto fits it to images and machine.")] = "auto",
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="One of the method's settings.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Decides every random draw.")] = 0,
    size: Annotated[str, typer.Option(help="Pixels of the shorter side, or auto.")] = "auto",
    fit_mode: Annotated[
        FitMode | None,
        typer.Option("--fit", help="Crop the centre, stretch, or pad; default crop, or as the encoder wants it."),
    ] = None,
    gray: Annotated[bool | None, typer.Option("--gray/--color", help="Default: gray only if all images are.")] = None,
    where: WhereOption = None,
    labels: LabelsOption = None,
    labels_from_folders: Annotated[
        bool, typer.Option("--labels-from-folders", help="Score against the names of the subfolders.")
    ] = False,
    encoder: Annotated[
        str,
        typer.Option(
            help="What sees the images before the method starts: auto, none (pixels), a name from `selfsort encoders`, "
            "an .onnx file, a Hugging Face folder or hf:NAME, a run, your own features (.npy, .npz, .parquet). "
            "With --resume or --start-from: where the run's encoder is now."
        ),
    ] = "auto",
    features: Annotated[str | None, typer.Option(help="The same as --encoder.", hidden=True)] = None,
    outliers: Annotated[
        bool, typer.Option("--outliers", help="Put images that belong nowhere into a group of their own, cluster -1.")
    ] = False,
    stack_duplicates: Annotated[
        bool,
        typer.Option("--stack-duplicates", help="Count copies, other versions and bursts of a picture once."),
    ] = False,
    names: NamesOption = None,
    train_on: Annotated[
        int | None,
        typer.Option(
            min=2, help="Learn from so many images, drawn by the seed, and sort all by what was learned.", metavar="N"
        ),
    ] = None,
    self_label: Annotated[
        Path | None, typer.Option(help="The same as: selfsort refine RUN.", show_default=False)
    ] = None,
    start_from: Annotated[
        Path | None, typer.Option(help="Begin with the network of this finished run.", show_default=False)
    ] = None,
    max_bad: MaxBadOption = 0.05,
    memory: MemoryOption = None,
    device: DeviceOption = "auto",
    out: Annotated[Path | None, typer.Option("--out", help="Run folder to write.", show_default=False)] = None,
    cache: Annotated[
        bool, typer.Option("--cache/--no-cache", help="Keep an encoder's features for the next run.")
    ] = True,
    resume: Annotated[Path | None, typer.Option(help="Continue this unfinished run.", show_default=False)] = None,
    max_minutes: MaxMinutesOption = None,
    json_: JsonOption = False,
) -> None:
    """Cluster images and write a run folder."""
    limit = Limit.of_minutes(max_minutes)  # before the heavy imports, which take their time too
    if resume is None:
        refuse_at_once(source, method)
    words = parse_names(names)
    from selfsort.data.options import ReadOptions
    from selfsort.methods.registry import DEFAULT_METHOD
    from selfsort.runs import launch as runs
    from selfsort.runs.clusters import read_clusters
    from selfsort.runs.request import Request

    with job(device), progress_bars(limit.seconds), limit.while_launching():
        if resume is not None:
            _refuse_changes(context)
            launched = runs.resume(
                resume,
                source=source,
                encoder=None if encoder == "auto" else encoder,
                device=None if device == "auto" else device,
                cache=cache,
            )
        else:
            if self_label is not None and is_main():
                say_aside("--self-label RUN is now: selfsort refine RUN. It works here for one release.")
            if features is not None:
                encoder = _encoder_of(encoder, features)
            earlier = _earlier_run(self_label, start_from, method)
            reading = None
            if source is not None:
                reading = ReadOptions(
                    path=source,
                    size=parse_size(size),
                    channels=channels_of(gray),
                    fit=None if fit_mode is None else fit_mode.value,
                    where=where,
                    labels=labels,
                    labels_from_folders=labels_from_folders,
                    max_bad=max_bad,
                    memory_bytes=parse_memory(memory),
                )
            elif earlier is None:
                raise InvalidInput("SOURCE is missing. Expected a folder, a list file or an array file. Name one.")
            if earlier is not None:
                reading = runs.reading_like(earlier, reading)
                clusters = clusters or str(earlier.n_clusters)
            assert reading is not None
            request = Request(
                source=reading,
                clusters=read_clusters(clusters or "auto"),
                method=method or DEFAULT_METHOD,
                stage=None if self_label is None else "self-label",
                recipe=recipe,
                settings=tuple(set_ or ()),
                seed=seed,
                encoder=encoder,
                cache=cache,
                outliers=outliers,
                stack_duplicates=stack_duplicates,
                train_on=train_on,
                start_from=earlier,
                words=words,
                device=device,
                out=out,
            )
            launched = runs.launch(request)
        _fit_and_tell(context, launched, limit, json_)


def refine(
    context: typer.Context,
    runs: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUN [RUN...] [SOURCE]",
            help="A run folder, or several for --stage consensus; then other images in the same form.",
            show_default=False,
        ),
    ],
    stage: Annotated[str, typer.Option(help="What to do with it; `selfsort methods` lists the stages.")] = "self-label",
    recipe: Annotated[str, typer.Option(help="A named set of settings; auto fits it to the machine.")] = "auto",
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="One of the stage's settings.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Decides every random draw.")] = 0,
    labels: LabelsOption = None,
    labels_from_folders: Annotated[
        bool, typer.Option("--labels-from-folders", help="Score against the names of the subfolders.")
    ] = False,
    encoder: Annotated[
        str | None, typer.Option(help="Where the run's encoder is now, if it was moved.", show_default=False)
    ] = None,
    device: DeviceOption = "auto",
    out: Annotated[Path | None, typer.Option("--out", help="Run folder to write.", show_default=False)] = None,
    max_minutes: MaxMinutesOption = None,
    json_: JsonOption = False,
) -> None:
    """Go on from a finished run, or several: a second stage makes a new run. The old ones stay as they are."""
    from selfsort.data.options import ReadOptions
    from selfsort.runs import launch as launching
    from selfsort.runs.request import Request

    if stage == "corrections":
        _learn_corrections(runs, out, device, json_)
        return
    limit = Limit.of_minutes(max_minutes)
    with job(device), progress_bars(limit.seconds), limit.while_launching():
        run_paths, source = launching.split_runs(runs)
        earlier, *others = [launching.open_finished(path) for path in run_paths]
        reading = None
        if source is not None:
            reading = ReadOptions(path=str(source), labels=labels, labels_from_folders=labels_from_folders)
        elif labels is not None or labels_from_folders:
            raise InvalidInput("labels are read with SOURCE, and there is none. Expected both. Name the images too.")
        request = Request(
            source=launching.reading_like(earlier, reading),
            clusters=earlier.n_clusters,
            stage=stage,
            recipe=recipe,
            settings=tuple(set_ or ()),
            seed=seed,
            encoder=encoder or "auto",
            outliers=earlier.has_outliers,
            start_from=earlier,
            others=tuple(others),
            device=device,
            out=out,
        )
        _fit_and_tell(context, launching.launch(request), limit, json_)


def _learn_corrections(runs: list[Path], out: Path | None, device: str, as_json: bool) -> None:
    """Make the run that has learned from corrections; a network is trained on them if the images are there."""
    from selfsort.runs.corrections import learn_corrections
    from selfsort.runs.folder import RunFolder

    if len(runs) > 1:
        raise InvalidInput("corrections are those of one run and its images. Expected no SOURCE. Leave it out.")
    with progress_bars():
        made = learn_corrections(RunFolder.open(runs[0]), out, device=device)
    if as_json:
        told = {"run": str(made.folder.path), "confirmed": made.n_confirmed, "changed": made.n_changed}
        print_json(told | ({} if made.metrics is None else {"metrics": made.metrics}))
        return
    say(
        f"{plural(made.n_confirmed, 'picture')} confirmed by hand; {made.n_changed} further ones follow them"
        + ("; its network was trained on them" if made.is_taught else "")
    )
    if made.metrics is not None:
        say(scores_line(made.metrics))
    say(f"run folder: {made.folder.path}")


def demo(context: typer.Context, out: OutOption = None) -> None:
    """Cluster the digits that ship with scikit-learn and write a report."""
    from selfsort.cli.demo import measure_others, write_digits
    from selfsort.data.options import ReadOptions
    from selfsort.report.build import write_report
    from selfsort.runs.launch import launch
    from selfsort.runs.request import Request

    images = write_digits(Path("selfsort-runs") if out is None else out.parent)
    with progress_bars():
        launched = launch(Request(source=ReadOptions(path=str(images)), clusters=10, out=out))
        _fit_and_tell(context, launched, Limit.of_minutes(None), as_json=False)
        page = write_report([launched.folder.path], None)
        others = [f"{title} {acc:.3f}" for title, acc in measure_others(images, 10)]
    say(f"The same images by others, ACC: {', '.join(others)}")
    say(f"images: {images}")
    say(f"report: {page}")


def _encoder_of(encoder: str, features: str) -> str:
    """Take --features for what it is called today."""
    if encoder != "auto":
        raise InvalidInput("--features is the old name of --encoder, and both are given. Expected one. Leave it out.")
    if is_main():
        say_aside("--features RUN is now: --encoder RUN. It works here for one release.")
    return features


def _earlier_run(self_label: Path | None, start_from: Path | None, method: str | None) -> RunFolder | None:
    """Open the run that a new one goes on from, if there is one."""
    from selfsort.runs.launch import open_finished

    if self_label is not None and (start_from is not None or method is not None):
        raise InvalidInput(
            "--self-label refines a run as it is, so --method and --start-from do not go with it. Expected one of "
            "them. Leave the others out."
        )
    path = self_label or start_from
    return None if path is None else open_finished(path)


def _refuse_changes(context: typer.Context) -> None:
    """A resumed run keeps its settings; options that would change them must not be ignored in silence."""
    harmless = {"source", "encoder", "resume", "device", "max_minutes", "json_", "cache"}
    for parameter in context.command.params:
        given = context.get_parameter_source(str(parameter.name))
        if parameter.name not in harmless and given is not None and given.name == "COMMANDLINE":
            raise InvalidInput(
                f"{parameter.opts[0]} cannot be given with --resume. A resumed run keeps the settings it was started "
                "with. Leave it out, or start a new run."
            )


def _fit_and_tell(context: typer.Context, launched: Launched, limit: Limit, as_json: bool) -> None:
    from selfsort.runs.launch import summary

    context.meta[BEGUN] = launched.folder
    launched.fit.max_seconds = limit.left()
    tell = say_aside if as_json and is_main() else say
    for note in launched.notes if is_main() else ():
        say_aside(note)
    for line in _opening_lines(launched):
        tell(line)
    try:
        outcome = launched.fit.run()
    except CannotWrite as error:
        raise CannotWrite(f"{error} {way_on(launched.folder)}") from error
    if as_json:
        print_json(summary(launched, outcome))
    else:
        _tell_outcome(launched, outcome)


def _opening_lines(launched: Launched) -> tuple[str, str]:
    """Say what is sorted, and how."""
    from selfsort.data.words import kinds_in_words

    ingest, n_images = launched.dataset.ingest, len(launched.dataset.images)
    skipped = len(ingest.get("skipped", ()))
    beside = kinds_in_words(ingest.get("ignored") or {})
    sees = "their pixels" if launched.encoder is None else f"what {launched.encoder.name} sees in them"
    return (
        f"{plural(n_images, 'image')} into {plural(launched.fit.config.n_clusters, 'cluster')}"
        + (f"; {plural(skipped, 'file')} could not be read (see ingest.json)" if skipped else "")
        + (f"; not pictures, and left alone: {beside}" if beside else ""),
        f"Sorted by {launched.method}, from {sees}. Its settings are those called {launched.recipe}.",
    )


def refuse_at_once(source: str | None, method: str | None) -> None:
    """Refuse what needs nothing heavy to be seen: names that do not exist."""
    from selfsort.methods.registry import METHODS, nearest, refuse_unknown

    # What is like no method may be a stage, and these are slow to load.
    if method not in (None, "auto") and method not in METHODS and nearest(str(method), 0.7) is not None:
        refuse_unknown(str(method))
    if source is not None:
        from selfsort.data.detect import require_there

        require_there(source)


def _tell_outcome(launched: Launched, outcome: Outcome) -> None:
    found = len(set(outcome.clustering.labels.tolist()))
    memory = "" if outcome.peak_memory_mb is None else f", peak memory {outcome.peak_memory_mb:.0f} MB"
    apart = "" if outcome.n_outliers is None else f" and {plural(outcome.n_outliers, 'outlier')}"
    say(f"{plural(found, 'cluster')}{apart} found in {outcome.seconds:.1f} s{memory}")
    for warning in outcome.warnings:
        say(f"warning: {warning}")
    if outcome.verdict is not None:
        say(outcome.verdict.sentence)
    if outcome.number_again:
        say(outcome.number_again.replace("RUN", str(launched.folder.path)))
    if outcome.metrics is not None:
        say(scores_line(outcome.metrics))
    if outcome.metrics_sf is not None:
        say(scores_line(outcome.metrics_sf) + "  (straight-forward labels)")
    say(f"run folder: {launched.folder.path}")


def way_on(run: RunFolder) -> str:
    """Say how an interrupted run goes on."""
    return f"Continue with: selfsort fit --resume {shlex.quote(str(run.path))}"
