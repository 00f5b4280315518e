from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from tests.conftest import Command
from tests.contract.tiny import TINY
from torch import Tensor, nn

from selfsort.augment.policy import CutOut, Flip, RandomOps
from selfsort.data.synthetic import shapes
from selfsort.errors import InvalidInput
from selfsort.estimator import ImageClusterer, load
from selfsort.improve import self_label
from selfsort.improve.self_label import (
    Refined,
    SelfLabelConfig,
    SelfLabelModel,
    assign,
    calibrated_sharpness,
    label_loss,
    learning_rate,
    mean_colour,
    select,
    sharpness_for,
    strong_policy,
    train,
)
from selfsort.methods.recipes import recipes_of
from selfsort.methods.registry import METHODS
from selfsort.metrics.external import accuracy
from selfsort.runs.export.table import export_run
from selfsort.runs.folder import RunFolder
from selfsort.runs.labels import current_labels
from selfsort.runs.model import load_model
from selfsort.types import Assignment, Clustering, FinishedRun, Images, NetworkModel, Snapshot, State

CPU = torch.device("cpu")
QUICK = SelfLabelConfig(n_clusters=4, epochs=4, warmup=2, batch_size=20, threshold=0.5, lr=0.05)


class Blots(nn.Module):
    """Assigns pictures by how much ink their four quarters hold, through weights that can be trained."""

    def __init__(self, sharpness: float = 8.0) -> None:
        super().__init__()
        self.head = nn.Linear(4, 4)
        nn.init.eye_(self.head.weight)
        nn.init.zeros_(self.head.bias)
        self.sharpness = sharpness

    def forward(self, x_BCHW: Tensor) -> tuple[Tensor, Tensor]:
        ink_B4 = nn.functional.adaptive_avg_pool2d(x_BCHW.mean(dim=1, keepdim=True), 2).flatten(1)
        return torch.softmax(self.sharpness * self.head(ink_B4), dim=1), ink_B4


class BlotModel:
    """A model that is one network, as a method would give it."""

    def __init__(self, sharpness: float = 8.0) -> None:
        self.net = Blots(sharpness)

    def apply(self, images: Images, layer: str = "top") -> Assignment:
        return assign(Refined(self.net), images, CPU)

    def network(self) -> nn.Module:
        return self.net


def blots(n: int = 60) -> tuple[Images, np.ndarray]:
    """Pictures with one bright quarter each; every eighth is faint."""
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 4, n)
    pixels = rng.integers(0, 40, (n, 8, 8, 1))
    for i, quarter in enumerate(truth):
        y, x = divmod(int(quarter), 2)
        pixels[i, 4 * y : 4 * y + 4, 4 * x : 4 * x + 4] += 50 if i % 8 == 0 else 180
    return Images(pixels.astype(np.uint8)), truth


def snapshots(
    images: Images, config: SelfLabelConfig, resume: State | None = None, sharpness: float = 8.0
) -> Iterator[Snapshot]:
    return train(FinishedRun("blots", BlotModel(sharpness)), images, config, device=CPU, seed=0, resume=resume)


def result_of(images: Images, config: SelfLabelConfig, sharpness: float = 8.0) -> Clustering:
    *_, last = snapshots(images, config, sharpness=sharpness)
    assert last.result is not None
    return last.result


class TestSettings:
    def test_what_is_published_for_secu(self) -> None:
        config = SelfLabelConfig(n_clusters=10)
        assert (config.epochs, config.warmup, config.threshold, config.batch_size) == (100, 10, 0.9, 1024)
        assert (config.optimizer, config.momentum, config.lr) == ("sgd", 0.9, 0.01)

    @pytest.mark.parametrize(
        ("wrong", "message"),
        [
            ({"threshold": 1.0}, "threshold must be at least 0 and below 1; got 1.0"),
            ({"warmup": 101}, r"warmup must be between 0 and epochs \(100\); got 101"),
            ({"batch_size": 1}, "batch_size must be at least 2"),
        ],
    )
    def test_bad_values_are_refused(self, wrong: dict[str, Any], message: str) -> None:
        with pytest.raises(InvalidInput, match=message):
            SelfLabelConfig(n_clusters=2, **wrong)


class TestEquations:
    def test_only_sure_answers_are_selected(self) -> None:
        y, is_sure = select(torch.tensor([[0.9, 0.1], [0.2, 0.8], [0.45, 0.55]]), 0.8)
        assert y.tolist() == [0, 1, 1]
        assert is_sure.tolist() == [True, False, False]

    def test_loss_by_hand(self) -> None:
        p = torch.tensor([[0.5, 0.5], [0.5, 0.5], [0.9, 0.1]])
        y = torch.tensor([0, 0, 1])
        assert label_loss(p.log(), y).item() == pytest.approx((2 * np.log(2) + np.log(10)) / 3)
        assert label_loss(p.log(), y, is_balanced=True).item() == pytest.approx((np.log(2) + np.log(10)) / 2)

    @pytest.mark.parametrize("is_balanced", [False, True])
    def test_gradcheck(self, is_balanced: bool) -> None:
        logits = torch.randn(5, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64, requires_grad=True)
        y = torch.tensor([0, 0, 0, 2, 2])
        assert torch.autograd.gradcheck(
            lambda a: label_loss(torch.log_softmax(a, dim=1), y, is_balanced=is_balanced), (logits,)
        )

    @pytest.mark.parametrize("threshold", [0.7, 0.9, 0.99])
    def test_half_of_the_images_are_sure_at_the_start(self, threshold: float) -> None:
        soft = torch.softmax(torch.randn(101, 4, generator=torch.Generator().manual_seed(0)), dim=1)
        power = sharpness_for(soft, threshold)
        sure = torch.softmax(power * soft.log(), dim=1).max(dim=1).values
        assert power > 1
        assert 50 <= int((sure > threshold).sum()) <= 51

    def test_who_is_sure_already_stays_as_he_is(self) -> None:
        assert sharpness_for(torch.tensor([[0.95, 0.05], [0.97, 0.03], [0.5, 0.5]]), 0.9) == 1.0
        # Images all alike cannot be made sure of.
        assert sharpness_for(torch.full((3, 2), 0.5), 0.9) == pytest.approx(100)

    @pytest.mark.parametrize("truth", [0.3, 1.0, 3.0])
    def test_calibration_finds_the_power_that_labels_were_drawn_with(self, truth: float) -> None:
        soft = torch.softmax(torch.randn(20_000, 4, generator=torch.Generator().manual_seed(0)), dim=1)
        drawn = torch.multinomial(
            torch.softmax(truth * soft.log(), dim=1), 1, generator=torch.Generator().manual_seed(1)
        )
        power = calibrated_sharpness(soft, drawn[:, 0])
        assert power == pytest.approx(truth, rel=0.05)
        loss = {
            p: F.nll_loss(torch.log_softmax(p * soft.log(), dim=1), drawn[:, 0]) for p in (0.9 * power, 1.1 * power)
        }
        assert F.nll_loss(torch.log_softmax(power * soft.log(), dim=1), drawn[:, 0]) < min(loss.values())

    def test_calibration_by_labels_that_say_nothing_makes_nobody_sure(self) -> None:
        soft = torch.softmax(5 * torch.randn(1000, 4, generator=torch.Generator().manual_seed(0)), dim=1)
        power = calibrated_sharpness(soft, torch.randint(4, (1000,), generator=torch.Generator().manual_seed(1)))
        assert torch.softmax(power * soft.log(), dim=1).max() < 0.4

    def test_the_rate_falls_as_a_cosine(self) -> None:
        assert [learning_rate(t, QUICK) for t in (0.0, 0.5, 1.0)] == pytest.approx([0.05, 0.025, 0.0])

    def test_strong_views(self) -> None:
        colour, gray = strong_policy((32, 32, 3), QUICK), strong_policy((16, 16, 1), QUICK)
        assert [type(step) for step in colour] == [Flip, RandomOps, CutOut]
        assert [type(step) for step in gray] == [RandomOps, CutOut]
        assert (colour[2], gray[1]) == (CutOut(size=16), CutOut(size=8))
        assert strong_policy((16, 16, 1), replace(QUICK, cutout=0, flip=True))[0] == Flip()

    def test_the_square_of_scan_has_the_mean_colour(self) -> None:
        images, _ = blots(20)
        config = replace(QUICK, cutout_fill="mean")
        last = strong_policy((32, 32, 1), config, mean_colour(images))[-1]
        assert isinstance(last, CutOut)
        assert last.fill == pytest.approx((float(images.pixels.mean()) / 255,))

    def test_a_new_network_says_what_the_old_one_said(self) -> None:
        x = torch.rand(5, 1, 8, 8)
        torch.testing.assert_close(Refined(Blots())(x)[0], Blots()(x)[0])


class TestTraining:
    def test_it_gets_surer_and_not_worse(self) -> None:
        images, truth = blots()
        before = BlotModel(4.0).apply(images)
        after = result_of(images, replace(QUICK, epochs=10, lr=0.2, threshold=0.3), sharpness=4.0)
        assert accuracy(after.labels, truth) >= accuracy(before.labels, truth)
        assert after.soft.max(axis=1).mean() > before.soft.max(axis=1).mean() + 0.05
        np.testing.assert_array_equal(after.extras["labels_before"], before.labels)

    def test_warm_up_takes_all_images_and_their_old_labels(self, monkeypatch: pytest.MonkeyPatch) -> None:
        images, _ = blots()
        seen: list[int] = []

        def watch(log_p_BK: Tensor, y_B: Tensor, *, is_balanced: bool = False) -> Tensor:
            seen.extend(y_B.tolist())
            return label_loss(log_p_BK, y_B, is_balanced=is_balanced)

        monkeypatch.setattr(self_label, "label_loss", watch)
        first = next(snapshots(images, QUICK))
        assert sorted(seen) == sorted(BlotModel().apply(images).labels.tolist())
        assert (first.event["phase"], first.event["learned_from"]) == ("fixed labels", 1.0)

    def test_later_only_the_sure_ones_count(self) -> None:
        images, _ = blots()
        taken = list(snapshots(images, replace(QUICK, threshold=0.6)))
        assert [s.event["phase"] for s in taken] == ["fixed labels"] * 2 + ["own labels"] * 2
        assert 0.5 < float(taken[2].event["learned_from"]) < 1

    def test_who_could_not_learn_the_labels_of_the_run_is_seldom_sure(self) -> None:
        images, _ = blots()
        config = replace(QUICK, lr=1e-9)
        well, badly = (self_label._Run(BlotModel(), images, config, CPU, 0) for _ in range(2))
        for run in (well, badly):
            run.ask()
        badly.fixed_N = badly.fixed_N.roll(1)
        assert well.calibrate() == 1.0
        assert badly.calibrate() < 0.5
        shares = [
            float((assign(run.net, images, CPU).soft.max(axis=1) > config.threshold).mean()) for run in (well, badly)
        ]
        assert shares[0] > 0.45
        assert shares[1] == 0

    def test_who_lost_the_labels_of_the_run_gives_them_back(self) -> None:
        images, _ = blots()
        before = BlotModel().apply(images)
        *_, last = taken = list(snapshots(images, replace(QUICK, lr=1e4)))
        assert last.result is not None
        assert len(taken) == QUICK.warmup < QUICK.epochs
        assert float(last.event["agreement"]) < QUICK.min_agreement
        np.testing.assert_array_equal(last.result.labels, before.labels)
        np.testing.assert_allclose(last.result.soft, before.soft, atol=1e-6)
        assert re.search(r"repeats \d+% of them, too few .* the run as it was", last.warnings[0])
        # The saved network is the first one as well.
        again = SelfLabelModel(BlotModel(), last.result.model, CPU).apply(images)
        np.testing.assert_allclose(again.soft, before.soft, atol=1e-6)
        assert len(list(snapshots(images, replace(QUICK, lr=1e4, min_agreement=0.0)))) == QUICK.epochs

    def test_batches_without_a_sure_image_are_skipped_and_counted(self, monkeypatch: pytest.MonkeyPatch) -> None:
        images, _ = blots()
        monkeypatch.setattr(self_label, "sharpness_for", lambda soft, threshold: 1.0)
        config = replace(QUICK, warmup=0, threshold=0.9999)
        taken = list(snapshots(images, config))
        assert [s.event["skipped_batches"] for s in taken] == [3] * 4
        assert [s.event["learned_from"] for s in taken] == [0.0] * 4
        np.testing.assert_array_equal(taken[-1].labels, BlotModel().apply(images).labels)

    @pytest.mark.parametrize(
        "variant", [{"balanced": True}, {"optimizer": "adam", "lr": 1e-3}, {"flip": True}], ids=str
    )
    def test_variants_are_settings(self, variant: dict[str, Any]) -> None:
        images, _ = blots()
        assert np.isfinite(result_of(images, replace(QUICK, **variant)).soft).all()

    def test_statistics_are_those_of_the_images_as_they_are(self) -> None:
        images = shapes(12, size=16, n_classes=3)[0]
        settings = {**TINY["secu"], "epochs": 1, "warmup": 0}
        first = ImageClusterer("secu", 3, settings=settings, recipe="default", device="cpu").fit(images)._model
        assert isinstance(first, NetworkModel)
        name = "net.network.net.encoder.stem_norm.running_mean"
        config = SelfLabelConfig(n_clusters=3, epochs=1, warmup=1, batch_size=12, lr=1e-12, weight_decay=0.0)
        *_, last = train(FinishedRun("secu", first), images, config, device=CPU, seed=0)
        net = first.network().get_submodule("net")
        x = torch.from_numpy(images.pixels).permute(0, 3, 1, 2) / 255
        with torch.no_grad():
            maps = net.get_submodule("encoder.stem")(net.get_submodule("normalise")(x))
        # Means over three batches of twelve are the mean over all 36.
        np.testing.assert_allclose(last.state().arrays[name], maps.mean(dim=(0, 2, 3)).numpy(), atol=1e-5)

    def test_as_published_nothing_is_sharpened_refreshed_or_given_back(self) -> None:
        paper = next(recipe for recipe in recipes_of("self-label") if recipe.name == "paper")
        config = SelfLabelConfig.from_json({**QUICK.to_json(), **paper.settings, "threshold": 0.9})
        images, _ = blots()
        taken = list(snapshots(images, config, sharpness=0.2))
        assert [snapshot.event["sharpness"] for snapshot in taken] == [1.0] * config.epochs
        assert taken[-1].step == config.epochs
        assert not any(snapshot.warnings for snapshot in taken)

    def test_resume_from_every_snapshot(self) -> None:
        images, _ = blots()
        taken = [(snapshot, snapshot.state()) for snapshot in snapshots(images, QUICK)]
        for snapshot, state in taken[:-1]:
            rest = list(snapshots(images, QUICK, resume=state))
            assert [later.step for later in rest] == list(range(snapshot.step + 1, 5))
            again, whole = rest[-1].state().arrays, taken[-1][1].arrays
            for name, array in whole.items():
                np.testing.assert_array_equal(again[name], array, err_msg=name)

    def test_the_model_gives_back_the_labels(self) -> None:
        images, _ = blots()
        result = result_of(images, QUICK)
        model = SelfLabelModel(BlotModel(), result.model, CPU)
        np.testing.assert_array_equal(model.apply(images).soft, result.soft)
        with pytest.raises(InvalidInput, match=r"This model was trained on \(8, 8, 1\)"):
            model.apply(shapes(1, size=16)[0])
        with pytest.raises(InvalidInput, match="layer must be top"):
            model.apply(images, "top-1")


class TestRegrouping:
    """A network that knows four classes but says the same of two of them, and has an answer to spare."""

    CONFIG = replace(QUICK, epochs=8, warmup=5, lr=0.5, regroup=True, n_ops=0, cutout=0)

    def model(self) -> BlotModel:
        model = BlotModel()
        with torch.no_grad():
            model.net.head.weight.copy_(torch.tensor([[1.0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1], [-1, -1, -1, -1]]))
        return model

    def snapshots(self, config: SelfLabelConfig, resume: State | None = None) -> Iterator[Snapshot]:
        images, _ = blots(400)
        return train(FinishedRun("blots", self.model()), images, config, device=CPU, seed=0, resume=resume)

    def test_parts_what_was_joined(self) -> None:
        images, truth = blots(400)
        before = self.model().apply(images).labels
        taken = list(self.snapshots(self.CONFIG))
        result = taken[-1].result
        assert result is not None
        assert accuracy(before, truth) < 0.8
        assert accuracy(result.labels, truth) > 0.9  # some are faint
        assert ["regrouped" in snapshot.event for snapshot in taken] == [True] + [False] * 7
        np.testing.assert_array_equal(result.extras["labels_before"], before)

    def test_off_by_default(self) -> None:
        _, truth = blots(400)
        result = list(self.snapshots(replace(self.CONFIG, regroup=False)))[-1].result
        assert result is not None
        assert accuracy(result.labels, truth) < 0.8

    def test_resumed(self) -> None:
        taken = [(snapshot, snapshot.state()) for snapshot in self.snapshots(self.CONFIG)]
        first, last = list(self.snapshots(self.CONFIG, resume=taken[0][1]))[-1].result, taken[-1][0].result
        assert first is not None
        assert last is not None
        np.testing.assert_array_equal(first.labels, last.labels)
        np.testing.assert_array_equal(first.extras["labels_before"], last.extras["labels_before"])


class TestRuns:
    """On the command line: a finished run in, a finished run out."""

    @pytest.fixture(scope="class")
    @classmethod
    def finished(cls, tmp_path_factory: pytest.TempPathFactory) -> Path:
        folder = tmp_path_factory.mktemp("refine")
        images, labels = shapes(12, size=16, n_classes=3)
        np.savez(folder / "shapes.npz", images=images.pixels, labels=labels)
        model = ImageClusterer("secu", 3, settings=TINY["secu"], recipe="default", device="cpu")
        model.fit(images).save(folder / "first")
        return folder

    def refine(self, selfsort: Command, folder: Path, *words: object) -> dict[str, Any]:
        settings = ("--set", "epochs=2", "--set", "warmup=1", "--set", "batch_size=12")
        done = selfsort(
            "refine", folder / "first", folder / "shapes.npz", *settings, "--json", "--device", "cpu", *words
        )
        assert done.code == 0, done.err
        found: dict[str, Any] = json.loads(done.out)
        return found

    def test_a_run_is_refined_and_can_be_used_like_any_other(
        self, selfsort: Command, finished: Path, tmp_path: Path
    ) -> None:
        told = self.refine(selfsort, finished, "--out", "second")
        assert (told["method"], told["clusters_asked"]) == ("self-label", 3)
        folder = RunFolder.open("second")
        assert folder.config["refines"] == "secu"
        images = shapes(12, size=16, n_classes=3)[0]
        model = load("second", device="cpu")
        np.testing.assert_array_equal(model.predict(images), folder.label_table().labels)
        export_run(folder, current_labels(folder), "onnx", tmp_path / "model.onnx")
        assert selfsort("predict", "second", finished / "shapes.npz", "--out", "new.csv").code == 0
        assert selfsort("report", "second").code == 0

    def test_an_interrupted_one_goes_on(self, selfsort: Command, finished: Path) -> None:
        self.refine(selfsort, finished, "--out", "whole")
        settings = ("--set", "epochs=2", "--set", "warmup=1", "--set", "batch_size=12")
        words = ("refine", finished / "first", finished / "shapes.npz", *settings, "--device", "cpu")
        assert selfsort(*words, "--out", "part", "--max-minutes", 0).code == 3
        assert selfsort("fit", "--resume", "part").code == 0
        np.testing.assert_array_equal(
            RunFolder.open("whole").result().features, RunFolder.open("part").result().features
        )

    def test_the_old_command_says_what_it_is_called_now(self, selfsort: Command, finished: Path) -> None:
        told = self.refine(selfsort, finished, "--out", "new")
        settings = ("--set", "epochs=2", "--set", "warmup=1", "--set", "batch_size=12", "--set", "mend=off")
        words = ("--self-label", finished / "first", *settings, "--device", "cpu", "--json", "--out", "old")
        done = selfsort("fit", finished / "shapes.npz", *words)
        assert done.code == 0, done.err
        assert done.err.splitlines()[:2] == [
            "--self-label RUN is now: selfsort refine RUN. It works here for one release.",
            "mend is now regroup; old names work for one release.",
        ]
        assert json.loads(done.out)["clusters_found"] == told["clusters_found"]
        np.testing.assert_array_equal(RunFolder.open("new").result().features, RunFolder.open("old").result().features)

    def test_the_first_run_stays_as_it_is(self, selfsort: Command, finished: Path) -> None:
        before = {path.name: path.read_bytes() for path in (finished / "first").iterdir() if path.is_file()}
        self.refine(selfsort, finished, "--out", "third")
        assert {path.name: path.read_bytes() for path in (finished / "first").iterdir() if path.is_file()} == before

    def test_what_does_not_go_together_is_refused(self, selfsort: Command, finished: Path, npz: Path) -> None:
        first, source = finished / "first", finished / "shapes.npz"
        for words, part in (
            ((source, "--self-label", first, "--method", "secu"), "--method and --start-from do not go with it"),
            ((source, "--clusters", 3, "--method", "self-label"), "Use selfsort refine RUN --stage self-label."),
            ((source, "--start-from", first, "--method", "kmeans"), "kmeans cannot begin with a run of secu"),
            ((npz, "--self-label", first, "--size", 12), "the images have shape (12, 12, 1)"),
            (("--self-label", first), "the run's source settings cannot be used"),
        ):
            done = selfsort("fit", *words, "--device", "cpu", "--out", "never")
            assert (done.code, part in done.err) == (2, True), done.err
            assert not Path("never").exists()
        wrong: tuple[tuple[tuple[object, ...], str], ...] = (
            ((first, source, "--stage", "self-lable"), "Did you mean self-label?"),
            ((first, source, "--set", "improve.starts=2"), "do not go with self-label"),
            ((first, "--labels", source), "labels are read with SOURCE"),
        )
        for options, part in wrong:
            done = selfsort("refine", *options, "--device", "cpu", "--out", "never")
            assert (done.code, part in done.err) == (2, True), done.err
            assert not Path("never").exists()

    def test_a_run_without_a_network_is_refused(self, selfsort: Command, finished: Path) -> None:
        source = finished / "shapes.npz"
        assert selfsort("fit", source, "--clusters", 3, "--method", "kmeans", "--out", "classic").code == 0
        done = selfsort("refine", "classic", "--out", "never")
        assert "kmeans does not label images by a network alone" in done.err
        assert done.code == 2
        assert not Path("never").exists()

    def test_a_second_stage_of_secu(self, selfsort: Command, finished: Path) -> None:
        words = [f"--set={key}={value}" for key, value in {**TINY["secu"], "n_heads": 1, "lr": 1e-6}.items()]
        done = selfsort(
            *("fit", finished / "shapes.npz", "--start-from", finished / "first", "--method", "secu", *words),
            *("--recipe", "default", "--out", "stage2", "--device", "cpu"),
        )
        assert done.code == 0, done.err
        first, second = RunFolder.open(finished / "first"), RunFolder.open("stage2")
        name = "net.encoder.stem.weight"
        before, after = (folder.read_state("model.safetensors").arrays[name] for folder in (first, second))
        np.testing.assert_allclose(before, after, atol=1e-3)
        load_model(second, CPU)


@pytest.mark.parametrize("name", [name for name in ("dac", "gatcluster", "dbc") if name in METHODS])
def test_other_methods_can_be_refined_too(name: str, tmp_path: Path) -> None:
    images = shapes(12, size=16, n_classes=3, channels=3)[0]
    ImageClusterer(name, 3, settings=TINY[name], recipe="default", device="cpu").fit(images).save(tmp_path / "run")
    model = load_model(RunFolder.open(tmp_path / "run"), CPU)
    assert isinstance(model, NetworkModel)
    config = SelfLabelConfig(n_clusters=3, epochs=1, warmup=1, batch_size=12)
    *_, last = train(FinishedRun(name, model), images, config, device=CPU, seed=0)
    assert last.result is not None
    assert last.result.soft.shape == (36, 3)
