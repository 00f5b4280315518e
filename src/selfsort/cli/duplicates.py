"""The command `duplicates`: the same picture twice, found and shown; nothing is changed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from selfsort.cli.console import print_json, progress_bars, say
from selfsort.cli.parse import DeviceOption, JsonOption, MaxBadOption, OutOption
from selfsort.errors import InvalidInput
from selfsort.text import plural, shorten

_SHOWN = 10
_SHOWN_OTHERS = 3


def duplicates(
    source: Annotated[str, typer.Argument(help="Pictures, any source that fit reads, or a run.", show_default=False)],
    out: OutOption = None,
    encoder: Annotated[
        str, typer.Option(help="What compares the frames of bursts: auto, none (colours), or a name.")
    ] = "auto",
    max_bad: MaxBadOption = 0.05,
    device: DeviceOption = "auto",
    json_: JsonOption = False,
) -> None:
    """Find copies of pictures, other versions of them, and bursts; nothing is moved or deleted.

    A picture again in another file (compressed again, resized, brightened) is known by its outlines, the frames of a
    burst by their time and by what they show. Of each stack the best is proposed: the most pixels, then the sharpest.
    With a run, its report and its explorer show the stacks from then on. --out writes all of them as csv.
    """
    from selfsort.learning.device import choose_device
    from selfsort.runs.duplicates import find_duplicates, is_run
    from selfsort.runs.files import write_whole
    from selfsort.runs.folder import RunFolder

    folder = RunFolder.open(source) if is_run(source) else None
    if out is not None and (out.exists() or (folder is not None and folder.holds(out))):
        raise InvalidInput(f"{out} exists already, or lies in the run. Expected a new file. Choose another --out.")
    with progress_bars():
        found = find_duplicates(folder or source, encoder=encoder, max_bad=max_bad, device=choose_device(device))
    if out is not None:
        table = found.to_csv()
        write_whole(Path(out), lambda file: file.write(table))
    names = found.names
    if json_:
        print_json(
            {
                "pictures": len(names),
                "stacks": [
                    {
                        "best": names[stack.best],
                        "others": [{"name": names[one.row], "kind": one.kind} for one in stack.others],
                    }
                    for stack in found.stacks
                ],
                "spare": {"all": found.n_spare, **found.counts()},
                "skipped": [{"name": one.name, "reason": one.reason} for one in found.skipped],
            }
        )
        return
    for skipped in found.skipped:
        say(f"skipped {skipped.name}: {skipped.reason}")
    kinds = ", ".join(f"{n} {kind}" for kind, n in found.counts().items() if n)
    say(
        f"{plural(len(names), 'picture')}, {plural(len(found.stacks), 'stack')}; {found.n_spare} are spare"
        + (f" ({kinds})" if kinds else "")
    )
    for stack in found.stacks[:_SHOWN]:
        others = ", ".join(f"{shorten(names[one.row], 40)} ({one.kind})" for one in stack.others[:_SHOWN_OTHERS])
        more = f" and {len(stack.others) - _SHOWN_OTHERS} more" if len(stack.others) > _SHOWN_OTHERS else ""
        say(f"  keep {shorten(names[stack.best], 40)}; spare: {others}{more}")
    if len(found.stacks) > _SHOWN:
        say(f"  and {len(found.stacks) - _SHOWN} more: --out FILE.csv writes all")
    say("Nothing was moved or deleted.")
