"""Several runs side by side: a table, mean and spread over seeds, agreement between runs, sweeps of a setting."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from selfsort.config import written
from selfsort.metrics.external import ari, nmi
from selfsort.report.drawings import Line, LineChart, Matrix, Panels
from selfsort.report.read import SCORE_NAMES, RunData, number
from selfsort.report.render.html import Child, Html, element, join
from selfsort.report.render.svg import draw, draw_panels
from selfsort.runs.renamed import all_settings
from selfsort.text import duration, shorten
from selfsort.types import F64


@dataclass(frozen=True, eq=False)
class Group:
    """Runs that differ in nothing but their seed."""

    runs: tuple[RunData, ...]

    def scores(self, key: str) -> F64:
        """Return one score of every run that has it."""
        return np.array([run.scores[key] for run in self.runs if key in run.scores])


def group_runs(runs: Sequence[RunData]) -> list[Group]:
    """Put together the runs of the same method, settings and images."""
    groups: dict[str, list[RunData]] = {}
    for run in runs:
        groups.setdefault(_identity(run), []).append(run)
    return [Group(tuple(members)) for members in groups.values()]


def comparison(runs: Sequence[RunData]) -> Html:
    """Write everything that needs more than one run."""
    groups = group_runs(runs)
    changed = changed_settings(runs)
    parts: list[Child] = [_table(runs, changed)]
    if len(groups) < len(runs) and any(run.scores for run in runs):
        parts += [element("h3", {}, "Best, mean and standard deviation over seeds"), _spread_table(groups, changed)]
    parts += [_sweep(runs), _agreement(runs)]
    return join(parts)


def best_mean_std(values: F64) -> str:
    """Write best, mean and sample standard deviation; one value has no spread.

    >>> best_mean_std(np.array([0.5, 0.7])), best_mean_std(np.array([0.5]))
    ('0.700 / 0.600 / 0.141', '0.500')
    """
    if not len(values):
        return ""
    mean = f"{float(values.mean()):.3f}"
    return mean if len(values) == 1 else f"{float(values.max()):.3f} / {mean} / {float(values.std(ddof=1)):.3f}"


def changed_settings(runs: Sequence[RunData]) -> list[str]:
    """Return the settings that are not the same in all runs of a method; other methods have others anyway."""
    changed: dict[str, None] = {}
    for method in dict.fromkeys(run.method for run in runs):
        own = [all_settings(run.config) for run in runs if run.method == method]
        names = dict.fromkeys(name for settings in own for name in settings)
        changed |= {name: None for name in names if len({json.dumps(settings.get(name)) for settings in own}) > 1}
    return list(changed)


def swept_setting(runs: Sequence[RunData]) -> str | None:
    """Return the one numeric setting in which runs of the same method and images differ, if there is just one."""
    if len({run.method for run in runs}) > 1 or len({run.config.get("fingerprint") for run in runs}) > 1:
        return None
    changed = changed_settings(runs)
    is_numeric = len(changed) == 1 and all(number(all_settings(run.config).get(changed[0])) is not None for run in runs)
    return changed[0] if is_numeric else None


def _identity(run: RunData) -> str:
    return json.dumps([run.method, all_settings(run.config), run.config.get("fingerprint")], sort_keys=True)


def _settings(run: RunData, changed: Sequence[str]) -> str:
    """Write the settings that set a run apart; the number of clusters has its own column."""
    own = all_settings(run.config)
    return ", ".join(f"{name} {written(own[name])}" for name in changed if name in own and name != "n_clusters")


def comparison_table(runs: Sequence[RunData], changed: Sequence[str]) -> list[list[str]]:
    """Return the runs as rows of text under a row of titles, without columns that say nothing of any run."""
    columns = [
        "run",
        "images from",
        "method",
        "settings that differ",
        "seed",
        "images",
        "clusters",
        *SCORE_NAMES.values(),
        "time",
    ]
    rows = [[run.name, *_cells(run, changed)] for run in runs]
    kept = [i for i in range(len(columns)) if any(row[i] for row in rows)]
    return [[row[i] for i in kept] for row in (columns, *rows)]


def _table(runs: Sequence[RunData], changed: Sequence[str]) -> Html:
    titles, *rows = comparison_table(runs, changed)
    head = element("tr", {}, [element("th", {"scope": "col"}, name) for name in titles])
    body = [
        element(
            "tr",
            {},
            element("th", {"scope": "row"}, element("a", {"href": f"#r{i}-run"}, shorten(name, 40))),
            [element("td", {}, text) for text in cells],
        )
        for i, (name, *cells) in enumerate(rows)
    ]
    table = _scrollable("Runs", head, body)
    copies = [("CSV", as_csv([titles, *rows])), ("LaTeX", as_latex([titles, *rows]))]
    return join(
        [
            table,
            [
                element("details", {}, element("summary", {}, f"This table as {name}"), element("pre", {}, text))
                for name, text in copies
            ],
        ]
    )


def as_csv(table: Sequence[Sequence[str]]) -> str:
    """Write a table for spreadsheets and programs; an apostrophe keeps a name from becoming a formula."""
    stream = io.StringIO(newline="")
    safe = [[f"'{cell}" if cell.startswith(tuple("=+-@\t\r\n'")) else cell for cell in row] for row in table]
    csv.writer(stream, lineterminator="\n").writerows(safe)
    return stream.getvalue()


def as_latex(table: Sequence[Sequence[str]]) -> str:
    r"""Write a table for a paper, with the lines of booktabs.

    >>> print(as_latex([["run", "ACC"], ["a_b", "0.5"]]))
    \begin{tabular}{ll}
    \toprule
    run & ACC \\
    \midrule
    a\_b & 0.5 \\
    \bottomrule
    \end{tabular}
    """
    head, *rows = [" & ".join(map(_escaped, row)) + r" \\" for row in table]
    inside = [r"\toprule", head, r"\midrule", *rows, r"\bottomrule"]
    return "\n".join([rf"\begin{{tabular}}{{{'l' * len(table[0])}}}", *inside, r"\end{tabular}"])


_LATEX = {
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "\u00b1": r"$\pm$",
}


def _escaped(cell: str) -> str:
    return "".join(_LATEX.get(sign, sign) for sign in cell)


def _cells(run: RunData, changed: Sequence[str]) -> list[str]:
    used, seconds = run.n_used, number(run.end.get("seconds"))
    return [
        shorten(run.source, 30),
        run.method,
        shorten(_settings(run, changed), 60),
        str(run.config["seed"]),
        f"{run.n_images:,}",
        f"{used:,}" if used == run.n_asked else f"{used:,} of {run.n_asked:,}",
        *(f"{run.scores[key]:.4f}" if key in run.scores else "" for key in SCORE_NAMES),
        "" if seconds is None else duration(seconds),
    ]


def _spread_table(groups: Sequence[Group], changed: Sequence[str]) -> Html:
    columns = ["method", "clusters", "images from", "settings that differ", "seeds", *SCORE_NAMES.values()]
    head = element("tr", {}, [element("th", {"scope": "col"}, name) for name in columns])
    body = [
        element(
            "tr",
            {},
            element("th", {"scope": "row"}, group.runs[0].method),
            element("td", {}, f"{group.runs[0].n_asked:,}"),
            element("td", {}, shorten(group.runs[0].source, 30)),
            element("td", {}, shorten(_settings(group.runs[0], changed), 60)),
            element("td", {}, ", ".join(str(run.config["seed"]) for run in group.runs)),
            [element("td", {}, best_mean_std(group.scores(key))) for key in SCORE_NAMES],
        )
        for group in groups
    ]
    note = (
        "Best of the runs / their mean / sample standard deviation. Of each run the last iterate counts, never the "
        "best one, which only the truth could choose."
    )
    table = _scrollable("Best, mean and standard deviation over seeds", head, body)
    return join([table, element("p", {"class": "note"}, note)])


def _sweep(runs: Sequence[RunData]) -> Html | None:
    """Draw the scores over the one setting that was varied."""
    name = swept_setting(runs)
    if name is None or not all(run.scores for run in runs):
        return None
    values = sorted({float(all_settings(run.config)[name]) for run in runs})
    lines = []
    for key in ("acc", "nmi_geometric", "ari"):
        means = [
            float(np.mean([run.scores[key] for run in runs if all_settings(run.config)[name] == value]))
            for value in values
        ]
        lines.append(Line(SCORE_NAMES[key], values, means))
    return draw_panels(Panels([LineChart(f"Scores by {name}", lines, name, is_share=True)]))


def _agreement(runs: Sequence[RunData]) -> Html | None:
    """Compare the labels of every two runs over the same images."""
    same = [run for run in runs if run.n_images == runs[0].n_images and run.table.names == runs[0].table.names]
    if len(same) < 2:
        return element("p", {"class": "note"}, "The runs sorted different images, so their labels cannot be compared.")
    names = [shorten(run.name, 18) for run in same]
    charts = []
    for title, score in (("ARI", ari), ("NMI (geometric)", lambda a, b: nmi(a, b, "geometric"))):
        cells = np.array([[score(a.table.labels, b.table.labels) for b in same] for a in same])
        charts.append(
            Matrix(
                title,
                cells.clip(0, 1),
                [[f"{value:.2f}" for value in line] for line in cells.tolist()],
                names,
                names,
                alt="1 means the same clusters",
            )
        )
    note = "1 means the same clusters under whatever numbers, 0 no more agreement than chance (ARI)."
    if len(same) < len(runs):
        note += " Runs over other images are left out."
    return join(
        [
            element("h3", {}, "Agreement between runs"),
            element("p", {"class": "note"}, note),
            element("div", {"class": "beside"}, [draw(chart) for chart in charts]),
        ]
    )


def _scrollable(name: str, head: Html, body: list[Html]) -> Html:
    table = element("table", {"aria-label": name}, element("thead", {}, head), element("tbody", {}, body))
    return element("div", {"class": "scroll", "tabindex": 0, "role": "region", "aria-label": name}, table)
