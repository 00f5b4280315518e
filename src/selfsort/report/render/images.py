"""Pixels as a page can hold them."""

from __future__ import annotations

import base64
import io

import numpy as np
from PIL import Image

from selfsort.types import U8

_LOSSLESS_SIDE = 32
"""Up to here a picture is stored exactly: it is shown enlarged, where lossy edges would be seen."""


def data_uri(pixels: U8) -> str:
    """Encode one (H, W, C) picture."""
    picture = Image.fromarray(gray_or_color(pixels))
    stream = io.BytesIO()
    if max(picture.size) <= _LOSSLESS_SIDE:
        picture.save(stream, "PNG", optimize=True)
        kind = "png"
    else:
        picture.save(stream, "WEBP", quality=72, method=4)
        kind = "webp"
    return f"data:image/{kind};base64,{base64.b64encode(stream.getvalue()).decode()}"


def gray_or_color(pixels: U8) -> U8:
    """Return an (H, W, C) picture as Pillow and matplotlib want it: a gray one without the channel axis."""
    return pixels[:, :, 0] if pixels.shape[2] == 1 else pixels


def tiled(pictures: U8, columns: int) -> U8:
    """Lay (M, h, w, C) pictures out in rows with a gap of one pixel between them."""
    count, height, width, channels = pictures.shape
    columns = max(1, min(columns, count))
    lines = -(-count // columns)
    sheet = np.full((lines * (height + 1) - 1, columns * (width + 1) - 1, channels), 127, dtype=np.uint8)
    for i, picture in enumerate(pictures):
        top, left = (i // columns) * (height + 1), (i % columns) * (width + 1)
        sheet[top : top + height, left : left + width] = picture
    return sheet
