"""The command line: parse, call, print, exit code.

Heavy imports live inside the commands, so that `selfsort --help` stays quick.
Exit codes: 0 done, 2 wrong use or input, 3 interrupted but resumable, 1 a fault of ours.
"""

from __future__ import annotations

import io
import json
import os
import shlex
import signal
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from typer.core import TyperGroup

from selfsort.errors import CannotWrite, Interrupted, InvalidInput, SelfsortError

if TYPE_CHECKING:
    from selfsort.runs.folder import RunFolder
    from selfsort.runs.launch import Launched
    from selfsort.runs.loop import Outcome


class _Commands(TyperGroup):
    """Turns Ctrl-C into our own error before typer turns it into an exit code of its own."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except (KeyboardInterrupt, Interrupted) as stop:
            # Here and not where it was caught first: a second Ctrl-C on the way out must not change the advice.
            raise Interrupted(_advice(str(stop), ctx.meta.get(_RUN))) from None


_RUN = "selfsort.runs.folder"
"""Under this key a command that has begun a run says so, for the advice after an interruption."""


def _advice(reason: str, run: RunFolder | None) -> str:
    if run is None:
        return reason or "interrupted; nothing is lost. Run the same command again to do all of it."
    if run.is_finished:
        return f"{reason or 'interrupted.'} The run is finished: {run.path}"
    return f"{reason or 'interrupted.'} {_way_on(run)}"


def _way_on(run: RunFolder) -> str:
    return f"Continue with: selfsort fit --resume {shlex.quote(str(run.path))}"


app = typer.Typer(
    name="selfsort",
    cls=_Commands,
    help="Sorts unlabelled images into clusters by learning the representation and the clusters together.",
    add_completion=False,
    pretty_exceptions_enable=False,
)


_SORT, _LOOK, _RESEARCH = "Sort", "Look and hand on", "Research and machine"
"""The groups of commands in the help."""


class FitMode(StrEnum):
    """How pictures of different shapes become equal."""

    crop = "crop"
    stretch = "stretch"
    pad = "pad"


class ExportTo(StrEnum):
    """What a finished run can be turned into."""

    csv = "csv"
    folders = "folders"
    npz = "npz"
    onnx = "onnx"


RunArgument = Annotated[Path, typer.Argument(help="A run folder.", show_default=False)]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object on standard output.")]
DeviceOption = Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:N or mps.")]
MaxBadOption = Annotated[float, typer.Option(min=0, max=1, help="Unreadable files tolerated, as a share.")]
LabelsOption = Annotated[
    str | None, typer.Option(help="True labels for scoring: csv with name,label, or npy or txt, one per image.")
]
OriginalOption = Annotated[
    bool, typer.Option("--original", help="Labels as the method wrote them, without corrections made in explore.")
]
OutOption = Annotated[Path | None, typer.Option("--out", help="Where to write.", show_default=False)]


def _print_version(is_asked: bool) -> None:
    if is_asked:
        from selfsort import __version__

        _say(f"selfsort {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks.")] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and stop.")
    ] = False,
) -> None:
    # --debug is read by `main`, which is outside of typer's reach, and may stand anywhere.
    del debug, version


@app.command(rich_help_panel=_SORT)
def fit(
    context: typer.Context,
    source: Annotated[
        str | None,
        typer.Argument(help="Folder, list file, npz, npy, idx, CIFAR or STL-10 binary.", show_default=False),
    ] = None,
    clusters: Annotated[str | None, typer.Option(help="How many clusters to find.", show_default=False)] = None,
    method: Annotated[str | None, typer.Option(help="A name from `selfsort methods`.", show_default=False)] = None,
    recipe: Annotated[str, typer.Option(help="A named set of settings; auto fits it to images and machine.")] = "auto",
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="One of the method's settings.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Decides every random draw.")] = 0,
    size: Annotated[str, typer.Option(help="Pixels of the shorter side, or auto.")] = "auto",
    fit_mode: Annotated[FitMode, typer.Option("--fit", help="Crop the centre, stretch, or pad.")] = FitMode.crop,
    gray: Annotated[bool | None, typer.Option("--gray/--color", help="Default: gray only if all images are.")] = None,
    where: Annotated[str | None, typer.Option(help="Keep the rows of an npz with NAME=VALUE, as split=1.")] = None,
    labels: LabelsOption = None,
    labels_from_folders: Annotated[
        bool, typer.Option("--labels-from-folders", help="Score against the names of the subfolders.")
    ] = False,
    encoder: Annotated[
        str, typer.Option(help="What makes features before the method starts: none, or a run, as RUN or RUN:layer.")
    ] = "none",
    features: Annotated[str | None, typer.Option(help="The same as --encoder.", hidden=True)] = None,
    self_label: Annotated[
        Path | None, typer.Option(help="The same as: selfsort refine RUN.", show_default=False)
    ] = None,
    start_from: Annotated[
        Path | None, typer.Option(help="Begin with the network of this finished run.", show_default=False)
    ] = None,
    max_bad: MaxBadOption = 0.05,
    memory: Annotated[str | None, typer.Option(help="Memory for pixels, as 8G; default half of RAM.")] = None,
    device: DeviceOption = "auto",
    out: Annotated[Path | None, typer.Option("--out", help="Run folder to write.", show_default=False)] = None,
    resume: Annotated[Path | None, typer.Option(help="Continue this unfinished run.", show_default=False)] = None,
    max_minutes: Annotated[float | None, typer.Option(min=0, help="Stop after this long; resumable.")] = None,
    json_: JsonOption = False,
) -> None:
    """Cluster images and write a run folder."""
    from selfsort.data.options import ReadOptions
    from selfsort.methods.registry import DEFAULT_METHOD
    from selfsort.runs import launch as runs

    with _job(device), _progress_bars():
        if resume is not None:
            _refuse_changes(context)
            launched = runs.resume(resume, source=source, device=None if device == "auto" else device)
        else:
            if self_label is not None and _is_main():
                _say_aside("--self-label RUN is now: selfsort refine RUN. It works here for one release.")
            if features is not None:
                encoder = _encoder_of(encoder, features)
            earlier = _earlier_run(self_label, start_from, method)
            reading = None
            if source is not None:
                reading = ReadOptions(
                    path=source,
                    size=runs.parse_size(size),
                    channels=runs.channels_of(gray),
                    fit=fit_mode.value,
                    where=where,
                    labels=labels,
                    labels_from_folders=labels_from_folders,
                    max_bad=max_bad,
                    memory_bytes=runs.parse_memory(memory),
                )
            elif earlier is None:
                raise InvalidInput("SOURCE is missing. Expected a folder, a list file or an array file. Name one.")
            if earlier is not None:
                reading = runs.reading_like(earlier, reading)
                clusters = clusters or str(earlier.n_clusters)
            assert reading is not None
            request = runs.Request(
                source=reading,
                clusters=runs.parse_clusters(clusters),
                method=method or DEFAULT_METHOD,
                stage=None if self_label is None else "self-label",
                recipe=recipe,
                settings=tuple(set_ or ()),
                seed=seed,
                encoder=encoder,
                start_from=earlier,
                device=device,
                out=out,
            )
            launched = runs.launch(request)
        _fit_and_tell(context, launched, max_minutes, json_)


@app.command(rich_help_panel=_SORT)
def refine(
    context: typer.Context,
    run: RunArgument,
    source: Annotated[
        str | None, typer.Argument(help="Other images in the same form; default: those of the run.", show_default=False)
    ] = None,
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
    device: DeviceOption = "auto",
    out: Annotated[Path | None, typer.Option("--out", help="Run folder to write.", show_default=False)] = None,
    max_minutes: Annotated[float | None, typer.Option(min=0, help="Stop after this long; resumable.")] = None,
    json_: JsonOption = False,
) -> None:
    """Go on from a finished run: a second stage makes a new run of it. The first one stays as it is."""
    from selfsort.data.options import ReadOptions
    from selfsort.runs import launch as runs

    with _job(device), _progress_bars():
        earlier = runs.open_finished(run)
        given = None
        if source is not None:
            given = ReadOptions(path=source, labels=labels, labels_from_folders=labels_from_folders)
        elif labels is not None or labels_from_folders:
            raise InvalidInput("labels are read with SOURCE, and there is none. Expected both. Name the images too.")
        request = runs.Request(
            source=runs.reading_like(earlier, given),
            clusters=earlier.n_clusters,
            stage=stage,
            recipe=recipe,
            settings=tuple(set_ or ()),
            seed=seed,
            start_from=earlier,
            device=device,
            out=out,
        )
        _fit_and_tell(context, runs.launch(request), max_minutes, json_)


def _encoder_of(encoder: str, features: str) -> str:
    """Take --features for what it is called today."""
    if encoder != "none":
        raise InvalidInput("--features is the old name of --encoder, and both are given. Expected one. Leave it out.")
    if _is_main():
        _say_aside("--features RUN is now: --encoder RUN. It works here for one release.")
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
    harmless = {"source", "resume", "device", "max_minutes", "json_"}
    for parameter in context.command.params:
        given = context.get_parameter_source(str(parameter.name))
        if parameter.name not in harmless and given is not None and given.name == "COMMANDLINE":
            raise InvalidInput(
                f"{parameter.opts[0]} cannot be given with --resume. A resumed run keeps the settings it was started "
                "with. Leave it out, or start a new run."
            )


def _fit_and_tell(context: typer.Context, launched: Launched, max_minutes: float | None, as_json: bool) -> None:
    from selfsort.runs.launch import summary

    context.meta[_RUN] = launched.folder
    launched.fit.max_seconds = None if max_minutes is None else max_minutes * 60
    say = _say_aside if as_json and _is_main() else _say
    for note in launched.notes if _is_main() else ():
        _say_aside(note)
    skipped = len(launched.dataset.ingest.get("skipped", ()))
    say(
        f"{len(launched.dataset.images)} images"
        + (f" ({skipped} unreadable skipped, see ingest.json)" if skipped else "")
        + f", {launched.fit.config.n_clusters} clusters, method {launched.fit.method.name}, recipe {launched.recipe}"
    )
    try:
        outcome = launched.fit.run()
    except CannotWrite as error:
        raise CannotWrite(f"{error} {_way_on(launched.folder)}") from error
    if as_json:
        _print_json(summary(launched, outcome))
    else:
        _tell_outcome(launched, outcome)


def _tell_outcome(launched: Launched, outcome: Outcome) -> None:
    found = len(set(outcome.clustering.labels.tolist()))
    memory = "" if outcome.peak_memory_mb is None else f", peak memory {outcome.peak_memory_mb:.0f} MB"
    _say(f"{found} clusters found in {outcome.seconds:.1f} s{memory}")
    for warning in outcome.warnings:
        _say(f"warning: {warning}")
    if outcome.metrics is not None:
        _say(_scores_line(outcome.metrics))
    if outcome.metrics_sf is not None:
        _say(_scores_line(outcome.metrics_sf) + "  (straight-forward labels)")
    _say(f"run folder: {launched.folder.path}")


@app.command(rich_help_panel=_SORT)
def predict(
    run: RunArgument,
    source: Annotated[str, typer.Argument(help="New images, any source that fit reads.", show_default=False)],
    out: OutOption = None,
    max_bad: MaxBadOption = 0.05,
    device: DeviceOption = "auto",
    original: OriginalOption = False,
    json_: JsonOption = False,
) -> None:
    """Sort new images with a saved model; writes labels.csv, or what --out says."""
    from selfsort.learning.device import choose_device
    from selfsort.runs.export.csv import predicted_csv
    from selfsort.runs.folder import RunFolder, write_whole
    from selfsort.runs.labels import whole_cluster_edits
    from selfsort.runs.launch import read_like
    from selfsort.runs.model import apply_in_chunks, load_model

    folder = RunFolder.open(run)
    folder.require_finished()
    target = out or Path("labels.csv")
    if folder.holds(target):
        raise InvalidInput(f"{target} would replace a file of the run itself. Expected another place. Choose --out.")
    if out is None and target.exists():
        raise InvalidInput(f"{target} exists already. Expected it to be new. Name a file with --out; that is replaced.")
    with _job(device), _progress_bars():
        model = load_model(folder, choose_device(device))
        dataset = read_like(folder, source, max_bad=max_bad)
        assignment = apply_in_chunks(model, dataset.images)
    edits = whole_cluster_edits(folder, assignment.soft.shape[1], is_original=original)
    table = predicted_csv(dataset.names, assignment, edits)
    if _is_main():
        write_whole(target, lambda file: file.write(table))
    skipped = dataset.ingest.get("skipped", [])
    if json_:
        _print_json({"labels": str(target), "images": len(dataset.images), "skipped": skipped})
    else:
        for item in skipped:
            _say(f"skipped {item['name']}: {item['reason']}")
        _say(f"{len(dataset.images)} images sorted, labels in {target}")
    if _is_main() and (edits.n_applied or edits.n_left_out):
        _say_aside(
            f"Corrections of whole clusters (merged, renamed) that were applied: {edits.n_applied}. Those of single "
            f"images, which say nothing of new ones: {edits.n_left_out}. For none at all add --original."
        )


@app.command(rich_help_panel=_LOOK)
def score(
    run: RunArgument, labels: LabelsOption = None, original: OriginalOption = False, json_: JsonOption = False
) -> None:
    """Print ACC, NMI (geometric, arithmetic, max), ARI and cluster sizes."""
    from selfsort.data import read_labels
    from selfsort.metrics.external import scores
    from selfsort.metrics.internal import size_report
    from selfsort.runs.folder import RunFolder
    from selfsort.runs.labels import current_labels

    folder = RunFolder.open(run)
    current = current_labels(folder, is_original=original)
    table = current.table
    _tell_corrections(current.n_edits)
    truth = folder.truth() if labels is None else read_labels(labels, table.names)
    sizes = size_report(table.labels, folder.n_clusters)
    metrics = None if truth is None else scores(table.labels, truth)
    if json_:
        _print_json({"run": str(run), "sizes": sizes.to_json(), **({} if metrics is None else {"metrics": metrics})})
        return
    _say(f"clusters {sizes.used}, smallest {sizes.min}, largest {sizes.max}, size entropy {sizes.entropy:.3f}")
    if metrics is None:
        _say("No true labels are known for this run. Give them with --labels PATH to get scores.")
    else:
        _say(_scores_line(metrics))


@app.command(rich_help_panel=_LOOK)
def report(
    runs: Annotated[list[Path], typer.Argument(help="One run folder or more.", show_default=False)],
    out: OutOption = None,
    figures: Annotated[
        Path | None, typer.Option(help="Also write the papers' figures as PNG and SVG here.", show_default=False)
    ] = None,
    original: OriginalOption = False,
) -> None:
    """Write one self-contained HTML page."""
    from selfsort.report.build import write_figures, write_report

    with _progress_bars():
        _say(f"report: {write_report(runs, out, is_original=original)}")
        if figures is not None:
            for run in runs:
                folder = figures if len(runs) == 1 else figures / run.resolve().name
                _say(f"{len(write_figures(run, folder, is_original=original))} figure files: {folder}")


@app.command(rich_help_panel=_LOOK)
def explore(
    run: RunArgument,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0 takes a free one.")] = 0,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Print the address and open nothing.")] = False,
) -> None:
    """Open a local web page to look at the clusters and put them right."""
    from selfsort.explore.serve import serve

    def say(text: str) -> None:
        _say(text)
        sys.stdout.flush()  # the address is needed now, also by a program that reads it from a pipe

    with _progress_bars():
        serve(run, port=port, is_browser_wanted=not no_browser, say=say)


@app.command(rich_help_panel=_LOOK)
def export(
    run: RunArgument,
    to: Annotated[ExportTo, typer.Option(help="What to write.", show_default=False)],
    out: OutOption = None,
    link: Annotated[bool, typer.Option("--link", help="For folders: link the files instead of copying.")] = False,
    original: OriginalOption = False,
) -> None:
    """Turn a finished run into a label file, folders of images, images with labels, or a network.

    The label file is for people: in it, names that a spreadsheet would take for formulas begin with an apostrophe.
    Programs read labels.csv in the run folder, which has every name as it is.
    """
    from selfsort.runs.export.table import export_run
    from selfsort.runs.folder import RunFolder
    from selfsort.runs.labels import current_labels

    folder = RunFolder.open(run)
    labels = current_labels(folder, is_original=original)
    with _progress_bars():
        target = export_run(folder, labels, to.value, out, link=link)
    _say(f"written: {target}")
    if to is not ExportTo.onnx:
        _tell_corrections(labels.n_edits)


def _tell_corrections(n_edits: int) -> None:
    """Say that labels are not those of the method alone."""
    if n_edits:
        _say_aside(f"Corrections made in selfsort explore, all applied: {n_edits}. For none of them add --original.")


@app.command(rich_help_panel=_RESEARCH)
def methods(
    name: Annotated[str | None, typer.Argument(help="Show one method's settings.", show_default=False)] = None,
    json_: JsonOption = False,
) -> None:
    """List the methods and stages, or the settings of one with defaults and where they come from."""
    from dataclasses import asdict, replace

    from selfsort.config import describe
    from selfsort.improve.around import ImproveConfig
    from selfsort.improve.stages import STAGES
    from selfsort.methods.recipes import recipes_of
    from selfsort.methods.registry import METHODS
    from selfsort.runs.model import find_kind

    columns = ("name", "summary", "source")
    if name is None:
        rows = [_method_row(name) for name in METHODS]
        stages = [{column: getattr(kind, column) for column in columns} for kind in STAGES.values()]
        if json_:
            _print_json({"methods": rows, "stages": stages})
            return
        _table(
            ("method", "what it does", "source", "from"),
            [
                (
                    row["name"],
                    row.get("summary", "not loadable"),
                    row.get("source", ""),
                    f"{row['package']} {row['version']}",
                )
                for row in rows
            ],
        )
        _table(
            ("stage", "what selfsort refine RUN does with it", "source"),
            [tuple(stage[column] for column in columns) for stage in stages],
        )
        for row in rows:
            if "error" in row:
                _say_aside(f"warning: {row['error']}")
        return
    kind = find_kind(name)
    settings, recipes = describe(kind.config), recipes_of(name)
    if getattr(kind, "improvable", None) is not None:
        settings += [replace(setting, name=f"improve.{setting.name}") for setting in describe(ImproveConfig)]
    if json_:
        _print_json(
            {"name": name, "settings": [asdict(s) for s in settings], "recipes": [recipe.name for recipe in recipes]}
        )
        return
    _say(f"{kind.name}: {kind.summary} ({kind.source})")
    _table(
        ("setting", "default", "meaning", "must be", "from"),
        [(s.name, s.default, s.doc, s.type, s.source) for s in settings],
    )
    for recipe in recipes:
        _say(f"recipe {recipe.name}: {recipe.source}")


def _method_row(name: str) -> dict[str, str]:
    """Describe a method; one of another package that cannot be loaded must not hide the rest."""
    from selfsort.methods.registry import METHODS

    row = {"name": name, **METHODS.origin(name).to_json()}
    try:
        method = METHODS[name]
    except SelfsortError as error:
        return row | {"error": str(error)}
    return row | {"summary": method.summary, "source": method.source}


@app.command(rich_help_panel=_RESEARCH)
def bench(
    name: Annotated[str | None, typer.Argument(help="A table; without one, list them.", show_default=False)] = None,
    seeds: Annotated[str | None, typer.Option(help="How many (3), or which (0,1,2).", show_default=False)] = None,
    budget_minutes: Annotated[
        float | None, typer.Option(min=0, help="Start nothing that would end after this long.", show_default=False)
    ] = None,
    only: Annotated[str, typer.Option(help="Only cells whose name holds this text.", show_default=False)] = "",
    again: Annotated[bool, typer.Option("--again", help="Measure also what was measured before.")] = False,
    records: Annotated[
        Path | None, typer.Option(help="Folder for new records, beside those that ship with selfsort.")
    ] = None,
    json_: JsonOption = False,
) -> None:
    """Measure methods on known data sets, and show them beside what the papers print."""
    from selfsort.bench.fill import fill, parse_seeds
    from selfsort.bench.page import cell, progress
    from selfsort.bench.records import SHIPPED, read_records
    from selfsort.bench.summary import MEASURES, summarise
    from selfsort.bench.tables import TABLES, find_table

    known = read_records([SHIPPED] if records is None else [SHIPPED, records])
    if name is None:
        tables = [(table.name, table.title, progress(table, summarise(table, known))) for table in TABLES.values()]
        if json_:
            _print_json({"tables": [dict(zip(("name", "title", "state"), row, strict=True)) for row in tables]})
        else:
            _table(("table", "what it compares", "state"), tables)
        return
    table = find_table(name)
    filled = fill(
        table,
        known,
        records or SHIPPED,
        seeds=None if seeds is None else parse_seeds(seeds),
        only=only,
        budget_seconds=None if budget_minutes is None else budget_minutes * 60,
        again=again,
        say=_say_aside,
    )
    summaries = [found for found in summarise(table, known) if only in f"{found.dataset} {found.row.name}"]
    shown = [found for found in summaries if found.records or found.refused]
    if filled.missing is not None and not shown:
        raise filled.missing
    if json_:
        rows = [found.to_json() for found in shown]
        _print_json({"table": name, "measured": filled.n_measured, "left": len(filled.left), "rows": rows})
    else:
        columns = ("data", "method", "NMI", "ACC", "ARI", "CPU s", "MB", "seeds")
        _table(
            columns,
            [
                (found.dataset, found.row.name, *(cell(found, m) for m in MEASURES), str(len(found.records)))
                for found in shown
            ],
        )
    if filled.missing is not None:
        _say_aside(f"warning: {filled.missing}")
    if filled.left:
        _say_aside(f"{len(filled.left)} cells are left, the first is {filled.left[0].name}.")


@app.command(rich_help_panel=_RESEARCH)
def demo(context: typer.Context, out: OutOption = None) -> None:
    """Cluster the digits that ship with scikit-learn and write a report."""
    from selfsort.cli.demo import write_digits
    from selfsort.data.options import ReadOptions
    from selfsort.report.build import write_report
    from selfsort.runs.launch import Request, launch

    images = write_digits(Path("selfsort-runs") if out is None else out.parent)
    with _progress_bars():
        launched = launch(Request(source=ReadOptions(path=str(images)), clusters=10, out=out))
        _fit_and_tell(context, launched, None, as_json=False)
        page = write_report([launched.folder.path], None)
    _say(f"images: {images}")
    _say(f"report: {page}")


def main() -> None:
    """Run the command line; every expected error ends in one message and its exit code."""
    arguments = [word for word in sys.argv[1:] if word != "--debug"]
    is_debug = len(arguments) < len(sys.argv[1:])
    if "RANK" in os.environ:  # PyTorch's distributed engine is chatty, once per process
        os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
    _listen_to_signals()
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a name the terminal cannot show is no reason to fail
    try:
        app(arguments or ["--help"], prog_name="selfsort", standalone_mode=False)
        sys.stdout.flush()  # here, where a disk that is full can still be told
    except SelfsortError as error:
        _fail(str(error), error.exit_code, is_debug)
    except KeyboardInterrupt:
        _fail("interrupted.", 3, is_debug)
    except BrokenPipeError:
        _stop_printing()  # the reader of our output has seen enough, as `head` does
    except OSError as error:
        _stop_printing()
        what = "the output" if error.filename is None else str(error.filename)
        _fail(
            f"{what} cannot be used ({error.strerror or error}). Expected a place that can be read or written here. "
            "Check the path, its permissions and the space that is left.",
            2,
            is_debug,
        )
    except MemoryError:
        _fail(
            "the memory of this machine is not enough. Expected more of it, or less to do. "
            "Choose a smaller --size or --memory, or fewer images.",
            2,
            is_debug,
        )
    except Exception as error:
        if hasattr(error, "exit_code") and hasattr(error, "format_message"):  # typer's own usage errors
            _fail(f"{_sentence(error.format_message())} See: {_help_command(error)}", 2, is_debug)
        _fail(
            f"selfsort failed unexpectedly ({type(error).__name__}: {error}). This is a fault of ours. "
            "Run again with `selfsort --debug ...` and report what it prints.",
            1,
            is_debug,
        )


def _listen_to_signals() -> None:
    """Treat a polite kill and a closed terminal like Ctrl-C: the run folder stays resumable."""
    for number in (signal.SIGTERM, getattr(signal, "SIGHUP", None)):  # Windows has no terminals to hang up
        if number is not None and signal.getsignal(number) is not signal.SIG_IGN:  # as it is under nohup
            signal.signal(number, _interrupt)


def _interrupt(signum: int, frame: Any) -> None:
    raise KeyboardInterrupt


def _stop_printing() -> None:
    """Give standard output up: what is left in it could only fail again when the interpreter ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _fail(message: str, exit_code: int, is_debug: bool) -> None:
    with suppress(OSError):  # the terminal may be what has gone
        if is_debug:
            traceback.print_exc()
        if _is_main() or exit_code != 2:  # what the user did wrong all processes find; once is enough
            _say_aside(f"selfsort: {message}")
    sys.exit(exit_code)


def _sentence(text: str) -> str:
    return text if text.endswith((".", "?")) else f"{text}."


def _help_command(error: Exception) -> str:
    context = getattr(error, "ctx", None)
    return f"{getattr(context, 'command_path', 'selfsort')} --help"


def _is_main() -> bool:
    """Of several processes, as torchrun starts them, the first one speaks and writes."""
    return os.environ.get("RANK", "0") == "0"


@contextmanager
def _job(device: str) -> Iterator[None]:
    """Meet the other processes, if torchrun has started some."""
    if "RANK" not in os.environ:
        yield
        return
    from selfsort.distributed import joined

    with joined(device):
        yield


def _say(text: str) -> None:
    if _is_main():
        print(_one_line(text))


def _say_aside(text: str) -> None:
    print(_one_line(text), file=sys.stderr)


def _one_line(text: str) -> str:
    r"""Spell out what a terminal would obey or could not show: line breaks and escapes in names of files.

    >>> _one_line("a\nb\x1b[31m\udce9")
    'a\\nb\\x1b[31m\\udce9'
    """
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def _print_json(value: dict[str, Any]) -> None:
    if _is_main():
        print(json.dumps(value))


def _scores_line(metrics: dict[str, float]) -> str:
    return (
        f"ACC {metrics['acc']:.4f}  NMI {metrics['nmi_geometric']:.4f} geometric, {metrics['nmi_arithmetic']:.4f} "
        f"arithmetic, {metrics['nmi_max']:.4f} max  ARI {metrics['ari']:.4f}"
    )


def _table(header: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> None:
    table = Table(box=None, pad_edge=False)
    for title in header:
        table.add_column(title, overflow="fold")
    for row in rows:
        table.add_row(*(escape(cell) for cell in row))
    Console(highlight=False).print(table)


@contextmanager
def _progress_bars() -> Iterator[None]:
    """Show progress on standard error while a block runs, if somebody is looking."""
    from selfsort.progress import listening

    if not (sys.stderr.isatty() and _is_main()):
        yield
        return
    from selfsort.cli.progress_bars import RichListener

    with RichListener() as listener, listening(listener):
        yield


if __name__ == "__main__":
    main()
