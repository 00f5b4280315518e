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


GOALS = (
    Goal("ingest", "ingest_rate_ratio", 0.8, False, "our rate over two bare decoding processes"),
    Goal("ingest", "ingest_peak_memory_ratio", 1.0, True, "peak over 1.3 of the result plus 300 MB"),
    Goal("encoding", "encoding_overhead", 1.15, True, "features of photographs over bare decoding and bare network"),
    Goal("training", "inner_loop_overhead", 1.1, True, "our epoch over the bare forward, backward and step"),
    Goal("graph", "knn_over_product_30000", 1.4, True, "exact neighbours over the bare matrix product, 30,000 x 784"),
    Goal("graph", "merge_over_knn_70000", 0.2, True, "merging 70,000 images over the search for their neighbours"),
    Goal("graph", "merge_time_exponent", 1.1, True, "growth of merging time from 10,000 to 70,000; n log n is 1.1"),
    Goal("graph", "merge_peak_memory_gb_70000", 3.0, True, "peak memory of searching and merging 70,000 images"),
    Goal(
        "graph", "choose_k_over_knn_70000", 1.0, True, "finding the number of clusters over the search, 70,000 images"
    ),
    Goal("graph", "oracle_over_merge_3000", 50.0, False, "dense oracle over our merging, 3,000 images"),
    Goal("jule", "jule_epoch_overhead", 1.3, True, "a JULE epoch, mining included, over the bare network"),
    Goal("dbc", "fcae_epoch_overhead", 1.2, True, "an epoch of the auto-encoder over the bare network"),
    Goal("dbc", "dbc_epoch_overhead", 1.2, True, "an epoch of boosting over the bare network"),
    Goal(
        "dac",
        "dac_pass_overhead",
        1.25,
        True,
        "a pool of DAC, targets and moved images included, over the bare network",
    ),
    Goal(
        "augment", "augment_over_pillow", 10.0, False, "affine and colour, a batch over one picture at a time in Pillow"
    ),
    Goal("augment", "augment_share_dac", 0.1, True, "share of DAC's training that goes into moved images"),
    Goal("augment", "augment_share_gatcluster", 0.1, True, "the same of GATCluster's"),
    Goal("augment", "augment_share_secu", 0.1, True, "the same of SeCu's"),
    Goal("gatcluster", "gat_step1_overhead", 1.1, True, "targets of a large batch over the bare forward pass"),
    Goal("gatcluster", "gat_step2_overhead", 1.2, True, "a pass of step 2 over the bare network"),
    Goal("gatcluster", "gat_kmeans_share", 0.05, True, "k-means as a share of an iteration"),
    Goal("gatcluster", "gat_memory_growth_192px", 1.1, True, "peak memory with M = 1000 over that with M = 100"),
    Goal("secu", "secu_step_overhead", 1.2, True, "a SeCu step, views and ten heads included, over the bare network"),
    Goal("secu", "secu_assignment_growth", 1.2, True, "assigning a batch among 40,000 images over among 4,000"),
    Goal("secu", "secu_label_bytes_per_head", 8.0, True, "bytes of stored labels per image and head"),
    Goal(
        "teach", "teach_step_overhead", 1.15, True, "a teaching step, augmented images included, over the bare network"
    ),
    Goal("teach", "teach_epoch_overhead", 1.6, True, "the same with the answers to all images as they are"),
    Goal(
        "teach", "augmented_over_plain_ranked", 60.0, True, "neighbours ranked in 23 views over the plain search, 4,000"
    ),
    Goal(
        "teach", "augmented_over_plain_full", 80.0, True, "a full search in 23 views over the plain one, 4,000 images"
    ),
)


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
