from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from tests.oracles import teach as oracle
from torch import Tensor

from selfsort.data.synthetic import shapes
from selfsort.errors import InvalidInput
from selfsort.graph.communities import symmetric_affinities
from selfsort.graph.neighbours import Neighbours
from selfsort.methods import _teach_head as head
from selfsort.methods import teach
from selfsort.methods.registry import METHODS
from selfsort.methods.teach import METHOD, Pupil, TeachConfig, plan_rounds, remembered, restore, teaching_loss, train
from selfsort.metrics.external import scores
from selfsort.types import F32, I64, Assignment, Clustering, Encoded, FinishedRun, Images, Snapshot, State

CPU = torch.device("cpu")
TINY: dict[str, Any] = {"epochs": 3, "batch_size": 16, "K_s": 5, "rounds": 1}


def make(n_clusters: int = 3, **settings: Any) -> TeachConfig:
    return TeachConfig.from_json({"n_clusters": n_clusters, **TINY, **settings})


@pytest.fixture(scope="module")
def pictures() -> Images:
    return shapes(20, size=16, seed=1, n_classes=3)[0]


def rows(n: int, n_features: int, n_classes: int, seed: int = 0, noise: float = 0.3) -> tuple[Encoded, I64]:
    """Rows around a few directions, with three noisy views of each."""
    chance = np.random.default_rng(seed)
    centres = chance.standard_normal((n_classes, n_features))
    truth: I64 = np.arange(n, dtype=np.int64) % n_classes

    def noisy(count: int) -> F32:
        values = centres[truth[:, None]] + noise * chance.standard_normal((n, count, n_features))
        unit: F32 = (values / np.linalg.norm(values, axis=2, keepdims=True)).astype(np.float32)
        return unit

    return Encoded(noisy(1)[:, 0], noisy(3).astype(np.float16)), truth


def last_of(found: Iterator[Snapshot]) -> Clustering:
    *_, last = found
    assert last.result is not None
    return last.result


class Fixed:
    """A finished model of anything, which gives fixed labels."""

    def __init__(self, labels: list[int], n_clusters: int) -> None:
        self.soft = np.eye(n_clusters, dtype=np.float32)[labels]

    def apply(self, images: Any, layer: str = "top") -> Assignment:
        return Assignment(self.soft, self.soft)


class TestSettings:
    @pytest.mark.parametrize(
        ("settings", "words"),
        [
            ({"rounds": 0}, "rounds must be between 1 and 20"),
            ({"epochs": 0}, "epochs must be auto or at least 1"),
            ({"finer": 0.5}, "finer must be at least 1"),
            ({"batch_size": 1}, "batch_size must be at least 2"),
            ({"lr": 0.0}, "lr must be positive"),
            ({"smoothing": 1.0}, "smoothing must be at least 0 and below 1"),
            ({"memory": -0.1}, "memory must be at least 0"),
            ({"own_from": 1.5}, "own_from must be between 0 and 1"),
            ({"augment": -1.0}, "augment must be at least 0"),
            ({"augment": 9.0}, "augment must be at most 4"),
            ({"head_beta": 0.0}, "head_beta must be above 0"),
            ({"head_average": 1.0}, "head_average must be at least 0 and below 1"),
            ({"head_neighbours": -1}, "head_neighbours must be at least 0"),
            ({"head_temperature": 0.0}, "head_temperature must be positive"),
            ({"head_epochs": 0}, "head_epochs must be at least 1"),
        ],
    )
    def test_nonsense_is_refused(self, settings: dict[str, Any], words: str) -> None:
        with pytest.raises(InvalidInput, match=words):
            make(**settings)

    def test_rounds_end_at_k_and_never_ask_for_more_than_half_of_the_images(self) -> None:
        assert plan_rounds(70_000, TeachConfig(n_clusters=10, rounds=2)) == (30, 10)
        assert plan_rounds(40, TeachConfig(n_clusters=10, rounds=2, finer=5.0)) == (20, 10)
        assert plan_rounds(10, TeachConfig(n_clusters=10, rounds=2)) == (10, 10)
        assert plan_rounds(500, TeachConfig(n_clusters=10, rounds=2), has_labels=True) == (10, 10)
        assert plan_rounds(500, TeachConfig(n_clusters=10), has_labels=True) == (10,)


class TestLosses:
    def test_smoothed_cross_entropy_equals_the_oracle(self) -> None:
        logits = np.random.default_rng(0).standard_normal((7, 5))
        labels = [0, 4, 2, 2, 1, 3, 0]
        for smoothing in (0.0, 0.1, 0.5):
            found = teaching_loss(torch.from_numpy(logits), torch.tensor(labels), smoothing)
            assert found.item() == pytest.approx(oracle.smoothed_cross_entropy(logits, labels, smoothing))

    def test_the_average_of_answers_by_hand(self) -> None:
        average = remembered(torch.tensor([[1.0, 0.0]]), torch.tensor([[0.0, 1.0]]), 0.7)
        torch.testing.assert_close(average, torch.tensor([[0.7, 0.3]]))
        # One epoch of disagreement does not move a label, a second one does: .7 * .7 = .49.
        assert remembered(average, torch.tensor([[0.0, 1.0]]), 0.7).argmax() == 1

    @pytest.mark.parametrize("beta", [0.3, 0.6, 1.0])
    def test_agreement_equals_the_oracle(self, beta: float) -> None:
        chance = np.random.default_rng(1)
        p = [chance.dirichlet(np.ones(4), 6) for _ in range(4)]
        marginal = chance.dirichlet(np.ones(4))
        logs = [torch.from_numpy(part).log() for part in p]
        found = head.agreement_loss((logs[0], logs[1]), (logs[2], logs[3]), torch.from_numpy(marginal), beta)
        assert found.item() == pytest.approx(oracle.agreement((p[0], p[1]), (p[2], p[3]), marginal, beta))

    def test_agreement_by_hand(self) -> None:
        sure = torch.tensor([[1.0, 1e-30]]).log()
        fair = torch.tensor([0.5, 0.5])
        # Both are surely in the same of two clusters: weight 1, log(1 / .5) = log 2.
        assert head.agreement_loss((sure, sure), (sure, sure), fair, 1.0).item() == pytest.approx(-math.log(2))
        # The teacher finds that they do not belong together: whatever the head says, nothing is learned.
        other = sure.flip(1)
        assert head.agreement_loss((sure, sure), (sure, other), fair, 1.0).item() == pytest.approx(0, abs=1e-20)
        # q_s = q_t = (3/4, 1/4), beta 1: weight 10/16, pmi log((9/16 + 1/16) / .5).
        known = torch.tensor([[0.75, 0.25]]).log()
        expected = -10 / 16 * math.log(20 / 16)
        assert head.agreement_loss((known, known), (known, known), fair, 1.0).item() == pytest.approx(expected)

    def test_no_gradient_reaches_the_teacher(self) -> None:
        encoded, _ = rows(24, 8, 3)
        run = head._Run(encoded, make(head_batch_size=8, head_epochs=2), CPU, 0)
        run.begin(None, 0)
        run.train_epoch()
        assert run.teacher.linear.weight.grad is None


class TestPixels:
    def test_shapes_are_learned(self, pictures: Images) -> None:
        result = last_of(train(pictures, make(epochs=40), device=CPU, seed=0))
        truth = shapes(20, size=16, seed=1, n_classes=3)[1]
        assert scores(result.labels, truth)["acc"] > 0.9
        np.testing.assert_allclose(np.linalg.norm(result.features, axis=1), 1, rtol=1e-5)

    def test_scattered_errors_of_a_run_are_corrected(self, pictures: Images) -> None:
        truth = shapes(20, size=16, seed=1, n_classes=3)[1]
        wrong = truth.copy()
        wrong[::6] = (wrong[::6] + 1) % 3
        run = FinishedRun("kmeans", Fixed(wrong.tolist(), 3))
        config = make(epochs=25, batch_size=12)
        result = last_of(teach.train_after(run, pictures, config, device=CPU, seed=0))
        assert scores(wrong, truth)["acc"] < 0.85
        assert scores(result.labels, truth)["acc"] > 0.95
        np.testing.assert_array_equal(result.extras["labels_before"], wrong)

    def test_a_network_that_lost_a_cluster_is_not_believed(self, pictures: Images) -> None:
        # So few steps that the third cluster is forgotten in between.
        found = list(train(pictures, make(epochs=12), device=CPU, seed=0))
        assert all(len(np.unique(snapshot.labels)) == 3 for snapshot in found[:-1])

    def test_labels_are_given_until_own_from_and_the_networks_own_afterwards(self, pictures: Images) -> None:
        found = list(train(pictures, make(epochs=6, own_from=0.5), device=CPU, seed=0))
        assert [snapshot.event["phase"] for snapshot in found] == ["graph clusters", *["train"] * 6]
        assert ["agreement" in snapshot.event for snapshot in found] == [False] * 3 + [True] * 4
        for snapshot in found[:3]:
            np.testing.assert_array_equal(snapshot.labels, found[0].labels)
        never = list(train(pictures, make(epochs=2, own_from=1.0), device=CPU, seed=0))
        np.testing.assert_array_equal(never[1].labels, never[0].labels)

    def test_rounds_get_coarser_and_every_snapshot_resumes_to_the_same_bits(self, pictures: Images) -> None:
        config = make(rounds=3, epochs=2, finer=4.0)
        found, states = [], []
        for snapshot in train(pictures, config, device=CPU, seed=3):
            found.append(snapshot)
            states.append(snapshot.state())
        assert [len(np.unique(s.labels)) for s in found if s.event["phase"] == "graph clusters"] == [12, 6, 3]
        assert [s.step for s in found] == list(range(1, found[-1].total + 1))
        expected = found[-1].result
        assert expected is not None
        for state in states[:-1]:
            again = last_of(train(pictures, config, device=CPU, seed=3, resume=state))
            np.testing.assert_array_equal(again.labels, expected.labels)
            np.testing.assert_array_equal(again.features, expected.features)

    @pytest.mark.parametrize("grouping", ["ac-gdl", "leiden"])
    @pytest.mark.parametrize("neighbours", ["plain", "augmented"])
    def test_graphs(self, pictures: Images, grouping: str, neighbours: str) -> None:
        first = next(train(pictures, make(grouping=grouping, neighbours=neighbours), device=CPU, seed=0))
        assert len(np.unique(first.labels)) == 3

    @pytest.mark.parametrize(("given", "width"), [(8, 8), ("auto", 4)])
    def test_the_graph_is_as_wide_as_said(
        self, given: int | str, width: int, monkeypatch: pytest.MonkeyPatch, pictures: Images
    ) -> None:
        seen: list[int] = []

        def spy(neighbours: Neighbours) -> object:
            seen.append(neighbours.n_neighbours)
            return symmetric_affinities(neighbours)

        monkeypatch.setattr(teach, "symmetric_affinities", spy)
        next(train(pictures, make(grouping="leiden", K_s=given), device=CPU, seed=0))
        assert seen == [width]

    def test_a_last_batch_of_one_is_left_out(self) -> None:
        images = shapes(17, size=8, seed=0, n_classes=1)[0]
        found = list(train(images, make(n_clusters=2, epochs=1), device=CPU, seed=0))
        assert found[-1].event["skipped_batches"] == 1

    @pytest.mark.parametrize("shape", [(1, 1, 1), (3, 40, 1), (8, 8, 3), (130, 70, 1)])
    def test_any_size_of_image_passes(self, shape: tuple[int, int, int]) -> None:
        height, width, channels = shape
        net = Pupil(shape, 4).eval()
        soft, features = net(torch.rand(2, channels, height, width))
        assert soft.shape == (2, 4)
        assert features.shape == (2, 96)

    def test_large_images_are_averaged_down_by_a_whole_factor(self) -> None:
        factors = [Pupil((side, side, 1), 2).factor for side in (16, 28, 48, 63, 64, 128)]
        assert factors == [1, 1, 1, 1, 2, 4]

    def test_the_rule_of_the_rate_is_one_cycle(self, pictures: Images, monkeypatch: pytest.MonkeyPatch) -> None:
        asked: list[float] = []

        def rate(progress: float) -> float:
            asked.append(progress)
            return 0.0

        monkeypatch.setattr(teach, "one_cycle", rate)
        list(train(pictures, make(epochs=2, batch_size=30), device=CPU, seed=0))
        assert asked == [0, 0.25, 0.5, 0.75]


class TestFeatures:
    CONFIG = make(head_epochs=4, head_batch_size=32)

    def test_noisy_rows_are_told_apart(self) -> None:
        encoded, truth = rows(300, 16, 4, noise=1.0)
        config = make(4, head_epochs=30, head_batch_size=64)
        found = list(train(encoded, config, device=CPU, seed=0))
        assert found[-1].result is not None
        assert [snapshot.step for snapshot in found] == list(range(1, 32))
        assert scores(found[-1].labels, truth)["acc"] > 0.9
        assert float(found[-1].event["loss"]) < float(found[1].event["loss"])

    def test_the_start_is_k_means(self) -> None:
        encoded, truth = rows(60, 8, 3)
        first = next(train(encoded, self.CONFIG, device=CPU, seed=0))
        assert first.event["phase"] == "start"
        assert scores(first.labels, truth)["acc"] == 1

    def test_every_snapshot_resumes_to_the_same_bits(self) -> None:
        encoded, _ = rows(60, 8, 3, noise=1.0)
        states = []
        for snapshot in train(encoded, self.CONFIG, device=CPU, seed=2):
            states.append(snapshot.state())
        assert snapshot.result is not None
        for state in states[:-1]:
            again = last_of(train(encoded, self.CONFIG, device=CPU, seed=2, resume=state))
            np.testing.assert_array_equal(again.soft, snapshot.result.soft)

    def test_the_model_repeats_the_labels(self) -> None:
        encoded, _ = rows(60, 8, 3, noise=1.0)
        result = last_of(train(encoded, self.CONFIG, device=CPU, seed=0))
        model = restore(self.CONFIG, result.model, device=CPU)
        np.testing.assert_array_equal(model.apply(Encoded(encoded.features)).soft, result.soft)
        with pytest.raises(InvalidInput, match="trained on"):
            model.apply(Encoded(encoded.features[:, :5]))

    def test_without_neighbours_an_image_agrees_with_itself(self) -> None:
        encoded, _ = rows(20, 8, 3)
        run = head._Run(encoded, replace(self.CONFIG, head_neighbours=0), CPU, 0)
        np.testing.assert_array_equal(run.near_NM[:, 0], np.arange(20))
        assert head._Run(encoded, self.CONFIG, CPU, 0).near_NM.shape == (20, 19)

    def test_the_teacher_follows_slowly(self) -> None:
        encoded, _ = rows(32, 8, 3, noise=1.0)
        run = head._Run(encoded, replace(self.CONFIG, head_average=0.9), CPU, 0)
        run.begin(None, 0)
        before = run.teacher.linear.weight.clone()
        with torch.no_grad():
            run.net.linear.weight.add_(1.0)
            run.follow()
        torch.testing.assert_close(run.teacher.linear.weight.detach(), before.detach() + 0.1)

    def test_labels_of_a_run_are_the_start(self) -> None:
        encoded, truth = rows(60, 8, 3)
        run = FinishedRun("leiden", Fixed([(int(t) + 1) % 3 for t in truth], 3))
        first = next(teach.train_after(run, encoded, self.CONFIG, device=CPU, seed=0))
        np.testing.assert_array_equal(first.labels, (truth + 1) % 3)

    def test_an_empty_cluster_is_harmless(self) -> None:
        encoded, truth = rows(60, 8, 3)
        run = FinishedRun("leiden", Fixed([int(t) for t in truth], 5))
        result = last_of(teach.train_after(run, encoded, make(5, head_epochs=2), device=CPU, seed=0))
        assert np.isfinite(result.soft).all()

    def test_feature_maps_are_refused(self) -> None:
        run = FinishedRun("gatcluster", Fixed([0, 1], 2))
        maps = Encoded(np.zeros((2, 3, 4, 4), np.float32))
        with pytest.raises(InvalidInput, match="feature maps cannot be taught"):
            teach.train_after(run, maps, self.CONFIG, device=CPU, seed=0)


def test_it_is_listed_and_learns_on_features_with_views() -> None:
    assert METHODS["teach"] is METHOD
    assert METHOD.is_inductive
    assert METHOD.learns_on == "features"
    assert METHOD.needs_views


def test_a_state_of_another_round_count_is_no_crash_of_indexing(pictures: Images) -> None:
    config = make(rounds=2, epochs=1)
    state = next(train(pictures, config, device=CPU, seed=0)).state()
    with pytest.raises(IndexError):
        list(train(pictures, config, device=CPU, seed=0, resume=State(state.arrays, {**state.meta, "round": 7})))


def test_logits_and_answers_agree() -> None:
    net = Pupil((8, 8, 1), 3).eval()
    x_BCHW: Tensor = torch.rand(4, 1, 8, 8)
    torch.testing.assert_close(net.logits(x_BCHW).softmax(dim=1), net(x_BCHW)[0])
