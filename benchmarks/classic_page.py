"""Tables and pictures of docs/classic.md from stored measurements; see `benchmarks.classic`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
from benchmarks.classic import ALPHAS, NEIGHBOURS, PAGE, ROOT, ROWS, TITLES, Row, load, method_named, purity_curve

from selfsort.report.published import published

ASSETS = ROOT / "docs" / "assets"

Runs = list[dict[str, Any]]


def write_page(results: dict[str, Any]) -> None:
    """Fill the marked parts of the page and draw its pictures."""
    text = PAGE.read_text(encoding="utf-8")
    for name, lines in tables(results).items():
        pattern = re.compile(rf"(<!-- {name}: begin -->\n).*?(<!-- {name}: end -->)", re.DOTALL)
        body = "\n".join(lines).replace("\\", r"\\")
        text, n_found = pattern.subn(rf"\g<1>{body}\n\g<2>", text)
        if n_found != 1:
            raise SystemExit(
                f"docs/classic.md must have the markers of the part {name} once; it has them {n_found} times."
            )
    PAGE.write_text(text, encoding="utf-8")
    datasets = [dataset for dataset in TITLES if dataset in results["fits"] and dataset != "mnist"]
    draw_purity(datasets)
    draw_dendrogram("mnist-test")
    print(f"written: {PAGE.relative_to(ROOT)} and pictures")


def tables(results: dict[str, Any]) -> dict[str, list[str]]:
    """Every generated part of the page by its marker."""
    fits, sweeps = results["fits"], results["sweeps"]
    datasets = [dataset for dataset in TITLES if dataset in fits and dataset != "mnist"]
    return {
        "nmi": score_table(fits, datasets, "nmi_geometric", "nmi"),
        "acc": score_table(fits, datasets, "acc", "acc"),
        "seconds": seconds_table(fits, datasets),
        "refused": refusals(fits, datasets),
        "alpha": sweep_table(
            sweeps,
            datasets,
            "alpha",
            ["exact", "size", *map(str, ALPHAS)],
            {"exact": "exact", "size": "size-proportional", **{str(a): f"alpha = {a:g}" for a in ALPHAS}},
        ),
        "neighbours": sweep_table(sweeps, datasets, "K_s", list(map(str, NEIGHBOURS)), {}),
        "neighbours-plain": sweep_table(sweeps, datasets, "K_s_plain", list(map(str, NEIGHBOURS)), {}),
    }


def score_table(fits: dict[str, Any], datasets: list[str], key: str, printed: str) -> list[str]:
    """Measured, with the published value in brackets."""

    def cell(row: Row, dataset: str, runs: Runs) -> str:
        values = [run[key] for run in runs]
        spread = f" ± {_share(float(np.std(values)))}" if len(values) > 1 else ""
        scores = published(row.method, dataset, "pixels") if row.is_published else ()
        # The first entry is JULE's own table; later ones are other papers' runs of the same method.
        value = getattr(scores[0], printed) if scores else None
        return f"{_share(float(np.mean(values)))}{spread}" + (f" ({_share(value)})" if value is not None else "")

    return _table(fits, datasets, cell)


def seconds_table(fits: dict[str, Any], datasets: list[str]) -> list[str]:
    """Processor seconds of one fit."""

    def cell(_row: Row, _dataset: str, runs: Runs) -> str:
        seconds = float(np.mean([run["cpu_seconds"] for run in runs]))
        return f"{seconds:.1f}" if seconds < 10 else f"{seconds:.0f}"

    return _table(fits, datasets, cell)


def refusals(fits: dict[str, Any], datasets: list[str]) -> list[str]:
    """What was not measured, and why."""
    found = [
        f"- {TITLES[dataset]}, {row.name}: {runs[-1]['refused']}."
        for dataset in datasets
        for row in ROWS
        if (runs := fits[dataset].get(row.name)) and "refused" in runs[-1]
    ]
    return found or ["Every combination was measured."]


def sweep_table(
    sweeps: dict[str, Any], datasets: list[str], kind: str, keys: list[str], names: dict[str, str]
) -> list[str]:
    """NMI / ACC / merge seconds for each value of a setting."""
    datasets = [dataset for dataset in datasets if dataset in sweeps]
    lines = _head("", (TITLES[dataset] for dataset in datasets))
    for key in keys:
        cells = []
        for dataset in datasets:
            found = sweeps[dataset][kind][key]
            cells.append(f"{_share(found['nmi_geometric'])} / {_share(found['acc'])} / {found['cpu_seconds']:.2f}")
        lines.append(f"| {names.get(key, key)} | " + " | ".join(cells) + " |")
    return lines


def _table(fits: dict[str, Any], datasets: list[str], cell: Callable[[Row, str, Runs], str]) -> list[str]:
    lines = _head("method", (TITLES[dataset] for dataset in datasets))
    for row in ROWS:
        cells = []
        for dataset in datasets:
            runs = fits[dataset].get(row.name, [])
            is_measured = bool(runs) and "refused" not in runs[-1]
            cells.append(cell(row, dataset, runs) if is_measured else "-")
        lines.append(f"| {row.name} | " + " | ".join(cells) + " |")
    return lines


def _head(first: str, columns: Iterable[str]) -> list[str]:
    names = [first, *columns]
    return ["| " + " | ".join(names) + " |", "|" + "---|" * len(names)]


def _share(value: float) -> str:
    return f"{value:.3f}".removeprefix("0") if value < 1 else f"{value:.2f}"


def _figure(width: float, height: float) -> tuple[Any, Any]:
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    # Text as text keeps the file small; a fixed salt keeps it the same from run to run.
    mpl.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "selfsort", "font.size": 9})
    return pyplot.subplots(figsize=(width, height), layout="constrained")


def _save(figure: Any, name: str) -> None:
    ASSETS.mkdir(exist_ok=True)
    figure.savefig(ASSETS / name, metadata={"Date": None})


def draw_purity(datasets: list[str]) -> None:
    """How often the K nearest images in pixel space are of the same class."""
    figure, axes = _figure(6.4, 3.6)
    for dataset in datasets:
        curve = purity_curve(dataset)
        axes.plot(np.arange(1, len(curve) + 1), curve, label=TITLES[dataset])
    axes.set(xlabel="K nearest neighbours in unit-norm pixels", ylabel="share of the same class", ylim=(0, 1))
    axes.set_xlim(1, 100)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(loc="lower left", ncols=3, frameon=False)
    _save(figure, "classic-purity.svg")


def draw_dendrogram(dataset: str, n_leaves: int = 40) -> None:
    """The last merges of ac-gdl without absorbing: where real clusters are glued and outliers survive."""
    import torch

    method = method_named("ac-gdl")
    images, truth = load(dataset)
    config = method.config.from_json({"n_clusters": 2, "absorb": False})
    *_, last = method.train(images, config, device=torch.device("cpu"), seed=0)
    extras = last.result.extras
    n_start = int(extras["start_labels"].max()) + 1
    leaves, joins = top_of_tree(extras["merges"], n_start, n_leaves)
    counts = class_counts(extras["merges"], extras["start_labels"], truth)
    figure, axes = _figure(7.2, 4.0)
    _draw_tree(axes, leaves, joins, counts, n_leaves)
    axes.set(ylabel="clusters left", xlabel="images in the cluster (digit of most of them)")
    axes.spines[["top", "right", "bottom"]].set_visible(False)
    _save(figure, "classic-dendrogram.svg")


def top_of_tree(
    merges: npt.NDArray[np.int64], n_start: int, n_leaves: int
) -> tuple[list[int], list[tuple[int, int, int]]]:
    """Clusters alive when `n_leaves` were left, in an order without crossings, and the later merges (a, b, new)."""
    first = n_start - n_leaves
    joins = [(int(a), int(b), n_start + m) for m, (a, b) in enumerate(merges.tolist()) if m >= first]
    children = {new: (a, b) for a, b, new in joins}
    merged = {child for pair in children.values() for child in pair}
    roots = [new for new in children if new not in merged]
    alive = set(range(n_start + first)) - set(merges[:first].ravel().tolist())
    roots += sorted(alive - merged)

    def walk(node: int) -> list[int]:
        return [leaf for child in children[node] for leaf in walk(child)] if node in children else [node]

    return [leaf for root in roots for leaf in walk(root)], joins


def class_counts(
    merges: npt.NDArray[np.int64], start_labels: npt.NDArray[np.int64], truth: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """Images of each class in every cluster that ever existed."""
    n_start = int(start_labels.max()) + 1
    counts = np.zeros((n_start + len(merges), int(truth.max()) + 1), dtype=np.int64)
    np.add.at(counts, (start_labels, truth), 1)
    for m, (a, b) in enumerate(merges):
        counts[n_start + m] = counts[a] + counts[b]
    return counts


def _draw_tree(
    axes: Any,
    leaves: list[int],
    joins: list[tuple[int, int, int]],
    counts: npt.NDArray[np.int64],
    n_leaves: int,
) -> None:
    from matplotlib import colormaps

    colours = colormaps["tab10"]
    place = {leaf: float(x) for x, leaf in enumerate(leaves)}
    height = dict.fromkeys(leaves, 0)
    for step, (a, b, new) in enumerate(joins, start=1):
        for child in (a, b):
            purity = counts[child].max() / counts[child].sum()
            colour = colours(int(counts[child].argmax())) if purity >= 0.8 else "0.6"
            axes.plot([place[child]] * 2, [height[child], step], color=colour, lw=1.2)
        axes.plot([place[a], place[b]], [step, step], color="0.4", lw=0.8)
        place[new], height[new] = (place[a] + place[b]) / 2, step
    names = [f"{counts[leaf].sum()} ({counts[leaf].argmax()})" for leaf in leaves]
    axes.set_xticks(range(len(leaves)), names, rotation=90, fontsize=6)
    ticks = [n for n in (n_leaves, 30, 20, 10, 5, 2) if n <= n_leaves]
    axes.set_yticks([n_leaves - n for n in ticks], ticks)
    axes.set_ylim(0, len(joins) + 1)
