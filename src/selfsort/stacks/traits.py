"""What of every picture is compared: its bytes, its outlines, its colours, how sharp it is and when it was taken.

Pictures are looked at one by one and let go, so a folder of any size takes about five kilobytes for each of them.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from hashlib import sha256

import numpy as np
import numpy.typing as npt

from selfsort.data import ImageSpec, Skipped, conform
from selfsort.data.decode import Look, Unreadable, decode, explain, quiet_pillow
from selfsort.data.gallery import Item
from selfsort.data.resize import cpu_count
from selfsort.data.shot import Shot, read_shot
from selfsort.progress import track
from selfsort.types import F32, F64, I64, U8, Images

SIDE = 64
"""Outlines are compared on so many pixels."""
_FINE = 256
"""Sharpness is measured on so many. Whole pictures are stretched to a square: only those of one shape are compared."""
_COLOUR_SIDE = 8
_LUMA: F32 = np.array([0.299, 0.587, 0.114], np.float32)
_LONGEST_FILE = 1 << 28
"""Larger files are no photographs; they are compared by their pixels alone."""


@dataclass(frozen=True, eq=False)
class Traits:
    """N pictures as they are compared."""

    names: tuple[str, ...]
    digests: tuple[bytes, ...]
    """SHA-256 of the file, or of the pixels where there is none."""
    sizes: I64
    """(N, 2) width and height, upright."""
    n_bytes: I64
    """(N,) of the file; 0 if it has none."""
    taken: F64
    """(N,) seconds by the camera's clock, NaN where it is not known."""
    gray: U8
    """(N, SIDE, SIDE) brightness."""
    colour: U8
    """(N, 8, 8, 3)."""
    sharpness: F32
    """(N,) how strong the finest outlines are; comparable between versions of one picture."""

    def __len__(self) -> int:
        return len(self.names)


def traits_of(items: Sequence[Item]) -> tuple[Traits, list[Skipped]]:
    """Look at picture files; those that cannot be read are left out, with the reason."""
    seen: list[_One] = []
    skipped: list[Skipped] = []
    with quiet_pillow(), ThreadPoolExecutor(cpu_count(), thread_name_prefix="selfsort-traits") as pool:
        for found in track(pool.map(_look_at, items), "looking for duplicates", len(items)):
            if isinstance(found, Skipped):
                skipped.append(found)
            else:
                seen.append(found)
    return _together(seen), skipped


def traits_of_arrays(images: Images, names: Sequence[str]) -> Traits:
    """Look at pictures that are no files: their pixels are all there is."""
    height, width, _ = images.shape
    seen = []
    for start in range(0, len(images), 1024):
        some = images.subset(slice(start, start + 1024))
        square = conform(some, ImageSpec(SIDE, SIDE, 3, "stretch")).pixels
        for i, pixels in enumerate(square):
            digest = sha256(np.ascontiguousarray(some.pixels[i]).data).digest()
            seen.append(_One(names[start + i], digest, (width, height), 0, None, *_reduced(pixels)))
    return _together(seen)


@dataclass(frozen=True, eq=False)
class _One:
    name: str
    digest: bytes
    size: tuple[int, int]
    n_bytes: int
    taken: float | None
    gray: U8
    colour: U8
    sharpness: float


def _look_at(item: Item) -> _One | Skipped:
    try:
        with item.open() as stream:
            content = stream.read(_LONGEST_FILE + 1)
            if len(content) > _LONGEST_FILE:
                raise Unreadable("too large to be compared")
        pixels, look = decode(io.BytesIO(content), ImageSpec(_FINE, _FINE, 3, "stretch"))
        shot = read_shot(io.BytesIO(content))
    except (OSError, Unreadable) as error:
        return Skipped(item.name, explain(error, item.path))
    return _one(item.name, content, look, shot, pixels)


def _one(name: str, content: bytes, look: Look, shot: Shot, pixels: U8) -> _One:
    size = look.width, look.height
    return _One(name, sha256(content).digest(), size, len(content), shot.taken, *_reduced(pixels))


def _reduced(pixels: U8) -> tuple[U8, U8, float]:
    """Return brightness and colours on few pixels, and the sharpness."""
    bright: F32 = pixels.astype(np.float32) @ _LUMA
    across = np.abs(bright[:, 2:] - 2 * bright[:, 1:-1] + bright[:, :-2])
    down = np.abs(bright[2:] - 2 * bright[1:-1] + bright[:-2])
    # The strongest edges tell, since large plain parts must not hide them; more contrast is not sharper.
    sharpness = float(np.quantile(across, 0.98) + np.quantile(down, 0.98)) / (float(bright.std()) + 1)
    return _averaged(bright, SIDE).astype(np.uint8), _averaged(pixels, _COLOUR_SIDE).astype(np.uint8), sharpness


def _averaged(pixels: npt.NDArray[np.generic], side: int) -> F32:
    """Shrink a square by averaging whole blocks."""
    block = pixels.shape[0] // side
    blocks = pixels.reshape(side, block, side, block, *pixels.shape[2:])
    averaged: F32 = np.rint(blocks.mean(axis=(1, 3), dtype=np.float32))
    return averaged


def _together(seen: Sequence[_One]) -> Traits:
    n = len(seen)
    return Traits(
        names=tuple(one.name for one in seen),
        digests=tuple(one.digest for one in seen),
        sizes=np.array([one.size for one in seen], np.int64).reshape(n, 2),
        n_bytes=np.array([one.n_bytes for one in seen], np.int64),
        taken=np.array([np.nan if one.taken is None else one.taken for one in seen], np.float64),
        gray=np.stack([one.gray for one in seen]) if seen else np.empty((0, SIDE, SIDE), np.uint8),
        colour=np.stack([one.colour for one in seen])
        if seen
        else np.empty((0, _COLOUR_SIDE, _COLOUR_SIDE, 3), np.uint8),
        sharpness=np.array([one.sharpness for one in seen], np.float32),
    )
