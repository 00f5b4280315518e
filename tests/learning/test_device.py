from __future__ import annotations

import pytest

from selfsort.errors import InvalidInput
from selfsort.learning.device import choose_device


def test_device_choice() -> None:
    assert choose_device("cpu").type == "cpu"
    with pytest.raises(InvalidInput, match=r"device 'gpu9' cannot be used here .* Try --device cpu"):
        choose_device("gpu9")
