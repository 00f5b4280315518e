from __future__ import annotations

import numpy as np
import pytest

from selfsort.errors import InvalidInput
from selfsort.types import Assignment, Images


def test_images_know_their_shape_and_cut_rows() -> None:
    images = Images(np.arange(2 * 3 * 4 * 3, dtype=np.uint8).reshape(2, 3, 4, 3))
    assert len(images) == 2
    assert images.shape == (3, 4, 3)
    np.testing.assert_array_equal(images.subset(slice(1, 2)).pixels, images.pixels[1:])


@pytest.mark.parametrize(
    ("pixels", "message"),
    [
        (np.zeros((2, 3, 4), dtype=np.uint8), r"pixels must be a uint8 array .*; got uint8 of shape \(2, 3, 4\)"),
        (np.zeros((2, 3, 4, 1), dtype=np.float32), "got float32 of shape"),
        (np.zeros((2, 3, 4, 4), dtype=np.uint8), r"the channel count must be 1 \(gray\) or 3 \(RGB\); got 4"),
    ],
)
def test_other_arrays_are_refused(pixels: np.ndarray[tuple[int, ...], np.dtype[np.uint8]], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        Images(pixels)


def test_the_strongest_cluster_wins_and_ties_go_to_the_lowest() -> None:
    soft = np.array([[0.2, 0.8], [0.5, 0.5]], dtype=np.float32)
    labels = Assignment(soft, soft).labels
    assert labels.dtype == np.int64
    assert labels.tolist() == [1, 0]
