from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import pdist

from selfsort.classic.linkage import LinkageConfig, average_linkage, cluster, condensed_distances, cut
from selfsort.errors import InvalidInput
from selfsort.metrics import accuracy
from selfsort.types import F32

CPU = torch.device("cpu")


def points(n: int, seed: int = 0) -> F32:
    return np.random.default_rng(seed).standard_normal((n, 5)).astype(np.float32) + 3


@pytest.mark.parametrize("n", [2, 40, 600])  # 600: more than one block
def test_distances_are_those_of_scipy(n: int) -> None:
    x = points(n)
    np.testing.assert_allclose(condensed_distances(x), pdist(x.astype(np.float64)), rtol=1e-9, atol=1e-7)


@pytest.mark.parametrize("k", [2, 5, 40])
def test_labels_are_those_of_scipy(k: int) -> None:
    x = points(40, seed=1)
    labels = cluster(x, LinkageConfig(n_clusters=k), seed=0, device=CPU).labels
    # As many clusters as points: SciPy before 1.13 gives fewer.
    expected = fcluster(linkage(x, "average"), k, "maxclust") if k < len(x) else np.arange(k)
    assert accuracy(labels, expected) == 1.0
    assert sorted(set(labels.tolist())) == list(range(k))


def test_average_linkage_on_a_line_by_hand() -> None:
    # 0 and 1 merge at 1; {0, 1} is then at (4 + 3) / 2 = 3.5 from 4, and 9 at 5 from 4: so 4 joins them, 9 is alone.
    x = np.array([[0], [1], [4], [9]], dtype=np.float32)
    partition = cluster(x, LinkageConfig(n_clusters=2), seed=0, device=CPU)
    assert partition.labels.tolist() == [0, 0, 0, 1]
    np.testing.assert_allclose(partition.extras["linkage"][:2, 2], [1, 3.5], rtol=1e-6)


def test_equal_heights_still_give_the_number_asked_for() -> None:
    same = np.ones((6, 2), dtype=np.float32)
    labels = cluster(same, LinkageConfig(n_clusters=4), seed=0, device=CPU).labels
    assert len(set(labels.tolist())) == 4


def test_cutting_nothing_leaves_single_images() -> None:
    assert cut(linkage(points(5), "average"), 5, 5).tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("n", [2, 3, 50, 700])
def test_the_chain_in_single_precision_finds_the_merges_of_scipy(n: int) -> None:
    x = points(n, seed=n)
    expected = linkage(x, "average")
    found = average_linkage(condensed_distances(x, np.float32), n)
    np.testing.assert_allclose(found[:, 2], expected[:, 2], rtol=1e-5)
    np.testing.assert_array_equal(found[:, 3], expected[:, 3])
    for k in {2, min(5, n)}:
        assert accuracy(cut(found, n, k), cut(expected, n, k)) == 1.0


def test_above_the_limit_the_chain_takes_over() -> None:
    x = points(60, seed=4)
    many = cluster(x, LinkageConfig(n_clusters=4, max_images=10), seed=0, device=CPU)
    few = cluster(x, LinkageConfig(n_clusters=4), seed=0, device=CPU)
    assert accuracy(many.labels, few.labels) == 1.0


def test_equal_distances_do_not_keep_the_chain_going() -> None:
    same = np.ones((30, 2), dtype=np.float32)
    found = average_linkage(condensed_distances(same, np.float32), 30)
    assert sorted(found[:, :2].ravel().tolist()) == [*range(58)]


def test_too_many_images_are_refused_with_a_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("selfsort.classic.linkage._most_images", lambda: 10)
    with pytest.raises(InvalidInput, match=r"at most 10 for ac-link.*got 11\. Use ac-gdl or sc-ls"):
        cluster(points(11), LinkageConfig(n_clusters=2, max_images=10), seed=0, device=CPU)
    with pytest.raises(InvalidInput, match="max_images must be between 2 and 20000"):
        LinkageConfig(n_clusters=2, max_images=30_000)
