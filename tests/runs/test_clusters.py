"""How many clusters: what may be said, and what becomes of it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.conftest import Command

from selfsort.errors import InvalidInput
from selfsort.runs.clusters import ClusterRange, find_again, find_number, read_clusters
from selfsort.types import Encoded

CPU = torch.device("cpu")


def planted(k: int, per: int = 60) -> Encoded:
    """Clouds far apart."""
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(k, 16)) * 6
    return Encoded((np.repeat(centres, per, axis=0) + rng.normal(size=(k * per, 16))).astype(np.float32))


@pytest.mark.parametrize(
    "text", ["1", "0", "-3", "a", "a:b", "30:5", "1:1", "0:4", ":", "", "2.5", "5:30:40", "1e3", "9" * 5000, "Auto"]
)
def test_nonsense_is_refused_in_one_sentence(text: str) -> None:
    with pytest.raises(InvalidInput, match=r"--clusters must be"):
        read_clusters(text)


@pytest.mark.parametrize(("text", "expected"), [("2", 2), ("+10", 10), ("007", 7)])
def test_a_number_is_read(text: str, expected: int) -> None:
    assert read_clusters(text) == expected


def test_a_range_of_one_number_is_that_number() -> None:
    assert read_clusters("7:7") == 7


@pytest.mark.parametrize("k", [3, 6])
def test_the_number_is_found_and_told(k: int) -> None:
    found = find_number(ClusterRange(), planted(k), seed=0, device=CPU)
    assert found.n_clusters == k
    assert str(k) in found.note
    assert found.told["asked"] == "auto"
    json.dumps(found.told)  # goes into config.json


def test_a_range_is_kept() -> None:
    found = find_number(ClusterRange(7, 9), planted(4), seed=0, device=CPU)
    assert 7 <= found.n_clusters <= 9


def test_a_range_above_the_images_is_refused() -> None:
    with pytest.raises(InvalidInput, match="at most the number of images"):
        find_number(ClusterRange(5, 500), planted(3, per=10), seed=0, device=CPU)


def test_a_number_stays_as_it_is() -> None:
    assert find_number(5, planted(3), seed=0, device=CPU).n_clusters == 5


def test_pictures_that_count_once_are_no_more_clusters_than_all_images_show() -> None:
    thinner, all_images = planted(6, per=30), planted(3, per=90)
    assert find_number(ClusterRange(), thinner, seed=0, device=CPU).n_clusters == 6
    assert find_number(ClusterRange(), thinner, seed=0, device=CPU, unstacked=all_images).n_clusters == 3


def test_a_burst_that_counts_once_is_no_cluster() -> None:
    kinds, rng = planted(3).features, np.random.default_rng(1)
    burst = (20 + 0.1 * rng.normal(size=(50, 16))).astype(np.float32)
    once, all_images = Encoded(np.concatenate([kinds, burst[:1]])), Encoded(np.concatenate([kinds, burst]))
    assert find_number(ClusterRange(), all_images, seed=0, device=CPU).n_clusters == 4
    assert find_number(ClusterRange(), once, seed=0, device=CPU, unstacked=all_images).n_clusters == 3


def test_noise_is_one_cluster_and_nothing_is_trained(selfsort: Command, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "noise.npz", images=rng.integers(0, 256, (300, 12, 12, 1)).astype(np.uint8))
    done = selfsort("fit", "noise.npz", "--method", "kmeans", "--out", "run")
    assert done.code == 0, done.err
    config = json.loads(Path("run/config.json").read_text(encoding="utf-8"))
    assert config["clusters"]["found"] == 1
    assert config["method"] == "one"
    for words in (["report", "run"], ["score", "run"], ["predict", "run", "noise.npz", "--out", "new.csv"]):
        assert selfsort(*words).code == 0


def test_learned_features_are_asked_once_more() -> None:
    features = planted(4).features
    said = find_again(ClusterRange(), 6, features, seed=0, device=CPU)
    assert said == "The learned features show 4 clusters rather than 6: selfsort cut RUN --clusters 4"
    assert find_again(ClusterRange(), 4, features, seed=0, device=CPU) == ""
    assert find_again(6, 6, features, seed=0, device=CPU) == ""
