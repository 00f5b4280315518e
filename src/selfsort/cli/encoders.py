"""Commands about encoders: encoders and cache."""

from __future__ import annotations

import time
from typing import Annotated, Any

import typer

from selfsort.cli.console import print_json, print_table, say, say_aside
from selfsort.cli.parse import JsonOption
from selfsort.errors import InvalidInput, SelfsortError
from selfsort.text import shorten


def encoders(json_: JsonOption = False) -> None:
    """List the encoders: what they were trained on, whether they are installed, and the command that installs them."""
    from selfsort.encoders.registry import ENCODERS

    rows: list[dict[str, Any]] = []
    broken: list[str] = []
    for name in ENCODERS:
        try:
            card = ENCODERS[name]
        except SelfsortError as error:  # one of another package must not hide the rest
            broken.append(str(error))
            continue
        rows.append(
            {
                "name": name,
                "installed": card.is_installed(),
                "dim": card.dim,
                "input": list(card.shape),
                "bytes": card.n_bytes,
                "trained_on": card.trained_on,
                "licence": card.licence,
                "source": card.source,
                "install": card.install,
                **ENCODERS.origin(name).to_json(),
            }
        )
    if json_:
        print_json({"encoders": rows, "errors": broken})
        return
    print_table(
        ("encoder", "installed", "features", "input", "size", "licence"),
        [
            (
                row["name"],
                "yes" if row["installed"] else "no",
                str(row["dim"]),
                f"{row['input'][0]} px",
                f"{row['bytes'] / 1e6:.0f} MB",
                row["licence"],
            )
            for row in rows
        ],
    )
    for row in rows:
        say(f"{row['name']}: trained on {row['trained_on']}. {row['source']}.")
    for command in dict.fromkeys(row["install"] for row in rows if not row["installed"]):
        say(f"To install: {command}")
    say(
        "Also: auto (the images decide), none (pixels), an .onnx file, a Hugging Face folder or hf:NAME, another run, "
        "a table of your own features; a+b."
    )
    for reason in broken:
        say_aside(f"warning: {reason}")


def cache(
    clear: Annotated[bool, typer.Option("--clear", help="Remove everything that is kept.")] = False,
    json_: JsonOption = False,
) -> None:
    """Show or clear the features that are kept for the next run. They tell what your pictures show."""
    from selfsort.encoders import cache as kept

    folder = kept.cache_folder()
    if folder is None:
        raise InvalidInput(
            f"nothing is kept: {kept.PLACE} is empty, or there is no home folder. Expected a folder. Set {kept.PLACE}."
        )
    if clear:
        n_bytes = kept.clear(folder)
        (say_aside if json_ else say)(f"{n_bytes / 1e6:.1f} MB removed from {folder}")
    found = kept.list_kept(folder)
    total = sum(one.n_bytes for one in found)
    if json_:
        files = [
            {**one.about, "file": one.path.name, "bytes": one.n_bytes, "whole": one.is_whole, "used": one.used}
            for one in found
        ]
        print_json({"folder": str(folder), "bytes": total, "limit": kept.cache_limit(), "files": files})
        return
    if found:
        print_table(
            ("encoder", "images", "of", "size", "last used"),
            [
                (
                    shorten(str(one.about.get("encoder", "unknown"))) if one.is_whole else "unfinished",
                    shorten(str(one.about.get("images", "")), 20),
                    "views" if "views" in one.about else "maps" if "maps" in one.about else "images",
                    f"{one.n_bytes / 1e6:.1f} MB",
                    _minute(one.used),
                )
                for one in found
            ],
        )
    say(f"{total / 1e6:.1f} of at most {kept.cache_limit() / 1e6:.0f} MB in {folder} (set {kept.PLACE} for another)")


def _minute(seconds: float) -> str:
    """Write a time; a file may claim one that no calendar has."""
    try:
        return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds))
    except (ValueError, OverflowError, OSError):
        return "unknown"
