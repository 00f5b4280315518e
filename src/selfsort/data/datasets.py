"""What reading a source gives: pictures of one size, their names, and an account of how they were read.

Labels travel beside the pictures, never inside `Images`: methods receive `Dataset.images` alone.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, Self, get_args

import numpy as np

from selfsort.errors import invalid
from selfsort.pages import forget
from selfsort.types import I64, Images, Json

Fit = Literal["crop", "stretch", "pad"]

# Largest side we accept in a saved spec: a tampered config must not make us allocate the machine away.
MAX_SIDE = 65_500
_HASH_BYTES = 1 << 24


@dataclass(frozen=True)
class ImageSpec:
    """How pictures were made equal; saved with a run and used again on the pictures it predicts."""

    height: int
    width: int
    channels: int
    """1 (gray) or 3 (RGB)."""
    fit: Fit = "crop"
    """What happens to another aspect ratio: cut the surplus, distort, or fill up with white."""

    def __post_init__(self) -> None:
        for name in ("height", "width"):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= MAX_SIDE:
                raise invalid(name, f"be a whole number between 1 and {MAX_SIDE}", repr(value), "Change the size.")
        if self.channels not in (1, 3):
            raise invalid("channels", "be 1 (gray) or 3 (RGB)", repr(self.channels), "Choose gray or colour.")
        if self.fit not in get_args(Fit):
            raise invalid("fit", "be crop, stretch or pad", repr(self.fit), "Choose one of them.")

    @property
    def shape(self) -> tuple[int, int, int]:
        """Height, width, channels."""
        return self.height, self.width, self.channels

    def to_json(self) -> Json:
        """Return the spec as JSON types."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        """Rebuild a spec written by `to_json`.

        >>> ImageSpec.from_json(ImageSpec(28, 28, 1).to_json())
        ImageSpec(height=28, width=28, channels=1, fit='crop')
        """
        expected = ("height", "width", "channels", "fit")
        if set(values) != set(expected):
            raise invalid("an image spec", f"have exactly {', '.join(expected)}", sorted(values), "Repair config.json.")
        return cls(**{name: values[name] for name in expected})


@dataclass(frozen=True)
class Skipped:
    """A file that looked like a picture and could not be read."""

    name: str
    reason: str


@dataclass(frozen=True, eq=False)
class Dataset:
    """A source, read."""

    images: Images
    names: tuple[str, ...]
    """Path relative to the source folder (posix), or the row number as text for arrays."""
    paths: Sequence[Path] | None
    """Absolute file paths where every image is a file of its own."""
    labels: I64 | None
    """Ground truth 0..; for scoring only."""
    label_names: tuple[str, ...] | None
    """What the numbers in `labels` stand for, if they stand for something else."""
    spec: ImageSpec
    ingest: Json
    """The content of ingest.json: what was found, skipped and chosen, and the settings to read it again."""
    fingerprint: str
    """See `fingerprint`."""

    def __len__(self) -> int:
        return len(self.images)


def fingerprint(images: Images) -> str:
    """Return the sha256 of shape, dtype and pixels: equal pictures in equal order, whatever they are called.

    >>> import numpy as np
    >>> fingerprint(Images(np.zeros((2, 1, 1, 1), np.uint8)))[:12]
    'd9fe73797a35'
    """
    pixels = images.pixels
    digest = hashlib.sha256(f"{pixels.dtype.str} {pixels.shape}".encode())
    rows = max(1, _HASH_BYTES // max(1, pixels[:1].nbytes))
    for start in range(0, len(pixels), rows):
        # In C order (without a copy where that is the order), so that a view and its copy agree.
        digest.update(np.ascontiguousarray(pixels[start : start + rows]).data)
        forget(pixels)
    return digest.hexdigest()


def as_dataset(images: Images, labels: I64 | None = None, *, source: str = "array") -> Dataset:
    """Wrap pictures that are in memory already, with row numbers as names."""
    if labels is not None and len(labels) != len(images):
        raise invalid("labels", f"have one entry per image ({len(images)})", len(labels), "Check the labels.")
    height, width, channels = images.shape
    ingest: Json = {"source": source, "kind": "array", "found": len(images), "read": len(images), "skipped": []}
    return Dataset(
        images=images,
        names=tuple(map(str, range(len(images)))),
        paths=None,
        labels=labels,
        label_names=None,
        spec=ImageSpec(height, width, channels),
        ingest=ingest | {"size": [height, width], "channels": channels, "stored": "memory"},
        fingerprint=fingerprint(images),
    )
