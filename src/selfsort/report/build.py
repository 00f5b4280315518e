"""`selfsort report`: run folders in, one self-contained HTML page or figure files out; always the same bytes."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from string import Template

from selfsort.errors import InvalidInput
from selfsort.report.contents import FIGURES, Part, run_parts
from selfsort.report.read import RunData, read_run, read_runs
from selfsort.report.render.figures import draw_figure, save
from selfsort.report.render.html import Html, element, join
from selfsort.report.sections.compare import comparison
from selfsort.runs.files import write_whole
from selfsort.text import plural, shorten


def write_report(runs: Sequence[Path], out: Path | None, *, is_original: bool = False) -> Path:
    """Write the page and return its path: `out`, or report.html in the run, or here for several runs."""
    if not runs:
        raise InvalidInput("no run was named. Expected one run folder or more. Give for example: selfsort report RUN.")
    page = build_page(read_runs([Path(run) for run in runs], is_original=is_original))
    target = out or (Path(runs[0]) / "report.html" if len(runs) == 1 else Path("report.html"))
    write_whole(target, lambda file: file.write(page.encode()))
    return target


def write_figures(run: Path, folder: Path, *, is_original: bool = False) -> list[Path]:
    """Write every figure that applies to a run as NAME.png and NAME.svg, and return their paths."""
    data = read_run(Path(run), is_original=is_original)
    data.folder.require_finished()
    written: list[Path] = []
    for name, section in FIGURES.items():
        if (shown := section(data)) is not None:
            written += save(draw_figure(shown), Path(folder) / name)
    return written


def build_page(runs: Sequence[RunData]) -> str:
    """Put the page together."""
    if len(runs) == 1:
        parts = run_parts(runs[0])
        title = f"{plural(runs[0].n_asked, 'cluster')} of {runs[0].source}"
        menu = [element("a", {"href": f"#{part.name}"}, part.title) for part in parts]
        return _fill(shorten(title), join(menu), _run(runs[0], parts, "", element("h1", {}, shorten(title, 60))))
    title = f"{len(runs)} runs side by side"
    links = [("comparison", "Comparison"), *((f"r{i}-run", shorten(run.name, 30)) for i, run in enumerate(runs))]
    head = element("header", {}, element("h1", {}, title))
    bodies = [
        _run(run, run_parts(run, f"r{i}-", len(runs)), f"r{i}-", element("h2", {}, shorten(run.name, 60)))
        for i, run in enumerate(runs)
    ]
    body = join([head, element("section", {"id": "comparison"}, comparison(runs)), bodies])
    return _fill(title, join(element("a", {"href": f"#{name}"}, text) for name, text in links), body)


def _run(run: RunData, parts: Sequence[Part], anchor: str, title: Html) -> Html:
    level = "h2" if not anchor else "h3"
    said = f"{run.name} \u00b7 {run.method} \u00b7 seed {run.config['seed']}"
    if anchor:
        said = f"{run.source} \u00b7 {run.method} \u00b7 seed {run.config['seed']}"
    head = element("header", {}, element("p", {"class": "kicker"}, said), title)
    sections = [
        element(
            "section",
            {"id": part.name},
            None if part.name == f"{anchor}summary" else element(level, {}, part.title),
            part.body,
        )
        for part in parts
    ]
    return element("div", {"class": "run", "id": f"{anchor}run"}, head, sections)


def _fill(title: str, menu: Html, body: Html) -> str:
    """Fill the template; the policy allows our own style and script, pictures inside the page, and nothing else."""
    style, theme, script = _asset("report.css"), _asset("theme.js"), _asset("report.js")
    policy = (
        f"default-src 'none'; img-src data:; style-src {_digest(style)}; "
        f"script-src {_digest(theme)} {_digest(script)}; base-uri 'none'; form-action 'none'"
    )
    # One pass: nothing that is filled in is searched for placeholders again.
    return Template(_asset("template.html")).substitute(
        policy=policy, title=join([title]), style=style, theme=theme, menu=menu, body=body, script=script
    )


def _asset(name: str) -> str:
    return files("selfsort.report").joinpath("assets", name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
