"""Training as curves: every number of events.jsonl over the steps."""

from __future__ import annotations

import numpy as np

from selfsort.report.drawings import BarChart, Drawing, Line, LineChart, Panels
from selfsort.report.read import SCORE_NAMES, RunData, number
from selfsort.text import sentence

MAX_POINTS = 400
"""Points of a curve; a longer history is thinned evenly, the last one kept."""

# Book-keeping, and what has a section of its own.
_LEFT_OUT = frozenset({"step", "total", "elapsed", "seconds", "images_per_second", "skipped_batches"}) | frozenset(
    {"upper", "lower", "selected_fraction", "size_lower", "size_upper", "start", "stability"}
)

_TITLES = {**SCORE_NAMES, "lr": "Learning rate"}


def curves(run: RunData) -> Panels | None:
    """Draw every curve; the scores share one chart. None if the method has a single step."""
    lines = event_lines(run)
    score_lines = [lines.pop(name) for name in SCORE_NAMES if name in lines]
    changing = [line for line in lines.values() if len(set(line.y)) > 1]
    charts: list[Drawing] = [LineChart(line.name, [line], "step") for line in changing]
    if score_lines:
        caption = "Scores are computed beside the method, which never sees the labels."
        charts.insert(0, LineChart("Scores", score_lines, "step", is_share=True, caption=caption))
    if run.starts:
        charts.append(_starts(run))
    constant = [f"{line.name.lower()} {line.y[0]:.4g}" for line in lines.values() if line not in changing]
    return (
        Panels(charts, remark=f"The same at every step: {', '.join(constant)}." if constant else "") if charts else None
    )


def _starts(run: RunData) -> BarChart:
    """Compare the starts; the curves are those of the one that went on."""
    best = max(run.starts, key=lambda start: run.starts[start])
    caption = (
        f"Start {best} went on; the other curves are its own. Stability under augmentation: how much the label of one "
        "augmented copy of an image tells of that of another."
    )
    return BarChart(
        "Stability of the starts",
        list(run.starts.values()),
        [str(start) for start in run.starts],
        f"{len(run.starts)} starts, start {best} the most stable",
        x_title="start",
        caption=caption,
    )


def event_lines(run: RunData) -> dict[str, Line]:
    """Return the curves by the name they have in events.jsonl."""
    if len(run.events) < 2:
        return {}
    picked = np.unique(np.linspace(0, len(run.events) - 1, min(MAX_POINTS, len(run.events))).astype(int)).tolist()
    events = [run.events[i] for i in picked]
    steps = [float(event["step"]) for event in events]
    lines = {}
    for name in dict.fromkeys(name for event in events for name in event):
        values = [number(event.get(name)) for event in events]
        # Some numbers come only at some steps; what lies between two of them is joined.
        known = [i for i, value in enumerate(values) if value is not None]
        if name not in _LEFT_OUT and len(known) >= 2:
            title = _TITLES.get(name, sentence(name.replace("_", " ")))
            lines[name] = Line(title, [steps[i] for i in known], [values[i] for i in known])
    return lines
