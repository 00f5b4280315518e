"""Everything in one cluster."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from selfsort.classic.one import METHOD, OneConfig
from selfsort.data.synthetic import shapes
from selfsort.errors import InvalidInput

CPU = torch.device("cpu")


def test_all_images_are_alike() -> None:
    images = shapes(5, size=12, n_classes=3)[0]
    (snapshot,) = METHOD.train(images, OneConfig(), device=CPU, seed=0)
    assert snapshot.result is not None
    assert set(snapshot.result.labels.tolist()) == {0}
    again = METHOD.restore(OneConfig(), snapshot.result.model, device=CPU).apply(images)
    np.testing.assert_array_equal(again.labels, snapshot.result.labels)


def test_there_is_no_second_cluster() -> None:
    with pytest.raises(InvalidInput, match="n_clusters must be 1"):
        OneConfig(n_clusters=2)
