from __future__ import annotations

import numpy as np
import pytest

from selfsort.errors import InvalidInput
from selfsort.learning.encode import check_request
from selfsort.types import Images

IMAGES = Images(np.zeros((2, 4, 5, 1), dtype=np.uint8))


def test_a_request_that_fits_is_let_through() -> None:
    check_request(IMAGES, (4, 5, 1))
    check_request(IMAGES, (4, 5, 1), "middle", ("top", "middle"))


def test_images_of_another_shape_are_refused() -> None:
    with pytest.raises(InvalidInput, match=r"This model was trained on \(8, 8, 1\)"):
        check_request(IMAGES, (8, 8, 1))


def test_a_layer_that_is_not_there_is_refused() -> None:
    with pytest.raises(InvalidInput, match="the only one this network gives"):
        check_request(IMAGES, (4, 5, 1), "middle")
    with pytest.raises(InvalidInput, match="be one of top, middle"):
        check_request(IMAGES, (4, 5, 1), "bottom", ("top", "middle"))
