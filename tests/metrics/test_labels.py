from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from selfsort.errors import InvalidInput
from selfsort.metrics.labels import check_label_pair, check_labels, number_labels

quick = settings(derandomize=True, deadline=None, max_examples=60)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.uint64, np.bool_])
def test_any_integer_type_becomes_int64(dtype: type[np.generic]) -> None:
    labels = check_labels("labels", np.array([1, 0, 1], dtype=dtype))
    assert labels.dtype == np.int64
    assert labels.tolist() == [1, 0, 1]


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([], "labels must hold at least one label; got none. Give the labels"),
        ([0.0, 1.0], r"labels must hold whole numbers of an integer type; got float64. Convert with labels.astype"),
        (["cat", "dog"], "labels must hold whole numbers of an integer type; got <U3. .* number names with numpy"),
        ([[0, 1], [1, 0]], r"labels must be one-dimensional; got shape \(2, 2\). .* take the argmax"),
        (3, r"labels must be one-dimensional; got shape \(\)"),
        (np.array([2**63], dtype=np.uint64), "labels must fit into 64-bit signed integers; got 9223372036854775808"),
    ],
)
def test_wrong_labels_are_refused_in_words(labels: object, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        check_labels("labels", labels)  # type: ignore[arg-type]


def test_unequal_lengths_are_refused_with_both_numbers() -> None:
    message = "predicted and truth must have the same length; got 3 and 2. Give one label of each kind per image"
    with pytest.raises(InvalidInput, match=message):
        check_label_pair([0, 1, 1], [0, 1])


def test_the_error_names_the_argument_at_fault() -> None:
    with pytest.raises(InvalidInput, match=r"^truth must hold whole numbers"):
        check_label_pair([0, 1], [0.5, 1.0])


@quick
@given(st.lists(st.one_of(st.integers(-5, 5), st.integers(-(2**63), 2**63 - 1)), min_size=1, max_size=30))
def test_numbering_agrees_with_numpy_for_dense_and_scattered_labels(labels: list[int]) -> None:
    array = np.array(labels, dtype=np.int64)
    names, position = number_labels(array)
    expected_names, expected_position = np.unique(array, return_inverse=True)
    np.testing.assert_array_equal(names, expected_names)
    np.testing.assert_array_equal(position, expected_position)
    assert names.dtype == position.dtype == np.int64
