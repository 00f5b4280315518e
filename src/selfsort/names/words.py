"""What can be said of one picture without knowing what it shows: its folder, day, place, size and colours."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import numpy as np

from selfsort.types import U8

_NUMBERED = re.compile(r"(cluster|group)[- ]?\d+|outliers|marked wrong", re.IGNORECASE)
"""Folders that an earlier sorting made say nothing, and would be taken for the numbers of this one."""

_EARLIEST = 1990
"""Before that nobody photographed with EXIF: the clock was never set."""

# Longer side first, as (long, short). Only sizes that a screen has and a camera hardly: 4:3 and 3:2 are left out.
_SCREENS = {
    *((1136, 640), (1334, 750), (1792, 828), (2436, 1125), (2532, 1170), (2556, 1179), (2622, 1206)),  # telephones
    *((2208, 1242), (2688, 1242), (2778, 1284), (2796, 1290), (2868, 1320)),
    *((1600, 720), (2160, 1080), (2220, 1080), (2280, 1080), (2340, 1080), (2376, 1080), (2400, 1080), (2408, 1080)),
    *((2960, 1440), (3040, 1440), (3088, 1440), (3120, 1440), (3200, 1440)),
    *((1280, 720), (1280, 800), (1366, 768), (1440, 900), (1536, 864), (1600, 900), (1680, 1050), (1920, 1080)),
    *((1920, 1200), (2560, 1080), (2560, 1440), (2560, 1600), (2880, 1800), (3024, 1964), (3440, 1440), (3840, 2160)),
}

_HUES = ((15, "red"), (45, "orange"), (70, "yellow"), (165, "green"), (195, "turquoise"), (255, "blue"))
_FURTHER_HUES = ((290, "purple"), (345, "pink"), (360, "red"))
_GRAY, _COLOURED = 0.03, 0.12
"""Mean difference of the strongest and the weakest channel: below is gray, above has a colour."""
_ONE_HUE = 0.7
"""How far the hues of a picture must point into one direction, of 1: few photographs of many things do."""
_DARK, _BRIGHT = 0.2, 0.8
_PAPER, _PAPER_SHARE = 0.85, 0.6
"""Gray as light as that is paper, and that much of a page is."""


def folder_words(name: str) -> tuple[str, ...]:
    """Return the folders that a picture lies in, inside its source, the innermost first.

    >>> folder_words("2024/spring/a.jpg"), folder_words("a.jpg"), folder_words("../x/a.jpg")
    (('2024/spring', '2024'), (), ('x',))
    >>> folder_words("sorted/cluster-03/a.jpg")
    ('sorted',)
    """
    parts = [part for part in name.split("/")[:-1] if part.strip() and part not in (".", "..")]
    depths = [depth for depth in range(len(parts), 0, -1) if not _NUMBERED.fullmatch(parts[depth - 1].strip())]
    return tuple("/".join(parts[:depth]) for depth in depths)


def date_words(taken: float | None) -> tuple[str, ...]:
    """Return the day and the month of a picture, by the clock of its camera.

    >>> date_words(1689163200.0), date_words(0.0), date_words(None)
    (('12 July 2023', '2023-07'), (), ())
    """
    if taken is None:
        return ()
    day = datetime.fromtimestamp(taken, UTC)
    if day.year < _EARLIEST:
        return ()
    return f"{day.day} {_MONTHS[day.month - 1]} {day.year}", f"{day.year}-{day.month:02d}"


_MONTHS = (
    *("January", "February", "March", "April", "May", "June", "July"),
    *("August", "September", "October", "November", "December"),
)


def place_words(place: tuple[float, float] | None) -> tuple[str, ...]:
    """Return the square degree that a picture was taken in; what it is called no file says.

    >>> place_words((47.4, 8.5)), place_words((-0.2, -78.5)), place_words(None)
    (('47-48°N 8-9°E',), ('0-1°S 78-79°W',), ())
    """
    if place is None or place == (0.0, 0.0):  # what a telephone writes that knows none
        return ()
    return (f"{_degrees(place[0], 'NS')} {_degrees(place[1], 'EW')}",)


def _degrees(value: float, signs: str) -> str:
    whole = int(abs(value))
    return f"{whole}-{whole + 1}°{signs[value < 0]}"


def screen_words(size: tuple[int, int] | None) -> tuple[str, ...]:
    """Return what a picture of exactly the size of a screen is.

    >>> screen_words((1170, 2532)), screen_words((1171, 2532))
    (('screens 1170x2532',), ())
    """
    if size is None or (max(size), min(size)) not in _SCREENS:
        return ()
    return (f"screens {size[0]}x{size[1]}",)


def look_words(pixels_HWC: U8) -> tuple[str, ...]:
    """Return plain words for the colours of a picture; where none is clear, none.

    >>> look_words(np.full((4, 4, 3), (20, 40, 230), np.uint8)), look_words(np.full((4, 4, 3), 128, np.uint8))
    (('blue',), ('gray',))
    """
    colours = pixels_HWC.reshape(-1, pixels_HWC.shape[2]).astype(np.float32) / 255
    light = float(colours.mean())
    by_light = ("dark",) if light < _DARK else ("bright",) if light > _BRIGHT else ()
    if colours.shape[1] == 1:
        return by_light  # read as gray, whatever it is in its file
    strongest, chroma = colours.max(axis=1), np.ptp(colours, axis=1)
    if chroma.mean() < _GRAY:
        is_page = (colours.mean(axis=1) >= _PAPER).mean() >= _PAPER_SHARE
        return (*(("black on white",) if is_page else ()), "gray", *by_light)
    # The hue as a direction in the plane of colours, as long as its colour is strong: weak colours count little.
    red, green, blue = colours.T
    across, along = (green - blue) * np.sqrt(3) / 2, red - (green + blue) / 2
    length = np.hypot(across, along)
    together = float(np.hypot(across.sum(), along.sum()) / max(float(length.sum()), 1e-9))
    if chroma.mean() < _COLOURED or together < _ONE_HUE:
        return by_light
    hue = float(np.degrees(np.arctan2(across.sum(), along.sum()))) % 360
    word = next(word for end, word in (*_HUES, *_FURTHER_HUES) if hue <= end)
    is_brown = word == "orange" and float(strongest.mean()) < 0.6
    return ("brown" if is_brown else word, *by_light)
