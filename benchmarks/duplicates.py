"""Which duplicates are found? Precision and recall of pairs by kind, on a folder as a person has it.

Run: python -m benchmarks.duplicates [--encoder NAME|none]

The folder photos-mixed has 32 pictures that stand there again recompressed, resized and brightened, 16 bursts of five
frames and one copy of a file. A pair is right if the truth says that both show the same picture. Recall counts, for
each kind, the pairs that have it; where two versions differ in two ways, they count for both.
"""

from __future__ import annotations

import argparse
import csv
import json
from collections import Counter
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path

import torch

from selfsort.bench.datasets import find_or_exit
from selfsort.runs.duplicates import Duplicates, find_duplicates

RECORDS = Path(__file__).parents[1] / "docs" / "records" / "duplicates.jsonl"
NAME = "photos-mixed"


def main() -> None:
    arguments = argparse.ArgumentParser(description="Which duplicates are found.")
    arguments.add_argument("--encoder", default="auto")
    encoder = arguments.parse_args().encoder
    folder = find_or_exit(NAME)
    with (folder.parent / f"{NAME}-truth.csv").open(encoding="utf-8", newline="") as file:
        truth = {row["name"]: row for row in csv.DictReader(file)}
    found = find_duplicates(str(folder), encoder=encoder, device=torch.device("cpu"))
    lines = [{"encoder": encoder, **line} for line in measured(found, truth)]
    for line in lines:
        print(line)
    kept = [json.loads(text) for text in RECORDS.read_text(encoding="utf-8").splitlines()] if RECORDS.exists() else []
    kept = [line for line in kept if line["encoder"] != encoder] + lines
    RECORDS.write_text("".join(json.dumps(line) + "\n" for line in kept), encoding="utf-8")


def measured(found: Duplicates, truth: dict[str, dict[str, str]]) -> Iterator[dict[str, object]]:
    """Yield precision and recall for each kind of pair."""
    names = found.names
    stack_of = {names[row]: number for number, stack in enumerate(found.stacks) for row in stack.rows}
    is_right: Counter[bool] = Counter()
    said: Counter[tuple[str, bool]] = Counter()
    for stack in found.stacks:
        kinds = {stack.best: "best", **{one.row: one.kind for one in stack.others}}
        for one, other in combinations(stack.rows, 2):
            right = truth[names[one]]["picture"] == truth[names[other]]["picture"]
            is_right[right] += 1
            for kind in {kinds[one], kinds[other]} - {"best"}:
                said[_group(kind), right] += 1
    true: Counter[str] = Counter()
    recalled: Counter[str] = Counter()
    by_picture: dict[str, list[str]] = {}
    for name in names:
        by_picture.setdefault(truth[name]["picture"], []).append(name)
    for members in by_picture.values():
        for name, again in combinations(members, 2):
            notes = {truth[name]["note"], truth[again]["note"]}
            is_together = name in stack_of and stack_of[name] == stack_of.get(again)
            for kind in {"burst"} if "burst" in notes else notes - {""}:
                true[kind] += 1
                recalled[kind] += is_together
    for kind in true:
        group = "burst" if kind == "burst" else "version"
        n_said = said[group, True] + said[group, False]
        yield {
            "kind": kind,
            "pairs": true[kind],
            "recall": round(recalled[kind] / true[kind], 4),
            "precision": round(said[group, True] / max(n_said, 1), 4),
            "said": n_said,
        }
    yield {"kind": "all", "pairs": sum(is_right.values()), "wrong": is_right[False]}


def _group(kind: str) -> str:
    return "burst" if kind == "burst" else "version"


if __name__ == "__main__":
    main()
