"""The command `update`: new pictures join a run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from selfsort.cli.console import print_json, progress_bars, say
from selfsort.cli.parse import DeviceOption, JsonOption, MaxBadOption, RunArgument
from selfsort.text import plural


def update(
    run: RunArgument,
    source: Annotated[str, typer.Argument(help="New pictures: a folder, or a list file.", show_default=False)],
    out: Annotated[Path | None, typer.Option("--out", help="Run folder to write.", show_default=False)] = None,
    max_bad: MaxBadOption = 0.05,
    encoder: Annotated[
        str | None, typer.Option(help="Where the run's encoder is now, if it was moved.", show_default=False)
    ] = None,
    device: DeviceOption = "auto",
    json_: JsonOption = False,
) -> None:
    """Add new pictures to a finished run, as a run of its own; groups keep their numbers, names and corrections.

    Pictures that the run has already are left out. What is doubtful or fits nowhere is put aside with the outliers;
    enough of those that are alike become a new group.
    """
    from selfsort.learning.device import choose_device
    from selfsort.runs.folder import RunFolder
    from selfsort.runs.update import update_run

    with progress_bars():
        made = update_run(
            RunFolder.open(run), source, out, device=choose_device(device), encoder=encoder, max_bad=max_bad
        )
    arrived = made.arrived
    n_aside = arrived.n_nowhere + arrived.n_doubtful
    if json_:
        print_json(
            {
                "run": str(made.folder.path),
                "added": len(arrived.labels),
                "known": made.n_known,
                "aside": {"nowhere": arrived.n_nowhere, "doubtful": arrived.n_doubtful},
                "new_groups": list(range(arrived.first_new, arrived.first_new + arrived.n_new)),
                "skipped": made.skipped,
            }
        )
        return
    for item in made.skipped:
        say(f"skipped {item['name']}: {item['reason']}")
    say(
        f"{plural(len(arrived.labels), 'picture')} added"
        + (f" ({made.n_known} were there already)" if made.n_known else "")
        + f", {n_aside} of them put aside ({arrived.n_doubtful} doubtful, {arrived.n_nowhere} fit nowhere)"
    )
    if arrived.n_new:
        numbers = ", ".join(str(arrived.first_new + i) for i in range(arrived.n_new))
        say(f"{plural(arrived.n_new, 'new group')} of pictures that fit nowhere else: {numbers}")
    say(f"run folder: {made.folder.path}")
