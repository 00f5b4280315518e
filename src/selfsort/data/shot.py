"""When and where a photograph was taken, as far as its EXIF data say; they are foreign bytes like the rest."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import IO, Any

from PIL import Image

from selfsort.data.decode import open_picture

_EXIF, _GPS = 0x8769, 0x8825
_TAKEN, _SUBSECOND, _CHANGED = 0x9003, 0x9291, 0x0132
_LONGEST = 1 << 20
_FORM = re.compile(r"(\d{4}):(\d\d):(\d\d) (\d\d):(\d\d):(\d\d)")


@dataclass(frozen=True)
class Shot:
    """What a camera has noted."""

    taken: float | None = None
    """Seconds since 1970 by the camera's own clock, which has no time zone."""
    place: tuple[float, float] | None = None
    """Degrees north and east."""


def read_shot(stream: IO[bytes]) -> Shot:
    """Read the EXIF data of a picture; what is missing or makes no sense is None."""
    picture = open_picture(stream)
    try:
        if picture.format == "PNG":
            exif = _exif_of_png(stream)
        elif "exif" in picture.info or picture.format == "TIFF":
            exif = picture.getexif()
        else:
            return Shot()
        details = exif.get_ifd(_EXIF)
        taken = _seconds(details.get(_TAKEN) or exif.get(_CHANGED), details.get(_SUBSECOND))
        return Shot(taken, _place(exif.get_ifd(_GPS)))
    except Exception:  # damaged metadata make Pillow raise anything: the picture is still good
        return Shot()


def _exif_of_png(stream: IO[bytes]) -> Image.Exif:
    """Find the EXIF data of a PNG, which may lie behind the pixels: Pillow would decode them all to get there."""
    exif = Image.Exif()
    stream.seek(8)
    while len(head := stream.read(8)) == 8:
        length = int.from_bytes(head[:4], "big")
        if head[4:] == b"eXIf":
            exif.load(stream.read(min(length, _LONGEST)))
            break
        stream.seek(length + 4, 1)
    return exif


def _seconds(text: Any, fraction: Any) -> float | None:
    """Read a time as EXIF writes it.

    >>> _seconds("1970:01:02 00:00:01", "25")
    86401.25
    """
    found = _FORM.match(text) if isinstance(text, str) else None
    if found is None:
        return None
    try:
        year, month, day, hour, minute, second = map(int, found.groups())
        whole = datetime(year, month, day, hour, minute, second, tzinfo=UTC).timestamp()
    except ValueError:  # cameras whose clock was never set write zeros
        return None
    digits = str(fraction).strip("\0 ")
    return whole + (float(f"0.{digits}") if re.fullmatch(r"[0-9]{1,9}", digits) else 0.0)


def _place(gps: Any) -> tuple[float, float] | None:
    """Read degrees, minutes and seconds with their side of the world."""
    north, east = _degrees(gps.get(2), gps.get(1), "S", 90), _degrees(gps.get(4), gps.get(3), "W", 180)
    return None if north is None or east is None else (north, east)


def _degrees(parts: Any, side: Any, negative: str, most: float) -> float | None:
    if not isinstance(parts, Sequence) or len(parts) != 3:
        return None
    degrees, minutes, seconds = map(float, parts)
    value = degrees + minutes / 60 + seconds / 3600
    if not math.isfinite(value) or not 0 <= value <= most:
        return None
    return -value if str(side).strip("\0 ") == negative else value
