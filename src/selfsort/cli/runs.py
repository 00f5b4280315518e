"""Commands on runs that are there: cut, predict, score, names, report, explore and export."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from selfsort.cli.console import is_main, job, print_json, progress_bars, say, say_aside, scores_line
from selfsort.cli.parse import (
    DeviceOption,
    ExportMode,
    ExportTo,
    JsonOption,
    LabelsOption,
    MaxBadOption,
    MemoryOption,
    NamesOption,
    OriginalOption,
    OutOption,
    PredictTo,
    ReplaceOption,
    RunArgument,
    WhereOption,
    parse_memory,
    parse_names,
)
from selfsort.errors import InvalidInput
from selfsort.text import plural, shorten


def cut(
    run: RunArgument,
    clusters: Annotated[int, typer.Option(help="How many clusters.", show_default=False)],
    out: Annotated[Path | None, typer.Option("--out", help="Run folder to write.", show_default=False)] = None,
    json_: JsonOption = False,
) -> None:
    """Make another number of clusters of a finished run, without training again, as a run of its own.

    Fewer clusters are whole ones joined, more are parts of them: the tree of the run is cut higher or lower. Names and
    corrections are carried over where they still make sense. The images are not needed.
    """
    from selfsort.runs.cut import cut_run
    from selfsort.runs.folder import RunFolder

    folder = RunFolder.open(run)
    with progress_bars():
        made = cut_run(folder, clusters, out)
    if json_:
        told = {"run": str(made.folder.path), "clusters": clusters, "carried": str(made.carried)}
        print_json(told | ({} if made.metrics is None else {"metrics": made.metrics}))
        return
    if str(made.carried):
        say(f"corrections {made.carried}")
    if made.metrics is not None:
        say(scores_line(made.metrics))
    say(f"run folder: {made.folder.path}")


def predict(
    run: RunArgument,
    source: Annotated[str, typer.Argument(help="New images, any source that fit reads.", show_default=False)],
    to: Annotated[
        PredictTo, typer.Option(help="A label file, or copies in one folder for each cluster.")
    ] = PredictTo.csv,
    out: OutOption = None,
    where: WhereOption = None,
    labels: LabelsOption = None,
    max_bad: MaxBadOption = 0.05,
    memory: MemoryOption = None,
    encoder: Annotated[
        str | None,
        typer.Option(help="Where the run's encoder is now; or the features of the new images.", show_default=False),
    ] = None,
    device: DeviceOption = "auto",
    original: OriginalOption = False,
    replace: ReplaceOption = False,
    json_: JsonOption = False,
) -> None:
    """Sort new images with a saved model; writes labels.csv, or what --out says.

    If their true labels are known (from the source, or --labels) the answer is scored: --where split=1 asks for the
    held-out part of a source whose --where split=0 the run was fitted on.

    With --to folders they are copied into the folders of their clusters, those of an earlier export among them.
    """
    from selfsort.data.store import limit_memory
    from selfsort.learning.device import choose_device
    from selfsort.metrics.external import scores
    from selfsort.runs.encoder import EncodedModel, unused_rows
    from selfsort.runs.export.csv import predicted_csv
    from selfsort.runs.files import write_whole
    from selfsort.runs.folder import RunFolder
    from selfsort.runs.labels import current_labels, whole_cluster_edits
    from selfsort.runs.launch import read_like
    from selfsort.runs.model import apply_in_chunks, load_model

    folder = RunFolder.open(run)
    folder.require_finished()
    is_table = to is PredictTo.csv
    target = out or Path("labels.csv" if is_table else f"{folder.path.resolve().name}-folders")
    if folder.holds(target):
        raise InvalidInput(f"{target} would lie among the files of the run. Expected another place. Choose --out.")
    if is_table and not replace:
        refuse_taken(target)
    limit_memory(parse_memory(memory))
    with job(device), progress_bars():
        model = load_model(folder, choose_device(device), encoder)
        dataset = read_like(folder, source, max_bad=max_bad, where=where, labels=labels)
        assignment = apply_in_chunks(model, dataset.images, names=dataset.names, fingerprint=dataset.fingerprint)
        if isinstance(model, EncodedModel) and is_main():
            for note in unused_rows(model.encoder.parts, dataset.names):
                say_aside(note)
        edits = whole_cluster_edits(folder, assignment.soft.shape[1], is_original=original)
        came: dict[str, int] | None = None
        if is_main() and is_table:
            table = predicted_csv(dataset.names, assignment, edits)
            write_whole(target, lambda file: file.write(table))
        elif is_main():
            from selfsort.runs.export.arrivals import drop_into_folders

            shown = current_labels(folder, is_original=original)
            came = dict(drop_into_folders(target, dataset, edits.labels(assignment)[0], shown))
    metrics = None if dataset.labels is None else scores(edits.labels(assignment)[0], dataset.labels)
    _tell_predicted(target, dataset.ingest.get("skipped", []), len(dataset.images), came, metrics, json_)
    if is_main() and (edits.n_applied or edits.n_left_out):
        say_aside(
            f"Corrections made in selfsort explore that were applied: {edits.n_applied}. Images marked wrong, which "
            f"says nothing of new ones: {edits.n_left_out}. For none at all add --original."
        )


def _tell_predicted(
    target: Path,
    skipped: list[dict[str, str]],
    n_images: int,
    came: dict[str, int] | None,
    metrics: dict[str, float] | None,
    as_json: bool,
) -> None:
    """Say where new images have gone; `came` counts those in each folder."""
    if as_json:
        where = {"labels": str(target)} if came is None else {"folders": str(target), "new_files": came}
        scored = {} if metrics is None else {"metrics": metrics}
        print_json({**where, "images": n_images, "skipped": skipped, **scored})
        return
    for item in skipped:
        say(f"skipped {item['name']}: {item['reason']}")
    if came is None:
        say(f"{n_images} images sorted, labels in {target}")
    if metrics is not None:
        say(scores_line(metrics))
    if came is None:
        return
    for title, count in sorted(came.items()):
        say(f"{target / title}: {plural(count, 'new file')}")
    already = n_images - sum(came.values())
    say(f"{n_images} images sorted into {target}" + (f", {already} of them were there already" if already else ""))


def refuse_taken(target: Path) -> None:
    """Raise if a file would be replaced; pipes and devices are only written to."""
    if target.is_file() or target.is_dir():
        raise InvalidInput(
            f"{target} exists already, and nothing is replaced in silence. Expected a new place. Choose another --out, "
            "or add --replace."
        )


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
    sizes = size_report(table.labels, folder.n_clusters, outliers=table.outliers)
    metrics = None if truth is None else scores(table.labels, truth, outliers=table.outliers)
    apart = {} if table.n_outliers is None else {"n_outliers": table.n_outliers}
    if json_:
        answer = {"run": str(run), "corrections": current.n_edits, "sizes": sizes.to_json(), **apart}
        print_json(answer if metrics is None else {**answer, "metrics": metrics})
        return
    say(
        f"clusters {sizes.used}, smallest {sizes.min}, largest {sizes.max}, size entropy {sizes.entropy:.3f}"
        + ("" if table.n_outliers is None else f", {plural(table.n_outliers, 'outlier')}")
    )
    if metrics is None:
        say("No true labels are known for this run. Give them with --labels PATH to get scores.")
    else:
        say(scores_line(metrics))


def names(
    run: RunArgument,
    words: NamesOption = None,
    encoder: Annotated[
        str | None, typer.Option(help="Where the run's encoder is now, if it was moved.", show_default=False)
    ] = None,
    json_: JsonOption = False,
) -> None:
    """Print the names suggested for clusters: what the encoder sees, folders, dates, places, screens, colours.

    They are titles and names of folders wherever nobody has given a better one in selfsort explore. A cluster without
    anything that most of its pictures share, and few others, has none.

    With --names they come from a list of yours first, as far as the encoder can tell: a CLIP or SigLIP model reads any
    words, EfficientNet knows some. The list stays with the run.
    """
    from selfsort.runs.folder import RunFolder
    from selfsort.runs.seen import check_list_for
    from selfsort.runs.suggested import suggestions_of
    from selfsort.text import percent

    folder, given = RunFolder.open(run), parse_names(words)
    if given is not None and (note := check_list_for(folder, given, encoder)):
        say_aside(note)
    with progress_bars():
        found = suggestions_of(folder, given, encoder)
    if json_:
        print_json({"run": str(run), "names": {str(cluster): asdict(one) for cluster, one in found.items()}})
        return
    for cluster, one in found.items():
        about = f", {one.about}" if one.about else ""
        say(f"cluster {cluster}: {one.name} ({one.source}{about}, {percent(one.share)} of it)")
    if not found:
        say("No name is suggested: no cluster has anything that most of its pictures share and others have not.")


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

    with progress_bars():
        say(f"report: {write_report(runs, out, is_original=original)}")
        if figures is not None:
            for run in runs:
                folder = figures if len(runs) == 1 else figures / run.resolve().name
                say(f"{len(write_figures(run, folder, is_original=original))} figure files: {folder}")


def explore(
    run: RunArgument,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0 takes a free one.")] = 0,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Print the address and open nothing.")] = False,
) -> None:
    """Open a local web page to look at the clusters and put them right."""
    from selfsort.explore.serve import serve

    def say_at_once(text: str) -> None:
        say(text)
        sys.stdout.flush()  # the address is needed now, also by a program that reads it from a pipe

    with progress_bars():
        serve(run, port=port, is_browser_wanted=not no_browser, say=say_at_once)


def export(
    run: RunArgument,
    to: Annotated[ExportTo, typer.Option(help="What to write.", show_default=False)],
    out: OutOption = None,
    mode: Annotated[
        ExportMode, typer.Option(help="For folders: copy the files, link them, or move them; selfsort undo moves back.")
    ] = ExportMode.copy,
    link: Annotated[bool, typer.Option("--link", help="The same as --mode symlink.")] = False,
    levels: Annotated[
        int,
        typer.Option(min=1, max=9, help="For folders: how many inside each other, groups of like clusters outside."),
    ] = 1,
    source: Annotated[
        str | None, typer.Option(help="Where the images are now, if they were moved.", show_default=False)
    ] = None,
    original: OriginalOption = False,
    replace: ReplaceOption = False,
) -> None:
    """Turn a finished run into a label file, folders of images, images with labels, or a network.

    coco, fiftyone and imagefolder (of `datasets`) are for labelling tools and trainers, xmp for photo managers: a file
    with keywords for each picture.

    The label file is for people: in it, names that a spreadsheet would take for formulas begin with an apostrophe.
    Programs read labels.csv in the run folder, which has every name as it is.
    """
    from selfsort.runs.export.table import export_run, place_of
    from selfsort.runs.folder import RunFolder
    from selfsort.runs.labels import current_labels

    if link and mode not in (ExportMode.copy, ExportMode.symlink):
        raise InvalidInput(f"--link is --mode symlink, and --mode is {mode.value}. Expected one. Leave one out.")
    mode = ExportMode.symlink if link else mode
    folder = RunFolder.open(run)
    if source is not None:
        folder.look_for_images_in(source)
    labels = current_labels(folder, is_original=original)
    if to is not ExportTo.folders and not replace:
        refuse_taken(place_of(folder, to.value, out))
    with progress_bars():
        target = export_run(folder, labels, to.value, out, mode=mode.value, n_levels=levels)
    say(f"written: {target}")
    if mode is ExportMode.move:
        say(f"The files were moved, and the run knows where they are. To move them back: selfsort undo {target}")
    if to is not ExportTo.onnx:
        _tell_corrections(labels.n_edits)


def undo(
    export: Annotated[Path, typer.Argument(help="A folder that export --mode move has made.", show_default=False)],
    json_: JsonOption = False,
) -> None:
    """Put every file back that an export has moved; also after an interruption, and as often as you like."""
    from selfsort.runs.export.move import undo_moves

    with progress_bars():
        done = undo_moves(export)
    if json_:
        print_json({"back": done.n_back, "missing": list(done.missing), "blocked": list(done.blocked)})
    else:
        say(f"{plural(done.n_back, 'file')} back in place")
    if not done.is_whole:
        some = (*done.missing, *done.blocked)
        raise InvalidInput(
            f"{len(done.missing)} files were found nowhere and {len(done.blocked)} could not go back, because another "
            f"file has their place or they are no pictures any more, such as {shorten(some[0])!r}. Expected all of "
            "them. Clear the places and run it again; the journal is kept."
        )


def _tell_corrections(n_edits: int) -> None:
    """Say that labels are not those of the method alone."""
    if n_edits:
        say_aside(f"Corrections made in selfsort explore, all applied: {n_edits}. For none of them add --original.")
