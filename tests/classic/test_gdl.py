from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from selfsort.classic import gdl
from selfsort.classic.gdl import METHOD, GDLConfig, cluster, first_clusters
from selfsort.classic.linkage import cut
from selfsort.classic.method import wants_centred
from selfsort.data.synthetic import shapes
from selfsort.errors import InvalidInput
from selfsort.graph.affinity import digraph
from selfsort.graph.agglomerate import agglomerate, nearest_neighbour_components
from selfsort.graph.knn import nearest_neighbours
from selfsort.metrics import accuracy
from selfsort.types import F32

CPU = torch.device("cpu")


def points(n: int = 60, seed: int = 0) -> F32:
    return np.random.default_rng(seed).standard_normal((n, 4)).astype(np.float32)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"graph": "local"},
        {"a": 0.5, "doubling": True, "K_s": 6},
        {"update": "approx_size"},
        {"update": "approx_alpha", "alpha": 0.3},
        {"structure_weight": 1.0, "K_c": 4},
        {"absorb": False},
    ],
)
def test_every_setting_reaches_the_engine(settings: dict[str, Any]) -> None:
    x = points()
    config = GDLConfig(n_clusters=4, **settings)
    neighbours = nearest_neighbours(x, config.K_s)
    expected = agglomerate(
        digraph(neighbours, config.graph, config.a, config.doubling),
        nearest_neighbour_components(neighbours),
        4,
        update=config.update,
        alpha=config.alpha,
        structure_weight=config.structure_weight,
        n_structure=config.K_c,
        absorb=config.absorb,
        features=x,
    )
    found = cluster(x, config, seed=0, device=CPU)
    np.testing.assert_array_equal(found.labels, expected.labels)
    np.testing.assert_array_equal(found.extras["merges"], expected.cut.merges)
    np.testing.assert_array_equal(found.extras["merge_affinity"], expected.cut.affinity)


def test_defaults_are_those_of_the_paper() -> None:
    config = GDLConfig(n_clusters=2)
    assert (config.K_s, config.a, config.K_c, config.structure_weight, config.update) == (20, 1.0, 5, 0.0, "exact")
    assert not config.doubling


def test_merge_history_leads_from_the_start_to_the_labels() -> None:
    found = cluster(points(), GDLConfig(n_clusters=5), seed=0, device=CPU)
    history = found.extras
    n_start = int(history["start_labels"].max()) + 1
    final = cut(history["merges"].astype(np.float64), n_start, 5)[history["start_labels"]]
    assert accuracy(final, found.labels) == 1.0
    assert len(history["merges"]) == len(history["merge_sizes"]) == len(history["merge_reasons"]) == n_start - 5
    assert found.event["starting_clusters"] == n_start


def test_kmeans_start_over_clusters_by_four() -> None:
    x = points()
    first = first_clusters(x, nearest_neighbours(x, 5), "kmeans", seed=0)
    assert len(np.unique(first)) == 15
    assert len(np.unique(cluster(x, GDLConfig(n_clusters=3, init="kmeans"), seed=0, device=CPU).labels)) == 3


@pytest.mark.parametrize("graph", ["global", "local"])
def test_shapes_are_told_apart(graph: str) -> None:
    images, truth = shapes(20, size=12)
    (last,) = METHOD.train(images, METHOD.config.from_json({"n_clusters": 4, "graph": graph}), device=CPU, seed=0)
    assert accuracy(last.labels, truth) == 1.0


@pytest.mark.parametrize(
    ("graph", "centre", "expected"),
    [("global", "auto", False), ("local", "auto", True), ("global", True, True), ("local", False, False)],
)
def test_when_pixels_are_centred(graph: Any, centre: Any, expected: bool) -> None:
    assert wants_centred(GDLConfig(n_clusters=2, graph=graph, centre=centre)) is expected


def test_features_of_a_run_stay_as_they_are() -> None:
    assert METHOD.train_on_features is not None
    x = points() + 5
    config = GDLConfig(n_clusters=3, graph="local")
    (last,) = METHOD.train_on_features(x, config, device=CPU, seed=0)
    assert last.result is not None
    np.testing.assert_array_equal(last.result.features, x)
    assert "mean_image" not in last.result.model.arrays


class TestBadInput:
    def run(self, features: F32, k: int, **settings: Any) -> tuple[set[int], tuple[str, ...]]:
        found = cluster(features, GDLConfig(n_clusters=k, **settings), seed=0, device=CPU)
        return set(found.labels.tolist()), found.warnings

    def test_more_clusters_than_starting_clusters(self) -> None:
        labels, warnings = self.run(points(30), 25, absorb=False)
        assert labels == set(range(25))
        assert any("merging began from single images" in warning for warning in warnings)

    def test_fewer_images_than_neighbours(self) -> None:
        labels, warnings = self.run(points(8), 2)
        assert labels == {0, 1}
        assert "There are only 8 images, and 20 neighbours of each" in warnings[0]

    @pytest.mark.parametrize("graph", ["global", "local"])
    def test_duplicates_and_black_images(self, graph: str) -> None:
        x = np.repeat(np.eye(3, dtype=np.float32), 30, axis=0)
        x[:30] = 0
        found = cluster(x, GDLConfig.from_json({"n_clusters": 3, "graph": graph}), seed=0, device=CPU)
        assert accuracy(found.labels, np.repeat(np.arange(3), 30)) == 1.0

    def test_all_images_the_same(self) -> None:
        labels, _ = self.run(np.ones((40, 3), dtype=np.float32), 3)
        assert labels == {0, 1, 2}

    def test_a_graph_in_more_pieces_than_clusters(self) -> None:
        centres = np.repeat(100 * np.eye(5, dtype=np.float32), 10, axis=0)
        x = centres + 0.1 * np.random.default_rng(0).standard_normal(centres.shape).astype(np.float32)
        labels, warnings = self.run(x, 3, K_s=4)
        assert labels == {0, 1, 2}
        assert any("no neighbour relation connects" in warning for warning in warnings)

    @pytest.mark.parametrize(
        ("settings", "text"),
        [
            ({"K_s": 0}, "K_s must be at least 1; got 0"),
            ({"a": 0.0}, "a must be positive; got 0.0"),
            ({"alpha": -1.0}, r"alpha must be above -1; got -1.0. Published values"),
            ({"structure_weight": -0.5}, "structure_weight must be 0 or more"),
            ({"graph": "both"}, "graph must be"),
        ],
    )
    def test_settings(self, settings: dict[str, Any], text: str) -> None:
        with pytest.raises(InvalidInput, match=text):
            GDLConfig(n_clusters=2, **settings)


def test_the_approximate_search_takes_over_above_its_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = []

    def record(features: F32, k: int, *, device: object, exact_limit: int | None, is_shared: bool) -> object:
        assert is_shared
        limits.append(exact_limit)
        return nearest_neighbours(features, k)

    monkeypatch.setattr(gdl, "find_neighbours", record)
    for limit in (0, 1000):
        cluster(points(), GDLConfig(n_clusters=2, exact_search_limit=limit), seed=0, device=CPU)
    assert limits == [None, 1000]
