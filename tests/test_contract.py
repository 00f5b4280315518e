"""The suite that other packages import, and the example package that uses it."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests import foreign
from tests.conftest import Command
from tests.toy import TOY

from selfsort.classic.kmeans import METHOD as KMEANS
from selfsort.contract import (
    CHECKS,
    Check,
    a_run_killed_at_any_step_goes_on_to_the_same_result,
    labels_soft_and_features_have_their_form,
    the_same_seed_gives_the_same_result,
)
from selfsort.types import Snapshot

EXAMPLE = Path(__file__).parents[1] / "examples" / "own-method"


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_our_own_methods_keep_it(check: Check, tmp_path: Path) -> None:
    check(KMEANS, {"n_restarts": 2}, tmp_path)


def wrong_labels(*given: Any, **named: Any) -> Iterator[Snapshot]:
    for snapshot in KMEANS.train(*given, **named):
        result = snapshot.result
        yield replace(snapshot, result=None if result is None else replace(result, labels=result.labels + 1))


def no_seed(images: Any, config: Any, *, device: Any, seed: int, resume: Any = None) -> Iterator[Snapshot]:
    yield from TOY.train(images, config, device=device, seed=np.random.SeedSequence().entropy % 2**32, resume=resume)  # type: ignore[operator]


def forgetful(images: Any, config: Any, *, device: Any, seed: int, resume: Any = None) -> Iterator[Snapshot]:
    yield from TOY.train(images, config, device=device, seed=seed + (resume is not None), resume=None)


@pytest.mark.parametrize(
    ("method", "check", "promise"),
    [
        (replace(KMEANS, train=wrong_labels), labels_soft_and_features_have_their_form, "labels go from 0 to K-1"),
        (replace(TOY, train=no_seed), the_same_seed_gives_the_same_result, "the same seed gives the same labels"),
        (replace(TOY, train=forgetful), a_run_killed_at_any_step_goes_on_to_the_same_result, "ends in the same labels"),
    ],
)
def test_a_broken_promise_is_named(method: Any, check: Check, promise: str, tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=promise):
        check(method, {}, tmp_path)


class TestExample:
    @pytest.fixture(autouse=True)
    def _installed(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """As pip would: the module, and the entry points of its pyproject.toml."""
        offered = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]["entry-points"]
        text = (EXAMPLE / "colour_grid.py").read_text()
        for group, entries in offered.items():
            listed = "\n".join(f"{name} = {place}" for name, place in entries.items())
            package = f"selfsort-{group.removeprefix('selfsort.')}"
            foreign.install(
                tmp_path / "site",
                monkeypatch,
                package=package,
                module="colour_grid",
                text=text,
                entries=listed,
                group=group,
            )

    @pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
    def test_it_keeps_the_contract(self, check: Check, tmp_path: Path) -> None:
        import colour_grid

        check(colour_grid.METHOD, {"rounds": 3}, tmp_path / "runs")

    def test_it_is_listed_fitted_and_predicts(self, selfsort: Command, photos: Path) -> None:
        assert "colour-grid" in {row["name"] for row in json.loads(selfsort("methods", "--json").out)["methods"]}
        assert "colour-grid-8" in selfsort("encoders").out
        words = ["--clusters", 3, "--method", "colour-grid", "--encoder", "none", "--set", "cells=2", "--out", "run"]
        done = selfsort("fit", photos, *words)
        assert done.code == 0, done.err
        assert selfsort("predict", "run", photos, "--out", "new.csv").code == 0
        assert Path("new.csv").read_text().count("\n") == 19
        encoded = ["--clusters", 3, "--method", "kmeans", "--encoder", "colour-grid-8", "--no-cache", "--out", "seen"]
        done = selfsort("fit", photos, *encoded)
        assert done.code == 0, done.err
        assert selfsort("predict", "seen", photos, "--out", "seen.csv").code == 0
