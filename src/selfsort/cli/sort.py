"""`selfsort sort FOLDER`: everything that a person with pictures wants, in one step."""

from __future__ import annotations

import shlex
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from selfsort.cli.console import progress_bars, say, say_aside
from selfsort.cli.fit import BEGUN
from selfsort.cli.parse import NamesOption, parse_names
from selfsort.errors import MissingData
from selfsort.text import plural

if TYPE_CHECKING:
    from selfsort.explore.desk import Desk
    from selfsort.runs.launch import Launched
    from selfsort.runs.loop import Outcome


def sort(
    context: typer.Context,
    source: Annotated[str, typer.Argument(help="Your folder of pictures.", metavar="FOLDER", show_default=False)],
    out: Annotated[Path | None, typer.Option("--out", help="Run folder to write.", show_default=False)] = None,
    names: NamesOption = None,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Print the address and open nothing.")] = False,
    no_page: Annotated[
        bool, typer.Option("--no-page", help="Sort and report only, and end when that is done.")
    ] = False,
) -> None:
    """Sort a folder of pictures: a page opens, shows how far it is and the groups, and lets you put them right."""
    from selfsort.data.options import ReadOptions
    from selfsort.report.build import write_report
    from selfsort.runs.clusters import read_clusters
    from selfsort.runs.encoder import AUTO_ENCODER
    from selfsort.runs.launch import launch
    from selfsort.runs.request import Request

    words = parse_names(names)
    with (
        progress_bars() as overall,
        _page(overall.line, is_wanted=not no_page, is_browser_wanted=not no_browser) as desk,
    ):
        request = Request(
            source=ReadOptions(path=source),
            clusters=read_clusters("auto"),
            encoder=AUTO_ENCODER,
            words=words,
            out=out,
        )
        launched = launch(request)
        context.meta[BEGUN] = launched.folder
        for note in launched.notes:
            say_aside(note)
        if desk is not None:
            desk.show(launched.folder.path)
        outcome = launched.fit.run()
        page = write_report([launched.folder.path], None)
        if desk is not None:
            say("The page stays open for you to name and correct the groups; Ctrl-C ends it.")
        for line in closing_lines(launched, outcome, page):
            say(line)
        sys.stdout.flush()
        if desk is not None:
            with suppress(KeyboardInterrupt):  # how this command is meant to end
                threading.Event().wait()


def closing_lines(launched: Launched, outcome: Outcome, page: Path) -> tuple[str, str, str]:
    """Say what was found, how far to trust it, and what to do next."""
    labels = outcome.labels[outcome.labels >= 0].tolist()
    sizes = sorted(labels.count(cluster) for cluster in set(labels))
    skipped = len(launched.dataset.ingest.get("skipped", ()))
    unread = f" {plural(skipped, 'file')} could not be read." if skipped else ""
    found = (
        f"Found: {plural(len(sizes), 'group')} of {plural(len(outcome.labels), 'picture')}, of {sizes[0]:,} to "
        f"{sizes[-1]:,} pictures each.{unread}"
    )
    trust = "unknown." if outcome.verdict is None else outcome.verdict.sentence
    run = shlex.quote(str(launched.folder.path))
    return (
        found,
        f"Trust: {trust}",
        f"Next: look at {page}, correct with selfsort explore {run}, then selfsort export {run} --to folders.",
    )


@contextmanager
def _page(line: object, *, is_wanted: bool, is_browser_wanted: bool) -> Iterator[Desk | None]:
    """Open the explorer before there is a run, if it is wanted and installed."""
    from selfsort.explore.serve import beside, require_extra

    if not is_wanted:
        yield None
        return
    try:
        require_extra("The page on which the groups can be seen and corrected")
    except MissingData as error:
        say_aside(str(error))
        yield None
        return
    from selfsort.explore.desk import Desk

    assert callable(line)
    desk = Desk(None, None, line)
    with beside(desk, _say_at_once, is_browser_wanted=is_browser_wanted):
        yield desk


def _say_at_once(text: str) -> None:
    say(text)
    sys.stdout.flush()
