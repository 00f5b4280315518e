"""`selfsort report`: run folders in, one self-contained HTML page out. The same folders give the same bytes."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from string import Template

from selfsort.errors import InvalidInput
from selfsort.report import sections
from selfsort.report.html import Html, element, join
from selfsort.report.pictures import Pictures
from selfsort.report.read import RunData, read_runs
from selfsort.run import write_whole

PICTURE_BYTES = 9 * 2**20
"""What all pictures together may take, so that the page stays under 15 MB."""

MENU = (
    ("summary", "Summary"),
    ("clusters", "Clusters"),
    ("sizes", "Sizes"),
    ("training", "Training"),
    ("scores", "Scores"),
)


def write_report(runs: Sequence[Path], out: Path | None) -> Path:
    """Write the page and return its path: `out`, or report.html in the run, or here for several runs."""
    if not runs:
        raise InvalidInput("no run was named. Expected one run folder or more. Give for example: selfsort report RUN.")
    page = build_page(read_runs(runs))
    target = out or (Path(runs[0]) / "report.html" if len(runs) == 1 else Path("report.html"))
    write_whole(target, lambda file: file.write(page.encode()))
    return target


def build_page(runs: Sequence[RunData]) -> str:
    """Put the page together."""
    budget = PICTURE_BYTES // len(runs)
    body = join(_run_page(run, budget) for run in runs)
    first = runs[0]
    title = f"{first.source}: {first.method}, {first.n_asked} clusters"
    menu = join(element("a", {"href": f"#{name}"}, text) for name, text in MENU if f'id="{name}"' in body)
    return _fill(title, menu, body)


def _run_page(run: RunData, budget: int) -> Html:
    pictures = Pictures(run)
    curves = sections.curves(run)
    parts = [
        element(
            "header", {}, element("p", {"class": "kicker"}, run.name), element("h1", {}, f"{run.source}: {run.method}")
        ),
        element("section", {"id": "summary"}, sections.summary(run), sections.settings(run)),
        sections.section("clusters", "Clusters", sections.gallery(run, pictures, budget)),
        sections.section("sizes", "Sizes", sections.sizes(run)),
        sections.section("training", "Training", curves) if curves else None,
        sections.section("scores", "Against the known classes", sections.agreement(run)) if run.scores else None,
    ]
    return join(parts)


def _fill(title: str, menu: Html, body: Html) -> str:
    """Fill the template; the policy allows exactly our own style and script and pictures inside the page."""
    style, script = _asset("report.css"), _asset("report.js")
    policy = (
        f"default-src 'none'; img-src data:; style-src '{_digest(style)}'; script-src '{_digest(script)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    # One pass: nothing that is filled in is searched for placeholders again.
    return Template(_asset("template.html")).substitute(
        policy=policy, title=join([title]), style=style, menu=menu, body=body, script=script
    )


def _asset(name: str) -> str:
    return files("selfsort.report").joinpath(name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
