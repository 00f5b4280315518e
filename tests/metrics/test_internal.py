from __future__ import annotations

import json
from math import exp, log

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import entropy

from selfsort.errors import InvalidInput
from selfsort.metrics.internal import SizeReport, collapse_warnings, size_report

quick = settings(derandomize=True, deadline=None, max_examples=60)


class TestSizeReport:
    def test_by_hand(self) -> None:
        report = size_report([4, 4, 4, 0], n_clusters=5)
        assert (report.asked, report.used, report.min, report.max) == (5, 2, 1, 3)
        assert report.entropy == pytest.approx(0.75 * log(4 / 3) + 0.25 * log(4))

    def test_one_cluster_has_no_entropy(self) -> None:
        assert str(size_report([2, 2, 2], n_clusters=2).entropy) == "0.0"

    def test_equal_sizes_have_the_entropy_of_their_number(self) -> None:
        assert exp(size_report(np.arange(70) % 7, n_clusters=7).entropy) == pytest.approx(7)

    def test_more_clusters_than_asked_while_merging(self) -> None:
        assert size_report(np.arange(30), n_clusters=10).used == 30

    def test_it_goes_into_json(self) -> None:
        written = json.dumps(size_report(np.array([0, 0, 1, 1]), n_clusters=3).to_json())
        assert json.loads(written) == {"asked": 3, "used": 2, "min": 2, "max": 2, "entropy": pytest.approx(log(2))}

    @quick
    @given(st.lists(st.integers(-9, 9), min_size=1, max_size=50))
    def test_entropy_equals_scipy(self, labels: list[int]) -> None:
        sizes = np.unique(labels, return_counts=True)[1]
        report = size_report(labels, n_clusters=5)
        assert report.entropy == pytest.approx(entropy(sizes), abs=1e-12)
        assert (report.min, report.max, report.used) == (sizes.min(), sizes.max(), len(sizes))

    def test_bad_input(self) -> None:
        with pytest.raises(InvalidInput, match=r"n_clusters must be at least 1; got 0. Give the number"):
            size_report([0, 0], n_clusters=0)
        with pytest.raises(InvalidInput, match="labels must hold whole numbers"):
            size_report([0.5, 1.5], n_clusters=2)


class TestCollapseWarnings:
    def test_all_is_well(self) -> None:
        assert collapse_warnings([0, 1, 2, 2], n_clusters=3) == ()

    def test_lost_clusters(self) -> None:
        (warning,) = collapse_warnings([0, 0, 3, 3], n_clusters=5)
        assert warning == (
            "Only 2 of the 5 clusters asked for hold any image. Ask for fewer clusters, or try another seed or method."
        )

    def test_one_large_cluster(self) -> None:
        labels = np.zeros(2000, dtype=int)
        labels[:150] = 1
        (warning,) = collapse_warnings(labels, n_clusters=2)
        assert warning.startswith(
            "One cluster holds 1,850 of the 2,000 images (92.5 %): the clustering has collapsed. Try another seed"
        )

    def test_exactly_ninety_percent_is_not_above_it(self) -> None:
        assert collapse_warnings([0] * 9 + [1], n_clusters=2) == ()
        assert len(collapse_warnings([0] * 91 + [1] * 9, n_clusters=2)) == 1

    def test_total_collapse_says_both(self) -> None:
        lost, large = collapse_warnings([7] * 40, n_clusters=10)
        assert lost.startswith("Only 1 of the 10")
        assert "40 of the 40 images (100 %)" in large

    def test_nearly_all_is_not_called_all(self) -> None:
        assert "(99.9 %)" in collapse_warnings([0] * 9999 + [1], n_clusters=2)[0]

    def test_more_clusters_than_asked_is_no_collapse(self) -> None:
        assert collapse_warnings(np.arange(30), n_clusters=10) == ()


def test_outliers_are_no_cluster() -> None:
    assert size_report([0, 0, 1, 5, 5, 5], 2, outliers=5) == size_report([0, 0, 1], 2)
    assert size_report([5, 5], 2, outliers=5) == SizeReport(2, 0, 0, 0, 0.0)
