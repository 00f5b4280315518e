from __future__ import annotations

import pytest

from selfsort.cli.parse import channels_of, parse_clusters, parse_memory, parse_size
from selfsort.errors import InvalidInput


@pytest.mark.parametrize(("text", "expected"), [("2", 2), ("+10", 10), ("007", 7)])
def test_clusters(text: str, expected: int) -> None:
    assert parse_clusters(text) == expected


@pytest.mark.parametrize("text", ["auto", "5:30", "5:", ":30"])
def test_finding_k_is_refused_for_now(text: str) -> None:
    with pytest.raises(InvalidInput, match=r"is not available yet; got '.*'. Give for example --clusters 10"):
        parse_clusters(text)


@pytest.mark.parametrize("text", ["1", "0", "-3", "", "ten", "2.0", "1e3", "9" * 5000, "Auto"])
def test_other_counts_are_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="--clusters must be a whole number of at least 2; got"):
        parse_clusters(text)


def test_no_count_at_all() -> None:
    with pytest.raises(InvalidInput, match=r"--clusters is missing. Expected .* Add for example"):
        parse_clusters(None)


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
