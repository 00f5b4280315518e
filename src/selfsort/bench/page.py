"""docs/results.md, and the marked blocks of other pages, from the records: `python -m selfsort.bench.page [DOCS]`.

A block stands between two markers, on lines of their own. It names a table and what to show of it, of all rows or of
those of one method:

    <!-- records: classic nmi -->
    <!-- end -->
    <!-- records: recipes acc nmi method=dac -->
    <!-- end -->
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from selfsort.bench.cells import NO_ENCODER, PROTOCOLS
from selfsort.bench.datasets import DATASETS
from selfsort.bench.records import SHIPPED, read_records
from selfsort.bench.scripts import SCRIPTS, rows_of, state_of, told
from selfsort.bench.summary import MEASURES, Measure, Summary, summarise, title_of
from selfsort.bench.tables import TABLES, Table, find_table
from selfsort.errors import InvalidInput, SelfsortError, invalid
from selfsort.types import Json

RESULTS = "results.md"
_BLOCK = re.compile(r"^(<!-- records: ([^\n]*?) -->\n).*?^(<!-- end -->)$", re.DOTALL | re.MULTILINE)


def pages(docs: Path, records: Mapping[str, Json]) -> dict[Path, str]:
    """Return every page that is made from records, wholly or in blocks, as it ought to be."""
    made = {docs / RESULTS: results_page(records)}
    for path in sorted(docs.rglob("*.md")):
        text = path.read_text(encoding="utf-8")
        if path != docs / RESULTS and "<!-- records:" in text:
            made[path] = with_blocks(text, records, path.name)
    return made


def with_blocks(text: str, records: Mapping[str, Json], name: str = "the page") -> str:
    """Fill the marked blocks of a page."""

    def filled(match: re.Match[str]) -> str:
        return match[1] + block(match[2], records) + match[3]

    text, n_filled = _BLOCK.subn(filled, text)
    if n_filled != text.count("<!-- records:"):
        raise InvalidInput(
            f"{name} has a block of records without an end. Expected <!-- end --> on a line of its own after each. "
            "Add it."
        )
    return text


def block(words: str, records: Mapping[str, Json]) -> str:
    """Make the content of one block from what its marker says."""
    name, *asked = words.split() or [""]
    methods = [word.removeprefix("method=") for word in asked if word.startswith("method=")]
    asked = [word for word in asked if not word.startswith("method=")]
    for measure in asked:
        if measure not in MEASURES:
            raise invalid("a block of records", f"ask for some of {', '.join(MEASURES)}", repr(measure), "Change it.")
    table = find_table(name)
    if methods:
        table = replace(table, rows=tuple(row for row in table.rows if row.method in methods))
    if not table.rows:
        raise invalid("a block of records", f"name methods of {name}", repr(words), "Change it.")
    measures: list[Measure] = [measure for word in asked for measure in MEASURES if measure == word] or ["nmi", "acc"]
    return "\n".join(markdown(table, summarise(table, records), measures)) + "\n"


def markdown(table: Table, summaries: Sequence[Summary], measures: Sequence[Measure]) -> list[str]:
    """Draw a table of rows by data sets; a data set that was not measured at all is left out."""
    datasets = [name for name in table.datasets if any(s.dataset == name and _is_known(s) for s in summaries)]
    if not datasets:
        return ["Nothing was measured yet."]
    found = {(summary.row.name, summary.dataset): summary for summary in summaries}
    has_encoders = any(row.encoder != NO_ENCODER for row in table.rows)
    facts = ["dimension", "ms per image"] if has_encoders else []
    lines = _head("method", ["images seen", *facts, *(DATASETS[name].title for name in datasets)])
    for row in table.rows:
        of_row = [found[row.name, name] for name in datasets]
        if any(map(_is_known, of_row)):
            cells = [" / ".join(cell(summary, measure) for measure in measures) for summary in of_row]
            told = _encoding(row.encoder, summaries) if has_encoders else []
            lines.append("| " + " | ".join([replace(row, encoder=NO_ENCODER).name, row.seen, *told, *cells]) + " |")
    return lines


def _is_known(summary: Summary) -> bool:
    """Whether there is something to show: the end of a fit, or how far one came that was stopped."""
    return bool(summary.records) or summary.so_far("acc") is not None


def _encoding(encoder: str, summaries: Sequence[Summary]) -> list[str]:
    """Say what an encoder gives and takes, before whatever method; pixels are there at once."""
    if encoder == NO_ENCODER:
        return ["pixels", "-"]
    records = [record for summary in summaries if summary.row.encoder == encoder for record in summary.records]
    if not records:
        return ["-", "-"]
    return [
        str(min(record["dimension"] for record in records)),
        f"{min(record['encode_ms'] for record in records):.1f}",
    ]


def cell(summary: Summary, measure: Measure, *, is_promised: bool = False) -> str:
    """Show a mean with its spread, and in brackets what was published; a dash where nothing was measured.

    Of a fit that was stopped it shows in square brackets where it stood.

    `is_promised`: show what was published there too.
    """
    mean, spread = summary.mean(measure), summary.spread(measure)
    if mean is None and (reached := summary.so_far(measure)) is not None:
        return f"[{share(reached)}]{_printed(summary, measure)}"
    if mean is None:
        return f"-{_printed(summary, measure)}" if is_promised else "-"
    if measure == "seconds":
        return f"{mean:.1f}" if mean < 10 else f"{mean:.0f}"
    if measure == "memory":
        return f"{mean:.0f}"
    if summary.shows_best:
        shown = _three((summary.best(measure), mean, spread))
    else:
        shown = share(mean) + ("" if spread is None else f" ± {share(spread)}")
    return shown + _printed(summary, measure)


def _printed(summary: Summary, measure: Measure) -> str:
    """Put what was published in brackets, if anything was."""
    if summary.shows_best:
        runs = summary.published_runs(measure)
        return f" ({_three(runs)})" if any(value is not None for value in runs) else ""
    printed = summary.published(measure)
    return "" if printed is None else f" ({share(printed)})"


def _three(runs: Sequence[float | None]) -> str:
    """Write best, mean and standard deviation, a dash for what is not known."""
    return " / ".join("-" if value is None else share(value) for value in runs)


def results_page(records: Mapping[str, Json]) -> str:
    """Write docs/results.md."""
    lines = [
        "# Results",
        "",
        "Made from the records in `src/selfsort/bench/records` by `python -m selfsort.bench.page`; do not edit.",
        "",
        "`selfsort bench` lists the tables, `selfsort bench NAME` measures what a table lacks and prints it. The data "
        "are looked for in the folder that the variable `SELFSORT_DATA` names. Mean ± standard deviation over the "
        "seeds (GATCluster's tables: best / mean / standard deviation, as printed); in brackets what was published; "
        "in square brackets where a fit stood when its time was over; a dash where nothing was measured yet. Every row "
        "says how the images are seen: from scratch, or with an encoder that has learned from other images "
        "([encoders](encoders.md)).",
        "",
        f"Protocol: {'; '.join(PROTOCOLS.values())}. Each cell in a process of its own, on one thread.",
        "",
        *_head("data set", ["images", "shape", "classes", "from"]),
        *(
            f"| {known.title} | {known.n_images:,} | {height}x{width}x{channels} | {known.n_classes} | {known.source} |"
            for known in DATASETS.values()
            for height, width, channels in [known.shape]
        ),
    ]
    for table in TABLES.values():
        summaries = summarise(table, records)
        lines += ["", f"## {table.title}", "", f"`selfsort bench {table.name}`: {progress(table, summaries)}"]
        if any(map(_is_known, summaries)):
            for measure in MEASURES:
                lines += [
                    "",
                    f"### {table.title}: {title_of(measure, table)}",
                    "",
                    *markdown(table, summaries, [measure]),
                ]
            lines += refusals(summaries)
            lines += curves(table, summaries) if table.shows_curve else []
            lines += ["", f"Measured {_circumstances(summaries)}."]
    for script in SCRIPTS.values():
        lines += ["", f"## {script.title}", "", f"`selfsort bench {script.name}`: {state_of(script, records)}"]
        rows = [row for row in rows_of(script, records, {}) if "scores" in row or "refused" in row]
        if rows:
            lines += ["", *_head("cell", ["figures (published)", "CPU seconds", "MB"])]
            lines += [f"| {row['trial']} | {_figures(row)} |" for row in rows]
    return "\n".join([*lines, ""])


def _figures(row: Mapping[str, Any]) -> str:
    if "refused" in row:
        return f"{row['refused']} | - | -"
    return f"{told(row)} | {row['cpu_seconds']:.0f} | {row['peak_memory_mb']:.0f}"


def progress(table: Table, summaries: Sequence[Summary]) -> str:
    """Say how much of a table there is.

    >>> progress(TABLES["classic"], summarise(TABLES["classic"], {}))
    'none of 196 combinations measured yet.'
    """
    n_done = sum(bool(summary.records) or summary.refused is not None for summary in summaries)
    said = "all" if n_done == len(summaries) else f"{n_done or 'none'} of"
    return (
        f"{said} {len(summaries)} combinations measured{'' if said == 'all' else ' yet' if not n_done else ' so far'}."
    )


def refusals(summaries: Sequence[Summary]) -> list[str]:
    """List what was refused, and why."""
    found = [
        f"- {DATASETS[summary.dataset].title}, {summary.row.name}: {summary.refused}"
        for summary in summaries
        if summary.refused is not None
    ]
    return ["", *found] if found else []


def curves(table: Table, summaries: Sequence[Summary]) -> list[str]:
    """Draw the states that the fits went through: step and ACC, and how many steps there are to be."""
    passed = [summary for summary in summaries if len(summary.curve) > 1]
    if not passed:
        return []
    lines = ["", f"### {table.title}: ACC after so many steps", "", *_head("data set", ["method", "steps", "ACC"])]
    for summary in passed:
        reached = ", ".join(f"{state['step']}: {share(state['acc'])}" for state in summary.curve)
        about = [DATASETS[summary.dataset].title, summary.row.name, str(summary.curve[-1]["total"])]
        lines.append("| " + " | ".join([*about, reached + _printed(summary, "acc")]) + " |")
    return lines


def _circumstances(summaries: Sequence[Summary]) -> str:
    records = [record for summary in summaries for record in (*summary.records, summary.stopped or {}) if record]
    dates = sorted({record["date"] for record in records})
    period = dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"
    versions = {f"{name} {record['versions'][name]}" for record in records for name in ("selfsort", "torch", "numpy")}
    return f"{period} on {', '.join(sorted({record['cpu'] for record in records}))} with {', '.join(sorted(versions))}"


def _head(first: str, columns: Sequence[str]) -> list[str]:
    names = [first, *columns]
    return ["| " + " | ".join(names) + " |", "|" + "---|" * len(names)]


def share(value: float) -> str:
    """Write a share as papers do.

    >>> share(0.9315), share(0.9996), share(-0.02)
    ('.931', '1.00', '-.020')
    """
    text = f"{value:.3f}"
    return "1.00" if text == "1.000" else text.replace("0.", ".", 1) if text.startswith(("0.", "-0.")) else text


def main() -> None:
    """Write the pages that differ."""
    docs = Path(sys.argv[1] if sys.argv[1:] else "docs")
    try:
        if not docs.is_dir():
            raise InvalidInput(f"{docs} is not a folder. Expected the docs of the source tree. Name it, or go there.")
        for path, text in pages(docs, read_records([SHIPPED])).items():
            if not path.exists() or path.read_text(encoding="utf-8") != text:
                path.write_text(text, encoding="utf-8")
                print(f"written: {path}")
    except SelfsortError as error:
        print(error, file=sys.stderr)
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
