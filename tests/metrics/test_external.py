from __future__ import annotations

import itertools
from math import log, sqrt
from typing import get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score
from sklearn.metrics.cluster import contingency_matrix

from selfsort.errors import InvalidInput
from selfsort.metrics import external
from selfsort.metrics.external import Normaliser, accuracy, ari, contingency, match_clusters, nmi, scores

quick = settings(derandomize=True, deadline=None, max_examples=80)
NORMALISERS: tuple[Normaliser, ...] = get_args(Normaliser)


@st.composite
def labellings(draw: st.DrawFn, high: int = 6) -> tuple[list[int], list[int]]:
    n = draw(st.integers(1, 40))
    labels = st.lists(st.integers(0, high), min_size=n, max_size=n)
    return draw(labels), draw(labels)


def brute_force_accuracy(predicted: list[int], truth: list[int]) -> float:
    """Try every one-to-one matching of clusters to classes, padding the shorter side with nobody."""
    clusters: list[int | None] = [*sorted(set(predicted))]
    classes: list[int | None] = [*sorted(set(truth))]
    width = max(len(clusters), len(classes))
    clusters += [None] * (width - len(clusters))
    classes += [None] * (width - len(classes))
    best = 0
    for order in itertools.permutations(classes):
        matched = dict(zip(clusters, order, strict=True))
        best = max(best, sum(matched[p] == t for p, t in zip(predicted, truth, strict=True)))
    return best / len(truth)


class TestAccuracy:
    def test_by_hand(self) -> None:
        # Cluster 0 is class 1 (2 of 3 images), cluster 1 is class 0 (2 of 2), cluster 2 class 2 (1 of 1): 5 of 6.
        assert accuracy([0, 0, 0, 1, 1, 2], [1, 1, 0, 0, 0, 2]) == 5 / 6

    def test_greedy_choice_would_be_wrong(self) -> None:
        # Table [[3, 2], [2, 0]]: taking the largest cell first gives 3, the other diagonal 4.
        predicted = [0] * 5 + [1] * 2
        truth = [0, 0, 0, 1, 1, 0, 0]
        assert accuracy(predicted, truth) == 4 / 7

    def test_more_clusters_than_classes(self) -> None:
        assert accuracy([0, 1, 2, 3], [0, 0, 1, 1]) == 0.5

    def test_fewer_clusters_than_classes(self) -> None:
        assert accuracy([0, 0, 0, 0], [0, 1, 2, 2]) == 0.5

    def test_gaps_negative_and_huge_names(self) -> None:
        assert accuracy([-7, -7, 10**15, 10**15], [3, 3, -(10**18), 3]) == 0.75

    def test_one_image(self) -> None:
        assert accuracy([4], [9]) == 1.0

    @quick
    @given(labellings(high=4))
    def test_equals_trying_every_matching(self, pair: tuple[list[int], list[int]]) -> None:
        assert accuracy(*pair) == brute_force_accuracy(*pair)

    def test_too_large_a_table_is_refused(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(external, "MAX_DENSE_CELLS", 8)
        message = "must have at most 8 cells; got 3 x 3. Score fewer clusters; NMI and ARI have no such limit"
        with pytest.raises(InvalidInput, match=message):
            accuracy([0, 1, 2], [0, 1, 2])


class TestMatchClusters:
    def test_names_are_kept_and_surplus_clusters_absent(self) -> None:
        assert match_clusters([10, 10, 20, 20, 30], [7, 7, -1, -1, -1]) == {10: 7, 20: -1}

    def test_surplus_classes_are_absent(self) -> None:
        assert match_clusters([1, 1, 1, 1], [5, 5, 5, 6]) == {1: 5}

    @quick
    @given(labellings())
    def test_it_is_one_to_one_and_attains_the_accuracy(self, pair: tuple[list[int], list[int]]) -> None:
        predicted, truth = pair
        matched = match_clusters(predicted, truth)
        assert len(matched) == len(set(matched.values())) == min(len(set(predicted)), len(set(truth)))
        n_right = sum(matched.get(p) == t for p, t in zip(predicted, truth, strict=True))
        assert accuracy(predicted, truth) == n_right / len(truth)

    @quick
    @given(labellings())
    def test_without_the_full_table_as_many_images_agree(self, pair: tuple[list[int], list[int]]) -> None:
        predicted, truth = pair
        expected = accuracy(predicted, truth)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(external, "_QUICK_CELLS", 0)
            matched = match_clusters(predicted, truth)
            assert accuracy(predicted, truth) == expected
        assert len(matched) == len(set(matched.values())) == min(len(set(predicted)), len(set(truth)))
        assert sum(matched.get(p) == t for p, t in zip(predicted, truth, strict=True)) / len(truth) == expected


class TestContingency:
    def test_by_hand(self) -> None:
        table = contingency([2, 2, 9, 9, 9], [0, 5, 5, 5, 0])
        assert table.predicted_names.tolist() == [2, 9]
        assert table.truth_names.tolist() == [0, 5]
        assert table.dense().tolist() == [[1, 1], [1, 2]]
        assert table.predicted_sizes.tolist() == [2, 3]
        assert table.truth_sizes.tolist() == [2, 3]
        assert table.n_items == 5

    def test_many_clusters_take_the_sparse_path(self) -> None:
        items = np.arange(3000)
        table = contingency(items, items[::-1])
        assert table.shape == (3000, 3000)
        assert len(table.counts) == 3000
        assert table.is_renaming

    @quick
    @given(labellings())
    def test_equals_scikit_learn(self, pair: tuple[list[int], list[int]]) -> None:
        predicted, truth = pair
        np.testing.assert_array_equal(contingency(predicted, truth).dense(), contingency_matrix(predicted, truth))


class TestNmi:
    def test_by_hand(self) -> None:
        # Predicted {a a b b}, truth {0 0 1 2}: MI = log 2; H(predicted) = log 2, H(truth) = 1.5 log 2.
        predicted, truth = [0, 0, 1, 1], [0, 0, 1, 2]
        assert nmi(predicted, truth, "geometric") == pytest.approx(1 / sqrt(1.5))
        assert nmi(predicted, truth, "arithmetic") == pytest.approx(1 / 1.25)
        assert nmi(predicted, truth, "max") == pytest.approx(1 / 1.5)
        assert nmi(predicted, truth, "min") == pytest.approx(1)

    def test_a_table_worked_out(self) -> None:
        # Table [[2, 1], [0, 1]]: sizes 3, 1 and 2, 2.
        mutual = 2 / 4 * log(4 * 2 / (3 * 2)) + 1 / 4 * log(4 * 1 / (3 * 2)) + 1 / 4 * log(4 * 1 / (1 * 2))
        entropy = -(3 / 4 * log(3 / 4) + 1 / 4 * log(1 / 4))
        expected = mutual / sqrt(entropy * log(2))
        assert nmi([0, 0, 0, 1], [0, 0, 1, 1], "geometric") == pytest.approx(expected, abs=1e-15)

    @pytest.mark.parametrize("normaliser", NORMALISERS)
    def test_single_clusters(self, normaliser: Normaliser) -> None:
        assert nmi([3, 3, 3], [8, 8, 8], normaliser) == 1.0
        assert nmi([3, 3, 3], [8, 8, 1], normaliser) == 0.0
        assert nmi([0, 1, 1], [8, 8, 8], normaliser) == 0.0

    @pytest.mark.parametrize("normaliser", NORMALISERS)
    def test_independent_labels_share_nothing(self, normaliser: Normaliser) -> None:
        assert nmi([0, 0, 1, 1], [0, 1, 0, 1], normaliser) == pytest.approx(0, abs=1e-15)
        # Rounding leaves -1e-16 here, which must not get out, or 1e-16: logarithms of NumPy differ by version.
        assert 0 <= nmi([0, 0, 0, 1, 1, 1], [0, 1, 2, 0, 1, 2], normaliser) < 1e-15

    @pytest.mark.parametrize("normaliser", NORMALISERS)
    def test_equals_scikit_learn(self, normaliser: Normaliser) -> None:
        rng = np.random.default_rng(0)
        for n, n_predicted, n_true in [(50, 3, 8), (500, 10, 10), (2000, 700, 5), (3000, 2500, 2500)]:
            truth = rng.integers(n_true, size=n)
            predicted = np.where(rng.random(n) < 0.5, truth, rng.integers(n_predicted, size=n))
            expected = normalized_mutual_info_score(truth, predicted, average_method=normaliser)
            assert nmi(predicted, truth, normaliser) == pytest.approx(expected, abs=1e-12)

    @quick
    @given(labellings())
    def test_the_normalisers_are_ordered(self, pair: tuple[list[int], list[int]]) -> None:
        low_to_high = [nmi(*pair, name) for name in ("max", "arithmetic", "geometric", "min")]
        for lower, higher in itertools.pairwise(low_to_high):
            assert lower <= higher + 1e-12
        assert low_to_high[0] >= 0
        assert low_to_high[-1] <= 1

    def test_an_unknown_normaliser_is_refused(self) -> None:
        message = "normaliser must be one of geometric, arithmetic, max, min; got 'mean'. Name the variant"
        with pytest.raises(InvalidInput, match=message):
            nmi([0, 1], [0, 1], "mean")  # type: ignore[arg-type]


class TestAri:
    def test_by_hand(self) -> None:
        # Six pairs. Together: in both 1, in predicted 2, in truth 1. Expected 2 * 1 / 6; (1 - 1/3) / (3/2 - 1/3).
        assert ari([0, 0, 1, 1], [0, 0, 1, 2]) == pytest.approx((1 - 1 / 3) / (3 / 2 - 1 / 3))

    def test_below_chance(self) -> None:
        # No pair is together in both; expected 2 * 2 / 6, so (0 - 2/3) / (2 - 2/3).
        assert ari([0, 0, 1, 1], [0, 1, 0, 1]) == -0.5

    def test_degenerate_partitions(self) -> None:
        assert ari([1, 1, 1], [4, 4, 4]) == 1.0
        assert ari([1, 2, 3], [6, 5, 4]) == 1.0
        assert ari([1, 1, 1], [4, 5, 6]) == 0.0
        assert ari([0], [0]) == 1.0

    def test_equals_scikit_learn(self) -> None:
        rng = np.random.default_rng(1)
        for n, n_predicted, n_true in [(50, 3, 8), (2000, 700, 5), (200_000, 4, 3)]:
            truth = rng.integers(n_true, size=n)
            predicted = np.where(rng.random(n) < 0.5, truth, rng.integers(n_predicted, size=n))
            assert ari(predicted, truth) == pytest.approx(adjusted_rand_score(truth, predicted), abs=1e-12)

    def test_pair_counts_do_not_overflow(self) -> None:
        # Two halves against two halves with one image moved: products of pair counts near 1e23.
        truth = np.repeat([0, 1], 500_000)
        predicted = truth.copy()
        predicted[0] = 1
        assert 0.999995 < ari(predicted, truth) < 1


class TestScores:
    def test_the_keys_of_metrics_json_in_order(self) -> None:
        assert list(scores([0, 1], [1, 0])) == ["acc", "nmi_geometric", "nmi_arithmetic", "nmi_max", "ari"]

    def test_each_is_the_function_of_its_name(self) -> None:
        predicted, truth = [0, 0, 1, 1, 2, 2, 2], [0, 0, 0, 1, 1, 1, 2]
        assert scores(predicted, truth) == {
            "acc": accuracy(predicted, truth),
            "nmi_geometric": nmi(predicted, truth, "geometric"),
            "nmi_arithmetic": nmi(predicted, truth, "arithmetic"),
            "nmi_max": nmi(predicted, truth, "max"),
            "ari": ari(predicted, truth),
        }

    @quick
    @given(labellings(), st.permutations(range(7)), st.integers(-(10**12), 10**12))
    def test_names_of_labels_do_not_matter(
        self, pair: tuple[list[int], list[int]], names: list[int], shift: int
    ) -> None:
        predicted, truth = pair
        renamed = [shift * names[p] + names[p] for p in predicted]
        moved = [t + shift for t in truth]
        assert scores(renamed, moved) == pytest.approx(scores(predicted, truth), abs=1e-12)

    @quick
    @given(labellings())
    def test_all_are_symmetric(self, pair: tuple[list[int], list[int]]) -> None:
        predicted, truth = pair
        assert scores(predicted, truth) == pytest.approx(scores(truth, predicted), abs=1e-12)

    @quick
    @given(labellings(), st.integers(0, 10**6))
    def test_the_order_of_images_does_not_matter(self, pair: tuple[list[int], list[int]], seed: int) -> None:
        order = np.random.default_rng(seed).permutation(len(pair[0]))
        predicted, truth = np.array(pair[0])[order], np.array(pair[1])[order]
        assert scores(predicted, truth) == scores(*pair)

    @quick
    @given(labellings())
    def test_ranges(self, pair: tuple[list[int], list[int]]) -> None:
        result = scores(*pair)
        assert 1 / len(pair[0]) <= result["acc"] <= 1
        assert -0.5 <= result["ari"] <= 1
        assert all(0 <= result[f"nmi_{name}"] <= 1 for name in ("geometric", "arithmetic", "max"))

    @quick
    @given(st.lists(st.integers(-3, 3), min_size=1, max_size=30))
    def test_the_same_partition_scores_exactly_one(self, labels: list[int]) -> None:
        assert set(scores(labels, [5 - label for label in labels]).values()) == {1.0}

    @pytest.mark.parametrize(
        ("predicted", "truth", "message"),
        [
            ([], [], "predicted must hold at least one label; got none"),
            ([0, 1], [0, 1, 1], "predicted and truth must have the same length; got 2 and 3"),
            ([0.0, 1.0], [0, 1], "predicted must hold whole numbers of an integer type; got float64"),
            ([0, 1], [0.0, 1.0], "truth must hold whole numbers of an integer type; got float64"),
        ],
    )
    def test_bad_input(self, predicted: list[int], truth: list[int], message: str) -> None:
        with pytest.raises(InvalidInput, match=message):
            scores(predicted, truth)

    def test_the_input_is_untouched(self) -> None:
        predicted, truth = np.array([3, 3, 5]), np.array([0, 1, 1])
        scores(predicted, truth)
        assert predicted.tolist() == [3, 3, 5]
        assert truth.tolist() == [0, 1, 1]


class TestOutliers:
    predicted, truth = np.array([0, 0, 1, 1, -1, -1, -1]), np.array([4, 4, 5, 5, 6, 6, 6])

    def test_they_stand_for_no_class(self) -> None:
        assert match_clusters(self.predicted, self.truth, outliers=-1) == {0: 4, 1: 5}
        assert match_clusters(self.predicted, self.truth) == {-1: 6, 0: 4, 1: 5}

    def test_they_are_wrong_and_counted(self) -> None:
        found = scores(self.predicted, self.truth, outliers=-1)
        assert found["acc"] == pytest.approx(4 / 7)
        assert found["n_outliers"] == 3
        assert found["ari"] == 1.0

    def test_a_run_that_looked_in_vain(self) -> None:
        plain = scores(self.predicted, self.truth)
        assert "n_outliers" not in plain
        assert scores(self.predicted, self.truth, outliers=99) == {**plain, "n_outliers": 0}

    def test_nothing_but_outliers(self) -> None:
        found = scores([7, 7, 7], [0, 1, 1], outliers=7)
        assert (found["acc"], found["n_outliers"]) == (0.0, 3)
        assert match_clusters([7, 7, 7], [0, 1, 1], outliers=7) == {}
