"""Write the parts of the pages that come from the code: the settings of every method.

    python docs/generate.py        # `make docs` does it first; tests/test_docs.py fails if it was forgotten

A generated part stands between two marks, `<!-- generated: NAME -->` and `<!-- end -->`. On the page of a method it is
short (names and defaults by who says so); docs/settings.md says what each setting means.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from selfsort.bench.datasets import DATASETS
from selfsort.bench.page import share
from selfsort.config import SettingInfo, Settings, describe
from selfsort.encoders.options import EncodeConfig
from selfsort.improve.around import ImproveConfig
from selfsort.improve.stages import STAGES
from selfsort.methods.registry import METHODS
from selfsort.metrics.published import SCORES, Score

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
SETTINGS = DOCS / "settings.md"

PAGES = {"fcae-kmeans": "dbc", "dec": "dbc"} | {
    name: name for name in ("jule", "dbc", "dac", "gatcluster", "secu", "teach", "self-label")
}
"""The page of each method that has one; the others share docs/classic.md."""

AROUND = {"improve": "multistart.md", "encoder": "encoders.md"}
"""The pages of what works before or around any method."""

ELSEWHERE = {
    "cut": "sorter.md#another-number-of-groups",
    "update": "update.md",
    "corrections": "update.md#corrections-that-teach",
}
"""Stages that are told of on the page of another command."""

PART = re.compile(r"(?P<begin><!-- generated: (?P<name>[\w -]+) -->\n).*?(?P<end><!-- end -->)", re.DOTALL)


def configs() -> dict[str, type[Settings]]:
    """Return the settings of every method and stage, and of what works around them, by name."""
    methods = {name: method.config for name, method in METHODS.items()}
    stages = {name: stage.config for name, stage in STAGES.items()}
    return {**methods, **stages, "improve": ImproveConfig, "encoder": EncodeConfig}


def by_source(settings: list[SettingInfo]) -> str:
    """Return a short table: who says so, remarks left out, and the names with their defaults."""
    said: dict[str, list[str]] = {}
    for one in settings:
        if one.name != "n_clusters":
            said.setdefault(one.source.split(";")[0], []).append(f"`{one.name}` {cell(one.default)}")
    rows = [f"| {source} | {', '.join(names)} |" for source, names in said.items()]
    return "\n".join(["| from | settings and their defaults |", "|---|---|", *rows])


def in_full(settings: list[SettingInfo]) -> str:
    """Return a table with a row for each setting."""
    rows = [
        f"| `{one.name}` | {cell(one.default)} | {cell(one.doc)} | {cell(one.type)} | {cell(one.source)} |"
        for one in settings
    ]
    return "\n".join(["| setting | default | what it is | takes | from |", "|---|---|---|---|---|", *rows])


def cell(text: str) -> str:
    """Return a text that Markdown shows as it is."""
    return re.sub(r"([*|_<])", r"\\\1", text)


def numbers_found() -> str:
    """Return the table of numbers of clusters: what is true, what was found, what others say."""
    measured = [one for one in _records("choose-k") if one["peers"]]
    criteria = list(dict.fromkeys(name for one in measured for name in one["criteria"]))
    peers = list(dict.fromkeys(name for one in measured for name in one["peers"]))
    head = ["data", "images", "classes", "**found**", "nearly", "NMI", *criteria, *peers]
    rows = [
        [
            _seen(one),
            f"{one['n_images']:,}",
            one["classes"],
            f"**{one['found']}**",
            ", ".join(map(str, one["nearly"])),
            f"{one['nmi_geometric']:.3f}",
            *(one["criteria"].get(name, "") for name in criteria),
            *(one["peers"].get(name) or "" for name in peers),
        ]
        for one in measured
    ]
    return _table(head, rows)


def numbers_of_samples() -> str:
    """Return the table of numbers found in random parts of data sets."""
    measured = _records("choose-k")
    sizes = sorted({one["n_images"] for one in measured if not one["peers"]})
    whole = {one["name"]: one for one in measured if one["peers"]}
    found: dict[str, dict[int, int]] = {}
    for one in measured:
        if not one["peers"]:
            found.setdefault(one["name"], {})[one["n_images"]] = one["found"]
    titles = {one["name"]: (_seen(one), one["classes"]) for one in measured}
    rows = [
        [*titles[name], *(by_size.get(size, "") for size in sizes), whole[name]["found"] if name in whole else ""]
        for name, by_size in found.items()
    ]
    return _table(["data", "classes", *(f"{size:,}" for size in sizes), "all"], rows)


def reliability() -> str:
    """Return what is said and what is true, by tenths of what is said."""
    bins = [one for one in _records("trust") if one["kind"] == "bin"]
    rows = [[f"{one['said']:.2f}", f"{one['true']:.2f}", f"{100 * one['share']:.0f} %"] for one in bins]
    error = sum(abs(one["said"] - one["true"]) * one["share"] for one in bins)
    return _table(["said", "true", "of the pictures"], rows) + f"\n\nExpected calibration error: {error:.3f}."


def clusterings_judged() -> str:
    """Return what is said of whole clusterings, by data set and method."""
    found = [one for one in _records("trust") if one["kind"] == "clustering"]
    methods = list(dict.fromkeys(one["method"] for one in found))
    lines: dict[tuple[str, int], dict[str, str]] = {}
    for one in found:
        lines.setdefault((one["name"], one["k"]), {})[one["method"]] = f"{one['said']:.2f} / {one['true']:.2f}"
    by_name: dict[str, list[int]] = {}
    for name, k in lines:
        by_name.setdefault(name, []).append(k)
    rows = []
    for name, ks in by_name.items():
        middle = sorted(ks)[len(ks) // 2]
        rows.append(
            [name.replace("+", ", with "), middle, *(lines[name, middle].get(method, "") for method in methods)]
        )
    return _table(["data", "clusters", *(f"{method}: said / true" for method in methods)], rows)


def duplicates_found() -> str:
    """Return precision and recall of pairs, by kind of duplicate and by what compared the bursts."""
    rows = [
        [
            one["kind"],
            one["pairs"],
            f"{one['precision']:.3f}",
            f"{one['recall']:.3f}",
            "colours" if one["encoder"] == "none" else "encoder",
        ]
        for one in _records("duplicates")
        if one["kind"] != "all"
    ]
    return _table(["kind", "pairs", "precision", "recall", "bursts compared by"], rows)


def corrections_learned() -> str:
    """Return how ACC grows with corrections, learned from and not."""
    rows = [
        [
            one["name"],
            one["corrections"],
            f"{one['before']:.3f}",
            f"{one['relabelled']:.3f}",
            f"{one['learned']:.3f} \u00b1 {one['learned_sd']:.3f}",
        ]
        for one in _records("corrections")
    ]
    return _table(["data", "corrections", "ACC before", "moved alone", "learned"], rows)


_STAGES = ("features", "neighbours", "graph", "communities")
_PER_CORE_HOUR = 0.04
"""Dollars that a core is rented for, about."""
_GROWTH = {"features": 1.0, "neighbours": 1.5, "graph": 1.0, "communities": 1.1}
"""Powers of n by which the stages grow: cells are visited in proportion to sqrt(n), the rest is n or n log n."""


def stages_measured() -> str:
    """Return what each stage takes, by number of images, and the power of n that fits."""
    found = sorted((one for one in _records("scale") if "stages" in one), key=lambda one: int(one["n"]))
    head = ["stage", *(f"{one['n']:,}" for one in found), "share", "peak GB", "power of n"]
    last = found[-1]["stages"]
    whole = sum(last[name]["seconds"] for name in _STAGES)
    rows = [
        [
            name,
            *(f"{one['stages'][name]['seconds']:,.1f} s" for one in found),
            f"{last[name]['seconds'] / whole:.2f}",
            f"{last[name]['peak_mb'] / 1e3:.1f}",
            f"{_power([(one['n'], one['stages'][name]['seconds']) for one in found]):.2f}",
        ]
        for name in (*_STAGES, "merging")
    ]
    blank = ["", "", ""]
    rows.append(["recall of the search", *(f"{one['recall']:.3f}" for one in found), *blank])
    rows.append(["ACC", *(f"{one['acc']:.3f}" for one in found), *blank])
    return _table(head, rows)


def engines_measured() -> str:
    """Return exact and approximate searches side by side."""
    found = [one for one in _records("scale") if "engine" in one]
    rows = [
        [
            one["engine"],
            f"{one['n']:,}",
            f"{one['build']:,.1f} s" if one.get("build") is not None else "",
            f"{one['seconds']:,.1f} s",
            f"{one['recall']:.4f}",
            f"{one['peak_mb'] / 1e3:.1f}" if "peak_mb" in one else "",
            one.get("remark", ""),
        ]
        for one in found
    ]
    return _table(["search", "images", "of it to build", "seconds", "recall@20", "peak GB", ""], rows)


def others_measured() -> str:
    """Return other libraries on the same features."""
    rows = [
        [
            name,
            f"{one['n']:,}",
            *(
                [said["refused"], "", "", ""]
                if "refused" in said
                else [f"{said['seconds']:,.0f} s", f"{said['peak_mb'] / 1e3:.1f}", said["clusters"], said["acc"]]
            ),
        ]
        for one in _records("scale")
        if "others" in one
        for name, said in one["others"].items()
    ]
    if not rows:
        return "None of them has been measured yet."
    return _table(["on the same features", "images", "seconds", "peak GB", "clusters", "ACC"], rows)


def memory_measured() -> str:
    """Return what runs of large sources took at most, beside what they were allowed."""
    measured = [one for one in _records("scale") if "memory" in one]
    sizes = [[f"{one[name]:,} MB" for name in ("resident_mb", "anonymous_mb")] for one in measured]
    told = [[one["memory"], one.get("what", "kmeans"), one["budget"]] for one in measured]
    rows = [[*words, *size] for words, size in zip(told, sizes, strict=True)]
    return _table(["source", "what", "`--memory`", "most resident", "of it without a file behind"], rows)


def processes_measured() -> str:
    """Return how two processes share the work of one."""
    rows = [
        [
            one["speed"],
            f"{one['alone']} s",
            f"{one['first']} s and {one['second']} s",
            one["less work"],
            one["sooner"],
            one["remark"],
        ]
        for one in _records("scale")
        if "speed" in one
    ]
    return _table(["stage", "one process", "each of two", "less work", "sooner by the clock", ""], rows)


def pages_measured() -> str:
    """Return how soon the explorer shows the first page of very many images, and how large their report is."""
    rows = [
        [
            one["page"],
            f"{one['first_page_seconds']} s",
            f"{one['after_command_seconds']} s",
            f"{one['report_mb']} MB",
            f"{one['resident_mb']:,} MB",
            one["remark"],
        ]
        for one in _records("scale")
        if "page" in one
    ]
    return _table(["explorer of", "first page", "since the command", "report", "server, at most", ""], rows)


def a_billion() -> str:
    """Return what each stage would take for a billion images, from the largest number that was measured."""
    last = max((one for one in _records("scale") if "stages" in one), key=lambda one: int(one["n"]))
    factor = 1e9 / last["n"]
    rows = []
    for name in _STAGES:
        said = last["stages"][name]
        hours = said["seconds"] * factor ** _GROWTH[name] / 3600
        memory = said["peak_mb"] * factor / 1e6
        rows.append([name, f"{_GROWTH[name]:.1f}", f"{hours:,.0f}", f"{memory:,.1f}", f"{hours * _PER_CORE_HOUR:,.0f}"])
    return _table(["stage", "power of n", "core hours", "memory, TB", "dollars for cores"], rows)


def _power(measured: Sequence[tuple[float, float]]) -> float:
    """Fit seconds = c n^p by least squares of the logarithms."""
    xs, ys = zip(*((math.log(n), math.log(max(seconds, 0.01))) for n, seconds in measured), strict=True)
    x, y = sum(xs) / len(xs), sum(ys) / len(ys)
    spread = sum((one - x) ** 2 for one in xs)
    return sum((a - x) * (b - y) for a, b in zip(xs, ys, strict=True)) / spread if spread else math.nan


def _seen(one: dict[str, object]) -> str:
    encoder = str(one["name"]).partition("+")[2]
    return f"{one['title']}, {f'with {encoder}' if encoder else 'from pixels'}"


def _records(name: str) -> list[dict[str, Any]]:
    path = DOCS / "records" / f"{name}.jsonl"
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


def _table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    lines = [f"| {' | '.join(map(str, row))} |" for row in (head, *rows)]
    return "\n".join([lines[0], "|" + "---|" * len(head), *lines[1:]])


def printed(methods: Sequence[str]) -> str:
    """Return what was printed about methods, ACC / NMI / ARI: a row for each source, a column for each data set."""
    scores = [score for name in methods for score in SCORES if score.method == name]
    columns = [name for name in DATASETS if any(score.dataset == name for score in scores)]
    found: dict[tuple[str, str], dict[str, str]] = {}
    for score in scores:
        told = "/".join("-" if value is None else share(value) for value in (score.acc, score.nmi, score.ari))
        found.setdefault((score.method, _origin(score)), {})[score.dataset] = told
    rows = [[*names, *(cells.get(column, "") for column in columns)] for names, cells in found.items()]
    return _table(["method", "from", *(DATASETS[name].title for name in columns)], rows)


def _origin(score: Score) -> str:
    doubt = "" if score.is_verified else "not confirmed"
    return "; ".join(filter(None, [score.source, score.note, doubt]))


def part(name: str) -> str:
    """Return the text of one generated part, by the name in its mark."""
    if name in RECORDED:
        return RECORDED[name]()
    kind, _, method = name.partition(" ")
    if kind == "published":
        return printed(method.split())
    tables = {"settings": by_source, "all-settings": in_full}
    return tables[kind](describe(configs()[method]))


RECORDED = {
    "choose-k": numbers_found,
    "choose-k-samples": numbers_of_samples,
    "corrections": corrections_learned,
    "duplicates": duplicates_found,
    "scale-billion": a_billion,
    "scale-engines": engines_measured,
    "scale-memory": memory_measured,
    "scale-others": others_measured,
    "scale-pages": pages_measured,
    "scale-processes": processes_measured,
    "scale-stages": stages_measured,
    "trust": reliability,
    "trust-clusterings": clusterings_judged,
}
"""Parts that are made from measured records, by the name in their mark."""


def refreshed(page: str) -> str:
    """Return a page with every generated part written anew."""
    return PART.sub(lambda found: f"{found['begin']}{part(found['name'])}\n{found['end']}", page)


def settings_page() -> str:
    """Return docs/settings.md, which is generated as a whole."""
    lines = [
        "# Settings",
        "",
        "Every setting of every method, as `selfsort methods NAME` prints them. `--set name=value` changes one; a",
        "recipe (`--recipe`) changes several. *From* says who wants it so: the paper, the code that its authors",
        "released, or ours. This page is written by `python docs/generate.py`.",
    ]
    for name in configs():
        page = f"methods/{PAGES[name]}.md" if name in PAGES else (AROUND | ELSEWHERE).get(name, "classic.md")
        about = f"Set as `{name}.NAME`. [What it is]" if name in AROUND else "[The method]"
        lines += ["", f"## {name}", "", f"{about}({page}).", "", part(f"all-settings {name}")]
    return "\n".join(lines) + "\n"


def texts() -> dict[Path, str]:
    """Return every page that has generated parts, as it should be."""
    pages = {page: page.read_text(encoding="utf-8") for page in sorted(DOCS.rglob("*.md")) if page != SETTINGS}
    return {page: refreshed(text) for page, text in pages.items() if PART.search(text)} | {SETTINGS: settings_page()}


def main() -> None:
    """Bring the pages up to date and name those that changed."""
    for page, text in texts().items():
        if not page.exists() or page.read_text(encoding="utf-8") != text:
            page.write_text(text, encoding="utf-8")
            print(f"written: {page.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
