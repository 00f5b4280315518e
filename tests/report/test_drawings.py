from __future__ import annotations

import numpy as np
import pytest

from selfsort.report.drawings import count_histogram, histogram, ticks


@pytest.mark.parametrize(("low", "high"), [(0, 1), (0.013, 0.017), (-5, 5), (0, 1e9), (99, 100), (0, 7)])
def test_ticks_are_round_few_and_inside(low: float, high: float) -> None:
    found = ticks(low, high)
    assert 2 <= len(found) <= 7
    assert all(low - 1e-9 <= value <= high + 1e-9 for value in found)
    assert np.allclose(np.diff(found), found[1] - found[0])


def test_values_are_counted_in_equal_bins_and_the_last_one_holds_its_end() -> None:
    chart = histogram("Sure", np.array([0.0, 0.04, 0.05, 1.0]), low=0, high=1, alt="four images")
    assert (len(chart.values), chart.values[0], chart.values[1], chart.values[-1]) == (20, 2, 1, 1)
    assert list(chart.labels[:3]) == ["0", "0.05", "0.1"]


@pytest.mark.parametrize("values", [[0], [1, 1, 3], [924, 1071, 1000], [5, 20, 21], [999_999, 12]])
def test_counts_are_binned_at_whole_numbers_and_none_is_lost(values: list[int]) -> None:
    chart = count_histogram("Sizes", np.array(values), alt="x", x_title="images")
    assert sum(chart.values) == len(values)
    assert not [label for label in chart.labels if "." in label]
