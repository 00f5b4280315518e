"""Small pictures for the tests of this folder."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import numpy as np
from PIL import Image

from selfsort.types import U8


def noise(height: int = 12, width: int = 16, channels: int = 3, seed: int = 0) -> U8:
    """A picture without any symmetry."""
    return np.random.default_rng(seed).integers(0, 256, (height, width, channels), dtype=np.uint8)


def smooth(height: int, width: int, seed: int = 0) -> Image.Image:
    """A picture that JPEG keeps nearly as it is."""
    return Image.fromarray(noise(3, 4, seed=seed)).resize((width, height), Image.Resampling.BICUBIC)


def picture(pixels: U8) -> Image.Image:
    return Image.fromarray(pixels if pixels.shape[-1] == 3 else pixels[:, :, 0])


def save_many(folder: Path, n: int, *, height: int = 12, width: int = 16, channels: int = 3) -> list[U8]:
    """Write 000.png, 001.png, ... and return their pixels."""
    folder.mkdir(parents=True, exist_ok=True)
    made = [noise(height, width, channels, seed) for seed in range(n)]
    for number, pixels in enumerate(made):
        picture(pixels).save(folder / f"{number:03d}.png")
    return made


def png_of_claimed_size(width: int, height: int) -> bytes:
    """A PNG whose header promises far more pixels than its few bytes hold."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    rows = zlib.compress(bytes(10_000))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")
