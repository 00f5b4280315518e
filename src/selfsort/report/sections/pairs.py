"""DAC's thresholds, the pairs they select, and how right those are."""

from __future__ import annotations

from dataclasses import dataclass

from selfsort.metrics.pairs import label_features, pair_selection_quality, select_pairs
from selfsort.report.drawings import Line, LineChart, Panels
from selfsort.report.read import RunData, number
from selfsort.report.stages import Stage

MAX_PAIRED = 800
"""Images among which pairs are judged; pairs grow with the square."""


@dataclass(frozen=True)
class Thresholds:
    """DAC at one step: its thresholds and what they select."""

    step: int
    upper: float
    lower: float
    selected: float | None = None
    positive_precision: float | None = None
    negative_precision: float | None = None


def threshold_charts(run: RunData) -> Panels | None:
    """Draw the thresholds, what they select, and how right the selected pairs are."""
    trace = threshold_trace(run)
    if len(trace) < 2:
        return None
    steps = [float(point.step) for point in trace]
    bounds = [Line("upper", steps, [p.upper for p in trace]), Line("lower", steps, [p.lower for p in trace])]
    shares = [
        Line("selected pairs", steps, [p.selected for p in trace]),
        Line("precision, same cluster", steps, [p.positive_precision for p in trace]),
        Line("precision, different clusters", steps, [p.negative_precision for p in trace]),
    ]
    known = [line for line in shares if sum(y is not None for y in line.y) >= 2]
    charts = [LineChart("Thresholds", bounds, "step")]
    if known:
        charts.append(LineChart("Pairs", known, "step", is_share=True))
    return Panels(charts)


def threshold_trace(run: RunData) -> list[Thresholds]:
    """Follow `upper` and `lower` of events.jsonl; with soft assignments and labels the pairs are judged as well.

    The method itself cannot say how right its pairs are: it never sees a label.
    """
    by_step = {stage.step: stage for stage in run.stages if stage.soft is not None}
    trace = []
    for event in run.events:
        upper, lower = number(event.get("upper")), number(event.get("lower"))
        if upper is None or lower is None:
            continue
        stage = by_step.get(event["step"])
        judged = None if stage is None else _judge_pairs(run, stage.thinned(MAX_PAIRED), upper, lower)
        trace.append(judged or Thresholds(event["step"], upper, lower, number(event.get("selected_fraction"))))
    return trace


def _judge_pairs(run: RunData, stage: Stage, upper: float, lower: float) -> Thresholds | None:
    if stage.soft is None or run.truth is None or len(stage.rows) < 2:
        return None
    features = label_features(stage.soft, restraint=run.config["settings"].get("restraint") is not False)
    same_BB, selected_BB = select_pairs(features, upper, lower)
    quality = pair_selection_quality(same_BB, selected_BB, run.truth[stage.rows])
    return Thresholds(
        stage.step, upper, lower, quality.selected_fraction, quality.positive_precision, quality.negative_precision
    )
