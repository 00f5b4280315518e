"""Numbers and names as people read them."""

from __future__ import annotations

import re

# Bytes of names that are not UTF-8 (Python keeps them as surrogates) and control characters cannot stand in HTML;
# direction marks could make a file's name read as another one.
_UNPRINTABLE = re.compile(
    "[\\x00-\\x08\\x0b-\\x1f\\x7f-\\x9f\\u200e\\u200f\\u202a-\\u202e\\u2066-\\u2069\\ud800-\\udfff\\ufffe\\uffff]"
)
_BYTE = re.compile("[\\udc80-\\udcff]")


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


def printable(text: str) -> str:
    r"""Replace what no page can show; bytes that are not UTF-8 are spelt out, since names may differ in them alone.

    >>> printable("a\x00b").encode(), printable("caf\udce9")
    (b'a\xef\xbf\xbdb', 'caf\\xe9')
    """
    spelt = _BYTE.sub(lambda byte: f"\\x{ord(byte[0]) - 0xDC00:02x}", text)
    return _UNPRINTABLE.sub("\ufffd", spelt)


def one_line(text: str, limit: int) -> str:
    r"""Turn any text into a short name: one line, and only what can be shown.

    >>> one_line(" sea\n\tside ", 80), one_line("abcdef", 3)
    ('sea side', 'abc')
    """
    plain = " ".join(printable(text).split())
    return "".join(c for c in plain if c.isprintable())[:limit].strip()
