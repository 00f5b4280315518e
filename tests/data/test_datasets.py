from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.data.samples import noise

from selfsort.data import ImageSpec, as_dataset, fingerprint
from selfsort.errors import InvalidInput
from selfsort.types import Images


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"height": 0}, "height must be a whole number between 1 and 65500; got 0"),
        ({"width": 10**9}, "width must be .* got 1000000000"),
        ({"height": "8"}, "height must be .* got '8'"),
        ({"width": True}, "width must be .* got True"),
        ({"width": 2.5}, "width must be .* got 2.5"),
        ({"channels": 4}, "channels must be 1 .gray. or 3"),
        ({"fit": "squeeze"}, "fit must be crop, stretch or pad; got 'squeeze'"),
        ({"more": 1}, "an image spec must have exactly height, width, channels, fit"),
    ],
)
def test_a_tampered_spec_is_refused(values: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        ImageSpec.from_json({"height": 8, "width": 8, "channels": 1, "fit": "crop"} | values)


def test_the_fingerprint_does_not_depend_on_blocks_or_memory_layout(monkeypatch: pytest.MonkeyPatch) -> None:
    pixels = np.stack([noise(seed=seed) for seed in range(5)])
    whole = fingerprint(Images(pixels))
    monkeypatch.setattr("selfsort.data.datasets._HASH_BYTES", 1)
    assert fingerprint(Images(pixels)) == whole
    assert fingerprint(Images(np.asfortranarray(pixels))) == whole
    assert fingerprint(Images(pixels[::-1])) != whole
    assert fingerprint(Images(pixels.reshape(5, 16, 12, 3))) != whole


def test_wrapping_arrays() -> None:
    images = Images(np.stack([noise(), noise(seed=1)]))
    data = as_dataset(images, np.array([0, 1]))
    assert len(data) == 2
    assert data.names == ("0", "1")
    assert data.spec == ImageSpec(12, 16, 3)
    assert data.fingerprint == fingerprint(images)
    with pytest.raises(InvalidInput, match=r"labels must have one entry per image \(2\); got 3"):
        as_dataset(images, np.array([0, 1, 2]))
