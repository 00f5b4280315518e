"""`make bench`: every ratio, its goal and whether it was met; also written to benchmarks/results/ as JSON.

Ratios compare two things measured in one run on one machine; seconds would not travel. `python -m benchmarks
NAME ...` runs some of them.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Goal:
    """A bound one benchmark's number should keep."""

    module: str
    name: str
    bound: float
    is_upper: bool
    what: str

    def is_met(self, value: float) -> bool:
        """Compare a measured value with the bound."""
        return value <= self.bound if self.is_upper else value >= self.bound


GOALS = (Goal("training", "inner_loop_overhead", 1.1, True, "our epoch over the bare forward, backward and step"),)


def main(names: list[str]) -> None:
    modules = list(dict.fromkeys(goal.module for goal in GOALS if not names or goal.module in names))
    results: dict[str, float] = {}
    print(f"load before the start: {os.getloadavg()[0]:.2f} (an idle machine shows less than 0.3)")
    for module in modules:
        results |= importlib.import_module(f"benchmarks.{module}").run()
    for goal in GOALS:
        if goal.name in results:
            value, sign = results[goal.name], "<=" if goal.is_upper else ">="
            verdict = "met" if goal.is_met(value) else "MISSED"
            print(f"{goal.name:32} {value:9.3f}   goal {sign} {goal.bound:<6} {verdict:7} {goal.what}")
    for name, value in results.items():
        if name not in {goal.name for goal in GOALS}:
            print(f"{name:32} {value:9.3f}")
    folder = Path(__file__).parent / "results"
    folder.mkdir(exist_ok=True)
    path = folder / f"bench-{time.strftime('%Y%m%d-%H%M%S')}.json"
    path.write_text(json.dumps({"load": os.getloadavg(), "results": results}, indent=2) + "\n")
    print(f"written: {path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path}")


if __name__ == "__main__":
    main(sys.argv[1:])
