"""The smallest and the largest cluster against the bounds SeCu holds them to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from selfsort.report.drawings import Line, LineChart, Panels
from selfsort.report.read import RunData, number
from selfsort.report.stages import Stage


@dataclass(frozen=True)
class SizeBounds:
    """SeCu at one step: the smallest and the largest cluster, and what they are held to."""

    step: int
    smallest: int
    largest: int
    lower: float | None
    upper: float | None


def size_bounds(run: RunData) -> Panels | None:
    """Draw the sizes between their bounds."""
    trace = size_trace(run.stages)
    if len(trace) < 2:
        return None
    steps = [float(point.step) for point in trace]
    lines = [
        Line("largest", steps, [float(p.largest) for p in trace]),
        Line("smallest", steps, [float(p.smallest) for p in trace]),
        Line("lower bound", steps, [p.lower for p in trace], is_bound=True),
        Line("upper bound", steps, [p.upper for p in trace], is_bound=True),
    ]
    known = [line for line in lines if any(y is not None for y in line.y)]
    return Panels([LineChart("Images per cluster", known, "step")])


def size_trace(stages: Sequence[Stage]) -> list[SizeBounds]:
    """Follow the sizes against `size_lower` and `size_upper` of events.jsonl."""
    return [
        SizeBounds(
            stage.step,
            int(stage.sizes.min()),
            int(stage.sizes.max()),
            number(stage.event.get("size_lower")),
            number(stage.event.get("size_upper")),
        )
        for stage in stages
        if stage.sizes is not None and len(stage.sizes)
    ]
