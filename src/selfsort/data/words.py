"""Files beside the pictures, as people call them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from selfsort.text import plural

_KINDS = {
    "video": "mp4 m4v mov avi mkv webm mpg mpeg wmv 3gp mts m2ts flv",
    "document": "pdf doc docx odt rtf txt md pages xls xlsx ods csv tsv numbers ppt pptx odp key html htm epub",
    "raw picture": "cr2 cr3 nef arw dng orf rw2 raf pef srw",
    "sound": "mp3 m4a wav flac ogg aac opus",
    "archive": "zip tar gz 7z rar bz2 xz",
    "drawing": "svg psd ai eps xcf",
    "photo manager's file": "xmp aae thm db ini json xml lnk",
}
_KIND_OF = {f".{suffix}": kind for kind, suffixes in _KINDS.items() for suffix in suffixes.split()}


def kinds_in_words(ignored: Mapping[str, Any]) -> str:
    """Say what the files of some suffixes are.

    >>> kinds_in_words({".mp4": 2, ".mov": 1, ".pdf": 1, ".qqq": 4, "(no suffix)": 1})
    '3 videos, 1 document, 5 other files'
    """
    counts = Counter[str]()
    for suffix, count in ignored.items():
        counts[_KIND_OF.get(suffix, "other file")] += int(count)
    order = [*_KINDS, "other file"]
    return ", ".join(plural(counts[kind], kind) for kind in order if counts[kind])
