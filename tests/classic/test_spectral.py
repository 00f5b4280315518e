from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.sparse import csr_matrix
from tests.oracles import classic_spectral as oracle

from selfsort.classic import spectral
from selfsort.classic.spectral import LANDMARK, NCUTS, NJW, SELF_TUNING
from selfsort.data.synthetic import shapes
from selfsort.errors import InvalidInput
from selfsort.graph.knn import nearest_neighbours
from selfsort.metrics import accuracy
from selfsort.types import F32, I64, Method

CPU = torch.device("cpu")
METHODS = (NJW, SELF_TUNING, LANDMARK, NCUTS)
every_method = pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)


def points(n: int = 30, d: int = 4, seed: int = 0) -> F32:
    return np.random.default_rng(seed).standard_normal((n, d)).astype(np.float32)


def run(method: Method, features: F32, k: int, **settings: object) -> I64:
    assert method.train_on_features is not None
    config = method.config.from_json({"n_clusters": k, **settings})
    (last,) = method.train_on_features(features, config, device=CPU, seed=3)
    return last.labels


class TestAffinities:
    def test_distances(self) -> None:
        x = points(1030)  # more than one block
        found = spectral.squared_distances(x)
        some = np.arange(0, 1030, 50)
        np.testing.assert_allclose(found[np.ix_(some, some)], oracle.squared_distances(x[some]), rtol=1e-4, atol=1e-4)
        np.testing.assert_array_equal(found, found.T)
        assert not found.diagonal().any()

    def test_njw_by_hand(self) -> None:
        # Distances 0 1 / 1 0 squared: the mean over all four pairs is 1/2.
        sq_dist = np.array([[0, 1], [1, 0]], dtype=np.float32)
        expected = [[1, np.exp(-1 / 0.25)], [np.exp(-1 / 0.25), 1]]
        np.testing.assert_allclose(spectral.njw_affinity(sq_dist.copy(), 0.5), expected, rtol=1e-6)
        assert not spectral.njw_affinity(sq_dist.copy(), 0.5, keep_diagonal=False).diagonal().any()

    def test_self_tuning(self) -> None:
        sq_dist = spectral.squared_distances(points())
        expected = oracle.self_tuning(sq_dist.astype(np.float64), 7)
        np.testing.assert_allclose(spectral.self_tuning_affinity(sq_dist, 7), expected, rtol=1e-4, atol=1e-7)

    def test_self_tuning_with_fewer_images_than_its_neighbour(self) -> None:
        sq_dist = spectral.squared_distances(points(5))
        expected = oracle.self_tuning(sq_dist.astype(np.float64), 4)
        np.testing.assert_allclose(spectral.self_tuning_affinity(sq_dist, 75), expected, rtol=1e-4, atol=1e-7)

    def test_ncuts_by_hand(self) -> None:
        sq_dist = np.array([[0, 1, 4], [1, 0, 1], [4, 1, 0]], dtype=np.float32)
        squared = spectral.ncuts_affinity(sq_dist.copy(), 0.5, 1e-6)
        np.testing.assert_allclose(squared[0], [1, np.exp(-((1 / 2) ** 2)), np.exp(-((4 / 2) ** 2))], rtol=1e-5)
        plain = spectral.ncuts_affinity(sq_dist.copy(), 0.5, 0.1, is_squared=False)
        np.testing.assert_allclose(plain[0], [1, np.exp(-1), 0], rtol=1e-5)  # exp(-4) is below the threshold

    def test_normalising(self) -> None:
        affinity = np.array([[1, 3], [3, 0]], dtype=np.float32)
        factors = spectral.normalise(affinity)
        np.testing.assert_allclose(affinity, [[1 / 4, 3 / np.sqrt(12)], [3 / np.sqrt(12), 0]], rtol=1e-6)
        np.testing.assert_allclose(factors, [1 / 2, 1 / np.sqrt(3)])

    def test_normalising_with_regularisation(self) -> None:
        affinity = np.array([[1, 1], [1, 1]], dtype=np.float32)
        spectral.normalise(affinity, 0.5)  # diagonal 1.5, degrees 1.5 + 1 + 0.5
        np.testing.assert_allclose(affinity, [[0.5, 1 / 3], [1 / 3, 0.5]], rtol=1e-6)

    def test_an_image_without_neighbours_gets_a_zero_row(self) -> None:
        affinity = np.zeros((2, 2), dtype=np.float32)
        affinity[0, 0] = 1
        np.testing.assert_array_equal(spectral.normalise(affinity), [1, 0])
        np.testing.assert_array_equal(affinity, [[1, 0], [0, 0]])


class TestEigenvectors:
    @pytest.mark.parametrize("density", [1.0, 0.02])  # below a tenth the product is sparse
    def test_lanczos_agrees_with_the_full_solver(self, density: float, monkeypatch: pytest.MonkeyPatch) -> None:
        generator = np.random.default_rng(0)
        half = generator.random((300, 300)) * (generator.random((300, 300)) < density)
        matrix = np.asarray(half + half.T + np.diag(np.arange(300) / 10), dtype=np.float32)
        full = spectral.top_eigenvectors(matrix, 5, seed=0)
        monkeypatch.setattr(spectral, "_MAX_FULL_EIGEN", 10)
        again = spectral.top_eigenvectors(matrix, 5, seed=0)
        np.testing.assert_allclose(again, full, atol=1e-3)
        values = np.einsum("nk,nm,mk->k", full, matrix.astype(np.float64), full)
        assert (np.diff(values) < 0).all()
        assert (full[np.abs(full).argmax(axis=0), np.arange(5)] > 0).all()

    def test_what_does_not_converge_is_solved_in_full(self, monkeypatch: pytest.MonkeyPatch) -> None:
        half = np.random.default_rng(0).random((300, 300)).astype(np.float32)
        matrix = half + half.T
        full = spectral.top_eigenvectors(matrix, 12, seed=0)
        monkeypatch.setattr(spectral, "_MAX_FULL_EIGEN", 10)
        monkeypatch.setattr(spectral, "_MAX_RESTARTS", 1)
        assert spectral._lanczos(matrix, 12, seed=0) is None
        np.testing.assert_allclose(spectral.top_eigenvectors(matrix, 12, seed=0), full, atol=1e-3)

    def test_repeated_eigenvalues_are_all_found(self) -> None:
        blocks = np.kron(np.eye(3), np.ones((4, 4))).astype(np.float32)  # three components: eigenvalue 4 three times
        vectors = spectral.top_eigenvectors(blocks, 3, seed=0)
        np.testing.assert_allclose(blocks @ vectors, 4 * vectors, atol=1e-5)

    def test_unit_rows_of_tiny_numbers(self) -> None:
        rows = np.array([[3e-170, 4e-170], [0, 0], [3, 4]])
        expected = np.array([[0.6, 0.8], [0, 0], [0.6, 0.8]])
        np.testing.assert_allclose(spectral.unit_rows64(rows), expected)


class TestLandmarks:
    def test_weights_are_those_of_the_script(self) -> None:
        x, landmarks = points(40), points(9, seed=1)
        found = spectral.landmark_weights(x, landmarks, 3).toarray()
        np.testing.assert_allclose(found, oracle.landmark_weights(x, landmarks, 3), rtol=1e-4, atol=1e-7)

    def test_vectors_are_left_singular_vectors_without_the_first(self) -> None:
        weights = oracle.landmark_weights(points(40), points(9, seed=1), 3)
        scaled = weights / np.sqrt(weights.sum(axis=0))
        left, _, _ = np.linalg.svd(scaled, full_matrices=False)
        found = spectral.landmark_vectors(csr_matrix(weights), 4)
        np.testing.assert_allclose(np.abs(found), np.abs(left[:, 1:5]), atol=1e-6)

    def test_landmarks_nobody_is_near_are_left_out(self) -> None:
        weights = np.eye(4)[[0, 1, 2, 0, 1, 2]]
        found = spectral.landmark_vectors(csr_matrix(weights), 3)
        assert found.shape == (6, 2)
        assert np.isfinite(found).all()

    def test_more_clusters_than_landmarks_are_refused(self) -> None:
        with pytest.raises(InvalidInput, match=r"n_landmarks must be larger than n_clusters \(9\); got 8"):
            spectral.LandmarkConfig(n_clusters=9, n_landmarks=8)


def test_discretising_finds_the_rotation() -> None:
    generator = np.random.default_rng(0)
    truth = generator.permutation(np.repeat(np.arange(3), 10))
    rotation, _ = np.linalg.qr(generator.standard_normal((3, 3)))
    noisy = np.eye(3)[truth] @ rotation + generator.normal(0, 0.05, (30, 3))
    assert accuracy(spectral.discretise(noisy, seed=0), truth) == 1.0


@every_method
class TestMethods:
    def test_shapes_are_told_apart(self, method: Method) -> None:
        images, truth = shapes(20, size=12, n_classes=3)
        # The published widths are far too narrow for so few images.
        wide = {"scale": 0.5} if method in (NJW, NCUTS) else {}
        config = method.config.from_json({"n_clusters": 3, **wide})
        (last,) = method.train(images, config, device=CPU, seed=0)
        assert accuracy(last.labels, truth) >= 0.95

    def test_same_seed_same_labels(self, method: Method) -> None:
        x = np.abs(points(60))
        np.testing.assert_array_equal(run(method, x, 4), run(method, x, 4))

    def test_duplicates_and_zero_rows_are_harmless(self, method: Method) -> None:
        x = np.repeat(np.eye(3, dtype=np.float32), 10, axis=0)
        x[:10] = 0
        labels = run(method, x, 3)
        assert accuracy(labels, np.repeat(np.arange(3), 10)) == 1.0

    def test_all_images_the_same(self, method: Method) -> None:
        assert run(method, np.ones((12, 3), dtype=np.float32), 3).max() < 3

    def test_far_apart_images_are_harmless(self, method: Method) -> None:
        assert len(run(method, np.eye(12, dtype=np.float32) * 100, 3)) == 12  # no two of them have an affinity

    def test_as_many_clusters_as_images(self, method: Method) -> None:
        assert len(run(method, points(5), 5)) == 5


sparse_methods = pytest.mark.parametrize("method", [NJW, SELF_TUNING, NCUTS], ids=lambda method: method.name)


def three_groups(n_each: int = 40) -> tuple[F32, I64]:
    truth = np.repeat(np.arange(3), n_each)
    spread = 0.4 * np.random.default_rng(2).standard_normal((3 * n_each, 3))
    return (np.eye(3)[truth] * 3 + spread).astype(np.float32), truth


class TestManyImages:
    """Above max_images affinities are those to the nearest neighbours."""

    @sparse_methods
    def test_no_array_of_images_by_images_is_made(self, method: Method, monkeypatch: pytest.MonkeyPatch) -> None:
        def refuse(features: F32) -> F32:
            raise AssertionError("that would be dense")

        monkeypatch.setattr(spectral, "squared_distances", refuse)
        x, truth = three_groups()
        wide = {} if method is SELF_TUNING else {"scale": 0.5}
        more = {"scale_neighbour": 7} if method is SELF_TUNING else {}
        labels = run(method, x, 3, max_images=10, n_sparse=20, **wide, **more)
        assert accuracy(labels, truth) >= 0.95

    @sparse_methods
    def test_with_all_neighbours_it_is_the_dense_method(self, method: Method) -> None:
        x, _ = three_groups()
        more = {"scale_neighbour": 20} if method is SELF_TUNING else {"scale": 0.5}
        dense, sparse = (run(method, x, 3, max_images=limit, n_sparse=119, **more) for limit in (200, 10))
        assert accuracy(sparse, dense) == 1.0

    def test_scales_are_those_of_all_pairs(self) -> None:
        x = points(1100, d=6)
        sq_dist = spectral.squared_distances(x)
        assert spectral.mean_squared_distance(x) == pytest.approx(float(sq_dist.mean(dtype=np.float64)), rel=1e-5)
        assert spectral.largest_squared_distance(x) == pytest.approx(float(sq_dist.max()), rel=1e-5)

    def test_weights_are_those_of_the_dense_arrays(self) -> None:
        x = points(60)
        near = nearest_neighbours(x, 59)
        scale = np.sqrt(near.sq_dist[:, 6].astype(np.float64))
        weights = np.exp(-near.sq_dist / (scale[:, None] * scale[near.idx]))
        dense = spectral.self_tuning_affinity(spectral.squared_distances(x), 7)
        np.testing.assert_allclose(spectral.symmetric(near, weights).toarray(), dense, rtol=1e-4, atol=1e-6)

    def test_too_few_neighbours_for_the_scale_are_refused(self) -> None:
        with pytest.raises(InvalidInput, match=r"n_sparse must reach scale_neighbour \(75\); got 20"):
            run(SELF_TUNING, points(11), 2, n_sparse=20)
