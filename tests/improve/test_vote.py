from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from selfsort.errors import InvalidInput
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


def test_there_is_nothing_to_train() -> None:
    with pytest.raises(InvalidInput, match="--stage corrections"):
        next(
            CORRECTIONS.train(
                FinishedRun("any", Inner()),
                None,
                VoteConfig.from_json({"n_clusters": 3}),
                device=torch.device("cpu"),
                seed=0,
            )
        )
