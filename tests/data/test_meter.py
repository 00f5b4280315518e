from __future__ import annotations

import io

import pytest

from selfsort.data.meter import Metered, TooMuch


def test_reads_like_the_stream() -> None:
    stream = Metered(io.BytesIO(b"abcdef"), 10_000)
    assert stream.read(2) == b"ab"
    assert stream.tell() == 2
    assert stream.read() == b"cdef"
    assert stream.read(5) == b""
    assert stream.seek(1) == 1
    assert stream.read(None) == b"bcdef"


def test_starts_where_the_stream_stands() -> None:
    inner = io.BytesIO(b"abcdef")
    inner.seek(4)
    assert Metered(inner, 10_000).read() == b"ef"


def test_refuses_before_it_reads() -> None:
    inner = io.BytesIO(bytes(2000))
    with pytest.raises(TooMuch):
        Metered(inner, 1000).read()
    assert inner.tell() == 0


def test_a_claim_beyond_the_end_costs_what_is_there() -> None:
    assert len(Metered(io.BytesIO(bytes(900)), 1000).read(10**12)) == 900


def test_a_search_in_single_bytes_ends() -> None:
    stream = Metered(io.BytesIO(bytes(10_000)), 2560)
    for _ in range(10):
        stream.read(1)
    with pytest.raises(TooMuch):
        stream.read(1)


def test_the_allowance_can_be_set_anew() -> None:
    stream = Metered(io.BytesIO(bytes(2000)), 300)
    stream.allow(5000)
    assert len(stream.read()) == 2000
