"""What merging may do for speed, and what must stay the same to the bit while it does."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
from scipy.sparse import csr_array
from tests.graph.graphs import random_graph

from selfsort.graph._kernels import merging, tables
from selfsort.graph._kernels.agglomerate import run, start
from selfsort.graph.affinity import digraph
from selfsort.graph.agglomerate import Agglomeration, agglomerate, nearest_neighbour_components
from selfsort.graph.knn import nearest_neighbours
from selfsort.types import F32, I64

RULE = tables.MergeRule(tables.EXACT, 0.0, 0.0, 1)


def crowd(seed: int) -> F32:
    """Draw a large group, small ones around it, and copies of some of them: wide frontiers, and many ties."""
    draw = np.random.default_rng(seed)
    middle = draw.normal(size=(500, 3))
    around = 4 * draw.normal(size=(40, 1, 3)) + 0.1 * draw.normal(size=(40, 8, 3))
    rows = np.concatenate([middle, around.reshape(-1, 3), around[:10].reshape(-1, 3), middle[:50]])
    return rows[draw.permutation(len(rows))].astype(np.float32)


def merged(rows: F32, n_clusters: int = 3) -> Agglomeration:
    near = nearest_neighbours(rows, 12)
    return agglomerate(digraph(near), nearest_neighbour_components(near), n_clusters, features=rows)


def assert_same(one: Agglomeration, two: Agglomeration) -> None:
    np.testing.assert_array_equal(one.tree.merges, two.tree.merges)
    np.testing.assert_array_equal(one.tree.affinity, two.tree.affinity)
    np.testing.assert_array_equal(one.tree.reasons, two.tree.reasons)
    np.testing.assert_array_equal(one.labels, two.labels)


@pytest.mark.parametrize("seed", range(3))
def test_no_answer_depends_on_where_clusters_lie_in_the_tables(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = crowd(seed)
    near = merged(rows)

    def anywhere(graph: csr_array) -> I64:
        return np.random.default_rng(seed).permutation(graph.shape[0])

    for order in (anywhere, lambda graph: np.arange(graph.shape[0]), lambda graph: np.arange(graph.shape[0])[::-1]):
        monkeypatch.setattr(merging, "near_order", order)
        assert_same(merged(rows), near)


@pytest.mark.parametrize("seed", range(40))
def test_a_graph_in_shuffled_order_merges_the_same_clusters(seed: int) -> None:
    # Eighths: all sums are exact, so that only ties, which are many, could tell the orders apart.
    weights, labels, features = random_graph(seed, is_dyadic=True)
    features = np.round(8 * features) / 8
    shuffled = np.random.default_rng(seed).permutation(len(labels))
    plain = agglomerate(csr_array(weights), labels, 1, absorb=False, features=features)
    mixed = agglomerate(
        csr_array(weights[np.ix_(shuffled, shuffled)]), labels[shuffled], 1, absorb=False, features=features[shuffled]
    )
    np.testing.assert_array_equal(mixed.tree.merges, plain.tree.merges)
    np.testing.assert_array_equal(mixed.tree.affinity, plain.tree.affinity)
    np.testing.assert_array_equal(mixed.labels, plain.labels[shuffled])


def thirds(n_items: int) -> csr_array:
    """Make a graph of thirds, by no generator: sums are rounded, so their order can be told, and ties are many."""
    i, j = np.indices((n_items, n_items))
    is_arc = (i != j) & (((i - j) ** 2 % 23 == 1) | ((i + 2 * j) % 29 == 0))
    return csr_array(np.where(is_arc, (37 * i + 61 * j) % 11 / 3, 0.0))


def test_floats_are_added_in_the_order_they_always_were() -> None:
    digest = hashlib.sha256()
    for n_items, n_start in ((30, 30), (60, 25), (120, 120), (700, 150)):
        found = agglomerate(thirds(n_items), np.arange(n_items) * 7 % n_start, 1, features=np.zeros((n_items, 1)))
        digest.update(found.tree.merges.tobytes() + found.tree.affinity.tobytes())
    assert digest.hexdigest()[:16] == "0bef5fc2e0616346"  # of the merges when frontiers came from sparse products


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("n_wide", [0, 1])
def test_looking_up_a_wide_frontier_is_the_same_as_walking_it(
    seed: int, n_wide: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = crowd(seed)
    with_many = merged(rows)
    monkeypatch.setattr(tables, "N_WIDE", n_wide)
    assert_same(merged(rows), with_many)


def test_wide_frontiers_get_an_index_and_give_it_back() -> None:
    near = nearest_neighbours(crowd(0), 12)
    state, _ = merging._first_state(digraph(near), nearest_neighbour_components(near), RULE)
    start(state, RULE)
    seen: set[int] = set()
    while run(state, RULE, int(state.counts[tables.N_LIVE]) - 1, -1, -1) == tables.DONE:
        holders = state.wide[state.wide != -1]
        seen.update(holders.tolist())
        assert set(holders.tolist()) <= set(state.names["handle"].tolist()), "a cluster that is gone holds none"
        for row in np.flatnonzero(state.wide == -1):
            assert (state.places[row] == -1).all()
        for handle in holders:
            row = state.places[state.clusters["index"][handle]]
            outside = np.flatnonzero((row != -1) & (state.items["label"] != handle))
            np.testing.assert_array_equal(state.front["item"][row[outside]], outside)
    assert len(seen) > tables.N_WIDE, "rows are handed on"


@pytest.mark.parametrize("seed", range(6))
def test_first_frontiers_are_sums_over_the_members(seed: int) -> None:
    weights, labels, _ = random_graph(seed, is_dyadic=False)
    state, place = merging._first_state(csr_array(weights), labels, RULE)
    item_at = np.argsort(place)
    for handle, cluster in enumerate(state.clusters):
        inside = labels == cluster["name"]
        entries = state.front[state.chunks["begin"][handle] : state.chunks["end"][handle]]
        arriving, leaving = np.zeros(len(labels)), np.zeros(len(labels))
        arriving[item_at[entries["item"]]], leaving[item_at[entries["item"]]] = entries["arriving"], entries["leaving"]
        assert len(np.unique(entries["item"])) == len(entries) == cluster["n_front"]
        np.testing.assert_allclose(arriving, np.where(inside, 0, weights[inside].sum(axis=0)), rtol=1e-14)
        np.testing.assert_allclose(leaving, np.where(inside, 0, weights[:, inside].sum(axis=1)), rtol=1e-14)
        assert (entries["arriving"] + entries["leaving"] > 0).all()


def test_tables_that_begin_too_small_grow(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = crowd(1)
    plain = merged(rows)
    monkeypatch.setattr(merging, "_HALVES_EACH", 1)
    assert_same(merged(rows), plain)
