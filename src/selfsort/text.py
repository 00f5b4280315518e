"""Numbers and names as people read them."""

from __future__ import annotations


def plural(count: int, noun: str) -> str:
    """Write a count with its noun.

    >>> plural(1, "image"), plural(1200, "image")
    ('1 image', '1,200 images')
    """
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def duration(seconds: float) -> str:
    """Write a time span.

    >>> duration(4.21), duration(90), duration(5400)
    ('4.2 s', '1.5 min', '1.5 h')
    """
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.1f} min" if seconds < 3597 else f"{seconds / 3600:.1f} h"


def percent(share: float) -> str:
    """Write a share.

    >>> percent(0.1234)
    '12.3 %'
    """
    return f"{100 * share:.1f} %"


def sentence(text: str) -> str:
    """Begin with a capital and leave the rest alone.

    >>> sentence("mean KL loss")
    'Mean KL loss'
    """
    return text[:1].upper() + text[1:]


def short(value: float) -> str:
    """Write a number for an axis.

    >>> short(12000), short(0.25), short(3.0), short(0.00004)
    ('12k', '0.25', '3', '4e-05')
    """
    if value != 0 and abs(value) < 1e-3:
        return f"{value:.2g}"
    for least, unit, name in ((1e9, 1e9, "G"), (1e6, 1e6, "M"), (1e4, 1e3, "k")):
        if abs(value) >= least:
            return f"{value / unit:.4g}{name}"
    return f"{value:.4g}"


def shorten(text: str, limit: int = 120) -> str:
    """Cut a long name in its middle: the folder and the file both stay recognisable.

    >>> shorten("holiday/2019/very/long/name.png", limit=15)
    'holiday\u2026ame.png'
    """
    if len(text) <= limit:
        return text
    half = (limit - 1) // 2
    return f"{text[:half]}\u2026{text[-half:]}"
