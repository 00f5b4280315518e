"""Commands about methods and measurements: methods and bench."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from selfsort.cli.console import print_json, print_table, say, say_aside
from selfsort.cli.parse import JsonOption, no_nan
from selfsort.errors import SelfsortError


def methods(
    name: Annotated[str | None, typer.Argument(help="Show one method's settings.", show_default=False)] = None,
    json_: JsonOption = False,
) -> None:
    """List the methods and stages, or the settings of one with defaults and where they come from."""
    from dataclasses import asdict, replace

    from selfsort.config import describe
    from selfsort.encoders.options import EncodeConfig
    from selfsort.improve.around import settings_with
    from selfsort.improve.stages import STAGES
    from selfsort.methods.recipes import recipes_of
    from selfsort.methods.registry import METHODS
    from selfsort.runs.model import find_kind

    columns = ("name", "summary", "source")
    if name is None:
        rows = [_method_row(name) for name in METHODS]
        after = [METHODS[row["name"]] for row in rows if "error" not in row]
        kinds = [*STAGES.values(), *(method for method in after if method.train_after is not None)]
        stages = [{column: getattr(kind, column) for column in columns} for kind in kinds]
        if json_:
            print_json({"methods": rows, "stages": stages})
            return
        print_table(
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
        print_table(
            ("stage", "what selfsort refine RUN does with it", "source"),
            [tuple(stage[column] for column in columns) for stage in stages],
        )
        for row in rows:
            if "error" in row:
                say_aside(f"warning: {row['error']}")
        return
    kind = find_kind(name)
    settings, recipes = describe(kind.config), recipes_of(name)
    if getattr(kind, "learns_on", None) is not None:
        settings += [replace(setting, name=f"encoder.{setting.name}") for setting in describe(EncodeConfig)]
    settings += [replace(setting, name=f"improve.{setting.name}") for setting in settings_with(kind)]
    if json_:
        print_json(
            {"name": name, "settings": [asdict(s) for s in settings], "recipes": [recipe.name for recipe in recipes]}
        )
        return
    say(f"{kind.name}: {kind.summary} ({kind.source})")
    print_table(
        ("setting", "default", "meaning", "must be", "from"),
        [(s.name, s.default, s.doc, s.type, s.source) for s in settings],
    )
    for recipe in recipes:
        say(f"recipe {recipe.name}: {recipe.source}")


def _method_row(name: str) -> dict[str, str]:
    """Describe a method; one of another package that cannot be loaded must not hide the rest."""
    from selfsort.methods.registry import METHODS

    row = {"name": name, **METHODS.origin(name).to_json()}
    try:
        method = METHODS[name]
    except SelfsortError as error:
        return row | {"error": str(error)}
    return row | {"summary": method.summary, "source": method.source}


def bench(
    name: Annotated[str | None, typer.Argument(help="A table; without one, list them.", show_default=False)] = None,
    seeds: Annotated[str | None, typer.Option(help="How many (3), or which (0,1,2).", show_default=False)] = None,
    budget_minutes: Annotated[
        float | None,
        typer.Option(min=0, callback=no_nan, help="Start nothing that would end after this long.", show_default=False),
    ] = None,
    cell_minutes: Annotated[
        float,
        typer.Option(min=0.1, max=100_000, callback=no_nan, help="Processor time of a cell before it is stopped."),
    ] = 15,
    only: Annotated[str, typer.Option(help="Only cells whose name holds this text.", show_default=False)] = "",
    again: Annotated[bool, typer.Option("--again", help="Measure also what was measured before.")] = False,
    records: Annotated[
        Path | None, typer.Option(help="Folder for new records, beside those that ship with selfsort.")
    ] = None,
    json_: JsonOption = False,
) -> None:
    """Measure methods on known data sets, and show them beside what the papers print."""
    from dataclasses import replace

    from selfsort.bench.cells import NO_ENCODER
    from selfsort.bench.fill import fill, has_accelerator, parse_seeds
    from selfsort.bench.page import cell, progress
    from selfsort.bench.records import SHIPPED, read_records
    from selfsort.bench.scripts import SCRIPTS, fill_script, rows_of, state_of, told
    from selfsort.bench.summary import MEASURES, summarise
    from selfsort.bench.tables import ALIASES, TABLES, find_table

    known = read_records([SHIPPED] if records is None else [SHIPPED, records])
    if name is None:
        tables = [(table.name, table.title, progress(table, summarise(table, known))) for table in TABLES.values()]
        tables += [(script.name, script.title, state_of(script, known)) for script in SCRIPTS.values()]
        if json_:
            print_json({"tables": [dict(zip(("name", "title", "state"), row, strict=True)) for row in tables]})
        else:
            print_table(("table", "what it compares", "state"), tables)
        return
    budget_seconds = None if budget_minutes is None else budget_minutes * 60
    if (script := SCRIPTS.get(ALIASES.get(name, name))) is not None:
        tried = fill_script(
            script,
            known,
            records or SHIPPED,
            only=only,
            budget_seconds=budget_seconds,
            again=again,
            cell_seconds=round(cell_minutes * 60),
            has_accelerator=has_accelerator(),
            say=say_aside,
        )
        trials = rows_of(script, known, tried.left, only)
        if json_:
            print_json({"table": name, "measured": tried.n_measured, "left": len(tried.left), "rows": trials})
            return
        print_table(
            ("cell", "figures (published)", "CPU s", "MB"),
            [
                (
                    row["trial"],
                    told(row),
                    *(f"{row[name]:.0f}" if name in row else "-" for name in ("cpu_seconds", "peak_memory_mb")),
                )
                for row in trials
            ],
        )
        for row in trials:
            if reason := row.get("left") or row.get("refused"):
                say_aside(f"{row['trial']}: {reason}. The commands: {' && '.join(row['commands'])}")
        return
    table = find_table(name)
    filled = fill(
        table,
        known,
        records or SHIPPED,
        seeds=None if seeds is None else parse_seeds(seeds),
        only=only,
        budget_seconds=budget_seconds,
        again=again,
        cell_seconds=round(cell_minutes * 60),
        say=say_aside,
    )
    summaries = [found for found in summarise(table, known) if only in f"{found.dataset} {found.row.name}"]
    states = {(found.row.name, found.dataset): filled.state(table, found) for found in summaries}
    if json_:
        rows = [{**found.to_json(), "state": states[found.row.name, found.dataset]} for found in summaries]
        print_json({"table": name, "measured": filled.n_measured, "left": len(filled.left), "rows": rows})
    else:
        say(f"{table.title}; in brackets what was published; NMI: {table.nmi_variant}")
        columns = ("data", "method", "images seen", "NMI", "ACC", "ARI", "CPU s", "MB", "seeds")
        print_table(
            columns,
            [
                (
                    found.dataset,
                    replace(found.row, encoder=NO_ENCODER).name,  # which the next column tells
                    found.row.seen,
                    *(cell(found, m, is_promised=True) for m in MEASURES),
                    states[found.row.name, found.dataset],
                )
                for found in summaries
            ],
        )
    if filled.missing is not None:
        if not any(found.records or found.refused for found in summaries) and not filled.slow:
            raise filled.missing  # nothing at all could be measured
        say_aside(f"warning: {filled.missing}")
    if filled.slow:
        first = filled.slow[0]
        say_aside(
            f"{len(filled.slow)} cells need an accelerator, which is not there. Run the same command on a machine that "
            f'has one, or one of them here, however long it takes: selfsort bench {table.name} --only "{first.name}".'
        )
    if filled.left:
        say_aside(f"{len(filled.left)} cells are left, the first is {filled.left[0].name}.")
