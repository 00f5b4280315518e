from __future__ import annotations

import numpy as np

from selfsort.runs.unstack import unstacked
from selfsort.types import Clustering, Snapshot, State


def test_every_picture_gets_what_is_said_of_the_one_that_stands_for_it() -> None:
    soft = np.array([[0.9, 0.1], [0.2, 0.8]], np.float32)
    result = Clustering(
        np.array([0, 1]),
        soft,
        np.array([[1.0], [2.0]], np.float32),
        State(),
        {"labels_sf": np.array([1, 0]), "merges": np.arange(5), "single": np.array(3)},
    )
    snapshot = Snapshot(1, 1, result.labels, {"loss": 1.0}, State, result, history={"labels": result.labels})
    (found,) = unstacked(iter([snapshot]), np.array([0, 1, 1, 0]))
    assert found.result is not None
    assert found.labels.tolist() == found.result.labels.tolist() == [0, 1, 1, 0]
    assert found.result.features[:, 0].tolist() == [1, 2, 2, 1]
    assert found.result.soft[2].tolist() == soft[1].tolist()
    assert found.result.extras["labels_sf"].tolist() == [1, 0, 0, 1]
    assert found.result.extras["merges"].tolist() == [0, 1, 2, 3, 4]
    assert found.history["labels"].tolist() == [0, 1, 1, 0]
    assert found.event == {"loss": 1.0}
