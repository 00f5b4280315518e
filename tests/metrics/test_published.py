from __future__ import annotations

import dataclasses

import pytest

from selfsort.metrics.published import DATASETS, SCORES, published


def test_every_number_is_a_share_and_every_name_known() -> None:
    for score in SCORES:
        assert score.dataset in DATASETS
        values = [value for value in (score.acc, score.nmi, score.ari) if value is not None]
        assert values
        assert all(0 <= value <= 1 for value in values), score
        assert score.source
        assert score.protocol


@pytest.mark.parametrize(
    ("method", "dataset", "features", "nmi", "acc"),
    [
        ("ac-gdl", "cmu-pie", "pixels", 0.934, 0.842),
        ("jule", "mnist", "own", 0.913, 0.964),
        ("jule-sf", "usps", "own", 0.858, 0.922),
        ("nmf-d", "cmu-pie", "pixels", 0.983, None),
        ("sc-ls", "mnist", "jule", 0.932, 0.973),
        ("ac-pic", "ytf", "pixels", 0.697, 0.472),
        ("dbc", "mnist", "own", 0.917, 0.964),
        ("gatcluster", "imagenet10", "own", 0.594, 0.739),
    ],
)
def test_main_rows(method: str, dataset: str, features: str, nmi: float, acc: float | None) -> None:
    main = published(method, dataset, features)[0]
    assert (main.nmi, main.acc) == (nmi, acc)


def test_tables_are_complete() -> None:
    own = [score for score in SCORES if score.method == "jule" and "CVPR 2016" in score.source]
    assert len({score.dataset for score in own if score.nmi is not None}) == 9
    classical = {score.method for score in SCORES if score.features == "pixels" and score.dataset == "frgc"}
    assert len(classical) == 11
    on_learned = [score for score in SCORES if score.features == "jule"]
    assert len(on_learned) == 10 * 9


def test_variants_of_nmi_are_named() -> None:
    assert published("dbc", "usps")[0].nmi_variant == "max"
    assert published("dac", "cifar10")[0].nmi_variant == "geometric"
    assert published("secu", "stl10")[0].nmi_variant == "arithmetic"


def test_what_was_not_checked_says_so() -> None:
    assert not any(score.is_verified for score in published("secu-no-self-label", "cifar10"))
    verified, unverified = published("dac", "mnist")
    assert (verified.acc, verified.ari, verified.is_verified) == (0.978, None, True)
    assert (unverified.ari, unverified.is_verified) == (0.949, False)


def test_best_and_mean_of_gatcluster_stand_apart() -> None:
    best, mean = published("gatcluster", "stl10")
    assert (best.acc, mean.acc) == (0.583, 0.537)
    assert "best of several runs" in best.protocol
    assert "mean of 10 runs" in mean.protocol
    assert mean.spread == {"acc": 0.033, "nmi": 0.022, "ari": 0.032}
    # By the mean, the full method is not above the one without transformation invariance.
    assert [score.acc for score in published("gatcluster-no-ti", "stl10")] == [0.576, 0.546]
    assert published("gatcluster-no-am", "stl10")[1].spread["nmi"] == 0.015


def test_the_logs_of_dac_belong_to_their_scripts() -> None:
    assert {score.acc for score in published("dac-star", "cifar10")} == {0.498, 0.474}
    assert {score.acc for score in published("dac", "cifar10")} == {0.522, 0.518}


def test_the_comparison_of_gatcluster_is_complete() -> None:
    compared = [score for score in SCORES if "quoted" in score.source and "Niu" in score.source]
    assert len([score for score in compared if score.dataset == "stl10"]) == 18  # with DAC and DAC*
    assert published("sc-njw", "cifar10", "pixels")[0].nmi == 0.103
    assert published("nmf-lp", "stl10", "pixels")[0].ari == 0.046
    assert published("iic", "cifar10")[0].nmi is None
    assert {score.features for score in compared if score.method in ("sae", "catgan", "dec")} == {"own"}


def test_nothing_printed_gives_nothing() -> None:
    assert published("umap-kmeans", "mnist") == ()
    assert published("ac-gdl", "nowhere") == ()


def test_scores_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        SCORES[0].acc = 1.0  # type: ignore[misc]
