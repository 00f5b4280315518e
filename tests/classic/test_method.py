from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest
import torch

from selfsort.classic import gdl, kmeans, leiden, linkage, path
from selfsort.classic import method as fit
from selfsort.classic.method import CentroidModel, Partition, VoteModel, classic_method, pixel_features
from selfsort.config import Config
from selfsort.data.synthetic import shapes
from selfsort.errors import InvalidInput
from selfsort.graph.augmented import augmented_neighbours
from selfsort.metrics import external
from selfsort.runs.model import apply_in_chunks
from selfsort.types import F32, Clustering, Images, Method, State

CPU = torch.device("cpu")


def fitted(method: Method, images: Images, k: int, **settings: object) -> Clustering:
    config = method.config.from_json({"n_clusters": k, **settings})
    (last,) = method.train(images, config, device=CPU, seed=0)
    assert last.result is not None
    return last.result


class TestPixels:
    def test_rows_have_unit_length_and_black_images_stay_zero(self) -> None:
        pixels = np.zeros((3, 1, 2, 1), dtype=np.uint8)
        pixels[1, 0, :, 0] = [3, 4]
        pixels[2] = 255
        half = np.sqrt(0.5)
        expected = np.array([[0, 0], [0.6, 0.8], [half, half]])
        np.testing.assert_allclose(pixel_features(Images(pixels)), expected, rtol=1e-6)

    def test_the_mean_is_subtracted_before_scaling(self) -> None:
        images = Images(np.array([[[[255], [0]]], [[[0], [0]]]], dtype=np.uint8))
        mean = fit.mean_image(images)
        np.testing.assert_allclose(mean, [0.5, 0])
        np.testing.assert_allclose(pixel_features(images, mean), [[1, 0], [-1, 0]])

    def test_blocks_do_not_show(self) -> None:
        n = 2 * fit._BLOCK + 3
        images = Images(np.random.default_rng(0).integers(0, 256, (n, 2, 3, 1), dtype=np.uint8))
        flat = images.pixels.reshape(n, 6).astype(np.float64) / 255
        np.testing.assert_allclose(fit.mean_image(images), flat.mean(axis=0), rtol=1e-6)
        expected = flat / np.linalg.norm(flat, axis=1, keepdims=True)
        np.testing.assert_allclose(pixel_features(images), expected, rtol=1e-5)


class TestCentroidRule:
    def test_predicting_the_training_images_repeats_the_labels_exactly(self) -> None:
        # Noise: many images lie on the border of two clusters, where a rounding decides.
        pixels = np.random.default_rng(0).integers(0, 256, (5000, 4, 4, 1), dtype=np.uint8)
        result = fitted(kmeans.METHOD, Images(pixels), 10, n_restarts=1, max_iterations=3)
        again = apply_in_chunks(CentroidModel(result.model), Images(pixels))
        np.testing.assert_array_equal(again.labels, result.labels)
        np.testing.assert_array_equal(again.soft, result.soft)

    def test_centred_pixels_are_centred_again_for_new_images(self) -> None:
        images, _ = shapes(20, size=12, n_classes=3)
        result = fitted(kmeans.METHOD, images, 3, centre=True)
        again = CentroidModel(result.model).apply(images.subset(slice(4, 9)))
        np.testing.assert_array_equal(again.features, result.features[4:9])
        np.testing.assert_array_equal(again.labels, result.labels[4:9])
        assert not np.allclose(result.features, pixel_features(images))

    def test_soft_assignments_by_hand(self) -> None:
        model = CentroidModel(State({"centroids": np.array([[0.0], [2.0]], dtype=np.float32)}, {"variance": 0.5}))
        # Squared distances 0.25 and 2.25 over twice the variance: the log odds are 2.
        odds = np.exp(2)
        np.testing.assert_allclose(
            model.assign(np.array([[0.5]], dtype=np.float32)), [[odds / (1 + odds), 1 / (1 + odds)]], rtol=1e-6
        )


class TestVoteRule:
    def test_soft_of_the_training_images_is_what_predicting_them_gives(self) -> None:
        images, _ = shapes(20, size=12, n_classes=3)
        result = fitted(gdl.METHOD, images, 3, K_s=7)
        model = VoteModel(result.model, CPU)
        np.testing.assert_allclose(model.apply(images).soft, result.soft, atol=1e-6)
        assert model.n_neighbours == 7

    def test_new_images_are_centred_by_the_mean_of_the_training_images(self) -> None:
        images, _ = shapes(20, size=12, n_classes=3)
        result = fitted(gdl.METHOD, images, 3, graph="local")
        alone = VoteModel(result.model, CPU).apply(images.subset(slice(5, 6)))
        np.testing.assert_allclose(alone.features[0], result.features[5], atol=1e-6)
        np.testing.assert_allclose(alone.features[0].mean(), result.features[5].mean(), atol=1e-6)
        assert abs(float(result.features.mean())) < 0.05 < float(pixel_features(images).mean())

    def test_neighbours_found_by_the_method_are_not_searched_again(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def refuse(*_: object, **__: object) -> None:
            raise AssertionError

        monkeypatch.setattr(fit, "nearest_neighbours", refuse)
        images, _ = shapes(10, size=12, n_classes=2)
        fitted(gdl.METHOD, images, 2)
        with pytest.raises(AssertionError):
            fitted(linkage.METHOD, images, 2)


class TestRefusals:
    @contextmanager
    def refused(self, text: str) -> Iterator[None]:
        with pytest.raises(InvalidInput, match=text):
            yield

    def features(self) -> F32:
        return np.eye(4, dtype=np.float32)

    def run(self, features: F32, k: int = 2) -> None:
        def first_two(features: F32, config: Config, *, seed: int, device: torch.device) -> Partition:
            return Partition(np.arange(len(features)) % 2)

        method = classic_method("toy", "", "", Config, first_two)
        assert method.train_on_features is not None
        list(method.train_on_features(features, Config(n_clusters=k), device=CPU, seed=0))

    def test_good_features_pass(self) -> None:
        self.run(self.features())

    def test_more_clusters_than_images(self) -> None:
        with self.refused(r"n_clusters must be between 2 and the number of images \(4\); got 5. Lower n_clusters"):
            self.run(self.features(), 5)

    def test_not_a_number(self) -> None:
        features = self.features()
        features[1, 1] = np.nan
        with self.refused("features must be finite; got NaN or infinity"):
            self.run(features)

    def test_no_table(self) -> None:
        with self.refused(r"features must be a table of images by values; got shape \(4, 0\)"):
            self.run(self.features()[:, :0])

    def test_features_of_another_width(self) -> None:
        images, _ = shapes(5, size=12, n_classes=2)
        other, _ = shapes(5, size=10, n_classes=2)
        for method in (kmeans.METHOD, gdl.METHOD):
            result = fitted(method, images, 2)
            model = method.restore(method.config(n_clusters=2), result.model, device=CPU)
            with self.refused(
                r"shape \(10, 100\). This model was fitted on rows of 144 values. Give images of the same"
            ):
                model.apply(other)

    @pytest.mark.parametrize("wrong", [np.zeros(3), np.zeros((3, 0)), np.full((3, 2), np.inf), np.zeros((3, 2), int)])
    def test_a_model_changed_by_a_stranger(self, wrong: F32) -> None:
        with pytest.raises(ValueError, match="is no table of finite numbers"):
            CentroidModel(State({"centroids": wrong}, {"variance": 1.0}))
        meta = {"n_clusters": 2, "n_neighbours": 2, "sigma_sq": 1.0}
        with pytest.raises(ValueError, match="is no table of finite numbers"):
            VoteModel(State({"features": wrong, "labels": np.zeros(3, int)}, meta), CPU)

    @pytest.mark.parametrize("labels", [[0, 1, 2], [0, -1, 1], [0, 1], [[0, 1, 1]]])
    def test_labels_changed_by_a_stranger(self, labels: list[int]) -> None:
        meta = {"n_clusters": 2, "n_neighbours": 2, "sigma_sq": 1.0}
        with pytest.raises(ValueError, match="labels do not fit its features"):
            VoteModel(State({"features": np.eye(3), "labels": np.array(labels)}, meta), CPU)


class TestAugmentedNeighbours:
    """What the graph methods do with neighbours=augmented."""

    METHODS = (gdl.METHOD, leiden.METHOD, path.PATH, path.ZETA)

    @staticmethod
    def strokes() -> tuple[Images, list[int]]:
        """Two slants of a stroke, each anywhere in a range of two pixels."""
        pixels = np.zeros((36, 12, 12, 1), np.uint8)
        classes = []
        for i in range(36):
            x, y = i // 2 % 3, i // 6 % 3
            for step in range(6):
                pixels[i, 2 + y + step, (2 + x + step) if i % 2 else (7 + x - step)] = 255 - 10 * (i // 18)
            classes.append(i % 2)
        return Images(pixels), classes

    @pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
    def test_shifted_strokes_come_together(self, method: Method) -> None:
        images, classes = self.strokes()
        result = fitted(method, images, 2, K_s=6, neighbours="augmented", views="mild")
        assert external.scores(result.labels, np.array(classes))["acc"] == 1
        assert result.soft.shape == (36, 2)

    @pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
    def test_the_search_is_the_one_that_was_asked_for(self, method: Method, monkeypatch: pytest.MonkeyPatch) -> None:
        asked: list[object] = []

        def search(*arguments: object, **options: object) -> object:
            asked.append(options["strength"])
            return augmented_neighbours(*arguments, **options)  # type: ignore[arg-type]

        monkeypatch.setattr(fit, "augmented_neighbours", search)
        images, _ = self.strokes()
        fitted(method, images, 2)
        assert not asked
        fitted(method, images, 2, neighbours="augmented", views="strong")
        assert asked == ["strong"]

    def test_the_local_graph_subtracts_the_mean_from_views_too(self) -> None:
        images, classes = self.strokes()
        result = fitted(gdl.METHOD, images, 2, K_s=6, neighbours="augmented", graph="local")
        assert external.scores(result.labels, np.array(classes))["acc"] == 1

    @pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
    def test_features_are_refused(self, method: Method) -> None:
        config = method.config.from_json({"n_clusters": 2, "neighbours": "augmented"})
        assert method.train_on_features is not None
        with pytest.raises(InvalidInput, match=r"neighbours must be plain for the features of an encoder"):
            list(method.train_on_features(np.eye(9, dtype=np.float32), config, device=CPU, seed=0))
