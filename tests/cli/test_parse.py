from __future__ import annotations

import pytest

from selfsort.cli.parse import channels_of, parse_memory, parse_size
from selfsort.errors import InvalidInput


def test_size() -> None:
    assert parse_size("auto") is None
    assert parse_size("96") == 96
    for text in ("3", "4097", "big", "-8", "9" * 5000, "8.5", "²", ""):
        with pytest.raises(InvalidInput, match=r"--size must be auto or a whole number from 4 to 4096; got"):
            parse_size(text)


def test_memory() -> None:
    assert parse_memory(None) is None
    assert parse_memory("0") == 0
    assert parse_memory("500M") == parse_memory("500 MiB") == 500 * 2**20
    assert parse_memory("2g") == 2**31
    for text in ("", "much", "-1G", "1P", "9" * 400, "nan"):
        with pytest.raises(InvalidInput, match="--memory must be a size such as 500M or 8G; got"):
            parse_memory(text)


def test_colour() -> None:
    assert [channels_of(gray) for gray in (None, True, False)] == [None, 1, 3]
