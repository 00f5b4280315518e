from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import torch
from sklearn.decomposition import non_negative_factorization
from tests.oracles import classic_nmf as oracle

from selfsort.classic import nmf
from selfsort.classic.nmf import DEEP, LOCALITY, DeepSemiNMFConfig, LocalityNMFConfig
from selfsort.data.synthetic import shapes
from selfsort.errors import InvalidInput
from selfsort.metrics import accuracy
from selfsort.types import F32, Method

CPU = torch.device("cpu")


def table(n: int = 30, d: int = 8, seed: int = 0) -> F32:
    return np.random.default_rng(seed).random((n, d)).astype(np.float32)


class TestKLNMF:
    @pytest.mark.parametrize("n_iterations", [1, 20])
    def test_without_graph_it_is_scikit_learns_solver(self, n_iterations: int) -> None:
        x = table(1100)  # more than one block
        start = nmf.kl_nmf(x, 3, 0, seed=5)
        found = nmf.kl_nmf(x, 3, n_iterations, seed=5)
        w, h, _ = non_negative_factorization(
            x.astype(np.float64),
            W=start.v.astype(np.float64),
            H=np.ascontiguousarray(start.u.T.astype(np.float64)),
            n_components=3,
            init="custom",
            solver="mu",
            beta_loss="kullback-leibler",
            max_iter=n_iterations,
            tol=0,
        )
        np.testing.assert_allclose(found.v @ found.u.T, w @ h, rtol=1e-3)
        np.testing.assert_allclose(found.u.sum(axis=0), 1, rtol=1e-5)

    def test_smoothing_solves_the_linear_system(self) -> None:
        laplacian = nmf.neighbour_laplacian(table(), 4, CPU)
        v, start = table(30, 2, seed=1), table(30, 2, seed=2)
        expected = np.linalg.solve(np.eye(30) + 100 * laplacian.toarray(), v.astype(np.float64))
        np.testing.assert_allclose(nmf.smooth(v, 100.0, laplacian, start), expected, rtol=1e-3)
        assert (expected > 0).all()

    def test_laplacian_of_three_points_by_hand(self) -> None:
        # 0 and 1 are each other's nearest; 5's nearest is 1, which makes the edge both ways.
        found = nmf.neighbour_laplacian(np.array([[0], [1], [5]], dtype=np.float32), 1, CPU)
        np.testing.assert_array_equal(found.toarray(), [[1, -1, 0], [-1, 2, -1], [0, -1, 1]])

    def test_the_graph_lowers_the_objective_it_stands_for(self) -> None:
        x = table(24, 6, seed=3)
        laplacian = nmf.neighbour_laplacian(x, 3, CPU)
        graph = -laplacian.toarray()
        np.fill_diagonal(graph, 0)
        plain = nmf.kl_nmf(x, 3, 100, seed=0)
        local = nmf.kl_nmf(x, 3, 100, seed=0, alpha=2.0, laplacian=laplacian)
        scores = [
            oracle.locality_objective(
                x.astype(np.float64), f.v.astype(np.float64) + 1e-9, f.u.astype(np.float64) + 1e-9, graph, 2.0
            )
            for f in (plain, local)
        ]
        assert scores[1] < 0.8 * scores[0]

    def test_a_strong_graph_makes_neighbours_alike(self) -> None:
        x = table(20, 6, seed=4)
        laplacian = nmf.neighbour_laplacian(x, 19, CPU)  # everybody is everybody's neighbour
        v = nmf.kl_nmf(x, 2, 30, seed=0, alpha=1e4, laplacian=laplacian).v
        np.testing.assert_allclose(v, np.broadcast_to(v.mean(axis=0), v.shape), rtol=1e-2)

    def test_sample_weights_by_hand(self) -> None:
        x = np.array([[1, 0], [1, 2]], dtype=np.float32)  # sum (2, 2): products 2 and 6
        np.testing.assert_allclose(nmf.sample_weights(x), [1 / 2, 1 / 6])


class TestSemiNMF:
    def test_update_is_the_formula(self) -> None:
        generator = np.random.default_rng(0)
        x, z = generator.standard_normal((5, 7)), generator.standard_normal((5, 3))
        h = generator.random((3, 7))
        found = nmf.update_h(h.astype(np.float32), (z.T @ x).astype(np.float32), (z.T @ z).astype(np.float32))
        np.testing.assert_allclose(found, oracle.semi_nmf_update(x, z, h), rtol=1e-4, atol=1e-9)

    def test_the_error_never_rises(self) -> None:
        x = np.random.default_rng(1).standard_normal((6, 40)).astype(np.float32)
        errors = [
            float(np.linalg.norm(x - z @ h))
            for z, h in (nmf.semi_nmf(x, 3, n, tolerance=0.0, seed=0) for n in (1, 2, 5, 20, 100))
        ]
        assert all(after <= before * (1 + 1e-5) for before, after in pairwise(errors))
        assert errors[-1] < 0.98 * errors[0]

    def test_tolerance_stops_early(self) -> None:
        x = np.random.default_rng(1).standard_normal((6, 40)).astype(np.float32)
        loose, tight = (nmf.semi_nmf(x, 3, 300, tolerance, seed=0)[1] for tolerance in (1e-2, 0.0))
        assert np.abs(loose - tight).max() > 1e-2

    def test_start_reproduces_a_product_of_parts(self) -> None:
        # Rank one, non-negative: the first singular pair is the whole answer.
        parts, amounts = np.array([[1.0], [2.0]]), np.array([[3.0, 0.0, 4.0]])
        h = nmf.nonnegative_start((parts @ amounts).astype(np.float32), 1, seed=0)
        np.testing.assert_allclose(h[0] / np.linalg.norm(h), [0.6, 0, 0.8], atol=1e-6)

    def test_pseudo_inverse(self) -> None:
        h = table(3, 9)
        np.testing.assert_allclose(nmf.pinv_wide(h), np.linalg.pinv(h), rtol=1e-3, atol=1e-4)


class TestDeep:
    def test_coordinates_in_the_span_keep_all_products(self) -> None:
        x = table(40, 7)
        short = nmf.span_coordinates(x)
        assert short.shape == (7, 7)
        np.testing.assert_allclose(short.T @ short, x.T @ x, rtol=1e-4)
        np.testing.assert_array_equal(nmf.span_coordinates(x.T), x.T)

    def test_two_layers_multiply_back_to_the_images(self) -> None:
        generator = np.random.default_rng(0)
        x = (generator.random((50, 4)) @ generator.standard_normal((4, 12))).astype(np.float32)
        zs, h = nmf.deep_semi_nmf(x, (6, 4), 300, 0.0, seed=0)
        assert [z.shape for z in zs] == [(12, 6), (6, 4)]
        assert h.shape == (4, 50)
        assert (h >= 0).all()
        error = np.linalg.norm(x.T - zs[0] @ zs[1] @ h) / np.linalg.norm(x)
        assert error < 0.15

    def test_tuning_lowers_the_error_of_the_stacked_layers(self) -> None:
        x = np.random.default_rng(2).standard_normal((60, 10)).astype(np.float32)
        values = np.ascontiguousarray(x.T)
        z1, h1 = nmf.semi_nmf(values, 5, 30, 0.0, seed=0)
        z2, h2 = nmf.semi_nmf(h1, 3, 30, 0.0, seed=0)
        stacked = float(np.linalg.norm(values - z1 @ z2 @ h2))
        zs = [z1, z2]
        for _ in range(30):
            h2 = nmf._tune(values, zs, h2)
        assert np.linalg.norm(values - zs[0] @ zs[1] @ h2) < 0.99 * stacked

    def test_more_factors_than_images_are_cut_down_and_said(self) -> None:
        found = nmf.cluster_deep(table(9, 20), DeepSemiNMFConfig(n_clusters=2, n_iterations=3), seed=0, device=CPU)
        assert found.extras["amounts"].shape == (9, 9)
        assert "Layer 1 has 9 factors in place of 160" in found.warnings[0]


@pytest.mark.parametrize("method", [LOCALITY, DEEP], ids=lambda method: method.name)
class TestMethods:
    def test_shapes_are_told_apart(self, method: Method) -> None:
        images, truth = shapes(20, size=12, n_classes=3)
        few = {"layers": (12, 6), "n_iterations": 100} if method is DEEP else {"n_factors": 3}
        (last,) = method.train(images, method.config.from_json({"n_clusters": 3, **few}), device=CPU, seed=0)
        assert accuracy(last.labels, truth) >= 0.95

    def test_zero_rows_and_duplicates_are_harmless(self, method: Method) -> None:
        assert method.train_on_features is not None
        x = np.repeat(np.eye(3, dtype=np.float32), 8, axis=0)
        x[:8] = 0
        (last,) = method.train_on_features(x, method.config(n_clusters=3), device=CPU, seed=0)
        assert accuracy(last.labels, np.repeat(np.arange(3), 8)) == 1.0


def test_graph_regularised_shapes() -> None:
    images, truth = shapes(20, size=12, n_classes=3)
    config = LocalityNMFConfig(n_clusters=3, n_factors=3, alpha=100.0)
    (last,) = LOCALITY.train(images, config, device=CPU, seed=0)
    assert accuracy(last.labels, truth) >= 0.95


def test_negative_features_are_raised_and_that_is_said() -> None:
    generator = np.random.default_rng(0)
    centres = np.eye(3, 8, dtype=np.float32) * 4 - 2
    features = (np.repeat(centres, 20, axis=0) + 0.1 * generator.standard_normal((60, 8))).astype(np.float32)
    config = LocalityNMFConfig(n_clusters=3, n_factors=3)
    found = nmf.cluster_locality(features, config, seed=0, device=CPU)
    assert accuracy(found.labels, np.repeat(np.arange(3), 20)) == 1.0
    (note,) = found.warnings
    assert note == f"The features were raised by {-features.min():.3g}, because nmf-lp takes no negative value."
    raised = nmf.cluster_locality(features - features.min(), config, seed=0, device=CPU)
    np.testing.assert_array_equal(found.labels, raised.labels)
    assert not raised.warnings


def test_settings_are_checked() -> None:
    with pytest.raises(InvalidInput, match="alpha must be 0 or more"):
        LocalityNMFConfig(n_clusters=2, alpha=-1.0)
    with pytest.raises(InvalidInput, match="layers must hold one number of factors or more"):
        DeepSemiNMFConfig(n_clusters=2, layers=())
