from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.oracles import secu as oracle
from torch import Tensor

from selfsort.augment.policy import Affine, Flip, Solarise
from selfsort.data.synthetic import shapes
from selfsort.errors import InvalidInput
from selfsort.methods import secu
from selfsort.methods._secu_balance import EntropyPrice, SizeBounds
from selfsort.methods._secu_lars import LARS
from selfsort.methods.secu import (
    SeCuConfig,
    SeCuNet,
    assignment_cost,
    centre_rate,
    encoder_rate,
    make_balance,
    representation_loss,
    restore,
    train,
    train_from,
    view_policies,
)
from selfsort.metrics.external import accuracy
from selfsort.report.contents import method_parts
from selfsort.report.read import read_run
from selfsort.report.sections.bounds import size_trace
from selfsort.report.sections.pictures import Pictures
from selfsort.runs.folder import RunFolder
from selfsort.runs.loop import FitRun
from selfsort.types import Clustering, Images, Snapshot, State

CPU = torch.device("cpu")
NET: dict[str, Any] = {"n_clusters": 4, "arch": "small", "width": 8, "dim": 32, "n_heads": 2, "batch_size": 20}
QUICK = SeCuConfig(**NET, epochs=3, warmup=1, lr=0.05, crop_min=0.8, blur=0.1)
# So few images give so few steps that a softer temperature and slower centres are needed.
SOFT: dict[str, Any] = {"lr": 0.02, "centre_lr": 0.1, "lam_x": 0.2, "lam_w": 0.2, "weight_decay": 1e-3, "gamma": 1.0}
PLAIN: dict[str, Any] = {"crop_min": 0.9, "jitter": 0.0, "blur": 0.0, "solarise": 0.0}
LEARNING = SeCuConfig(**{**NET, **SOFT, **PLAIN, "n_heads": 3, "batch_size": 10, "epochs": 20, "warmup": 2})


def snapshots(images: Images, config: SeCuConfig, resume: State | None = None, seed: int = 0) -> Iterator[Snapshot]:
    return train(images, config, device=CPU, seed=seed, resume=resume)


def result_of(images: Images, config: SeCuConfig, seed: int = 0) -> Clustering:
    *_, last = snapshots(images, config, seed=seed)
    assert last.result is not None
    return last.result


def unit_rows(n: int, d: int, seed: int = 0) -> Tensor:
    rows = torch.randn(n, d, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return torch.nn.functional.normalize(rows, dim=1)


@pytest.fixture(scope="module")
def pictures() -> Images:
    return shapes(15, size=16, seed=0)[0]


@pytest.fixture(scope="module")
def learned(pictures: Images) -> Clustering:
    return result_of(pictures, LEARNING)


class TestSettings:
    def test_what_is_published_for_cifar_10(self) -> None:
        config = SeCuConfig(n_clusters=10)
        assert (config.epochs, config.warmup, config.batch_size, config.lr, config.centre_lr) == (
            400,
            10,
            128,
            0.2,
            1.2,
        )
        assert (config.gamma, config.eta_rho, config.tau, config.lam_x, config.lam_w) == (0.9, 0.1, 0.2, 0.05, 0.05)
        assert config.head_sizes == (10, 20, 30, 40, 50, 60, 70, 80, 90, 100)

    @pytest.mark.parametrize(
        ("wrong", "message"),
        [
            ({"batch_size": 1}, "batch_size must be at least 2, for batch normalisation; got 1"),
            ({"epochs": 5}, r"warmup must be at least 0 and below epochs \(5\); got 10"),
            ({"width": 4}, "width must be at least 8; got 4"),
            ({"gamma": 1.1}, "gamma must be between 0 and 1"),
            ({"gamma_upper": 1.0}, "gamma_upper must be above 1, or none; got 1.0"),
            ({"crop_min": 0.0}, "crop_min must be above 0"),
            ({"alpha": -1.0}, "alpha must be at least 0, or none"),
            ({"constraint": "both"}, "constraint must be size or entropy or none; got 'both'"),
        ],
    )
    def test_bad_values_are_refused(self, wrong: dict[str, Any], message: str) -> None:
        with pytest.raises(InvalidInput, match=message):
            SeCuConfig(n_clusters=2, **wrong)

    def test_the_price_of_entropy_is_the_published_one_and_grows_with_the_images(self) -> None:
        config = SeCuConfig(n_clusters=10, constraint="entropy")
        prices = [make_balance(10, n, config, CPU) for n in (50_000, 5_000)]
        assert [price.alpha for price in prices if isinstance(price, EntropyPrice)] == pytest.approx([6000, 600])
        other = make_balance(10, 50_000, replace(config, units="supplement"), CPU)
        assert isinstance(other, EntropyPrice)
        assert other.alpha == pytest.approx(6000 / 0.05)


class TestRepresentationLoss:
    def test_by_hand(self) -> None:
        # Both views at the first of two centres, temperature 1, label 0: p = e / (e + 1) for the label.
        x, w = torch.tensor([[1.0, 0.0]]), torch.eye(2)
        p = np.e / (np.e + 1)
        expected = -(0.2 * np.log(p) + 0.8 * (p * np.log(p) + (1 - p) * np.log(1 - p)))
        assert representation_loss((x, x), w, torch.tensor([0]), 1.0, 0.2).item() == pytest.approx(expected)

    @pytest.mark.parametrize(("lam", "tau"), [(1.0, 0.2), (0.2, 0.0), (0.1, 1.0)])
    def test_equals_the_definition(self, lam: float, tau: float) -> None:
        x1, x2, w, y = unit_rows(5, 4), unit_rows(5, 4, 1), unit_rows(3, 4, 2).T, torch.tensor([0, 2, 1, 1, 0])
        expected = oracle.representation_loss(x1.numpy(), x2.numpy(), w.numpy(), y.numpy(), lam, tau)
        assert representation_loss((x1, x2), w, y, lam, tau).item() == pytest.approx(expected)

    def test_the_projector_teaches_the_predictor(self) -> None:
        made, by = [unit_rows(5, 4, seed) for seed in (0, 1)], [unit_rows(5, 4, seed) for seed in (3, 4)]
        w, y = unit_rows(3, 4, 2).T, torch.tensor([0, 2, 1, 1, 0])
        hard = torch.eye(3).double()[y]
        expected = sum(
            -0.5
            * ((0.2 * hard + 0.8 * torch.softmax(by[1 - i] @ w / 0.1, 1)) * torch.log_softmax(made[i] @ w / 0.1, 1))
            .sum(dim=1)
            .mean()
            for i in range(2)
        )
        assert representation_loss(made, w, y, 0.1, 0.2, teachers=by).item() == pytest.approx(float(expected))

    def test_training_with_a_predictor_takes_the_projectors_target(
        self, pictures: Images, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        calls: list[tuple[Any, Any]] = []

        def watch(views: Any, *rest: Any, teachers: Any = None) -> Tensor:
            calls.append((views, teachers))
            return representation_loss(views, *rest, teachers=teachers)

        monkeypatch.setattr(secu, "representation_loss", watch)
        next(iter(snapshots(pictures, replace(QUICK, with_predictor=True, n_heads=1))))
        projector, predictor = calls[:2]
        assert projector[1] is None
        assert predictor[1] is projector[0]

    def test_targets_and_centres_stand_still(self) -> None:
        x1, x2, w = unit_rows(5, 4).requires_grad_(), unit_rows(5, 4, 1), unit_rows(3, 4, 2).T.clone().requires_grad_()
        y = torch.tensor([0, 2, 1, 1, 0])
        representation_loss((x1, x2), w, y, 0.5, 0.2).backward()  # type: ignore[no-untyped-call]
        assert w.grad is None
        # Half of the cross-entropy of view 1 alone, its target held fixed, has the same gradient.
        again = x1.detach().clone().requires_grad_()
        q = 0.2 * torch.eye(3).double()[y] + 0.8 * torch.softmax(x2 @ w.detach() / 0.5, dim=1)
        loss = -0.5 * (q * torch.log_softmax(again @ w.detach() / 0.5, dim=1)).sum(dim=1).mean()
        loss.backward()  # type: ignore[no-untyped-call]
        torch.testing.assert_close(x1.grad, again.grad)

    def test_gradcheck(self) -> None:
        w, y = unit_rows(3, 4, 2).T, torch.tensor([0, 2, 1])
        # With tau = 1 nothing is stopped, so finite differences see the whole function.
        assert torch.autograd.gradcheck(
            lambda a, b: representation_loss((a, b), w, y, 0.5, 1.0),
            (unit_rows(3, 4).requires_grad_(), unit_rows(3, 4, 1).requires_grad_()),
        )


class TestAssignments:
    def test_without_duals_the_label_is_the_greatest_mean_cosine(self) -> None:
        x1, x2, w = unit_rows(9, 4), unit_rows(9, 4, 1), unit_rows(3, 4, 2).T
        cost = assignment_cost((x1, x2), w, "code", 0.05)
        torch.testing.assert_close(cost, -0.5 * (x1 + x2) @ w)
        bounds = SizeBounds(3, 0.9, None, 0.1, CPU)
        torch.testing.assert_close(bounds.assign(cost, torch.full((9,), -1)), ((x1 + x2) @ w).argmax(dim=1))

    @given(st.integers(0, 1000))
    @settings(derandomize=True, deadline=None, max_examples=10)
    def test_code_and_supplement_units_agree_up_to_the_temperature(self, seed: int) -> None:
        lam, w = 0.05, unit_rows(3, 4, seed).T
        code, paper = SizeBounds(3, 0.9, None, 0.1, CPU), SizeBounds(3, 0.9, None, 0.1 / lam, CPU)
        rules: tuple[tuple[SizeBounds, Literal["code", "supplement"]], ...] = ((code, "code"), (paper, "supplement"))
        for batch in range(20):
            views = (unit_rows(16, 4, seed + 2 * batch + 1), unit_rows(16, 4, seed + 2 * batch + 2))
            nowhere = torch.full((16,), -1)
            found = [bounds.assign(assignment_cost(views, w, units, lam), nowhere) for bounds, units in rules]
            torch.testing.assert_close(found[0], found[1])
            code.update(found[0], nowhere)
            paper.update(found[1], nowhere)
        torch.testing.assert_close(paper.lower_K * lam, code.lower_K)


class TestSchedule:
    def test_the_encoder_rests_in_epoch_0_then_rises_then_falls(self) -> None:
        config = SeCuConfig(n_clusters=2, lr=0.2, epochs=400, warmup=10)
        assert encoder_rate(0.0, config) == encoder_rate(0.999, config) == 0
        assert encoder_rate(6.0, config) == pytest.approx(0.1)
        assert encoder_rate(11.0, config) == pytest.approx(0.2)
        assert encoder_rate(11 + 195, config) == pytest.approx(0.1)
        assert encoder_rate(401.0, config) == pytest.approx(0)

    def test_no_warm_up(self) -> None:
        assert encoder_rate(1.0, SeCuConfig(n_clusters=2, lr=0.2, epochs=3, warmup=0)) == pytest.approx(0.2)

    def test_centres_keep_their_rate_unless_asked(self) -> None:
        config = SeCuConfig(n_clusters=2, centre_lr=1.2, epochs=9, warmup=0)
        assert {centre_rate(t, config) for t in (0.0, 3.3, 10.0)} == {1.2}
        falling = replace(config, centre_schedule="cosine")
        assert [centre_rate(t, falling) for t in (0.0, 5.0, 10.0)] == pytest.approx([1.2, 0.6, 0.0])
        rising = replace(config, centre_schedule="rising")
        assert [centre_rate(t, rising) for t in (0.0, 5.0, 10.0)] == pytest.approx([0.0, 0.6, 1.2])


class TestViews:
    def test_what_is_published(self) -> None:
        first, second = view_policies((32, 32, 3), SeCuConfig(n_clusters=10))
        assert [type(step).__name__ for step in first] == ["ResizedCrop", "ColourJitter", "Grayscale", "Blur", "Flip"]
        assert [type(step).__name__ for step in second] == [
            *("ResizedCrop", "ColourJitter", "Grayscale", "Blur", "Solarise", "Flip")
        ]
        assert [first[3].p, second[3].p, second[4].p, first[1].p] == pytest.approx([1.0, 0.1, 0.2, 0.8])

    def test_gray_images_are_not_mirrored_unless_asked(self) -> None:
        config = SeCuConfig(n_clusters=10, rotate=5.0)
        assert not any(isinstance(step, Flip) for policy in view_policies((16, 16, 1), config) for step in policy)
        asked = view_policies((16, 16, 1), replace(config, flip=True))
        assert all(any(isinstance(step, Flip) for step in policy) for policy in asked)
        assert isinstance(asked[0][0], Affine)
        assert not any(isinstance(step, Solarise) for step in asked[0])


class TestNetwork:
    def test_outputs_are_unit_vectors(self) -> None:
        torch.manual_seed(0)
        net = SeCuNet((16, 16, 1), QUICK)
        (x,) = net(torch.rand(4, 1, 16, 16))
        assert x.shape == (4, 32)
        torch.testing.assert_close(x.norm(dim=1), torch.ones(4))
        assert [tuple(w.shape) for w in net.centres] == [(32, 4), (32, 8)]
        for w in net.centres:
            torch.testing.assert_close(w.norm(dim=0), torch.ones(w.shape[1]))

    def test_with_a_predictor_there_are_two_outputs(self) -> None:
        net = SeCuNet((16, 16, 1), replace(QUICK, with_predictor=True))
        outputs = net(torch.rand(4, 1, 16, 16))
        assert [tuple(x.shape) for x in outputs] == [(4, 32)] * 2

    def test_the_predictor_sees_the_projection_before_it_is_made_unit(self) -> None:
        net = SeCuNet((16, 16, 1), replace(QUICK, with_predictor=True)).eval()
        assert net.predict is not None
        x = torch.rand(4, 1, 16, 16)
        before = net.project(net.encoder(net.normalise(x)))
        torch.testing.assert_close(net(x)[1], torch.nn.functional.normalize(net.predict(before)))

    def test_lars_scales_the_centres_too(self) -> None:
        net = SeCuNet((16, 16, 1), QUICK)
        optimizer = secu._optimizer(net, replace(QUICK, optimizer="lars", momentum=0.0, weight_decay=0.0))
        assert isinstance(optimizer, LARS)
        optimizer.param_groups[1]["lr"] = 4.2
        before = net.centres[0].detach().clone()
        net.centres[0].grad = torch.full_like(net.centres[0], 1000.0)
        optimizer.step()
        # However steep the slope, the step is lr times a thousandth of the weights.
        moved = float((net.centres[0].detach() - before).norm())
        assert moved == pytest.approx(4.2 * 0.001 * float(before.norm()), rel=1e-4)


class TestTraining:
    def test_epoch_0_leaves_the_encoder_as_it_was(self, pictures: Images) -> None:
        run = secu._Run(pictures, QUICK, CPU, seed=0)
        before = run.state().arrays
        after = next(iter(snapshots(pictures, QUICK))).state().arrays
        weights = [name for name in before if name.startswith("net.") and "centres" not in name]
        is_moved = {name: not np.array_equal(before[name], after[name]) for name in weights}
        statistics = {name for name in weights if "running" in name or "num_batches" in name}
        assert {name for name, moved in is_moved.items() if moved} == statistics
        assert any(np.abs(after[name]).max() > 0 for name in after if name.endswith("momentum_buffer"))
        assert not np.array_equal(before["net.centres.0"], after["net.centres.0"])
        assert (after["assigned"] >= 0).all()

    def test_the_representation_loss_sees_last_epochs_labels_and_centres(
        self, pictures: Images, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        seen: list[tuple[Tensor, Tensor]] = []

        def watch(views: Any, w_DK: Tensor, y_B: Tensor, lam: float, tau: float) -> Tensor:
            seen.append((w_DK.clone(), y_B.clone()))
            return representation_loss(views, w_DK, y_B, lam, tau)

        monkeypatch.setattr(secu, "representation_loss", watch)
        config = replace(QUICK, n_heads=1)
        taken = [snapshot.state().arrays for snapshot in snapshots(pictures, config)]
        n_batches = 3
        assert len(seen) == n_batches * (config.epochs + 1)
        for epoch in range(1, config.epochs + 1):
            start = taken[epoch - 1]["net.centres.0"]
            before = np.sort(taken[epoch - 1]["assigned"][:, 0])
            calls = seen[n_batches * epoch : n_batches * (epoch + 1)]
            for w_DK, _ in calls:
                np.testing.assert_allclose(w_DK.numpy(), start / np.linalg.norm(start, axis=0), atol=1e-6)
            np.testing.assert_array_equal(np.sort(np.concatenate([y.numpy() for _, y in calls])), before)

    def test_sorts_separable_pictures(self, learned: Clustering) -> None:
        assert accuracy(learned.labels, shapes(15, size=16, seed=0)[1]) == 1.0
        images, truth = shapes(15, size=16, seed=1)
        assert accuracy(result_of(images, LEARNING, seed=1).labels, truth) == 1.0

    @pytest.mark.parametrize(
        "variant",
        [
            {"constraint": "entropy"},
            {"constraint": "none"},
            {"units": "supplement", "eta_rho": 2.0},
            {"gamma": 1.0},
            {"gamma_upper": 1.2},
            {"centre_update": "closed_form"},
            {"centre_update": "running_mean"},
            {"centre_update": "cross_entropy"},
            {"centre_schedule": "cosine"},
            {"centre_schedule": "rising", "constraint": "entropy"},
            {"with_predictor": True, "optimizer": "lars"},
            {"flip": True, "rotate": 10.0, "solarise": 0.0},
        ],
        ids=str,
    )
    def test_variants_are_settings(self, pictures: Images, variant: dict[str, Any]) -> None:
        taken = [(s, s.state().arrays["net.centres.1"]) for s in snapshots(pictures, replace(QUICK, **variant))]
        last = taken[-1][0].result
        assert last is not None
        assert np.isfinite(last.features).all()
        assert all(np.isfinite(float(s.event["centre"])) for s, _ in taken)
        assert not np.array_equal(taken[0][1], taken[-1][1])

    @pytest.mark.parametrize("update", ["closed_form", "running_mean"])
    def test_centres_without_gradient_are_unit_and_not_in_the_optimiser(
        self, pictures: Images, update: Literal["closed_form", "running_mean"]
    ) -> None:
        *_, last = snapshots(pictures, replace(QUICK, centre_update=update))
        for h in range(2):
            norms = np.linalg.norm(last.state().arrays[f"net.centres.{h}"], axis=0)
            np.testing.assert_allclose(norms, 1, atol=1e-5)
        run = secu._Run(pictures, replace(QUICK, centre_update=update), CPU, seed=0)
        assert len(run.optimizer.param_groups) == 1

    def test_events_and_history(self, pictures: Images) -> None:
        taken = list(snapshots(pictures, replace(QUICK, gamma_upper=1.5)))
        assert [s.step for s in taken] == [1, 2, 3, 4]
        assert {s.total for s in taken} == {4}
        assert all(s.event["size_lower"] == 13.5 and s.event["size_upper"] == 22.5 for s in taken)
        assert taken[0].event["changed"] == 1.0
        assert [len(s.history["rows"]) for s in taken] == [60, 60, 0, 60]
        assert all(s.history["sizes"].sum() == 60 for s in taken)

    def test_a_last_batch_of_one_is_skipped(self) -> None:
        images = shapes(7, size=16, n_classes=3)[0]  # 21 images, batches of 20
        taken = [(s, s.state().arrays["assigned"]) for s in snapshots(images, replace(QUICK, n_clusters=3))]
        assert [s.event["skipped_batches"] for s, _ in taken] == [1] * 4
        assert (taken[0][1] < 0).any(axis=1).sum() == 1

    def test_the_label_store_is_small(self, pictures: Images) -> None:
        store = secu._Run(pictures, QUICK, CPU, seed=0).assigned_NH
        assert store.element_size() * store.numel() <= 8 * len(pictures) * QUICK.n_heads

    def test_oblong_colour_images(self) -> None:
        pixels = np.random.default_rng(0).integers(0, 256, (20, 12, 20, 3)).astype(np.uint8)
        assert result_of(Images(pixels), QUICK).features.shape == (20, 32)


class TestResume:
    @pytest.mark.parametrize(
        "variant",
        [
            {"gamma_upper": 1.3},
            {"constraint": "entropy"},
            {"centre_update": "closed_form"},
            {"centre_update": "running_mean", "optimizer": "lars"},
        ],
        ids=str,
    )
    def test_from_every_snapshot(self, pictures: Images, variant: dict[str, Any]) -> None:
        config = replace(QUICK, **variant)
        taken = [(snapshot, snapshot.state()) for snapshot in snapshots(pictures, config)]
        for snapshot, state in taken[:-1]:
            rest = list(snapshots(pictures, config, resume=state))
            assert [later.step for later in rest] == list(range(snapshot.step + 1, len(taken) + 1))
            again, whole = rest[-1].state().arrays, taken[-1][1].arrays
            assert again.keys() == whole.keys()
            for name, array in whole.items():
                np.testing.assert_array_equal(again[name], array, err_msg=name)
        kept = {name.split(".")[-1] for name in taken[0][1].arrays if name.startswith("balance.")}
        assert kept == ({"counts"} if config.constraint == "entropy" else {"lower", "upper"})


class TestSecondStage:
    def test_it_begins_with_the_network_of_the_first(self, pictures: Images) -> None:
        first = result_of(pictures, QUICK)
        second = replace(QUICK, n_heads=1, lr=1e-9, centre_lr=1e-9, weight_decay=0.0)
        *_, last = train_from(first.model, pictures, second, device=CPU, seed=5)
        assert last.result is not None
        np.testing.assert_allclose(
            last.result.model.arrays["net.encoder.stem.weight"],
            first.model.arrays["net.encoder.stem.weight"],
            atol=1e-6,
        )
        np.testing.assert_allclose(
            last.result.model.arrays["net.centres.0"], first.model.arrays["net.centres.0"], atol=1e-5
        )

    def test_other_numbers_of_clusters_are_refused(self, pictures: Images) -> None:
        first = result_of(pictures, QUICK)
        with pytest.raises(
            InvalidInput, match=r"n_clusters and dim must be those of the run to start from; got \(3, 32"
        ):
            next(train_from(first.model, pictures, replace(QUICK, n_clusters=3), device=CPU, seed=0))


class TestModel:
    def test_new_pictures_are_sorted(self, learned: Clustering) -> None:
        images, truth = shapes(10, size=16, seed=77)
        assert accuracy(restore(LEARNING, learned.model, device=CPU).apply(images).labels, truth) == 1.0

    def test_training_pictures_get_back_what_they_had(self, learned: Clustering, pictures: Images) -> None:
        applied = restore(LEARNING, learned.model, device=CPU).apply(pictures)
        np.testing.assert_array_equal(applied.features, learned.features)
        np.testing.assert_array_equal(applied.soft, learned.soft)

    def test_the_prediction_is_the_greatest_cosine(self, learned: Clustering) -> None:
        w = learned.model.arrays["net.centres.0"]
        expected = (learned.features @ (w / np.linalg.norm(w, axis=0))).argmax(axis=1)
        np.testing.assert_array_equal(learned.labels, expected)

    def test_the_network_for_export_says_the_same(self, learned: Clustering, pictures: Images) -> None:
        x = torch.from_numpy(pictures.pixels).permute(0, 3, 1, 2) / 255
        with torch.inference_mode():
            soft, features = restore(LEARNING, learned.model, device=CPU).network()(x)
        np.testing.assert_allclose(soft.numpy(), learned.soft, atol=1e-4)
        np.testing.assert_allclose(features.numpy(), learned.features, atol=1e-5)

    def test_wrong_size_and_wrong_layer_are_refused(self, learned: Clustering, pictures: Images) -> None:
        model = restore(LEARNING, learned.model, device=CPU)
        with pytest.raises(InvalidInput, match=r"have shape \(20, 20, 1\)\. This model was trained on \(16, 16, 1\)"):
            model.apply(shapes(1, size=20)[0])
        with pytest.raises(InvalidInput, match=r"layer must be top, .* got 'top-1'"):
            model.apply(pictures, "top-1")


class TestReport:
    def test_sizes_are_drawn_against_their_bounds(self, pictures: Images, tmp_path: Path) -> None:
        config = replace(QUICK, gamma_upper=1.5)
        image = {"height": 16, "width": 16, "channels": 1, "fit": "crop"}
        settings = {"method": "secu", "settings": config.to_json(), "seed": 0, "image": image}
        folder = RunFolder.create(tmp_path / "run", settings)
        FitRun(pictures, secu.METHOD, config, CPU, folder=folder).run()
        run = read_run(folder.path)
        trace = size_trace(run.stages)
        assert [(point.lower, point.upper) for point in trace] == [(13.5, 22.5)] * 4
        assert all(point.smallest <= 15 <= point.largest for point in trace)
        names = {part.name for part in method_parts(run, Pictures(run))}
        assert {"bounds", "circle", "histograms"} <= names
