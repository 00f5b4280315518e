from __future__ import annotations

import base64
import io

import numpy as np
import pytest
from PIL import Image

from selfsort.report.render.images import data_uri, gray_or_color, tiled


@pytest.mark.parametrize(
    ("side", "channels", "kind"), [(8, 1, "png"), (32, 3, "png"), (40, 3, "webp"), (64, 1, "webp")]
)
def test_a_picture_survives_its_encoding(side: int, channels: int, kind: str) -> None:
    pixels = np.full((side, side, channels), 200, dtype=np.uint8)
    uri = data_uri(pixels)
    head, _, body = uri.partition(",")
    assert head == f"data:image/{kind};base64"
    decoded = np.asarray(Image.open(io.BytesIO(base64.b64decode(body))).convert("RGB"))
    assert np.abs(decoded.astype(int) - 200).max() <= 3


def test_tiles_keep_their_pixels_and_order() -> None:
    pictures = np.arange(3, dtype=np.uint8)[:, None, None, None] * np.ones((1, 2, 2, 1), dtype=np.uint8)
    sheet = tiled(pictures, columns=2)
    assert sheet[:, :, 0].tolist() == [
        [0, 0, 127, 1, 1],
        [0, 0, 127, 1, 1],
        [127, 127, 127, 127, 127],
        [2, 2, 127, 127, 127],
        [2, 2, 127, 127, 127],
    ]


def test_only_gray_pictures_lose_their_channel_axis() -> None:
    assert gray_or_color(np.zeros((4, 5, 1), np.uint8)).shape == (4, 5)
    assert gray_or_color(np.zeros((4, 5, 3), np.uint8)).shape == (4, 5, 3)
