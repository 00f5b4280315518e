"""What every command prints with: of several processes the first one speaks, in lines, JSON, tables and bars."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from selfsort.text import plural

if TYPE_CHECKING:
    from selfsort.overall import Overall


def is_main() -> bool:
    """Of several processes, as torchrun starts them, the first one speaks and writes."""
    return os.environ.get("RANK", "0") == "0"


@contextmanager
def job(device: str) -> Iterator[None]:
    """Meet the other processes, if torchrun has started some; one that is lost ends the job, not in a fault."""
    if "RANK" not in os.environ:
        yield
        return
    from selfsort.distributed import company, joined

    with joined(device), company("Start the same command again: features that were computed are kept."):
        yield


def say(text: str) -> None:
    """Print one line of the answer."""
    if is_main():
        print(one_line(text))


def say_aside(text: str) -> None:
    """Print one line beside the answer, on standard error."""
    print(one_line(text), file=sys.stderr)


def one_line(text: str) -> str:
    r"""Spell out what a terminal would obey or could not show: line breaks and escapes in names of files.

    >>> one_line("a\nb\x1b[31m\udce9")
    'a\\nb\\x1b[31m\\udce9'
    """
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def print_json(value: dict[str, Any]) -> None:
    """Print the answer as one JSON object."""
    if is_main():
        print(json.dumps(value))


def scores_line(metrics: dict[str, float]) -> str:
    """Return the scores against true labels on one line."""
    n_outliers = metrics.get("n_outliers")
    return (
        f"ACC {metrics['acc']:.4f}  NMI {metrics['nmi_geometric']:.4f} geometric, {metrics['nmi_arithmetic']:.4f} "
        f"arithmetic, {metrics['nmi_max']:.4f} max  ARI {metrics['ari']:.4f}"
        + (f"  {plural(int(n_outliers), 'outlier')}, counted as wrong" if n_outliers else "")
    )


_LONGEST_NAME = 32


def print_table(header: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> None:
    """Print rows under their titles; what a cell says is never taken for markup, nor obeyed by a terminal."""
    table = Table(box=None, pad_edge=False)
    for number, title in enumerate(header):
        # Names are copied into the next command, so short ones stay whole.
        is_name = number == 0 and all(len(row[0]) <= _LONGEST_NAME for row in rows)
        table.add_column(title, overflow="fold", no_wrap=is_name)
    for row in rows:
        table.add_row(*(escape(one_line(cell)) for cell in row))
    Console(highlight=False).print(table)


@contextmanager
def progress_bars(max_seconds: float | None = None) -> Iterator[Overall]:
    """Show on standard error how far a block is: one line that changes on a terminal, else a line now and then.

    Gives what knows how far it is.

    Args:
        max_seconds: the time that was given; estimates say when it is not enough.
    """
    from selfsort.overall import Overall, PlainLines, Ticker
    from selfsort.progress import listening

    overall = Overall(max_seconds)
    if not is_main():
        yield overall
        return
    if sys.stderr.isatty():
        from selfsort.cli.progress_bars import OneLine

        with OneLine(overall) as line, Ticker(line.tick, every=0.2), listening(overall):
            yield overall
        return
    with Ticker(PlainLines(overall).tick, every=0.5), listening(overall):
        yield overall
