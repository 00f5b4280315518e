from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from tests.conftest import Command

from selfsort.data.synthetic import shapes
from selfsort.improve.vote import CORRECTIONS, UPDATE, VoteConfig, voters
from selfsort.types import Assignment, FinishedRun


class Inner:
    def apply(self, images: Any, layer: str = "top") -> Assignment:
        rows = np.asarray(images, np.float32) * (1 if layer == "top" else 2)
        return Assignment(rows, np.ones((len(rows), 1), np.float32))


def test_the_nearest_vote_and_outliers_have_no_say() -> None:
    rng = np.random.default_rng(0)
    rows = np.concatenate([rng.normal(size=(30, 2)), 20 + rng.normal(size=(30, 2))]).astype(np.float32)
    labels = np.repeat([0, 2], 30)
    labels[0] = -1
    state = voters(rows, labels, 3)
    assert len(state.arrays["labels"]) == 59
    config = VoteConfig.from_json({"n_clusters": 3})
    model = UPDATE.restore(FinishedRun("any", Inner()), config, state, device=torch.device("cpu"))
    found = model.apply([[0.0, 0.0], [20.0, 20.0]])
    assert found.labels.tolist() == [0, 2]
    assert model.apply([[1.0, 1.0]], "other").features.tolist() == [[2, 2]]


def test_each_says_which_command_makes_it(selfsort: Command, tmp_path: Path) -> None:
    images, _ = shapes(6, size=8, seed=0, n_classes=3)
    np.savez(tmp_path / "some.npz", images=images.pixels)
    assert selfsort("fit", tmp_path / "some.npz", "--clusters", 3, "--method", "kmeans", "--out", "run").code == 0
    done = selfsort("refine", "run", "--stage", "update")
    assert done.code == 2
    assert "Expected selfsort update RUN SOURCE" in done.err
    assert CORRECTIONS.made_by == "selfsort refine RUN --stage corrections"
