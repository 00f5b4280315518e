from __future__ import annotations

import numpy as np
import pytest
import torch

from selfsort.classic.leiden import METHOD, LeidenConfig, cluster, communities
from selfsort.errors import InvalidInput
from selfsort.metrics import accuracy
from selfsort.types import F32, I64

CPU = torch.device("cpu")


def blobs(n_groups: int, n_each: int = 40, seed: int = 0) -> tuple[F32, I64]:
    truth = np.repeat(np.arange(n_groups), n_each)
    draw = np.random.default_rng(seed)
    centres = 8 * draw.standard_normal((n_groups, 10))
    return (centres[truth] + draw.standard_normal((len(truth), 10))).astype(np.float32), truth


@pytest.mark.parametrize("n_groups", [2, 5, 12])
def test_blobs_are_found_with_their_number_asked_for(n_groups: int) -> None:
    features, truth = blobs(n_groups)
    partition = cluster(features, LeidenConfig(n_clusters=n_groups), seed=0, device=CPU)
    assert accuracy(partition.labels, truth) == 1.0
    assert partition.event["communities"] == n_groups


def test_the_number_is_found_when_it_is_left_free() -> None:
    features, truth = blobs(12)
    found = communities(features, seed=0, device=CPU)
    assert found.n_clusters == 12
    assert accuracy(found.labels, truth) == 1.0


def test_another_number_is_kept() -> None:
    features, _ = blobs(4)
    for n_clusters in (2, 3, 7, 160):
        partition = cluster(features, LeidenConfig(n_clusters=n_clusters), seed=0, device=CPU)
        assert sorted(set(partition.labels.tolist())) == list(range(n_clusters))


def test_two_images() -> None:
    partition = cluster(np.eye(2, dtype=np.float32), LeidenConfig(n_clusters=2), seed=0, device=CPU)
    assert sorted(partition.labels.tolist()) == [0, 1]


def test_settings_are_checked() -> None:
    with pytest.raises(InvalidInput, match="K_s must be at least 1; got 0"):
        METHOD.config.from_json({"n_clusters": 3, "K_s": 0})
