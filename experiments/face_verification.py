"""Face verification by the restricted protocol: are two pictures of the same person?

Yang, Parikh, Batra (JULE, CVPR 2016) train on unlabelled faces and judge on Labeled Faces in the Wild: cosine
similarity of each pair, a threshold chosen on nine folds, accuracy on the tenth, mean of the ten. Any pairs file
will do, in one of two forms:

- CSV with the columns fold, first, second, same (same is 0 or 1; pictures are paths inside the faces folder);
- the text form of LFW: "folds pairs" in the first line, then, for each fold, so many lines "name i j" of one
  person and so many "name i other j" of two; pictures are name/name_000i.jpg.

    python -m experiments.face_verification RUN --faces FOLDER --pairs pairs.csv
"""

from __future__ import annotations

import argparse
import csv
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from selfsort.data import read_source
from selfsort.encoders.pictures import Pictures
from selfsort.errors import InvalidInput, MissingData, invalid
from selfsort.learning.device import choose_device
from selfsort.runs.encoder import load_run_encoder
from selfsort.runs.folder import RunFolder
from selfsort.types import F32, F64, I64

Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Pairs:
    """Which pictures to compare."""

    first: tuple[str, ...]
    second: tuple[str, ...]
    is_same: Bools
    fold: I64

    @property
    def pictures(self) -> list[str]:
        """Every picture once, in order of name."""
        return sorted({*self.first, *self.second})


@dataclass(frozen=True, eq=False)
class Verification:
    """Accuracy on each held-out fold, and the threshold it was judged by."""

    accuracy: F64
    threshold: F64

    @property
    def mean(self) -> float:
        """The figure the papers report."""
        return float(self.accuracy.mean())


def read_pairs(path: Path) -> Pairs:
    """Read a pairs file of either form."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        raise MissingData(
            f"the pairs file {path} is not there. Expected a CSV or LFW pairs file. Check the path."
        ) from None
    rows = _csv_rows(lines) if lines and "first" in lines[0].split(",") else _lfw_rows(lines)
    if not rows:
        raise invalid("the pairs file", "hold at least one pair", "none", "See the top of this script for its forms.")
    folds, first, second, same = zip(*rows, strict=True)
    return Pairs(first, second, np.array(same, dtype=bool), np.array(folds, dtype=np.int64))


def _csv_rows(lines: Sequence[str]) -> list[tuple[int, str, str, bool]]:
    try:
        return [
            (int(row["fold"]), row["first"], row["second"], bool(int(row["same"])))
            for row in csv.DictReader(lines, strict=True)
        ]
    except (KeyError, ValueError, TypeError, csv.Error) as error:
        raise invalid(
            "a pairs file", "have the columns fold, first, second, same", repr(error), "Repair the line."
        ) from error


def _lfw_rows(lines: Sequence[str]) -> list[tuple[int, str, str, bool]]:
    try:
        n_folds, n_pairs = (int(word) for word in lines[0].split())
        rows = []
        for number, line in enumerate(lines[1 : 1 + 2 * n_folds * n_pairs]):
            words = line.split()
            name, i, other, j = (words[0], words[1], words[0], words[2]) if len(words) == 3 else words
            rows.append((number // (2 * n_pairs), _lfw_name(name, i), _lfw_name(other, j), len(words) == 3))
    except (ValueError, IndexError) as error:
        raise invalid(
            "a pairs file", "have the form of LFW's pairs.txt or be a CSV", repr(error), "Repair it."
        ) from error
    return rows


def _lfw_name(name: str, number: str) -> str:
    return f"{name}/{name}_{int(number):04d}.jpg"


def cosine(features: F32, first: npt.ArrayLike, second: npt.ArrayLike) -> F64:
    """Return the cosine similarity of rows, pair by pair."""
    norms = np.linalg.norm(features, axis=1, keepdims=True)
    unit = features.astype(np.float64) / np.maximum(norms, 1e-8)
    similarity: F64 = np.einsum("pd,pd->p", unit[np.asarray(first)], unit[np.asarray(second)])
    return similarity


def best_threshold(similarity: F64, is_same: Bools) -> float:
    """Return the threshold that is right most often, halfway between two neighbouring similarities.

    Of equally good ones the lowest is taken.

    >>> best_threshold(np.array([0.1, 0.3, 0.5, 0.9]), np.array([False, False, True, True]))
    0.4
    """
    order = np.argsort(similarity, kind="stable")
    ranked, same = similarity[order], is_same[order]
    # right[c]: pairs judged rightly when the c least similar are called different.
    right = np.concatenate([[0], np.cumsum(~same)]) + same.sum() - np.concatenate([[0], np.cumsum(same)])
    is_cut = np.concatenate([[True], ranked[1:] > ranked[:-1], [True]])  # a threshold cannot part equal values
    cut = int(np.argmax(np.where(is_cut, right, -1)))
    edges = np.concatenate([[ranked[0] - 1], ranked, [ranked[-1] + 1]])
    return float((edges[cut] + edges[cut + 1]) / 2)


def verify(similarity: F64, is_same: Bools, fold: I64) -> Verification:
    """Hold each fold out once; choose the threshold on the others."""
    folds = np.unique(fold)
    if len(folds) < 2:
        raise invalid("the pairs", "lie in at least 2 folds", len(folds), "Number the folds of the pairs file.")
    accuracy, threshold = np.empty(len(folds)), np.empty(len(folds))
    for place, held_out in enumerate(folds):
        is_test = fold == held_out
        threshold[place] = best_threshold(similarity[~is_test], is_same[~is_test])
        accuracy[place] = ((similarity[is_test] > threshold[place]) == is_same[is_test]).mean()
    return Verification(accuracy, threshold)


def verify_pictures(features: F32, names: Sequence[str], pairs: Pairs) -> Verification:
    """Judge the pairs by the features of the pictures named."""
    place = {name: row for row, name in enumerate(names)}
    if lost := [name for name in pairs.pictures if name not in place]:
        raise InvalidInput(
            f"{len(lost)} pictures of the pairs file could not be read, the first is {lost[0]}. "
            "Expected all of them in the faces folder. Check --faces."
        )
    first, second = ([place[name] for name in side] for side in (pairs.first, pairs.second))
    return verify(cosine(features, first, second), pairs.is_same, pairs.fold)


def main(arguments: Sequence[str] | None = None) -> dict[str, float]:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("run", type=Path, help="run folder of the network to judge")
    parser.add_argument("--faces", type=Path, required=True, help="folder of pictures")
    parser.add_argument("--pairs", type=Path, required=True, help="pairs file")
    parser.add_argument("--layer", default="top")
    asked = parser.parse_args(arguments)
    pairs = read_pairs(asked.pairs)
    folder = RunFolder.open(asked.run)
    encoder = load_run_encoder(folder, choose_device(), asked.layer)
    faces = read_source([asked.faces / name for name in pairs.pictures], spec=encoder.spec, max_bad=0.0)
    found = verify_pictures(encoder.rows_for(Pictures(faces.images, (), None)), pairs.pictures, pairs)
    result = {"accuracy": found.mean, "spread": float(found.accuracy.std()), "folds": float(len(found.accuracy))}
    print(json.dumps(result))
    return result


if __name__ == "__main__":
    main()
