from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.oracles import gatcluster as oracle
from torch import Tensor

from selfsort.augment.policy import Affine, ColourJitter, Flip
from selfsort.classic.kmeans import kmeans
from selfsort.data.synthetic import shapes
from selfsort.errors import InvalidInput
from selfsort.learning.batches import PixelTensor
from selfsort.learning.seeds import derive_seed
from selfsort.methods import gatcluster
from selfsort.methods.gatcluster import (
    GATClusterConfig,
    _Run,
    attention_loss,
    balanced_target,
    comparable,
    entropy_loss,
    relation_loss,
    relations,
    restore,
    similarity_loss,
    train,
    trusted_clusters,
    view_policy,
)
from selfsort.metrics.external import accuracy
from selfsort.nets.attention import Head, LabelPath
from selfsort.nets.norm import batch_statistics
from selfsort.types import Clustering, Images, Snapshot, State

CPU = torch.device("cpu")
QUICK = GATClusterConfig(
    n_clusters=4, M=60, m1=32, m2=20, repeats=2, iterations=3, eval_every=1, width=0.1, n_restarts=2
)
LEARNING = replace(QUICK, repeats=4, iterations=24, eval_every=12, width=0.125, lr=3e-3)


def label_features(n: int, k: int, seed: int = 0, sharpness: float = 1.0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.softmax(sharpness * torch.randn(n, k, generator=generator, dtype=torch.float64), dim=1)


def snapshots(
    images: Images, config: GATClusterConfig, resume: State | None = None, seed: int = 0
) -> Iterator[Snapshot]:
    return train(images, config, device=CPU, seed=seed, resume=resume)


def result_of(images: Images, config: GATClusterConfig, seed: int = 0) -> Clustering:
    *_, last = snapshots(images, config, seed=seed)
    assert last.result is not None
    return last.result


@pytest.fixture(scope="module")
def pictures() -> Images:
    return shapes(15, size=16, seed=0)[0]


@pytest.fixture(scope="module")
def fitted(pictures: Images) -> Clustering:
    return result_of(pictures, LEARNING)


class TestSettings:
    def test_what_paper_and_code_say(self) -> None:
        config = GATClusterConfig(n_clusters=10)
        assert (config.w_sm, config.w_ti, config.w_am, config.w_ea) == (1, 5, 5, 3)
        assert (config.M, config.m2, config.repeats, config.iterations, config.lr) == (1000, 32, 8, 6000, 1e-3)
        assert (config.n_restarts, config.min_share, config.a0, config.tied) == (20, 0.1, 0.1, False)
        assert config.gray

    @pytest.mark.parametrize(
        ("wrong", "message"),
        [
            ({"M": 1}, "M must be at least 2, for batch normalisation; got 1"),
            ({"M": 2, "n_clusters": 3}, r"M must be at least the number of clusters \(3\); got 2"),
            ({"repeats": 0}, "repeats must be at least 1"),
            ({"width": 0.0}, "width must be positive"),
            ({"w_ea": -1.0}, "w_ea must be at least 0"),
            ({"mean": (0.1, 0.2)}, "mean must hold one number, or three for colour"),
            ({"mean": (0.1, 0.2, 0.3)}, "mean must hold one number, or three for colour"),
            ({"std": (0.0,)}, "std must be positive"),
            ({"flip": 2.0}, "flip must be auto or between 0 and 1"),
            ({"w_ti": 0.0, "w_sm": 0.0, "w_am": 0.0}, "w_ti must be above 0 if w_sm and w_am are 0"),
            ({"jitter": -1.0}, "brightness of ColourJitter must be at least 0"),
            ({"attention": "hard"}, "attention must be gaussian or soft"),
        ],
    )
    def test_bad_values_are_refused(self, wrong: dict[str, Any], message: str) -> None:
        with pytest.raises(InvalidInput, match=message):
            GATClusterConfig(**{"n_clusters": 2, **wrong})


class TestTargets:
    def test_by_hand(self) -> None:
        features = torch.tensor([[0.8, 0.2], [0.6, 0.4]], dtype=torch.float64)
        # z = 1.4, 0.6. First row: 0.8/1.4 to 0.2/0.6 is 12 to 7; with squares, 0.64/1.4 to 0.04/0.6 is 48 to 7.
        t, ta = balanced_target(features, 1), balanced_target(features, 2)
        torch.testing.assert_close(t[0], torch.tensor([12 / 19, 7 / 19], dtype=torch.float64), atol=1e-5, rtol=0)
        torch.testing.assert_close(ta[0], torch.tensor([48 / 55, 7 / 55], dtype=torch.float64), atol=1e-5, rtol=0)

    @pytest.mark.parametrize("power", [1, 2])
    def test_equal_the_definition(self, power: int) -> None:
        features = label_features(9, 4)
        np.testing.assert_allclose(
            balanced_target(features, power).numpy(), oracle.target(features.numpy(), power), rtol=1e-9
        )

    @settings(derandomize=True, deadline=None, max_examples=30)
    @given(st.integers(1, 30), st.integers(2, 12), st.integers(0, 1000), st.floats(0.1, 30))
    def test_rows_sum_to_one(self, n: int, k: int, seed: int, sharpness: float) -> None:
        features = label_features(n, k, seed, sharpness)
        for power in (1, 2):
            torch.testing.assert_close(balanced_target(features, power).sum(dim=1), torch.ones(n, dtype=torch.float64))

    def test_the_second_is_sharper(self) -> None:
        features = label_features(200, 5, sharpness=2)
        # Balanced sizes, so that only the power tells the two apart.
        features = features / features.sum(dim=0)
        features = features / features.sum(dim=1, keepdim=True)

        def entropy(t: Tensor) -> float:
            return float(-(t * t.clamp(min=1e-12).log()).sum(dim=1).mean())

        assert entropy(balanced_target(features, 2)) < 0.8 * entropy(balanced_target(features, 1))

    def test_large_clusters_are_held_back(self) -> None:
        # Everybody leans to the first cluster; relative to its size, the last image leans to the second.
        features = torch.tensor([[0.9, 0.1]] * 9 + [[0.7, 0.3]])
        assert balanced_target(features, 1)[-1].argmax() == 1

    def test_a_cluster_nobody_uses_stays_finite(self) -> None:
        features = torch.tensor([[1.0, 0.0], [1.0, 0.0]])
        assert torch.isfinite(balanced_target(features, 2)).all()


class TestRelations:
    def test_symmetric_with_a_unit_diagonal(self) -> None:
        r = relations(torch.tensor([0, 1, 0, 2]))
        assert torch.equal(r, r.T)
        assert (r.diagonal() == 1).all()
        assert r[0].tolist() == [1, 0, 1, 0]

    def test_sound_clusters_are_kept(self) -> None:
        c = torch.tensor([0, 1, 2] * 10)
        kept, is_guarded = trusted_clusters(c, 3, 0.1)
        assert kept is c
        assert not is_guarded

    @pytest.mark.parametrize(
        "c",
        [
            torch.tensor([0, 2] * 30),  # cluster 1 is missing
            torch.tensor([0, 1] * 29 + [0, 2]),  # 1 of 60 is below 0.1 * 60 / 3 = 2
        ],
    )
    def test_the_guard_fires(self, c: Tensor) -> None:
        kept, is_guarded = trusted_clusters(c, 3, 0.1)
        assert is_guarded
        assert torch.equal(relations(kept), torch.eye(60))

    def test_without_a_share_there_is_no_guard(self) -> None:
        c = torch.zeros(10, dtype=torch.int64)
        found, is_guarded = trusted_clusters(c, 3, 0.0)
        assert not is_guarded
        assert torch.equal(found, c)

    def test_the_guard_is_not_fired_by_the_smallest_allowed(self) -> None:
        assert not trusted_clusters(torch.tensor([0, 1] * 29 + [2, 2]), 3, 0.1)[1]

    def test_identical_images_are_guarded_in_training(self) -> None:
        same = Images(np.full((24, 16, 16, 1), 90, dtype=np.uint8))
        assert [s.event["guarded"] for s in snapshots(same, QUICK)] == [1, 1, 1]


class TestLosses:
    def test_similarity_by_hand(self) -> None:
        features = torch.tensor([[0.8, 0.2], [0.5, 0.5]])
        assert float(similarity_loss(features, torch.eye(2))) == pytest.approx(-(0.8 + 0.5) / 2)

    def test_relation_by_hand(self) -> None:
        # cos of (1, 0) and (0.6, 0.8) is 0.6; three pairs: two with themselves, one apart.
        features = torch.tensor([[1.0, 0.0], [0.6, 0.8]], dtype=torch.float64)
        own = -np.log((1 / (1 + 1e-5)) ** 2)
        apart = -np.log(1 - 0.6 / (1 + 1e-5) ** 2)
        assert float(relation_loss(features, torch.eye(2))) == pytest.approx((2 * own + apart) / 3, rel=1e-6)

    def test_attention_by_hand(self) -> None:
        found = attention_loss(torch.tensor([[0.8, 0.2]]), torch.tensor([[1.0, 0.0]]))
        assert float(found) == pytest.approx(-np.log(0.8), rel=1e-5)

    def test_entropy_by_hand(self) -> None:
        assert float(entropy_loss(torch.eye(4))) == pytest.approx(-np.log(4))
        assert float(entropy_loss(torch.tensor([[1.0, 0.0]] * 3))) == pytest.approx(1e-5 * np.log(1e-5), rel=1e-3)

    def test_equal_the_definitions(self) -> None:
        features, other = label_features(7, 4), label_features(7, 4, seed=1)
        c = torch.tensor([0, 1, 2, 0, 0, 3, 1])
        pairs = [
            (similarity_loss(features, other), oracle.similarity(features.numpy(), other.numpy())),
            (relation_loss(features, relations(c)), oracle.relation(features.numpy(), c.numpy())),
            (attention_loss(features, other), oracle.attention(features.numpy(), other.numpy())),
            (entropy_loss(features), oracle.entropy(features.numpy())),
        ]
        for found, expected in pairs:
            assert float(found) == pytest.approx(expected, rel=1e-9)

    def test_gradients(self) -> None:
        logits = torch.randn(5, 3, generator=torch.Generator().manual_seed(2), dtype=torch.float64, requires_grad=True)
        target, c = label_features(5, 3, seed=3), torch.tensor([0, 1, 0, 2, 1])
        earlier = torch.tensor([0.5, 0.2, 0.3], dtype=torch.float64)
        for loss in (
            lambda x: similarity_loss(x, target),
            lambda x: relation_loss(x, relations(c)),
            lambda x: attention_loss(x, target),
            entropy_loss,
            lambda x: entropy_loss(x, earlier, 0.25),
        ):
            assert torch.autograd.gradcheck(lambda x, loss=loss: loss(torch.softmax(x, dim=1)), (logits,))

    def test_entropy_is_least_where_all_clusters_are_used_alike(self) -> None:
        least = float(entropy_loss(torch.full((1, 5), 0.2)))
        assert least == pytest.approx(-np.log(5))
        assert all(float(entropy_loss(label_features(3, 5, seed))) > least for seed in range(20))

    def test_certain_label_features_stay_finite(self) -> None:
        sure = torch.eye(3, requires_grad=True)
        loss = relation_loss(sure, 1 - torch.eye(3)) + attention_loss(sure, 1 - torch.eye(3)) + entropy_loss(sure)
        loss.backward()  # type: ignore[no-untyped-call]
        assert torch.isfinite(loss)
        assert sure.grad is not None
        assert torch.isfinite(sure.grad).all()

    def test_an_average_over_earlier_batches_pulls_as_hard(self) -> None:
        """At equal p the gradient is that of the plain loss, whatever the share."""
        features = label_features(6, 3).requires_grad_()
        p = features.detach().mean(dim=0)
        plain = torch.autograd.grad(entropy_loss(features), features)[0]
        mixed = torch.autograd.grad(entropy_loss(features, p, 0.25), features)[0]
        torch.testing.assert_close(plain, mixed)


class TestTheorem:
    """What the tasks together are least at: one-hot label features that use every cluster."""

    def total(self, features: Tensor, c: Tensor) -> float:
        t = balanced_target(features, 1)
        return float(
            relation_loss(features, relations(c)) + 5 * similarity_loss(features, t) + 3 * entropy_loss(features)
        )

    def test_one_hot_beats_everything_else(self) -> None:
        c = torch.tensor([0, 0, 1, 1])
        one_hot = torch.eye(2)[c]
        undecided = torch.full((4, 2), 0.5)
        collapsed = torch.eye(2)[torch.zeros(4, dtype=torch.long)]
        wavering = 0.8 * one_hot + 0.1
        best = self.total(one_hot, c)
        # By hand: no relation is wrong (each pair costs 1e-5 or so), l . t = 1, p = (1/2, 1/2).
        assert best == pytest.approx(-5 - 3 * np.log(2), abs=1e-3)
        for other in (undecided, collapsed, wavering):
            assert self.total(other, c) > best + 0.1

    def test_similarity_alone_is_least_at_one_hot(self) -> None:
        t = balanced_target(label_features(4, 3, sharpness=3), 1)
        best = torch.eye(3, dtype=torch.float64)[t.argmax(dim=1)]
        for seed in range(10):
            assert similarity_loss(label_features(4, 3, seed), t) > similarity_loss(best, t)

    def test_without_entropy_one_cluster_is_as_good(self) -> None:
        everything_in_one = torch.eye(2)[torch.zeros(4, dtype=torch.long)]
        t = balanced_target(everything_in_one, 1)
        alike = relations(torch.zeros(4))
        loss = similarity_loss(everything_in_one, t) + relation_loss(everything_in_one, alike)
        assert float(loss) == pytest.approx(-1, abs=1e-3)


class TestComparable:
    def test_by_hand(self) -> None:
        # Columns (1, 3) and (10, 30) both become (-1, 1), the constant one 0; rows then have unit length.
        found = comparable(torch.tensor([[1.0, 10.0, 5.0], [3.0, 30.0, 5.0]]))
        expected = torch.tensor([[-1.0, -1.0, 0.0], [1.0, 1.0, 0.0]]) / 2**0.5
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-4)


class TestViews:
    def test_the_published_changes_in_order(self) -> None:
        flip, jitter, affine = view_policy(GATClusterConfig(n_clusters=2), 3)
        assert flip == Flip(p=0.5)
        assert jitter == ColourJitter(brightness=0.3, contrast=0.3, hue=0.2)
        assert affine == Affine(rotate=10, translate=0.1, scale=(0.8, 1.2), shear=10, fill="zero")

    def test_gray_images_are_not_mirrored_unless_asked_for(self) -> None:
        assert view_policy(GATClusterConfig(n_clusters=2), 1)[0] == Flip(p=0.0)
        assert view_policy(GATClusterConfig(n_clusters=2, flip=0.5), 1)[0] == Flip(p=0.5)

    def test_standardised_brightness_does_not_matter(self) -> None:
        bright = shapes(12, size=16)[0]
        dark = Images((bright.pixels // 2 + 20).astype(np.uint8))
        change = []
        for is_standardised in (False, True):
            run = _Run(bright, replace(QUICK, standardise=is_standardised), CPU, seed=0)
            seen = [gatcluster.probe(run.net, images, CPU).features for images in (bright, dark)]
            change.append(float(np.abs(seen[0] - seen[1]).max() / np.abs(seen[0]).max()))
            exported = LabelPath(run.net.eval())(PixelTensor(dark, CPU).floats(torch.arange(len(dark))))[1]
            np.testing.assert_allclose(exported.detach().numpy(), seen[1], rtol=1e-4, atol=1e-6)
        assert change[1] < 0.3 * change[0]

    def test_colour_changes_before_it_turns_gray(self) -> None:
        images = shapes(8, size=16, channels=3)[0]
        pixels = images.pixels.copy()
        pixels[..., 1:] = 0  # pure red: its luma depends on the hue it is turned to
        still: dict[str, Any] = {
            "rotate": 0.0,
            "translate": 0.0,
            "scale": (1.0, 1.0),
            "shear": 0.0,
            "flip": 0.0,
            "jitter": 0.0,
        }
        run = _Run(Images(pixels), replace(QUICK, **still, hue=0.5), CPU, seed=0)
        rows = torch.arange(20)
        plain, changed = run.net.prepare.gray(run.pixels.floats(rows)), run.augmented(rows)
        assert changed.shape == (20, 1, 16, 16)
        brightness = changed.mean(dim=(1, 2, 3)) / plain.mean(dim=(1, 2, 3))
        assert brightness.max() > 1.3

    def test_changed_once_or_anew(self, pictures: Images) -> None:
        once = _Run(pictures, QUICK, CPU, seed=0).prepare_pool(0)
        assert once.views is not None
        assert once.views.dtype == torch.uint8
        assert once.views.shape == (60, 1, 16, 16)
        assert _Run(pictures, replace(QUICK, augment_once=False), CPU, seed=0).prepare_pool(0).views is None


class TestPool:
    def test_targets_belong_to_their_images(self, pictures: Images) -> None:
        run = _Run(pictures, replace(QUICK, M=40, m1=7), CPU, seed=0)
        pool = run.prepare_pool(0)
        run.net.eval()
        for place in (0, 13, 39):
            with torch.inference_mode():
                features = run.net.label(run.pixels.floats(pool.rows))
            expected = balanced_target(features, 1)[place]
            torch.testing.assert_close(pool.t[place], expected, rtol=1e-4, atol=1e-6)
        assert not pool.t.requires_grad
        assert not pool.ta.is_inference()

    def test_targets_by_the_statistics_of_the_batch(self, pictures: Images) -> None:
        run = _Run(pictures, replace(QUICK, M=40, m1=20, bn_targets="batch"), CPU, seed=0)
        rows = torch.arange(40)
        before = {name: value.clone() for name, value in run.net.state_dict().items()}
        found = run.label_features(rows)
        assert all(torch.equal(value, before[name]) for name, value in run.net.state_dict().items())
        run.net.train()
        with torch.no_grad():
            expected = torch.cat([run.net.label(run.pixels.floats(part)) for part in torch.split(rows, 20)])
        torch.testing.assert_close(found, expected)
        assert not torch.allclose(found, _Run(pictures, replace(QUICK, M=40), CPU, seed=0).label_features(rows))
        # 41 images are cut into 21 and 20, not into 20, 20 and 1: one alone would be measured by itself.
        rows = torch.arange(41)
        with torch.no_grad():
            expected = torch.cat([run.net.label(run.pixels.floats(part)) for part in (rows[:21], rows[21:])])
        torch.testing.assert_close(run.label_features(rows), expected)

    def test_k_means_may_see_the_features_of_images(self, pictures: Images) -> None:
        run = _Run(pictures, replace(QUICK, M=40, m1=40, kmeans_on="features", min_share=0.0), CPU, seed=0)
        pool = run.prepare_pool(0)
        run.net.eval()
        with torch.no_grad():
            l_MK, features_MD, _ = run.net.describe(run.pixels.floats(pool.rows))
        torch.testing.assert_close(pool.t, balanced_target(l_MK, 1))
        seed = derive_seed(0, "k-means 0")
        expected = kmeans(comparable(features_MD).numpy(), 4, seed=seed, n_restarts=2).labels
        assert accuracy(pool.c.numpy(), expected) == 1
        on_targets = _Run(pictures, replace(QUICK, M=40, m1=40, min_share=0.0), CPU, seed=0).prepare_pool(0)
        assert accuracy(pool.c.numpy(), on_targets.c.numpy()) < 1

    def test_m1_does_not_change_results(self, pictures: Images) -> None:
        pools = [_Run(pictures, replace(QUICK, m1=m1), CPU, seed=0).prepare_pool(0) for m1 in (1, 7, 60, 500)]
        for pool in pools[1:]:
            torch.testing.assert_close(pool.t, pools[0].t, rtol=1e-4, atol=1e-6)

    def test_an_epoch_visits_every_image_once(self, pictures: Images) -> None:
        run = _Run(pictures, replace(QUICK, M=20), CPU, seed=0)
        epoch = torch.cat([run.large_batch(i) for i in range(3)])
        assert sorted(epoch.tolist()) == list(range(60))
        assert not torch.equal(run.large_batch(0), run.large_batch(3))

    def test_who_is_surely_wrong_is_taught_most(self, pictures: Images) -> None:
        run = _Run(pictures, QUICK, CPU, seed=0)
        run.begin_teaching()
        head = run.net.label_head
        assert isinstance(head, Head)
        with torch.no_grad():
            head.second.weight.zero_()
            head.second.bias.copy_(torch.tensor([30.0, 0.0, 0.0, 0.0]))
        loss = run.teaching_loss(torch.arange(8), torch.ones(8, dtype=torch.int64))
        (gradient,) = torch.autograd.grad(loss, head.second.bias)
        assert float(gradient[1]) == pytest.approx(-1, abs=1e-3), "of the label that all should get"

    def test_small_batches_repeat_the_pool(self, pictures: Images) -> None:
        run = _Run(pictures, replace(QUICK, m2=25, repeats=3), CPU, seed=0)
        batches = list(run.small_batches(2))
        assert [len(batch) for batch in batches] == [25] * (2 * 3 * 2)  # 60 // 25 = 2, the remainder is dropped

    def test_targets_come_from_running_statistics(self, pictures: Images) -> None:
        run = _Run(pictures, QUICK, CPU, seed=0)
        before = {name: value.clone() for name, value in run.net.state_dict().items()}
        run.prepare_pool(0)
        assert all(torch.equal(value, before[name]) for name, value in run.net.state_dict().items())


class TestTraining:
    def test_sorts_separable_pictures(self, fitted: Clustering) -> None:
        assert accuracy(fitted.labels, shapes(15, size=16, seed=0)[1]) == 1.0

    def test_sorts_other_pictures_from_another_start(self) -> None:
        images, truth = shapes(15, size=16, seed=1)
        assert accuracy(result_of(images, LEARNING, seed=1).labels, truth) == 1.0

    def test_clusters_are_lost_without_the_tasks_that_part_them(self, fitted: Clustering, pictures: Images) -> None:
        lost = result_of(pictures, replace(LEARNING, w_ea=0.0, w_sm=0.0))
        assert len(np.unique(fitted.labels)) == 4
        assert len(np.unique(lost.labels)) < 4

    @pytest.mark.parametrize("task", ["w_ti", "w_sm", "w_ea", "w_am"])
    def test_each_task_can_be_switched_off(self, pictures: Images, task: str) -> None:
        off: dict[str, Any] = {task: 0.0}
        names = {"w_ti": "similarity", "w_sm": "relation", "w_ea": "entropy", "w_am": "attention"}
        last = list(snapshots(pictures, replace(QUICK, **off)))[-1]
        missing = [key for key in names.values() if key not in last.event]
        assert missing == [names[task]]
        assert last.result is not None
        assert ("attention" in last.result.extras) == (task != "w_am")

    def test_entropy_looks_at_both_modules(self, pictures: Images) -> None:
        run = _Run(pictures, QUICK, CPU, seed=0)
        l, la = label_features(6, 4).float(), label_features(6, 4, seed=1).float()  # noqa: E741
        torch.testing.assert_close(run.entropy(l, la), entropy_loss(l) + entropy_loss(la))
        torch.testing.assert_close(run.entropy(l, None), entropy_loss(l))

    def test_the_loss_is_the_weighted_sum(self, pictures: Images) -> None:
        event = next(snapshots(pictures, QUICK)).event
        parts = {name: float(event[name]) for name in ("similarity", "relation", "attention", "entropy")}
        total = 5 * parts["similarity"] + parts["relation"] + 5 * parts["attention"] + 3 * parts["entropy"]
        assert float(event["loss"]) == pytest.approx(total, rel=1e-5)

    def test_events_and_steps(self, pictures: Images) -> None:
        taken = list(snapshots(pictures, replace(QUICK, iterations=5, eval_every=2)))
        assert [s.step for s in taken] == [1, 2, 3]
        assert {s.total for s in taken} == {3}
        assert [s.event["iteration"] for s in taken] == [2, 4, 5]
        assert [s.result is None for s in taken] == [True, True, False]

    @pytest.mark.parametrize(
        "variant",
        [
            {"tied": True},
            {"attention": "soft"},
            {"attention_conv": False, "label_relu": True},
            {"kmeans_on": "l"},
            {"kmeans_on": "features"},
            {"augment_once": False},
            {"entropy_batch": 60},
            {"mean": (0.449,), "std": (0.226,)},
            {"map_side": 2},
        ],
        ids=str,
    )
    def test_variants_are_settings(self, pictures: Images, variant: dict[str, Any]) -> None:
        result = result_of(pictures, replace(QUICK, **variant))
        assert np.isfinite(result.soft).all()

    def test_colour_networks(self) -> None:
        images = shapes(6, size=16, channels=3)[0]
        config = replace(QUICK, gray=False, mean=(0.447, 0.44, 0.407), std=(1.0, 1.0, 1.0))
        result = result_of(images, config)
        assert result.model.arrays["net.image.0.conv.weight"].shape[1] == 3
        assert result_of(images, QUICK).model.arrays["net.image.0.conv.weight"].shape[1] == 1


class TestHistory:
    def test_stages_are_kept(self, pictures: Images) -> None:
        taken = list(snapshots(pictures, replace(QUICK, iterations=6)))
        assert [bool(s.history) for s in taken] == [True, True, False, True, False, True]
        stage = taken[-1].history
        assert stage["soft"].shape == (60, 4)
        assert stage["attention_parameters"].shape == (60, 3)
        np.testing.assert_array_equal(stage["soft"].argmax(axis=1), stage["labels"])

    def test_attention_is_kept(self, pictures: Images) -> None:
        result = result_of(pictures, QUICK)
        rows = result.extras["attention_rows"]
        assert result.extras["attention"].shape == (len(rows), 4, 4)
        assert result.extras["attention_parameters"].shape == (60, 3)
        model = restore(QUICK, result.model, device=CPU)
        np.testing.assert_allclose(model.attention(pictures)[rows], result.extras["attention"], atol=1e-5)

    def test_examples_take_turns(self, fitted: Clustering) -> None:
        examples = fitted.extras["example_rows"]
        assert sorted(fitted.labels[examples[:4]].tolist()) == [0, 1, 2, 3]
        first = examples[fitted.labels[examples] == 0][0]
        assert fitted.soft[first, 0] == fitted.soft[:, 0].max()


class TestStatistics:
    def test_the_originals_may_give_them(self, pictures: Images) -> None:
        """Then predicting by them is predicting by the statistics of the pictures at hand, all in one batch here."""
        config = replace(QUICK, m1=60, bn_eval="refreshed")
        model = restore(config, result_of(pictures, config).model, device=CPU)
        net, x = model.network(), torch.from_numpy(pictures.pixels).permute(0, 3, 1, 2) / 255
        with torch.inference_mode(), batch_statistics(net):
            expected = net(x)[0]
        # The batch's variance divides by n, the learned one by n - 1.
        np.testing.assert_allclose(model.apply(pictures).soft, expected, atol=0.02)
        learned = restore(QUICK, result_of(pictures, replace(QUICK, m1=60)).model, device=CPU)
        assert not np.allclose(learned.apply(pictures).soft, expected, atol=0.02)


class TestResume:
    @pytest.mark.parametrize(
        "variant",
        [
            {},
            {"augment_once": False, "entropy_batch": 50, "M": 25},
            {"bn_eval": "refreshed"},
        ],
        ids=str,
    )
    def test_from_every_snapshot(self, pictures: Images, variant: dict[str, Any]) -> None:
        config = replace(QUICK, **variant)
        taken = [(snapshot, snapshot.state()) for snapshot in snapshots(pictures, config)]
        last = taken[-1][0].result
        assert last is not None
        for snapshot, state in taken[:-1]:
            rest = list(snapshots(pictures, config, resume=state))
            assert [later.step for later in rest] == list(range(snapshot.step + 1, len(taken) + 1))
            again = rest[-1].result
            assert again is not None
            np.testing.assert_array_equal(again.soft, last.soft)
            np.testing.assert_array_equal(again.features, last.features)


class TestModel:
    def test_new_pictures_are_sorted(self, fitted: Clustering) -> None:
        images, truth = shapes(10, size=16, seed=77)
        assert accuracy(restore(LEARNING, fitted.model, device=CPU).apply(images).labels, truth) == 1.0

    def test_training_pictures_get_back_what_they_had(self, fitted: Clustering, pictures: Images) -> None:
        applied = restore(LEARNING, fitted.model, device=CPU).apply(pictures)
        np.testing.assert_array_equal(applied.features, fitted.features)
        np.testing.assert_array_equal(applied.soft, fitted.soft)

    def test_the_network_for_export_says_the_same(self, fitted: Clustering, pictures: Images) -> None:
        model = restore(LEARNING, fitted.model, device=CPU)
        x = torch.from_numpy(pictures.pixels).permute(0, 3, 1, 2) / 255
        with torch.inference_mode():
            soft, features = model.network()(x)
        np.testing.assert_allclose(soft.numpy(), fitted.soft, atol=1e-5)
        np.testing.assert_allclose(features.numpy(), fitted.features, atol=1e-4)

    def test_wrong_size_and_wrong_layer_are_refused(self, fitted: Clustering, pictures: Images) -> None:
        model = restore(LEARNING, fitted.model, device=CPU)
        with pytest.raises(InvalidInput, match=r"have shape \(20, 20, 1\)\. This model was trained on \(16, 16, 1\)"):
            model.apply(shapes(1, size=20)[0])
        with pytest.raises(InvalidInput, match=r"layer must be top, .* got 'top-1'"):
            model.apply(pictures, "top-1")


class TestBadData:
    def test_fewer_images_than_a_batch(self) -> None:
        result = result_of(shapes(2, size=16, n_classes=3)[0], replace(QUICK, n_clusters=3, m2=32))
        assert result.soft.shape == (6, 3)

    def test_a_cluster_without_images_has_no_examples(self, pictures: Images) -> None:
        seen = gatcluster.Seen(
            np.eye(3, dtype=np.float32)[[0, 0, 2]],
            np.zeros((3, 2), np.float32),
            np.zeros((3, 3), np.float32),
            np.zeros((3, 0, 0), np.float32),
        )
        assert gatcluster._examples(seen).tolist() == [0, 2, 1]
