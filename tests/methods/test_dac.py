from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.oracles import dac as oracle
from torch import Tensor

from selfsort.augment.policy import Affine, ChannelShift, Flip
from selfsort.errors import InvalidInput
from selfsort.improve.around import ImproveConfig
from selfsort.methods import dac
from selfsort.methods.dac import (
    DACConfig,
    Pairs,
    Thresholds,
    agreement_loss,
    count_epochs,
    entropy_gap,
    pair_loss,
    restore,
    select_pairs,
    thresholds_at,
    train,
    view_policy,
)
from selfsort.metrics import pairs
from selfsort.metrics.external import accuracy
from selfsort.nets.labelnet import restrain
from selfsort.report.contents import method_parts
from selfsort.report.read import read_run
from selfsort.report.sections.pairs import threshold_trace
from selfsort.report.sections.pictures import Pictures
from selfsort.runs.folder import RunFolder
from selfsort.runs.loop import FitRun
from selfsort.types import I64, Clustering, Images, Snapshot, State

CPU = torch.device("cpu")
QUICK = DACConfig(n_clusters=4, width=4, epochs=2, inner_epochs=2, pool_size=20, batch_size=10)


def textures(n_per_class: int = 15, size: int = 12) -> tuple[Images, I64]:
    """Flat, stripes across, stripes down, bright diagonals; a little noise. A network that averages maps can tell."""
    y, x = np.mgrid[:size, :size]
    kinds = np.stack(
        [
            np.full((size, size), 40),
            np.where(y // 2 % 2, 220, 40),
            np.where(x // 2 % 2, 220, 40),
            np.where((x + y) // 2 % 2, 255, 150),
        ]
    )
    labels = np.repeat(np.arange(4), n_per_class)
    noisy = kinds[labels] + np.random.default_rng(0).normal(0, 8, (len(labels), size, size))
    return Images(np.clip(noisy, 0, 255).astype(np.uint8)[..., None]), labels


@pytest.fixture(scope="module")
def pictures() -> Images:
    return textures()[0]


def snapshots(images: Images, config: DACConfig, resume: State | None = None, seed: int = 0) -> Iterator[Snapshot]:
    return train(images, config, device=CPU, seed=seed, resume=resume)


def result_of(images: Images, config: DACConfig, seed: int = 0) -> Clustering:
    *_, last = snapshots(images, config, seed=seed)
    assert last.result is not None
    return last.result


def unit_rows(n: int, k: int, seed: int = 0) -> Tensor:
    drawn = torch.rand(n, k, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) ** 3
    return torch.nn.functional.normalize(drawn, dim=1)


class TestSettings:
    def test_what_the_sources_say(self) -> None:
        config = DACConfig(n_clusters=10)
        assert (config.upper, config.lower, config.eta, config.lr) == (0.95, 0.455, 0.009, 0.001)
        assert (config.pool_size, config.inner_epochs, config.batch_size) == (1000, 5, 128)
        assert (config.thresholds, config.arch, config.bn_targets, config.bn_eval) == (
            "adaptive",
            "code",
            "batch",
            "running",
        )
        assert (config.aux_weight, config.entropy_weight) == (0, 0)

    @pytest.mark.parametrize(
        ("wrong", "message"),
        [
            ({"upper": 0.4}, r"upper must be above lower \(0.455\); got 0.4"),
            ({"batch_size": 1}, "batch_size must be at least 2, for batch normalisation; got 1"),
            ({"eta": 0.0}, "eta must be positive"),
            ({"single_end": 1.2}, "single_end must be between 0 and 1"),
            ({"entropy_weight": -1.0}, "entropy_weight must be at least 0"),
            ({"zoom": 1.0}, "zoom must be at least 0 and below 1"),
            ({"thresholds": "none"}, "thresholds must be adaptive or linear or single; got 'none'"),
        ],
    )
    def test_bad_values_are_refused(self, wrong: dict[str, Any], message: str) -> None:
        with pytest.raises(InvalidInput, match=message):
            DACConfig(n_clusters=2, **wrong)


class TestThresholds:
    def test_adaptive_ones_meet_at_one_half_after_46_updates(self) -> None:
        config = DACConfig(n_clusters=2)
        assert thresholds_at(0, config) == (0.95, 0.455)
        assert count_epochs(config) == 46
        before, after = thresholds_at(45, config), thresholds_at(46, config)
        assert before.upper > before.lower
        assert after.upper <= after.lower
        assert after.upper == pytest.approx(0.5, abs=0.01)
        assert after.lower == pytest.approx(0.5, abs=0.001)

    def test_fewer_epochs_end_earlier(self) -> None:
        assert count_epochs(DACConfig(n_clusters=2, epochs=3)) == 3
        assert count_epochs(DACConfig(n_clusters=2, thresholds="single", epochs=75)) == 75

    def test_a_single_one_goes_from_start_to_end(self) -> None:
        config = DACConfig(n_clusters=2, thresholds="single", epochs=5)
        uppers = [thresholds_at(epoch, config).upper for epoch in range(5)]
        assert uppers == pytest.approx([0.9, 0.82, 0.74, 0.66, 0.58])  # .5 comes after the last epoch
        assert all(upper == lower for upper, lower in (thresholds_at(epoch, config) for epoch in range(5)))
        assert thresholds_at(0, replace(config, epochs=1)).upper == 0.9

    def test_linear_ones_meet_in_the_middle(self) -> None:
        config = DACConfig(n_clusters=2, thresholds="linear", upper=0.99, lower=0.8, epochs=50)
        assert thresholds_at(0, config) == (0.99, 0.8)
        assert thresholds_at(49, config) == pytest.approx((0.8969, 0.8931))
        assert thresholds_at(50, config) == pytest.approx((0.895, 0.895))

    def test_the_script_for_mnist_ends_at_52_hundredths(self) -> None:
        config = DACConfig(n_clusters=10, thresholds="single", epochs=20)
        assert thresholds_at(19, config).upper == pytest.approx(0.52)

    @given(st.integers(0, 1000))
    @settings(derandomize=True, deadline=None, max_examples=20)
    def test_with_the_same_features_ever_more_pairs_count(self, seed: int) -> None:
        config, features = DACConfig(n_clusters=2), unit_rows(12, 4, seed)
        counts = [int(select_pairs(features, thresholds_at(epoch, config)).sure.sum()) for epoch in range(46)]
        assert counts == sorted(counts)
        assert counts[-1] >= 0.8 * 144


class TestPairs:
    def test_by_hand(self) -> None:
        # Cosines: 1 with itself, 0.6 between the first two, 0 and 0.8 with the third.
        target = torch.tensor([[1.0, 0.0], [0.6, 0.8], [0.0, 1.0]])
        pairs = select_pairs(target, Thresholds(0.75, 0.5))
        assert pairs.same.tolist() == [[True, False, False], [False, True, True], [False, True, True]]
        assert pairs.sure.tolist() == [[True, False, True], [False, True, True], [True, True, True]]

    def test_the_bounds_belong_to_same_and_to_nobody(self) -> None:
        target = torch.tensor([[1.0, 0.0], [0.5, math.sqrt(0.75)]])
        at_upper = select_pairs(target, Thresholds(0.5, 0.2))
        assert bool(at_upper.same[0, 1])
        at_lower = select_pairs(target, Thresholds(0.9, 0.5))
        assert not bool(at_lower.sure[0, 1])

    @pytest.mark.parametrize("thresholds", [(0.5, 0.25), (0.375, 0.375), (0.9, 0.5), (1.0, 0.0)])
    def test_the_report_selects_the_same_pairs(self, thresholds: tuple[float, float]) -> None:
        # Products of halves and quarters: many lie exactly at a threshold.
        rows = [[1.0, 0, 0, 0], [0, 1, 0, 0], [0.5, 0.5, 0, 0], [0.5, 0.25, 0.25, 0], [0.25] * 4]
        taught = select_pairs(torch.tensor(rows), Thresholds(*thresholds))
        same, selected = pairs.select_pairs(np.array(rows, np.float32), *thresholds)
        assert taught.same.tolist() == same.tolist()
        assert taught.sure.tolist() == selected.tolist()

    @pytest.mark.parametrize("restraint", [True, False])
    def test_the_report_has_the_same_label_features(self, restraint: bool) -> None:
        activations = 4 * unit_rows(8, 3)
        expected = dac.label_features(activations, replace(QUICK, restraint=restraint)).numpy()
        found = pairs.label_features(activations.softmax(dim=1).numpy(), restraint=restraint)
        np.testing.assert_allclose(found, expected, rtol=1e-6)

    def test_one_threshold_judges_every_pair(self) -> None:
        assert bool(select_pairs(unit_rows(10, 3), Thresholds(0.7, 0.7)).sure.all())

    def test_loss_by_hand(self) -> None:
        sim = torch.tensor([[1.0, 0.05], [0.05, 1.0]], dtype=torch.float64)
        pairs = Pairs(torch.eye(2, dtype=torch.bool), torch.ones(2, 2, dtype=torch.bool))
        expected = (-2 * math.log(0.95) - 2 * math.log(1 - 1e-5)) / 4
        assert float(pair_loss(sim, pairs)) == pytest.approx(expected, rel=1e-9)
        assert float(pair_loss(sim, pairs, "mse")) == pytest.approx(2 * 0.05**2 / 4)

    @pytest.mark.parametrize("kind", ["bce", "mse"])
    @pytest.mark.parametrize("thresholds", [Thresholds(0.95, 0.455), Thresholds(0.7, 0.7), Thresholds(0.8, 0.2)])
    def test_loss_equals_the_definition(self, kind: Literal["bce", "mse"], thresholds: Thresholds) -> None:
        features, targets = unit_rows(9, 4), unit_rows(9, 4, seed=1)
        found = pair_loss(features @ features.T, select_pairs(targets, thresholds), kind)
        assert float(found) == pytest.approx(oracle.pair_loss(features.numpy(), targets.numpy(), *thresholds, kind))

    def test_no_sure_pair_adds_nothing(self) -> None:
        sim = torch.full((3, 3), 0.5, requires_grad=True)
        nobody = torch.zeros(3, 3, dtype=torch.bool)
        loss = pair_loss(sim, Pairs(nobody, nobody))
        loss.backward()  # type: ignore[no-untyped-call]
        assert loss.item() == 0
        assert sim.grad is not None
        assert not sim.grad.any()

    def test_rounding_beyond_one_is_harmless(self) -> None:
        sim = torch.tensor([[1 + 1e-6, -1e-7]])
        pairs = Pairs(torch.tensor([[False, True]]), torch.tensor([[True, True]]))
        assert torch.isfinite(pair_loss(sim, pairs))

    @pytest.mark.parametrize("kind", ["bce", "mse"])
    def test_gradient_of_the_pairs(self, kind: Literal["bce", "mse"]) -> None:
        a = torch.randn(5, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64, requires_grad=True)
        pairs = select_pairs(unit_rows(5, 3), Thresholds(0.9, 0.5))

        def loss(a: Tensor) -> Tensor:
            features = restrain(a)
            # The diagonal is 1 and sits on the clamp, where a numeric gradient would see its corner.
            off = Pairs(pairs.same, pairs.sure & ~torch.eye(5, dtype=torch.bool))
            return pair_loss(features @ features.T, off, kind)

        assert torch.autograd.gradcheck(loss, (a,))


class TestOtherLosses:
    def test_agreement_by_hand(self) -> None:
        found = agreement_loss(torch.tensor([[0.8, 0.6]]), torch.tensor([[1.0, 0.0]]))
        assert float(found) == pytest.approx((-math.log(0.8) - math.log(0.4)) / 2)

    def test_agreement_is_least_with_itself(self) -> None:
        target = unit_rows(6, 3)
        itself, other = agreement_loss(target, target), agreement_loss(unit_rows(6, 3, 1), target)
        assert itself < other

    def test_entropy_gap_by_hand(self) -> None:
        # Rows (3/4, 1/4) and (1/4, 3/4): both clusters are used alike, what is missing is that each image is unsure.
        a = torch.tensor([[3.0, 1.0], [1.0, 3.0]], dtype=torch.float64).log()
        assert float(entropy_gap(a)) == pytest.approx(-0.75 * math.log(0.75) - 0.25 * math.log(0.25))

    def test_entropy_gap_is_zero_if_all_clusters_are_used_alike_and_surely(self) -> None:
        assert float(entropy_gap(100 * torch.eye(4))) == pytest.approx(0, abs=1e-6)
        one_for_all, nobody_sure = torch.tensor([[100.0, 0, 0, 0]] * 3), torch.zeros(3, 4)
        for collapsed in (one_for_all, nobody_sure):
            assert float(entropy_gap(collapsed)) == pytest.approx(math.log(4), abs=1e-6)

    def test_entropy_holds_against_the_pull_of_one_cluster(self) -> None:
        """If every pair is called the same, a cluster that is ahead takes all; the entropy term does not let it."""
        everybody = Pairs(torch.ones(20, 20, dtype=torch.bool), torch.ones(20, 20, dtype=torch.bool))
        used = {}
        for weight in (0.0, 20.0):
            a = torch.randn(20, 4, generator=torch.Generator().manual_seed(0)) + torch.tensor([2.0, 0, 0, 0])
            a.requires_grad_()
            optimizer = torch.optim.Adam([a], lr=0.1)
            for _ in range(150):
                features = restrain(a)
                loss = pair_loss(features @ features.T, everybody) + weight * entropy_gap(a)
                optimizer.zero_grad()
                loss.backward()  # type: ignore[no-untyped-call]
                optimizer.step()
            used[weight] = len(set(a.argmax(dim=1).tolist()))
        assert used == {0.0: 1, 20.0: 4}

    def test_gradients(self) -> None:
        a = torch.randn(5, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64, requires_grad=True)
        assert torch.autograd.gradcheck(entropy_gap, (a,))
        assert torch.autograd.gradcheck(lambda a: agreement_loss(restrain(a), unit_rows(5, 3)), (a,))


class TestViews:
    def test_policy(self) -> None:
        config = DACConfig(n_clusters=2)
        moved = Affine(rotate=10.0, translate=0.1, zoom=(0.95, 1.05))
        assert view_policy(config, 1) == (moved, ChannelShift(amount=0.05))
        assert view_policy(config, 3) == (moved, ChannelShift(amount=0.05), Flip())
        assert view_policy(replace(config, flip=True), 1)[-1] == Flip()
        assert view_policy(replace(config, flip=False, rotate=0, translate=0, zoom=0, channel_shift=0), 3) == ()

    def test_parts_are_even(self) -> None:
        assert [len(part) for part in dac.evenly(torch.arange(1033), 128)] == [130] + [129] * 7
        assert [len(part) for part in dac.evenly(torch.arange(5), 128)] == [5]


class TestTraining:
    @pytest.mark.parametrize("seed", [0, 1, 2])
    def test_textures_are_told_apart(self, seed: int) -> None:
        """Not from every start (six of eight): with wrong first pairs DAC teaches itself that two textures are one."""
        images, truth = textures()
        config = DACConfig(n_clusters=4, width=32, epochs=16, inner_epochs=2, batch_size=30)
        assert accuracy(result_of(images, config, seed).labels, truth) == 1.0

    @pytest.mark.parametrize("seed", [0, 1])
    def test_textures_are_told_apart_by_the_network_of_the_paper(self, seed: int) -> None:
        images, truth = textures()
        config = DACConfig(
            n_clusters=4, width=32, arch="paper", epochs=8, inner_epochs=2, batch_size=30, entropy_weight=1.0
        )
        assert accuracy(result_of(images, config, seed).labels, truth) == 1.0

    @pytest.mark.parametrize(
        "changed",
        [
            {"thresholds": "single"},
            {"thresholds": "linear", "upper": 0.99, "lower": 0.8},
            {"pair_loss": "mse"},
            {"aux_weight": 10.0, "repeats": 2},
            {"entropy_weight": 1.0},
            {"restraint": False},
            {"centre": False, "bn_targets": "running"},
            {"bn_eval": "batch"},
            {"arch": "code-cifar", "flip": True},
        ],
    )
    def test_every_variant_trains_and_predicts_its_labels(self, pictures: Images, changed: dict[str, Any]) -> None:
        config = replace(QUICK, **changed)
        result = result_of(pictures, config)
        applied = restore(config, result.model, device=CPU).apply(pictures)
        np.testing.assert_array_equal(applied.labels, result.labels)
        np.testing.assert_array_equal(applied.features, result.features)
        lengths = np.linalg.norm(result.features, axis=1)
        assert np.allclose(lengths, 1, atol=1e-5) == config.restraint

    def test_steps_pools_and_epochs(self, pictures: Images) -> None:
        found = list(snapshots(pictures, QUICK))
        assert [s.event["phase"] for s in found] == ["start", "pool", "pool", "epoch", "pool", "pool", "epoch"]
        assert {s.total for s in found} == {len(found)}
        epochs = [s.event for s in found if s.event["phase"] == "epoch"]
        assert [(event["upper"], event["lower"]) for event in epochs] == [
            thresholds_at(0, QUICK),
            thresholds_at(1, QUICK),
        ]
        assert all(0 < float(event["selected_fraction"]) <= 1 for event in epochs)
        assert all(s.history["soft"].shape == (60, 4) for s in found if s.event["phase"] != "pool")

    def test_targets_stay_while_a_pool_is_learned(self, pictures: Images, monkeypatch: pytest.MonkeyPatch) -> None:
        run = dac._Run(pictures, QUICK, CPU, seed=0)
        pool = torch.arange(5, 25)
        expected = run.targets(pool)
        seen: list[Tensor] = []

        def record(target_BK: Tensor, thresholds: Thresholds) -> Pairs:
            seen.append(target_BK)
            return select_pairs(target_BK, thresholds)

        monkeypatch.setattr(dac, "select_pairs", record)
        run.learn_pool(pool, Thresholds(0.95, 0.455))
        torch.testing.assert_close(seen[0], expected.clone())
        rows = {tuple(row) for row in expected.tolist()}
        assert len(seen) == 1 + 2 * 2  # the whole pool, then two batches in each of two passes
        assert all(tuple(row) in rows for batch in seen[1:] for row in batch.tolist())

    def test_targets_come_from_unmoved_images_and_leave_the_network_alone(self, pictures: Images) -> None:
        run = dac._Run(pictures, QUICK, CPU, seed=0)
        before = {name: value.clone() for name, value in run.net.state_dict().items()}
        first, second = run.targets(torch.arange(20)), run.targets(torch.arange(20))
        assert torch.equal(first, second)
        assert all(torch.equal(value, before[name]) for name, value in run.net.state_dict().items())

    def test_batch_statistics_make_other_targets(self, pictures: Images) -> None:
        by_batch = dac._Run(pictures, QUICK, CPU, seed=0).targets(torch.arange(20))
        running = dac._Run(pictures, replace(QUICK, bn_targets="running"), CPU, seed=0).targets(torch.arange(20))
        assert not torch.allclose(by_batch, running)

    def test_repeats_take_each_batch_so_many_times(self, pictures: Images) -> None:
        once, twice = (dac._Run(pictures, replace(QUICK, repeats=n), CPU, seed=0) for n in (1, 2))
        for run, expected in ((once, 80), (twice, 160)):
            steps = run.optimizer.state_dict()["state"]
            assert not steps
            run.learn_pool(torch.arange(40), Thresholds(0.95, 0.455))
            assert float(run.optimizer.state_dict()["state"][0]["step"]) == expected / 10

    def test_optimiser_has_the_constants_of_the_release(self, pictures: Images) -> None:
        (group,) = dac._Run(pictures, QUICK, CPU, seed=0).optimizer.param_groups
        assert (group["lr"], group["alpha"], group["eps"]) == (0.001, 0.9, 1e-8)

    def test_collapse_is_said_and_what_helps(self, pictures: Images) -> None:
        """With no image different from another, all pairs are the same."""
        same = Images(np.full((24, 12, 12, 1), 90, dtype=np.uint8))
        *_, last = snapshots(same, QUICK)
        (advice,) = last.warnings
        assert advice.startswith("DAC left 3 of its 4 outputs unused")
        assert "--set entropy_weight=5" in advice


class TestModel:
    def test_layers(self, pictures: Images) -> None:
        model = restore(QUICK, result_of(pictures, QUICK).model, device=CPU)
        top, below = model.apply(pictures), model.apply(pictures, "top-1")
        assert (top.features.shape, below.features.shape) == ((60, 4), (60, 8))
        np.testing.assert_array_equal(top.labels, below.labels)
        with pytest.raises(InvalidInput, match="the layer must be one of top, top-1; got 'conv'"):
            model.apply(pictures, "conv")

    def test_other_sizes_are_refused(self, pictures: Images) -> None:
        model = restore(QUICK, result_of(pictures, QUICK).model, device=CPU)
        with pytest.raises(InvalidInput, match=r"shape \(8, 8, 1\).*trained on \(12, 12, 1\)"):
            model.apply(Images(np.zeros((2, 8, 8, 1), dtype=np.uint8)))

    def test_labels_that_depend_on_neighbours_are_not_exported(self, pictures: Images) -> None:
        config = replace(QUICK, bn_eval="batch")
        model = restore(config, result_of(pictures, config).model, device=CPU)
        assert model.apply(pictures.subset(slice(0, 1))).labels.shape == (1,)
        with pytest.raises(InvalidInput, match="bn_eval=batch labels an image by the images beside it"):
            model.network()


class TestReport:
    @pytest.mark.parametrize("starts", [1, 3])
    def test_thresholds_pairs_and_circle_are_drawn_from_what_a_run_keeps(self, tmp_path: Path, starts: int) -> None:
        images, truth = textures()
        folder = RunFolder.create(
            tmp_path / "run", {"method": "dac", "settings": QUICK.to_json(), "seed": 0, "image": {}, "source": {}}
        )
        folder.save_truth(truth, None)
        improve = ImproveConfig(starts=starts, start_length=2)
        FitRun(images, dac.METHOD, QUICK, CPU, truth=truth, folder=folder, improve=improve).run()
        run = read_run(folder.path)
        assert len(run.stages) == 3  # the start and two epochs, of one network
        trace = threshold_trace(run)
        assert [(point.upper, point.lower) for point in trace] == [thresholds_at(epoch, QUICK) for epoch in range(2)]
        assert all(point.selected is not None and point.positive_precision is not None for point in trace)
        names = [part.name for part in method_parts(run, Pictures(run))]
        assert "circle" in names
        assert "thresholds" in names
