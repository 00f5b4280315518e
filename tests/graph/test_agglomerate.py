from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array
from tests.graph.graphs import graph_of, names_of, random_graph
from tests.oracles import graph_agglomerate as oracle

from selfsort.errors import InvalidInput
from selfsort.graph.agglomerate import (
    Update,
    agglomerate,
    nearest_neighbour_components,
)
from selfsort.graph.neighbours import Neighbours
from selfsort.graph.tree import BY_AFFINITY, BY_ISOLATION

Modes = list[tuple[Update, float, float, int]]
MODES: Modes = [
    ("exact", 0.0, 0.0, 5),
    ("exact", 0.0, 1.0, 5),
    ("exact", 0.0, 0.5, 2),
    ("exact", 0.0, 2.0, 1),
    ("approx_size", 0.0, 0.0, 5),
    ("approx_size", 0.0, 1.0, 5),
    ("approx_alpha", 0.0, 0.0, 5),
    ("approx_alpha", -0.25, 0.0, 5),
    ("approx_alpha", 0.5, 1.0, 3),
]


def test_two_pairs_by_hand() -> None:
    # 0 <-> 1 strongly, 2 <-> 3 less so, and a weak bridge 1 <-> 2.
    arcs = {(0, 1): 1.0, (1, 0): 1.0, (2, 3): 0.5, (3, 2): 0.5, (1, 2): 0.25, (2, 1): 0.25}
    done = agglomerate(graph_of(4, arcs), np.arange(4), 1, absorb=False)
    assert done.cut.merges.tolist() == [[0, 1], [2, 3], [4, 5]]
    # Single items: w_ij w_ji both ways. The two pairs: one item on each side passes 1/16, over 2 squared, both ways.
    assert done.cut.affinity.tolist() == [2.0, 0.5, 2 * (1 / 16) / 4]
    assert done.cut.sizes[done.n_start :].tolist() == [2, 2, 4]


def test_cross_terms_connect_what_was_not_connected() -> None:
    # Weight arrives at 2 from 0 and leaves it to 1: no affinity with either alone, only with both together.
    arcs = {(0, 1): 1.0, (1, 0): 1.0, (0, 2): 0.5, (2, 1): 0.5}
    done = agglomerate(graph_of(3, arcs), np.arange(3), 1, absorb=False)
    assert done.cut.merges.tolist() == [[0, 1], [3, 2]]
    assert done.cut.affinity.tolist() == [2.0, 0.5 * 0.5 / 4]


def test_cross_terms_are_dropped_by_approximations() -> None:
    arcs = {(0, 1): 1.0, (1, 0): 1.0, (0, 2): 0.5, (2, 1): 0.5}
    features = np.zeros((3, 1))
    done = agglomerate(
        graph_of(3, arcs), np.arange(3), 1, update="approx_alpha", alpha=0.5, absorb=False, features=features
    )
    assert done.cut.reasons.tolist() == [BY_AFFINITY, BY_ISOLATION]


def test_structure_term_prefers_the_clear_choice() -> None:
    # 0-1 has the largest affinity, but 0 and 1 hesitate between each other and 2; 3-4 have nobody else.
    arcs = {}
    for i, j, weight in [(0, 1, 1.0), (0, 2, 0.95), (1, 2, 0.95), (3, 4, 0.9)]:
        arcs[i, j] = arcs[j, i] = weight
    plain = agglomerate(graph_of(5, arcs), np.arange(5), 4, absorb=False)
    structured = agglomerate(graph_of(5, arcs), np.arange(5), 4, structure_weight=1.0, n_structure=2, absorb=False)
    assert plain.cut.merges.tolist() == [[0, 1]]
    assert structured.cut.merges.tolist() == [[3, 4]]


def test_ties_go_to_the_lowest_pair() -> None:
    arcs = {(i, j): 1.0 for i in range(4) for j in range(4) if i != j}
    done = agglomerate(graph_of(4, arcs), np.arange(4), 3, absorb=False)
    assert done.cut.merges.tolist() == [[0, 1]]


@pytest.mark.parametrize("mode", MODES, ids=str)
def test_equals_the_oracle_on_random_graphs(mode: tuple[Update, float, float, int]) -> None:
    update, alpha, structure_weight, n_structure = mode
    n_isolated = 0
    for seed in range(120):
        # A size-proportional update divides by sizes, so only the other updates can be compared on exact ties.
        weights, labels, features = random_graph(seed, is_dyadic=seed % 2 == 0 and update != "approx_size")
        n_clusters = 1 + seed % 3
        expected = oracle.agglomerate(
            weights,
            labels,
            min(n_clusters, labels.max() + 1),
            update=update,
            alpha=alpha,
            structure_weight=structure_weight,
            n_structure=n_structure,
            features=features,
        )
        done = agglomerate(
            csr_array(weights),
            labels,
            min(n_clusters, labels.max() + 1),
            update=update,
            alpha=alpha,
            structure_weight=structure_weight,
            n_structure=n_structure,
            absorb=False,
            features=features,
        )
        assert names_of(done) == [(low, high) for low, high, _ in expected.merges], f"seed {seed}"
        np.testing.assert_allclose(done.cut.affinity, [a for _, _, a in expected.merges], rtol=1e-11, atol=1e-300)
        assert np.flatnonzero(done.cut.reasons == BY_ISOLATION).tolist() == expected.isolated
        np.testing.assert_array_equal(done.labels, expected.labels)
        n_isolated += done.n_isolated
    assert n_isolated > 0


def test_equals_the_oracle_on_a_larger_graph_that_outgrows_its_tables() -> None:
    draw = np.random.default_rng(0)
    n_items = 90
    points = draw.random((n_items, 2))
    sq_dist = ((points[:, None] - points[None]) ** 2).sum(axis=2)
    np.fill_diagonal(sq_dist, np.inf)
    weights = np.where(sq_dist <= np.sort(sq_dist, axis=1)[:, 7:8], np.exp(-sq_dist * 50), 0.0)
    expected = oracle.agglomerate(weights, np.arange(n_items), 1, features=points)
    done = agglomerate(csr_array(weights), np.arange(n_items), 1, absorb=False, features=points)
    assert names_of(done) == [(low, high) for low, high, _ in expected.merges]


def test_stopping_early_and_going_on_is_the_same_as_not_stopping() -> None:
    for seed in range(20):
        weights, labels, features = random_graph(seed, is_dyadic=True)
        if labels.max() + 1 < 5:
            continue
        graph = csr_array(weights)
        stop = agglomerate(graph, labels, 4, absorb=False, features=features)
        resumed = agglomerate(graph, stop.labels, 2, absorb=False, features=features)
        through = agglomerate(graph, labels, 2, absorb=False, features=features)
        np.testing.assert_array_equal(resumed.labels, through.labels)
        assert resumed.cut.affinity.tolist() == through.cut.affinity[-2:].tolist()


@settings(derandomize=True, max_examples=30, deadline=None)
@given(seed=st.integers(0, 10**6), n_clusters=st.integers(1, 5))
def test_properties(seed: int, n_clusters: int) -> None:
    weights, labels, features = random_graph(seed, is_dyadic=False)
    before = labels.copy()
    done = agglomerate(csr_array(weights), labels, min(n_clusters, len(labels)), absorb=False, features=features)
    assert done.n_start - len(done.cut.merges) == done.n_clusters == min(n_clusters, len(labels))
    assert sorted(np.unique(done.labels)) == list(range(done.n_clusters))
    np.testing.assert_array_equal(labels, before)
    # Merging never separates what began together.
    if not done.is_split_start:
        for name in np.unique(labels):
            assert len(np.unique(done.labels[labels == name])) == 1
    # The names of the start labels, and the order of items within them, mean nothing.
    renamed = agglomerate(csr_array(weights), labels * 7 + 3, done.n_clusters, absorb=False, features=features)
    np.testing.assert_array_equal(renamed.labels, done.labels)


@settings(derandomize=True, max_examples=20, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_permuting_items_permutes_labels(seed: int) -> None:
    weights, _, features = random_graph(3 * seed + 1, is_dyadic=False)  # no hub, so no ties
    n_items = len(weights)
    order = np.random.default_rng(seed).permutation(n_items)
    plain = agglomerate(csr_array(weights), np.arange(n_items), 2, absorb=False, features=features)
    if plain.n_isolated:  # the smallest cluster is then picked by size, where ties are common
        return
    moved = agglomerate(
        csr_array(weights[np.ix_(order, order)]), np.arange(n_items), 2, absorb=False, features=features[order]
    )
    same = plain.labels[order][:, None] == plain.labels[order][None]
    np.testing.assert_array_equal(moved.labels[:, None] == moved.labels[None], same)


def test_affinity_is_additive_in_the_source() -> None:
    weights, _, _ = random_graph(7, is_dyadic=True)
    m, n, q = [0, 1], [2, 3, 4], [5, 6]
    both = oracle.directed_affinity(weights, m + n, q)
    assert both == oracle.directed_affinity(weights, m, q) + oracle.directed_affinity(weights, n, q)


def test_more_clusters_than_starts_begins_from_single_items() -> None:
    arcs = {(0, 1): 1.0, (1, 0): 1.0, (2, 3): 0.5, (3, 2): 0.5}
    done = agglomerate(graph_of(4, arcs), np.zeros(4, dtype=np.int64), 3, absorb=False)
    assert done.is_split_start
    assert done.labels.tolist() == [0, 0, 1, 2]
    assert "single images" in done.warnings[0]


def test_pieces_without_affinity_are_joined_by_centroid_smallest_first() -> None:
    arcs = {(i, j): 1.0 for i in range(3) for j in range(3) if i != j} | {(3, 4): 1.0, (4, 3): 1.0}
    features = np.array([[0.0], [0.0], [0.0], [9.0], [9.0], [1.0]])
    done = agglomerate(graph_of(6, arcs), np.array([0, 0, 0, 1, 1, 2]), 2, absorb=False, features=features)
    assert done.labels.tolist() == [0, 0, 0, 1, 1, 0]
    assert done.n_isolated == 1
    assert done.cut.affinity.tolist() == [0.0]
    assert "no neighbour relation" in done.warnings[0]


def test_no_features_for_components_without_affinity_is_an_error() -> None:
    with pytest.raises(InvalidInput, match="features must be given when the graph has more connected components"):
        agglomerate(graph_of(3, {}), np.arange(3), 2, absorb=False)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n_clusters": 0}, "n_clusters must be between 1 and the number of images"),
        ({"n_clusters": 5}, "n_clusters must be between 1 and the number of images"),
        ({"alpha": -1.0}, "alpha must be above -1"),
        ({"structure_weight": -1.0}, "structure_weight must be at least 0"),
        ({"n_structure": 0}, "n_structure must be at least 1"),
        ({"update": "fast"}, "update must be one of exact"),
        ({"start_labels": np.arange(3)}, "weights must be a square graph"),
        ({"absorb": True}, "features must be given to absorb"),
        ({"features": np.zeros((3, 1))}, "features must be a table of 4 rows"),
        ({"weights": graph_of(4, {(0, 1): -1.0})}, "weights must be finite and not negative"),
    ],
)
def test_bad_input(change: dict[str, object], message: str) -> None:
    arguments = {"weights": graph_of(4, {}), "start_labels": np.arange(4), "n_clusters": 2, "absorb": False} | change
    with pytest.raises(InvalidInput, match=message):
        agglomerate(**arguments)


def test_nearest_neighbour_components() -> None:
    idx = np.array([[2], [3], [0], [1], [3], [2]])
    pieces = nearest_neighbour_components(Neighbours(idx, np.zeros((6, 1), dtype=np.float32)))
    assert pieces.tolist() == [0, 1, 0, 1, 1, 0]
    assert pieces.dtype == np.int64


def test_single_items_are_their_own_components() -> None:
    nothing = Neighbours(np.zeros((1, 0), dtype=np.int64), np.zeros((1, 0), dtype=np.float32))
    assert nearest_neighbour_components(nothing).tolist() == [0]
