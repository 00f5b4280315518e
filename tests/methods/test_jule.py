from __future__ import annotations

import re
import runpy
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.oracles import triplets as oracle
from torch import Tensor

from selfsort.classic import gdl
from selfsort.classic.method import pixel_features
from selfsort.config import describe
from selfsort.data.synthetic import shapes
from selfsort.errors import InvalidInput
from selfsort.methods import jule
from selfsort.methods.jule import (
    METHOD,
    JULEConfig,
    Triplets,
    View,
    first_clusters,
    learning_rate,
    merge,
    merge_safely,
    mine_triplets,
    nearest_triplets,
    plan_periods,
    restore,
    train,
    triplet_loss,
    unfolding_rate,
    view_of,
)
from selfsort.methods.recipes import recipes_of
from selfsort.metrics.external import accuracy
from selfsort.types import I64, Clustering, Encoded, Images, Snapshot, State

CPU = torch.device("cpu")
QUICK = JULEConfig(n_clusters=4, epochs=2, batch_size=20, K_s=10, eta=0.5)


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def mined(labels: list[int], n_neg: int = 20, seed: int = 0) -> Triplets:
    found = mine_triplets(torch.tensor(labels), n_neg, generator(seed))
    assert found is not None
    return found


def snapshots(images: Images, config: JULEConfig, resume: State | None = None, seed: int = 0) -> Iterator[Snapshot]:
    return train(images, config, device=CPU, seed=seed, resume=resume)


def result_of(images: Images, config: JULEConfig, seed: int = 0) -> Clustering:
    *_, last = snapshots(images, config, seed=seed)
    assert last.result is not None
    return last.result


@pytest.fixture(scope="module")
def pictures() -> Images:
    return shapes(15, size=16, seed=0)[0]


class TestSettings:
    def test_defaults_are_the_published_ones(self) -> None:
        config = JULEConfig(n_clusters=10)
        published = {"K_s": 20, "a": 1.0, "K_c": 5, "lambda_": 1.0, "n_neg": 20}
        training = {"epochs": 20, "batch_size": 100, "lr": 0.01, "momentum": 0.9, "weight_decay": 5e-5}
        assert {**published, **training}.items() <= config.to_json().items()

    @pytest.mark.parametrize(
        ("wrong", "message"),
        [
            ({"eta": 1.0}, r"eta must be between 0 and 1; got 1.0"),
            ({"batch_size": 2}, r"batch_size must be at least 3"),
            ({"K_s": 0}, r"K_s must be at least 1; got 0"),
            ({"gamma": 0.0}, r"gamma must be positive"),
            ({"lr": float("nan")}, r"lr must be .*finite.* got nan"),
            ({"alpha": -1.0}, r"alpha must be above -1"),
            ({"momentum": 1.0}, r"momentum must be at least 0 and below 1"),
            ({"update": "quick"}, r"update must be exact or approx_size or approx_alpha; got 'quick'"),
        ],
    )
    def test_bad_values_are_refused(self, wrong: dict[str, Any], message: str) -> None:
        with pytest.raises(InvalidInput, match=message):
            JULEConfig(n_clusters=2, **wrong)

    def test_rate_falls_as_published(self) -> None:
        config = JULEConfig(n_clusters=2)
        assert learning_rate(0, config) == 0.01
        assert learning_rate(10_000, config) == pytest.approx(0.01 * 2**-0.75)


class TestPeriods:
    def test_the_papers_first_figure(self) -> None:
        assert plan_periods(1762, 10, 0.9) == (176, 17, 10)

    def test_a_start_at_k_still_trains_once(self) -> None:
        assert plan_periods(10, 10, 0.9) == (10,)

    def test_the_rate_is_the_papers_on_its_sets_and_a_given_one_wins(self) -> None:
        sets = {(1440, 20): 0.9, (7200, 100): 0.9, (10_000, 10): 0.9, (575, 20): 0.2, (2856, 68): 0.2}
        for (n, k), eta in sets.items():
            assert unfolding_rate(n, JULEConfig(n_clusters=k)) == eta
        assert unfolding_rate(575, JULEConfig(n_clusters=20, eta=0.5)) == 0.5

    @given(st.integers(2, 500), st.integers(2, 500), st.floats(0.01, 0.99))
    @settings(derandomize=True, deadline=None, max_examples=50)
    def test_every_period_merges_and_none_goes_below_k(self, n_start: int, k: int, eta: float) -> None:
        n_start = max(n_start, k)
        counts = plan_periods(n_start, k, eta)
        assert counts[-1] == k
        assert all(fewer < more for more, fewer in pairwise(counts))


class TestMining:
    @given(st.lists(st.integers(0, 6), min_size=3, max_size=30), st.integers(1, 8), st.integers(0, 9))
    @settings(derandomize=True, deadline=None, max_examples=80)
    def test_equals_the_definition(self, labels: list[int], n_neg: int, seed: int) -> None:
        found = mine_triplets(torch.tensor(labels), n_neg, generator(seed))
        expected, n_clusters = oracle.pairs(labels), len(set(labels))
        if not expected or n_clusters == 1:
            assert found is None
            return
        assert found is not None
        pairs = list(zip(found.anchor.tolist(), found.positive.tolist(), strict=True))
        assert len(pairs) == len(expected)
        assert {tuple(sorted(pair)) for pair in pairs} == expected
        for (anchor, _), negatives in zip(pairs, found.negative.tolist(), strict=True):
            assert len(negatives) == len(set(negatives)) == min(n_neg, n_clusters - 1)
            assert set(negatives) <= oracle.outsiders(labels, anchor)

    def test_the_anchor_is_the_earlier_image(self) -> None:
        found = mined([7, 3, 7, 3, 7])
        assert (found.anchor < found.positive).all()

    @pytest.mark.parametrize("labels", [[0, 1, 2, 3], [5, 5, 5], [0, 1], [4]])
    def test_nothing_to_learn(self, labels: list[int]) -> None:
        assert mine_triplets(torch.tensor(labels), 20, generator()) is None

    def test_negatives_are_uniform(self) -> None:
        # One pair, five outsiders in five clusters, two negatives: each of the ten subsets is as likely.
        labels = torch.tensor([9, 9, 0, 1, 2, 3, 4])
        source = generator(1)
        counts: dict[tuple[int, ...], int] = {}
        for _ in range(5000):
            found = mine_triplets(labels, 2, source)
            assert found is not None
            subset = tuple(sorted(found.negative[0].tolist()))
            counts[subset] = counts.get(subset, 0) + 1
        assert len(counts) == 10
        chi_squared = sum((count - 500) ** 2 / 500 for count in counts.values())
        assert chi_squared < 27.9  # 9 degrees of freedom, one chance in a thousand

    def test_one_giant_cluster(self) -> None:
        found = mined([0] * 95 + [1] * 5)
        assert found.negative.shape == (95 * 94 // 2 + 10, 1)
        assert (found.negative[:, 0] >= 95).sum() == 95 * 94 // 2


class TestLoss:
    POINTS = ((0.0, 0.0), (1.0, 0.0), (0.0, 2.0), (3.0, 0.0))

    def score(self, gamma: float, margin: float) -> float:
        triplets = Triplets(torch.tensor([0]), torch.tensor([1]), torch.tensor([[2, 3]]))
        return triplet_loss(torch.tensor(self.POINTS), triplets, gamma, margin).item()

    def test_by_hand(self) -> None:
        # d(0,1) = 1, d(0,2) = 4, d(0,3) = 9
        assert self.score(gamma=1.0, margin=0.2) == 0.0
        assert self.score(gamma=1.0, margin=4.0) == pytest.approx((1 - 4 + 4) / 2)
        assert self.score(gamma=2.0, margin=8.0) == pytest.approx(((2 - 4 + 8) + (2 - 9 + 8)) / 2)

    def test_equals_loops(self) -> None:
        features = torch.randn(12, 5, generator=generator(3), dtype=torch.float64)
        found = mined([0, 1, 2, 0, 1, 2, 0, 3, 3, 0, 1, 1], n_neg=2)
        flat = [
            (i, j, m)
            for i, j, row in zip(found.anchor.tolist(), found.positive.tolist(), found.negative.tolist(), strict=True)
            for m in row
        ]
        expected = oracle.loss(features.tolist(), flat, gamma=1.5, margin=1.0)
        assert triplet_loss(features, found, 1.5, 1.0).item() == pytest.approx(expected)

    def test_gradient(self) -> None:
        features = torch.randn(8, 4, generator=generator(4), dtype=torch.float64).requires_grad_()
        found = mined([0, 0, 1, 1, 2, 2, 2, 0], n_neg=2)

        def loss(x: Tensor) -> Tensor:
            return triplet_loss(x, found, 2.0, 0.7)

        assert torch.autograd.gradcheck(loss, (features,))


class TestOutliers:
    """Three groups near each other and four far pairs: the pairs have no affinity to anything else."""

    CONFIG = replace(QUICK, n_clusters=3, K_s=15)

    @pytest.fixture(scope="class")
    @classmethod
    def view(cls) -> View:
        noise = np.random.default_rng(0).normal(0, 1, (180, 2))
        groups = np.repeat([[0, 0], [5, 0], [0, 5]], 60, axis=0) + noise
        pairs = np.repeat([[90, 0], [-90, 0], [0, 90], [0, -90]], 2, axis=0) + np.tile([[0, 0], [0, 0.1]], (4, 1))
        return view_of(np.concatenate([groups, pairs]).astype(np.float32), cls.CONFIG, CPU)

    def start(self) -> I64:
        return np.concatenate([np.repeat(np.arange(6), 30), np.repeat(np.arange(6, 10), 2)])

    def test_plain_merging_joins_the_groups(self, view: View) -> None:
        sizes = np.bincount(merge(view, self.start(), 5, self.CONFIG).labels)
        assert sorted(sizes.tolist()) == [2, 2, 2, 2, 180]

    def test_a_period_leaves_k_large_clusters(self, view: View) -> None:
        sizes = np.bincount(merge_safely(view, self.start(), 5, self.CONFIG).labels)
        assert sorted(sizes.tolist()) == [2, 2, 2, 2, 60, 60, 60]

    def test_a_period_that_stops_earlier_is_left_alone(self, view: View) -> None:
        merged = merge_safely(view, self.start(), 8, self.CONFIG)
        np.testing.assert_array_equal(merged.labels, merge(view, self.start(), 8, self.CONFIG).labels)

    def test_an_early_period_without_large_clusters_is_left_alone(self, view: View) -> None:
        assert merge_safely(view, np.arange(188), 180, self.CONFIG).n_clusters == 180


class TestNearestNegatives:
    @given(st.lists(st.integers(0, 4), min_size=3, max_size=20), st.integers(1, 6), st.integers(0, 9))
    @settings(derandomize=True, deadline=None, max_examples=60)
    def test_equals_the_definition(self, labels: list[int], n_nearest: int, seed: int) -> None:
        features = torch.randn(len(labels), 3, generator=generator(seed), dtype=torch.float64)
        found = nearest_triplets(features, torch.tensor(labels), n_nearest, generator(seed))
        sizes = [labels.count(label) for label in labels]
        if max(sizes) in (1, len(labels)):
            assert found is None
            return
        assert found is not None
        assert found.anchor.tolist() == [i for i, size in enumerate(sizes) if size > 1]
        for i, j, negatives in zip(*(part.tolist() for part in found), strict=True):
            assert i != j
            assert labels[i] == labels[j]
            far = sorted(
                (float((features[i] - features[m]).norm()), m) for m in range(len(labels)) if labels[m] != labels[i]
            )
            assert negatives == [m for _, m in far[: min(n_nearest, len(labels) - max(sizes))]]

    def test_positives_are_drawn_from_the_cluster(self) -> None:
        features, labels = torch.eye(6), torch.tensor([0, 0, 0, 0, 1, 1])
        source, seen = generator(), set()
        for _ in range(60):
            found = nearest_triplets(features, labels, 2, source)
            assert found is not None
            seen.add(int(found.positive[0]))
        assert seen == {1, 2, 3}


class TestPaperOrder:
    PAPER = replace(QUICK, order="merge-first", restart_lr=True, negatives="nearest", absorb=False, standardise=False)

    def test_every_merge_is_followed_by_training_the_last_one_too(self, pictures: Images) -> None:
        phases = [str(s.event["phase"]) for s in snapshots(pictures, self.PAPER)]
        n_periods = phases.count("merge")
        assert phases == ["start", *(["merge"] + ["train"] * 2) * n_periods, "recluster"]

    def test_the_first_merges_are_by_pixels(self, pictures: Images) -> None:
        taken = list(snapshots(pictures, self.PAPER))
        view = view_of(pixel_features(pictures), self.PAPER, CPU)
        expected = merge(view, taken[0].labels, int(taken[1].labels.max()) + 1, self.PAPER).labels
        np.testing.assert_array_equal(taken[1].labels, expected)

    def test_the_last_merge_gives_sf(self, pictures: Images) -> None:
        taken = list(snapshots(pictures, self.PAPER))
        last = next(s for s in reversed(taken) if s.event["phase"] == "merge")
        assert taken[-1].result is not None
        np.testing.assert_array_equal(taken[-1].result.extras["labels_sf"], last.labels)

    def test_the_rate_begins_anew(self, pictures: Images, monkeypatch: pytest.MonkeyPatch) -> None:
        steps: list[int] = []

        def watch(step: int, config: JULEConfig) -> float:
            steps.append(step)
            return learning_rate(step, config)

        monkeypatch.setattr(jule, "learning_rate", watch)
        taken = list(snapshots(pictures, replace(self.PAPER, order="train-first")))
        n_periods = sum(s.event["phase"] == "merge" for s in taken) + 1
        assert steps.count(0) == n_periods > 1


class TestTraining:
    @pytest.mark.parametrize("seed", [0, 1])
    def test_sorts_separable_pictures(self, seed: int) -> None:
        images, truth = shapes(15, size=16, seed=seed)
        result = result_of(images, replace(QUICK, epochs=5), seed=seed)
        assert accuracy(result.labels, truth) == 1.0
        assert accuracy(result.extras["labels_sf"], truth) == 1.0

    def test_learns_what_a_random_network_does_not_know(self) -> None:
        # Triplets of the true clusters: after training an image is nearer to its own kind by more than the margin.
        images, truth = shapes(15, size=16, seed=2)
        features = {}
        for control in ("none", "random"):
            config = replace(QUICK, epochs=10, control=control)
            features[control] = result_of(images, config).features
        same = truth[:, None] == truth
        gaps = {}
        for control, rows in features.items():
            distance = ((rows[:, None] - rows) ** 2).sum(axis=2)
            gaps[control] = distance[~same].mean() - distance[same].mean()
        assert gaps["none"] > gaps["random"] + 0.2

    def test_events_tell_the_stages(self, pictures: Images) -> None:
        taken = list(snapshots(pictures, QUICK))
        phases = [snapshot.event["phase"] for snapshot in taken]
        n_periods = phases.count("merge") + 1
        assert phases == ["start", *(["train", "train", "merge"] * n_periods)[:-1], "recluster"]
        assert [snapshot.step for snapshot in taken] == list(range(1, len(taken) + 1))
        assert {snapshot.total for snapshot in taken} == {len(taken)}
        assert [snapshot.result is None for snapshot in taken] == [True] * (len(taken) - 1) + [False]

    def test_history_keeps_each_stage(self, pictures: Images) -> None:
        stages = [snapshot.history for snapshot in snapshots(pictures, QUICK) if snapshot.history]
        assert len(stages) >= 3
        counts = [len(np.unique(stage["all_labels"])) for stage in stages]
        assert counts == sorted(counts, reverse=True)
        assert counts[-1] == 4
        for stage in stages:
            assert stage["pca3"].shape == (60, 3)
            assert stage["neighbours"].shape == (60, 59)
            assert not (stage["neighbours"] == stage["rows"][:, None]).any()
            np.testing.assert_array_equal(stage["labels"], stage["all_labels"][stage["rows"]])
        assert len(np.unique(stages[-1]["all_labels_sf"])) == 4

    @pytest.mark.parametrize(
        "variant",
        [
            {"control": "raw"},
            {"control": "random"},
            {"init": "kmeans"},
            {"graph": "local"},
            {"update": "approx_size"},
            {"update": "approx_alpha", "alpha": -0.1},
            {"lambda_": 0.0, "gamma": 2.0, "absorb": False},
            {"embedding_dim": 2},
            {"arch": "usps"},
            {"negatives": "nearest", "gamma": 2.0},
            {"order": "merge-first"},
        ],
        ids=str,
    )
    def test_variants_are_settings(self, variant: dict[str, Any]) -> None:
        images, truth = shapes(15, size=16, seed=0)
        config = replace(QUICK, **variant)
        result = result_of(images, config)
        assert accuracy(result.labels, truth) == 1.0
        width = {"raw": 256, "embedding": 2}.get("embedding" if config.embedding_dim else config.control, 160)
        assert result.features.shape == (60, width)

    def test_without_learning_and_structure_it_is_ac_gdl(self, pictures: Images) -> None:
        config = replace(QUICK, control="raw", lambda_=0.0)
        alone = gdl.cluster(pixel_features(pictures), gdl.GDLConfig(n_clusters=4, K_s=10), seed=0, device=CPU)
        result = result_of(pictures, config)
        np.testing.assert_array_equal(result.labels, alone.labels)
        np.testing.assert_array_equal(result.extras["merges"], alone.extras["merges"])
        np.testing.assert_array_equal(result.extras["labels_sf"], alone.labels)  # period by period, the same merges

    def test_the_embedding_is_not_normalised(self, pictures: Images) -> None:
        norms = np.linalg.norm(result_of(pictures, replace(QUICK, embedding_dim=2)).features, axis=1)
        assert norms.std() > 1e-3


class TestResume:
    @pytest.mark.parametrize(
        "variant", [{}, {"embedding_dim": 2}, {"epochs": 1}, {"order": "merge-first", "restart_lr": True}], ids=str
    )
    def test_from_every_snapshot(self, pictures: Images, variant: dict[str, Any]) -> None:
        config = replace(QUICK, **variant)
        if config.epochs == 1:  # two blocks and colours: weights whose memory layout is not that of the file
            pictures = shapes(15, size=28, seed=0, channels=3)[0]
        taken = [(snapshot, snapshot.state()) for snapshot in snapshots(pictures, config)]
        last = taken[-1][0].result
        assert last is not None
        for snapshot, state in taken[:-1]:
            rest = list(snapshots(pictures, config, resume=state))
            assert [later.step for later in rest] == list(range(snapshot.step + 1, len(taken) + 1))
            again = rest[-1].result
            assert again is not None
            np.testing.assert_array_equal(again.labels, last.labels)
            np.testing.assert_array_equal(again.features, last.features)
            np.testing.assert_array_equal(again.extras["labels_sf"], last.extras["labels_sf"])


class TestModel:
    @pytest.fixture(scope="class")
    @classmethod
    def fitted(cls, pictures: Images) -> Clustering:
        return result_of(pictures, replace(QUICK, epochs=5))

    def test_new_pictures_are_sorted(self, fitted: Clustering) -> None:
        images, truth = shapes(10, size=16, seed=77)
        model = restore(QUICK, fitted.model, device=CPU)
        assert accuracy(model.apply(images).labels, truth) == 1.0

    def test_training_pictures_get_their_features_back(self, fitted: Clustering, pictures: Images) -> None:
        applied = restore(QUICK, fitted.model, device=CPU).apply(pictures)
        np.testing.assert_array_equal(applied.features, fitted.features)
        np.testing.assert_array_equal(applied.soft, fitted.soft)

    @pytest.mark.parametrize(("layer", "width"), [("top", 160), ("top-1", 1800), ("top-2", 7200)])
    def test_layers(self, fitted: Clustering, pictures: Images, layer: str, width: int) -> None:
        applied = restore(QUICK, fitted.model, device=CPU).apply(pictures, layer)
        assert applied.features.shape == (60, width)
        np.testing.assert_allclose(np.linalg.norm(applied.features, axis=1), 1, rtol=1e-5)
        np.testing.assert_array_equal(applied.soft, fitted.soft)

    def test_wrong_size_is_refused(self, fitted: Clustering) -> None:
        images, _ = shapes(1, size=20)
        with pytest.raises(InvalidInput, match=r"have shape \(20, 20, 1\)\. This model was trained on \(16, 16, 1\)"):
            restore(QUICK, fitted.model, device=CPU).apply(images)

    def test_raw_pixels(self, pictures: Images) -> None:
        config = replace(QUICK, control="raw")
        fitted = result_of(pictures, config)
        applied = METHOD.restore(config, fitted.model, device=CPU).apply(pictures)
        np.testing.assert_array_equal(applied.features, fitted.features)


class TestBadData:
    def test_all_images_alike(self) -> None:
        images = Images(np.full((40, 16, 16, 1), 77, dtype=np.uint8))
        *_, last = snapshots(images, replace(QUICK, n_clusters=3))
        assert last.result is not None
        assert np.isfinite(last.result.features).all()
        assert last.labels.max() < 3

    def test_black_images(self) -> None:
        assert np.isfinite(result_of(Images(np.zeros((30, 16, 16, 1), dtype=np.uint8)), QUICK).features).all()

    @pytest.mark.parametrize("n_clusters", [15, 30, 59, 60])
    def test_many_clusters(self, pictures: Images, n_clusters: int) -> None:
        first, *_, last = snapshots(pictures, replace(QUICK, n_clusters=n_clusters))
        assert len(np.unique(first.labels)) >= n_clusters
        for labels in (last.labels, last.result.extras["labels_sf"] if last.result else last.labels):
            assert len(np.unique(labels)) == n_clusters

    def test_a_finer_start_is_said(self, pictures: Images) -> None:
        first = next(snapshots(pictures, replace(QUICK, n_clusters=30)))
        assert len(np.unique(first.labels)) == 42  # sqrt(60 * 30)
        assert "fewer than the 30 asked for" in first.warnings[0]

    def test_batches_without_pairs_are_skipped_and_counted(self, pictures: Images) -> None:
        config = replace(QUICK, n_clusters=60)
        epochs = [snapshot.event for snapshot in snapshots(pictures, config) if snapshot.event["phase"] == "train"]
        assert [event["skipped_batches"] for event in epochs] == [3, 3]

    def test_one_giant_cluster(self) -> None:
        images, truth = shapes(60, size=16, seed=0, n_classes=2)
        keep = np.concatenate([np.flatnonzero(truth == 0), np.flatnonzero(truth == 1)[:6]])
        result = result_of(images.subset(keep), replace(QUICK, n_clusters=2))
        assert sorted(np.bincount(result.labels).tolist()) == [6, 60]

    def test_fewer_images_than_neighbours(self) -> None:
        images, truth = shapes(4, size=16, seed=0, n_classes=2)
        result = result_of(images, replace(QUICK, n_clusters=2, K_s=20))
        assert accuracy(result.labels, truth) == 1.0

    def test_kmeans_start_with_duplicates(self) -> None:
        images = Images(
            np.repeat(np.arange(4, dtype=np.uint8) * 60 + 10, 10)[:, None, None, None]
            * np.eye(16, dtype=np.uint8)[None, :, :, None]
        )
        result = result_of(images, replace(QUICK, n_clusters=2, init="kmeans"))
        assert np.isfinite(result.features).all()


class TestAugmented:
    CONFIG = JULEConfig(n_clusters=3, epochs=1, K_s=5, eta=0.5, batch_size=12)

    def test_the_start_may_compare_views(self, pictures: Images) -> None:
        plain = jule.first_view(pictures, self.CONFIG, torch.device("cpu"))
        views = jule.first_view(pictures, replace(self.CONFIG, neighbours="augmented"), torch.device("cpu"))
        np.testing.assert_array_equal(plain.features, views.features)
        assert (views.neighbours.sq_dist <= plain.neighbours.sq_dist).all()
        assert (views.neighbours.sq_dist < plain.neighbours.sq_dist).any()

    def test_features_of_an_encoder_have_no_views_to_compare(self) -> None:
        encoded = Encoded(np.eye(9, dtype=np.float32))
        with pytest.raises(InvalidInput, match="neighbours must be plain"):
            list(train(encoded, replace(self.CONFIG, neighbours="augmented"), device=torch.device("cpu"), seed=0))

    def test_augmented_triplets_resume_to_the_same_bits(self, pictures: Images) -> None:
        config = replace(self.CONFIG, augment=1.0)
        whole = list(snapshots(pictures, config))
        plain = list(snapshots(pictures, self.CONFIG))
        assert whole[1].event["loss"] != plain[1].event["loss"]
        first = snapshots(pictures, config)
        next(first)
        state = next(first).state()
        *_, last = snapshots(pictures, config, resume=state)
        assert last.result is not None
        assert whole[-1].result is not None
        np.testing.assert_array_equal(last.result.features, whole[-1].result.features)

    def test_published_recipes_leave_both_off(self) -> None:
        for recipe in recipes_of("jule"):
            assert recipe.source.startswith("ours") or not {"neighbours", "views", "augment"} & set(recipe.settings)
        assert (self.CONFIG.neighbours, self.CONFIG.augment) == ("plain", 0.0)

    def test_a_negative_strength_is_refused(self) -> None:
        with pytest.raises(InvalidInput, match="augment must be at least 0"):
            JULEConfig(n_clusters=3, augment=-1.0)


def test_first_clusters_follow_nearest_neighbours() -> None:
    rows = np.array([[0.0], [0.1], [5.0], [5.1], [5.3], [9.0], [9.2]], dtype=np.float32)
    labels, notes = first_clusters(view_of(rows, QUICK, CPU), replace(QUICK, n_clusters=2), seed=0)
    assert labels.tolist() == [0, 0, 1, 1, 1, 2, 2]
    assert notes == ()


class TestDocs:
    ROOT = Path(__file__).parents[2]

    def test_the_example_runs(self, capsys: pytest.CaptureFixture[str]) -> None:
        runpy.run_path(str(self.ROOT / "examples" / "jule.py"))
        *_, result, sf, new = capsys.readouterr().out.splitlines()
        assert result.split()[:2] == ["10", "clusters"]
        assert float(result.split()[-1]) > 0.8
        assert sf.startswith("SF labels: ACC 0.")
        assert float(new.split()[-1]) > 0.7

    def test_the_page_shows_a_part_of_the_example_as_it_is(self) -> None:
        example = (self.ROOT / "examples" / "jule.py").read_text(encoding="utf-8")
        page = (self.ROOT / "docs" / "methods" / "jule.md").read_text(encoding="utf-8")
        shown = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
        assert shown
        assert all(part in example for part in shown)

    def test_the_page_names_every_setting_and_function(self) -> None:
        page = (self.ROOT / "docs" / "methods" / "jule.md").read_text(encoding="utf-8")
        for info in describe(JULEConfig):
            assert info.name == "n_clusters" or f"`{info.name}`" in page, info.name
        for name in (
            "view_of",
            "first_clusters",
            "merge",
            "plan_periods",
            "mine_triplets",
            "nearest_triplets",
            "triplet_loss",
            "learning_rate",
        ):
            assert f"`{name}`" in page
            assert hasattr(jule, name)
