from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.oracles import dbc as oracle
from torch import Tensor

from selfsort.classic.leiden import graph_clusters
from selfsort.data.synthetic import shapes
from selfsort.errors import InvalidInput
from selfsort.learning.batches import InputTensor
from selfsort.learning.epoch import run_epoch
from selfsort.learning.rates import set_rate
from selfsort.methods import dbc
from selfsort.methods.dbc import (
    DBCConfig,
    DECConfig,
    FCAEConfig,
    boost,
    kl_loss,
    log_scores,
    reconstruction_loss,
    restore,
    squared_distances,
    train,
)
from selfsort.metrics.external import accuracy
from selfsort.nets.autoencoder import FCAE
from selfsort.types import F64, Clustering, Images, Snapshot, State

CPU = torch.device("cpu")
STAGE_1: dict[str, Any] = {"n_clusters": 4, "ae_epochs": 4, "batch_size": 16, "n_restarts": 3}
QUICK_FCAE = FCAEConfig(**STAGE_1)
QUICK = DBCConfig(**STAGE_1, epochs=3, stop=0.0)
WHITENED: dict[str, Any] = {"before_relu": True, "whiten": True}
QUICK_WHITENED = replace(QUICK, **WHITENED, freeze_bn=False, decay="constant", target_steps=3)
QUICK_TAUGHT = replace(QUICK, taught=2)
QUICK_DEC = DECConfig(**STAGE_1, epochs=3, stop=0.0)
SIZES: tuple[Literal["boosted", "soft", "constant"], ...] = ("boosted", "soft", "constant")


def random(*shape: int, seed: int = 0, scale: float = 1.0) -> Tensor:
    return scale * torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def snapshots(images: Images, config: FCAEConfig, resume: State | None = None, seed: int = 0) -> Iterator[Snapshot]:
    return train(images, config, device=CPU, seed=seed, resume=resume)


def result_of(images: Images, config: FCAEConfig, seed: int = 0) -> Clustering:
    *_, last = snapshots(images, config, seed=seed)
    assert last.result is not None
    return last.result


@pytest.fixture(scope="module")
def pictures() -> Images:
    return shapes(15, size=16, seed=0)[0]


class TestSettings:
    def test_what_the_papers_say(self) -> None:
        config, dec = DBCConfig(n_clusters=10), DECConfig(n_clusters=10)
        assert (config.alpha, config.v, config.n_j, config.rec_weight) == (2.0, 1.0, "boosted", 0.0)
        assert (dec.alpha, dec.v, dec.n_j, dec.arch) == (2.0, 1.0, "soft", "dense")
        assert (config.rotate, config.translate) == (0.0, 0.0)

    @pytest.mark.parametrize(
        ("wrong", "message"),
        [
            ({"alpha": 0.0}, "alpha must be positive; got 0.0"),
            ({"batch_size": 1}, "batch_size must be at least 2, for batch normalisation; got 1"),
            ({"stop": -0.1}, "stop must be at least 0"),
            ({"rotate": -1.0}, "rotate must be at least 0"),
            ({"still_share": 1.5}, "still_share must be between 0 and 1"),
            ({"target_steps": -1}, "target_steps must be at least 0"),
            ({"decay": "linear"}, "decay must be cosine or constant; got 'linear'"),
            ({"zoom": 1.0}, "zoom must be at least 0 and below 1"),
            ({"ae_epochs": -1}, "ae_epochs must be at least 0"),
            ({"n_j": "sum"}, "n_j must be boosted or soft or constant; got 'sum'"),
            ({"ae_init": "none"}, "ae_init must be full or half or random"),
        ],
    )
    def test_bad_values_are_refused(self, wrong: dict[str, Any], message: str) -> None:
        with pytest.raises(InvalidInput, match=message):
            DBCConfig(n_clusters=2, **wrong)

    def test_initialisation_sets_the_epochs(self) -> None:
        epochs = [replace(QUICK, ae_epochs=9, ae_init=init).first_epochs(60) for init in ("full", "half", "random")]
        assert epochs == [9, 4, 0]

    @pytest.mark.parametrize(("n_images", "expected"), [(200, 100), (575, 60), (1440, 25), (9298, 10), (70_000, 10)])
    def test_a_short_first_stage_is_counted_in_steps(self, n_images: int, expected: int) -> None:
        assert FCAEConfig(n_clusters=10, ae_steps=300).first_epochs(n_images) == expected

    @pytest.mark.parametrize(("n_images", "expected"), [(100, 100), (9298, 83), (70_000, 11), (1_000_000, 10)])
    def test_small_sets_get_more_epochs(self, n_images: int, expected: int) -> None:
        config = DBCConfig(n_clusters=2)
        assert config.first_epochs(n_images) == expected
        assert config.second_epochs(n_images) == max(expected, 20)

    def test_the_learning_rate_falls_along_a_cosine(self) -> None:
        optimizer = torch.optim.Adam([torch.zeros(1)], lr=1.0)
        found = []
        for progress in (0.0, 1 / 3, 0.5, 1.0):
            set_rate(optimizer, 0.2, progress)
            found.append(optimizer.param_groups[0]["lr"])
        assert found == pytest.approx([0.2, 0.15, 0.1, 0.0])


class TestScores:
    def test_by_hand(self) -> None:
        # One image at 0, centres at distance 1 and 2: u = 2 and 5, so s = (1/2, 1/5) / (7/10).
        found = log_scores(torch.zeros(1, 1), torch.tensor([[1.0], [2.0]])).exp()
        torch.testing.assert_close(found, torch.tensor([[5 / 7, 2 / 7]]))

    @pytest.mark.parametrize("v", [1.0, 0.5, 4.0])
    def test_equal_the_definition(self, v: float) -> None:
        z, mu = random(7, 3), random(4, 3, seed=1)
        np.testing.assert_allclose(log_scores(z, mu, v).exp().numpy(), oracle.scores(z.numpy(), mu.numpy(), v))

    def test_far_from_everything_they_stay_finite(self) -> None:
        z, mu = torch.full((2, 3), 1e18), torch.zeros(3, 3)
        assert torch.isfinite(log_scores(z, mu)).all()

    def test_distances_are_never_negative(self) -> None:
        z = torch.rand(50, 300) * 1000
        found = squared_distances(z, z[:5].clone())
        assert (found >= 0).all()


class TestTarget:
    def test_by_hand(self) -> None:
        s = torch.tensor([[0.8, 0.2], [0.6, 0.4]], dtype=torch.float64)
        # Squares 0.64 0.04 / 0.36 0.16; columns add up to 1.0 and 0.2.
        found = boost(s.log(), 2.0, "boosted").r
        expected = torch.tensor([[0.64 / 0.84, 0.2 / 0.84], [0.36 / 1.16, 0.8 / 1.16]], dtype=torch.float64)
        torch.testing.assert_close(found, expected)

    @pytest.mark.parametrize("sizes", SIZES)
    @pytest.mark.parametrize("alpha", [1.0, 1.5, 2.0, 4.0])
    def test_equals_the_definition(self, alpha: float, sizes: Literal["boosted", "soft", "constant"]) -> None:
        log_s = torch.log_softmax(random(9, 4), dim=1)
        found = boost(log_s, alpha, sizes)
        np.testing.assert_allclose(found.r.numpy(), oracle.target(log_s.exp().numpy(), alpha, sizes))
        assert found.n_empty == 0

    def test_power_one_with_constant_sizes_changes_nothing(self) -> None:
        log_s = torch.log_softmax(random(9, 4), dim=1)
        torch.testing.assert_close(boost(log_s, 1.0, "constant").r, log_s.exp())

    @given(st.integers(0, 1000), st.floats(1.05, 4.0))
    @settings(derandomize=True, deadline=None, max_examples=30)
    def test_it_is_sharper_than_the_scores(self, seed: int, alpha: float) -> None:
        log_s = torch.log_softmax(random(6, 5, seed=seed), dim=1)
        found = boost(log_s, alpha, "constant").r
        assert (found.max(dim=1).values > log_s.exp().max(dim=1).values).all()
        torch.testing.assert_close(found.sum(dim=1), torch.ones(6, dtype=torch.float64))

    def test_equal_scores_stay_equal(self) -> None:
        """The paper's first property: an undecided image stays so, as long as the clusters are equally large."""
        s = torch.tensor([[0.7, 0.2, 0.1], [0.1, 0.7, 0.2], [0.2, 0.1, 0.7], [1 / 3, 1 / 3, 1 / 3]]).double()
        for _ in range(20):
            s = boost(s.log(), 2.0, "boosted").r
        torch.testing.assert_close(s[3], torch.full((3,), 1 / 3, dtype=torch.float64))

    @given(st.lists(st.floats(0.05, 1.0), min_size=2, max_size=6), st.floats(1.2, 4.0))
    @settings(derandomize=True, deadline=None, max_examples=30)
    def test_the_largest_score_takes_all(self, weights: list[float], alpha: float) -> None:
        """The paper's second property: boosted again and again, a row with one largest score becomes one-hot."""
        s = torch.tensor([weights], dtype=torch.float64)
        s[0, 0] = s.max() * 1.1
        log_s = (s / s.sum()).log()
        for _ in range(60):
            log_s = boost(log_s, alpha, "constant").r.clamp(min=1e-300).log()
        assert log_s.exp()[0, 0] == pytest.approx(1.0)

    def test_an_empty_cluster_is_clamped_and_counted(self) -> None:
        log_s = torch.tensor([[0.0, -40.0], [0.0, -40.0]])
        found = boost(log_s, 2.0, "boosted")
        assert found.n_empty == 1
        assert torch.isfinite(found.r).all()
        # 1e-35 / 1e-8 is still nothing: without the clamp the empty column would claim half of every image.
        torch.testing.assert_close(found.r, torch.tensor([[1.0, 0.0], [1.0, 0.0]]))


class TestLoss:
    def test_by_hand(self) -> None:
        r, s = torch.tensor([[1.0, 0.0], [0.5, 0.5]]), torch.tensor([[0.5, 0.5], [0.5, 0.5]])
        assert kl_loss(r, s.log()).item() == pytest.approx(np.log(2) / 2)

    def test_equals_the_definition(self) -> None:
        r, log_s = torch.softmax(random(6, 3), dim=1), torch.log_softmax(random(6, 3, seed=1), dim=1)
        assert kl_loss(r, log_s).item() == pytest.approx(oracle.kl(r.numpy(), log_s.exp().numpy()))

    @pytest.mark.parametrize("v", [1.0, 2.5])
    def test_gradients_are_the_published_ones(self, v: float) -> None:
        z, mu = random(8, 5).requires_grad_(), random(3, 5, seed=1).requires_grad_()
        r = boost(log_scores(z, mu, v).detach(), 2.0, "boosted").r
        loss = len(z) * kl_loss(r, log_scores(z, mu, v))
        found = torch.autograd.grad(loss, (z, mu))
        dz, dmu = oracle.gradients(z.detach().numpy(), mu.detach().numpy(), r.numpy(), v)
        np.testing.assert_allclose(found[0].numpy(), dz, atol=1e-12)
        np.testing.assert_allclose(found[1].numpy(), dmu, atol=1e-12)

    def test_gradcheck(self) -> None:
        r = torch.softmax(random(5, 3, seed=2), dim=1)

        def loss(z: Tensor, mu: Tensor) -> Tensor:
            return kl_loss(r, log_scores(z, mu))

        inputs = (random(5, 4).requires_grad_(), random(3, 4, seed=1).requires_grad_())
        assert torch.autograd.gradcheck(loss, inputs)

    def test_an_impossible_cluster_costs_much_but_not_infinitely(self) -> None:
        found = kl_loss(torch.tensor([[0.0, 1.0]]), torch.tensor([[0.0, -1e6]]))
        assert found.item() == pytest.approx(12 * np.log(10))

    def test_reconstruction_is_summed_over_pixels_and_averaged_over_images(self) -> None:
        x = torch.zeros(2, 1, 2, 2)
        assert reconstruction_loss(x, x + 0.5).item() == pytest.approx(4 * 0.25)


class TestTraining:
    @pytest.mark.parametrize("config", [QUICK_FCAE, QUICK, QUICK_DEC], ids=lambda config: type(config).__name__)
    @pytest.mark.parametrize("seed", [0, 1])
    def test_sorts_separable_pictures(self, config: FCAEConfig, seed: int) -> None:
        images, truth = shapes(15, size=16, seed=seed)
        assert accuracy(result_of(images, replace(config, ae_epochs=8), seed=seed).labels, truth) == 1.0

    def test_the_first_targets_may_be_taught(self, pictures: Images, monkeypatch: pytest.MonkeyPatch) -> None:
        """Communities come first, whatever stage I has learned, and the boosted targets follow."""
        learn, targets = dbc._learn_target, []

        def watched(run: Any, config: DBCConfig, r_NK: Tensor, *, is_still: bool) -> Any:
            targets.append((r_NK.numpy(), is_still))
            return learn(run, config, r_NK, is_still=is_still)

        monkeypatch.setattr(dbc, "_learn_target", watched)
        monkeypatch.setattr(dbc, "_has_settled", lambda changed, stop: changed < 2)  # at once, if it is asked
        taken = list(snapshots(pictures, replace(QUICK, taught=4, still_share=0.1, ae_init="random")))
        assert [snapshot.event["phase"] for snapshot in taken] == ["k-means", *["taught"] * 4, "boost", "boost"]
        assert taken[0].total == 1 + 4 + 3
        one_hot = np.eye(4)[graph_clusters(pictures, 4, device=CPU, seed=0)]
        assert [np.array_equal(r_NK, one_hot) for r_NK, _ in targets] == [True] * 4 + [False] * 2
        assert [is_still for _, is_still in targets] == [False] * 4 + [True, False], "taught on augmented images"

    def test_centres_of_taught_clusters_are_their_means(self, pictures: Images) -> None:
        last = next(s for s in snapshots(pictures, replace(QUICK, taught=1)) if s.event["phase"] == "k-means")
        wanted, features = graph_clusters(pictures, 4, device=CPU, seed=0), last.history["features"]
        means = np.stack([features[wanted == j].mean(axis=0) for j in range(4)])
        np.testing.assert_allclose(last.state().arrays["mu"], means, rtol=1e-4, atol=1e-5)
        assert last.event["inertia"] == pytest.approx(np.square(features - means[wanted]).sum(), rel=1e-4)

    def test_events_tell_the_stages(self, pictures: Images) -> None:
        taken = list(snapshots(pictures, replace(QUICK, lr=0.01)))
        phases = [snapshot.event["phase"] for snapshot in taken]
        n_boosts = phases.count("boost")
        assert phases == ["reconstruct"] * 4 + ["k-means"] + ["boost"] * n_boosts
        assert [snapshot.step for snapshot in taken] == list(range(1, len(taken) + 1))
        assert {snapshot.total for snapshot in taken} == {4 + 1 + 3}
        assert [snapshot.result is None for snapshot in taken] == [True] * (len(taken) - 1) + [False]
        assert all("reconstruction" in snapshot.event for snapshot in taken[:4])
        assert all({"kl", "changed", "empty_clusters"} <= set(snapshot.event) for snapshot in taken[5:])

    def test_automatic_lengths_are_announced(self, pictures: Images) -> None:
        first = next(snapshots(pictures, replace(QUICK, ae_epochs=0, epochs=0)))
        assert first.total == 100 + 1 + 100

    def test_the_reconstruction_improves_and_stage_one_is_shared(self, pictures: Images) -> None:
        alone, both = list(snapshots(pictures, QUICK_FCAE)), list(snapshots(pictures, QUICK))
        errors = [float(snapshot.event["reconstruction"]) for snapshot in alone[:-1]]
        assert errors[-1] < errors[0]
        assert alone[-1].event["phase"] == "k-means"
        assert alone[-1].result is not None
        np.testing.assert_array_equal(alone[-1].labels, both[len(alone) - 1].labels)

    def test_boosting_makes_scores_surer(self, pictures: Images, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(dbc, "_has_settled", lambda changed, stop: False)
        stages = [s.history for s in snapshots(pictures, replace(QUICK, ae_epochs=8, lr=1e-3, epochs=16))]
        sure = [float(stage["soft"].max(axis=1).mean()) for stage in stages if "soft" in stage]
        assert sure[-1] > sure[0] + 0.05

    def test_the_target_is_computed_once_per_epoch(self, pictures: Images, monkeypatch: pytest.MonkeyPatch) -> None:
        seen: list[Tensor] = []

        def counting(log_s: Tensor, alpha: float, n_j: Any) -> dbc.Target:
            seen.append(log_s)
            return boost(log_s, alpha, n_j)

        monkeypatch.setattr(dbc, "boost", counting)
        phases = [s.event["phase"] for s in snapshots(pictures, replace(QUICK, lr=0.01))]
        assert len(seen) == phases.count("boost")
        assert all(log_s.shape == (60, 4) and not log_s.requires_grad for log_s in seen)

    def test_frozen_statistics_stay_and_others_move(self, pictures: Images) -> None:
        for is_frozen in (True, False):
            states = [
                (s.event["phase"], s.state().arrays["net.encoder.norms.0.running_mean"])
                for s in snapshots(pictures, replace(QUICK, freeze_bn=is_frozen, epochs=1))
            ]
            is_same = np.array_equal(states[-1][1], states[-2][1])
            assert states[-2][0] == "k-means"
            assert is_same == is_frozen

    def test_the_decoder_is_trained_only_with_a_reconstruction_weight(self, pictures: Images) -> None:
        for weight in (0.0, 0.1):
            states = [
                s.state().arrays["net.decoder.top.weight"]
                for s in snapshots(pictures, replace(QUICK, rec_weight=weight, epochs=1))
            ]
            assert np.array_equal(states[-1], states[-2]) == (weight == 0.0)

    @pytest.mark.parametrize(
        "variant",
        [
            {"alpha": 1.5},
            {"alpha": 4.0},
            {"n_j": "soft"},
            {"n_j": "constant"},
            {"ae_init": "half"},
            {"freeze_bn": False},
            {"rec_weight": 0.1},
            {"rotate": 5.0, "translate": 0.05},
            {"rotate": 5.0, "translate": 0.05, "zoom": 0.05, "restore": True, "still_share": 0.4},
            {"arch": "usps", "v": 2.0},
            {"before_relu": True},
        ],
        ids=str,
    )
    def test_variants_are_settings(self, variant: dict[str, Any]) -> None:
        images, truth = shapes(15, size=16, seed=0)
        config = replace(QUICK, ae_epochs=8, **variant)
        assert accuracy(result_of(images, config).labels, truth) == 1.0

    @pytest.mark.parametrize("restore", [False, True])
    def test_what_is_rebuilt(self, pictures: Images, restore: bool, monkeypatch: pytest.MonkeyPatch) -> None:
        wanted: list[Tensor] = []

        def remember(x_BCHW: Tensor, again_BCHW: Tensor) -> Tensor:
            wanted.append(x_BCHW)
            return (x_BCHW - again_BCHW).square().mean()

        monkeypatch.setattr(dbc, "reconstruction_loss", remember)
        config = replace(QUICK, ae_epochs=1, epochs=1, translate=0.2, zoom=0.1, restore=restore, rec_weight=0.1)
        result_of(pictures, config)
        originals = {image.tobytes() for image in pictures.pixels}
        rebuilt = torch.cat(wanted).mul(255).round().to(torch.uint8).permute(0, 2, 3, 1).contiguous().numpy()
        is_original = np.array([image.tobytes() in originals for image in rebuilt])
        assert len(is_original) == 2 * len(pictures)  # both stages
        assert is_original.all() if restore else is_original.mean() < 0.1

    def test_images_may_be_left_still_at_first(self, pictures: Images, monkeypatch: pytest.MonkeyPatch) -> None:
        seen: list[int] = []

        def remember(x_BCHW: Tensor, batch_B: Tensor, pixels: InputTensor, run: dbc._Run) -> Tensor:
            seen.append(run.epoch)
            return x_BCHW

        monkeypatch.setattr(dbc, "_varied", remember)
        config = replace(QUICK, ae_init="random", epochs=5, still_share=0.4, translate=0.1)
        # So slow that no label changes: the labels' rest must not end what has not yet begun.
        taken = list(snapshots(pictures, replace(config, lr=1e-9)))
        assert set(seen) == {2}
        assert taken[-1].event["changed"] == 0
        seen.clear()
        assert len(list(snapshots(pictures, replace(config, lr=0.02, epochs=5)))) >= 4
        assert min(seen) == 2

    def test_random_initialisation_has_no_first_stage(self, pictures: Images) -> None:
        first, *_ = snapshots(pictures, replace(QUICK, ae_init="random"))
        assert first.event["phase"] == "k-means"
        # Without statistics, batch normalisation would do nothing in all of stage II.
        saved = first.state().arrays
        means = [array for name, array in saved.items() if name.endswith("running_mean")]
        assert means
        assert all(np.abs(mean).max() > 0 for mean in means)


class TestWhitening:
    @pytest.mark.parametrize("other", [{"arch": "dense"}, {"rec_weight": 0.1}, {"before_relu": False}], ids=str)
    def test_it_goes_with_other_settings(self, pictures: Images, other: dict[str, Any]) -> None:
        found = result_of(pictures, replace(QUICK_WHITENED, **other))
        assert "encoder.whitening.matrix_DD" in found.model.arrays
        assert np.isfinite(found.features).all()

    @pytest.fixture(scope="class")
    @classmethod
    def taken(cls, pictures: Images) -> list[tuple[Snapshot, State]]:
        return [(snapshot, snapshot.state()) for snapshot in snapshots(pictures, QUICK_WHITENED)]

    def test_k_means_sees_whitened_features(self, taken: list[tuple[Snapshot, State]]) -> None:
        placed = next(snapshot for snapshot, _ in taken if snapshot.event["phase"] == "k-means")
        n_kept = int(placed.event["whitened_features"])
        assert 4 < n_kept < 60  # of 60 images, which span 59 directions
        found = placed.history["features"].astype(np.float64)
        identity = np.diag([1.0] * n_kept + [0.0] * (160 - n_kept))
        np.testing.assert_allclose(np.cov(found, rowvar=False, bias=True), identity, atol=2e-3)

    def test_stage_one_does_not_notice(self, pictures: Images, taken: list[tuple[Snapshot, State]]) -> None:
        plain = [s.event["reconstruction"] for s in snapshots(pictures, QUICK_FCAE) if s.result is None]
        assert [s.event["reconstruction"] for s, _ in taken[:4]] == plain

    def test_it_is_fitted_once(self, taken: list[tuple[Snapshot, State]]) -> None:
        matrices = [state.arrays["net.encoder.whitening.matrix_DD"] for _, state in taken]
        assert all(np.array_equal(matrix, np.eye(160)) for matrix in matrices[:4])
        assert not np.array_equal(matrices[4], np.eye(160))
        assert all(np.array_equal(matrix, matrices[4]) for matrix in matrices[5:])
        assert len(matrices) > 5

    def test_stage_two_learns_in_batch_statistics_and_aims_by_running_ones(
        self, pictures: Images, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        modes: list[tuple[str, bool]] = []
        build = FCAE.__init__

        def watched(net: FCAE, *rest: Any) -> None:
            build(net, *rest)
            net.encoder.register_forward_hook(lambda m, x, z: modes.append((f"{z.requires_grad}", m.training)))

        monkeypatch.setattr(FCAE, "__init__", watched)
        list(snapshots(pictures, QUICK_WHITENED))
        assert set(modes) == {("True", True), ("False", False)}

    @pytest.mark.parametrize(("decay", "expected"), [("constant", [1e-3] * 3), ("cosine", [1e-3, 7.5e-4, 2.5e-4])])
    def test_the_rate_falls_or_stays(
        self, pictures: Images, monkeypatch: pytest.MonkeyPatch, decay: Literal["cosine", "constant"], expected: Any
    ) -> None:
        rates: list[float] = []

        def remember(step: Any, batches: Any, optimizer: torch.optim.Optimizer, **rest: Any) -> Any:
            rates.append(optimizer.param_groups[0]["lr"])
            return run_epoch(step, batches, optimizer, **rest)

        monkeypatch.setattr(dbc, "_has_settled", lambda changed, stop: False)
        monkeypatch.setattr(dbc, "run_epoch", remember)
        list(snapshots(pictures, replace(QUICK, lr=1e-3, decay=decay)))
        assert rates[4:] == pytest.approx(expected)

    @pytest.mark.parametrize(("target_steps", "expected"), [(0, 4), (3, 3), (100, 4)])
    def test_steps_per_target(
        self, pictures: Images, monkeypatch: pytest.MonkeyPatch, target_steps: int, expected: int
    ) -> None:
        steps: list[int] = []

        def remember(*args: Any, **rest: Any) -> Any:
            stats = run_epoch(*args, **rest)
            steps.append(stats.steps)
            return stats

        monkeypatch.setattr(dbc, "run_epoch", remember)
        list(snapshots(pictures, replace(QUICK, epochs=1, target_steps=target_steps)))
        assert steps == [4] * 4 + [expected]


class TestStopping:
    def test_it_fires_when_no_label_changes(self, pictures: Images) -> None:
        config = replace(QUICK, ae_epochs=8, epochs=50, lr=1e-6)
        *_, last = snapshots(pictures, config)
        assert last.event["changed"] == 0
        assert last.step == 8 + 1 + 1

    def test_it_compares_with_the_share_asked_for(self, pictures: Images) -> None:
        def changes(stop: float) -> list[float]:
            taken = snapshots(pictures, replace(QUICK, lr=0.02, epochs=6, stop=stop))
            return [float(s.event["changed"]) for s in taken if s.event["phase"] == "boost"]

        assert changes(1.1) == changes(0.0)[:1]

    def test_the_last_epoch_ends_it_too(self, pictures: Images, monkeypatch: pytest.MonkeyPatch) -> None:
        # Labels that never rest: every epoch would go on.
        monkeypatch.setattr(dbc, "_has_settled", lambda changed, stop: False)
        phases = [s.event["phase"] for s in snapshots(pictures, replace(QUICK, epochs=5))]
        assert phases.count("boost") == 5

    @pytest.mark.parametrize(
        ("changed", "stop", "expected"),
        [(0.0, 0.0, True), (0.0, 0.001, True), (0.0009, 0.001, True), (0.001, 0.001, False), (1e-6, 0.0, False)],
    )
    def test_the_rule(self, changed: float, stop: float, expected: bool) -> None:
        assert dbc._has_settled(changed, stop) == expected


class TestHistory:
    def test_stages_are_kept(self, pictures: Images, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(dbc, "_has_settled", lambda changed, stop: False)
        kept = [s.history for s in snapshots(pictures, replace(QUICK, epochs=6)) if s.event["phase"] != "reconstruct"]
        assert all(stage["score_histogram"].sum() == 60 for stage in kept)
        # K-means, epochs 1, 2, 4 and the last one.
        assert ["features" in stage for stage in kept] == [True, True, True, False, True, False, True]
        for stage in kept:
            if "features" in stage:
                assert stage["features"].shape == (60, 160)
                np.testing.assert_array_equal(stage["soft"].argmax(axis=1), stage["labels"])

    def test_pictures_are_kept(self, pictures: Images) -> None:
        extras = result_of(pictures, QUICK).extras
        assert extras["filters.conv1"].shape == (20, 3, 3, 1)
        assert extras["filters.deconv1"].shape == (20, 3, 3, 1)
        assert extras["activations.conv1"].shape == (3, 20, 16, 16)
        assert extras["activations.deconv1"].shape == (3, 1, 16, 16)
        assert extras["activation_rows"].shape == (3,)

    def test_pictures_may_be_chosen(self, pictures: Images) -> None:
        extras = result_of(pictures, replace(QUICK, shown=(7, 2, 10_000))).extras
        assert extras["activation_rows"].tolist() == [7, 2]
        assert extras["activations.conv1"].shape == (2, 20, 16, 16)

    def test_empty_clusters_are_said(self) -> None:
        assert dbc._empty_warning(0) == ()
        assert dbc._empty_warning(2) == ("2 empty clusters: their sizes in the target were raised to 1e-08.",)


class TestResume:
    @pytest.mark.parametrize(
        "config",
        [
            QUICK_FCAE,
            replace(QUICK, lr=0.01, rotate=5.0),
            replace(QUICK, rec_weight=0.1, freeze_bn=False),
            replace(QUICK_FCAE, **WHITENED),
            replace(QUICK_WHITENED, lr=0.01),
            QUICK_TAUGHT,
        ],
        ids=["fcae", "turned and noisy", "reconstruction", "whitened fcae", "whitened", "taught"],
    )
    def test_from_every_snapshot(self, pictures: Images, config: FCAEConfig) -> None:
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
            assert again.extras.keys() == last.extras.keys()


@pytest.mark.parametrize(
    "config", [QUICK, QUICK_WHITENED, QUICK_TAUGHT], ids=["plain", "whitened", "taught"], scope="class"
)
class TestModel:
    @pytest.fixture(scope="class")
    @classmethod
    def fitted(cls, pictures: Images, config: DBCConfig) -> Clustering:
        return result_of(pictures, replace(config, ae_epochs=8))

    def test_new_pictures_are_sorted(self, fitted: Clustering, config: DBCConfig) -> None:
        images, truth = shapes(10, size=16, seed=77)
        # Of 60 pictures, whitening makes noise as loud as what tells them apart.
        least = 0.8 if config.whiten else 1.0
        assert accuracy(restore(config, fitted.model, device=CPU).apply(images).labels, truth) >= least

    def test_training_pictures_get_back_what_they_had(
        self, fitted: Clustering, pictures: Images, config: DBCConfig
    ) -> None:
        applied = restore(config, fitted.model, device=CPU).apply(pictures)
        np.testing.assert_array_equal(applied.features, fitted.features)
        np.testing.assert_array_equal(applied.soft, fitted.soft)
        np.testing.assert_array_equal(applied.labels, fitted.labels)

    def test_the_decoder_is_dropped(self, fitted: Clustering, config: DBCConfig) -> None:
        assert not [name for name in fitted.model.arrays if "decoder" in name]

    def test_the_network_for_export_says_the_same(
        self, fitted: Clustering, pictures: Images, config: DBCConfig
    ) -> None:
        model = restore(config, fitted.model, device=CPU)
        x = torch.from_numpy(pictures.pixels).permute(0, 3, 1, 2) / 255
        with torch.inference_mode():
            soft, features = model.network()(x)
        np.testing.assert_allclose(soft.numpy(), fitted.soft, atol=1e-5)
        np.testing.assert_allclose(features.numpy(), fitted.features, atol=1e-4)

    def test_wrong_size_and_wrong_layer_are_refused(
        self, fitted: Clustering, pictures: Images, config: DBCConfig
    ) -> None:
        model = restore(config, fitted.model, device=CPU)
        with pytest.raises(InvalidInput, match=r"have shape \(20, 20, 1\)\. This model was trained on \(16, 16, 1\)"):
            model.apply(shapes(1, size=20)[0])
        with pytest.raises(InvalidInput, match=r"layer must be top, .* got 'top-1'"):
            model.apply(pictures, "top-1")


class TestBadData:
    @pytest.mark.parametrize("value", [0, 77])
    @pytest.mark.parametrize("config", [QUICK, QUICK_WHITENED, QUICK_TAUGHT], ids=["plain", "whitened", "taught"])
    def test_all_images_alike(self, value: int, config: DBCConfig) -> None:
        images = Images(np.full((30, 16, 16, 1), value, dtype=np.uint8))
        result = result_of(images, config)
        assert np.isfinite(result.features).all()
        assert np.isfinite(result.soft).all()

    def test_a_last_batch_of_one_image_is_skipped(self) -> None:
        images = shapes(11, size=16, n_classes=3)[0]  # 33 images, batches of 16
        skipped = [s.event.get("skipped_batches") for s in snapshots(images, replace(QUICK, freeze_bn=True))]
        assert skipped[:4] == [1] * 4
        assert skipped[5] == 0

    @pytest.mark.parametrize("taught", [0, 1])
    def test_as_many_clusters_as_images(self, taught: int) -> None:
        images = shapes(4, size=16, n_classes=2)[0]
        result = result_of(images, replace(QUICK, n_clusters=8, taught=taught))
        assert result.soft.shape == (8, 8)

    def test_oblong_colour_images(self) -> None:
        pixels = np.random.default_rng(0).integers(0, 256, (20, 18, 30, 3)).astype(np.uint8)
        assert result_of(Images(pixels), QUICK).features.shape == (20, 160)


def test_oracle_gradients_are_those_of_the_oracle_loss() -> None:
    """The published formulas themselves, against finite differences of the definition."""
    z, mu = random(3, 2).numpy(), random(2, 2, seed=1).numpy()
    r = oracle.target(oracle.scores(z, mu, 1.0), 2.0, "boosted")

    def loss(z: F64, mu: F64) -> float:
        return len(z) * oracle.kl(r, oracle.scores(z, mu, 1.0))

    dz, dmu = oracle.gradients(z, mu, r, 1.0)
    for i in range(3):
        for d in range(2):
            up, down = z.copy(), z.copy()
            up[i, d] += 1e-6
            down[i, d] -= 1e-6
            assert (loss(up, mu) - loss(down, mu)) / 2e-6 == pytest.approx(dz[i, d], abs=1e-8)
    for j in range(2):
        for d in range(2):
            up, down = mu.copy(), mu.copy()
            up[j, d] += 1e-6
            down[j, d] -= 1e-6
            assert (loss(z, up) - loss(z, down)) / 2e-6 == pytest.approx(dmu[j, d], abs=1e-8)
