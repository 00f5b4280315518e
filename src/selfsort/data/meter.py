"""A stream that keeps account: what a foreign file makes its reader fetch is counted, and too much is refused.

A file of a few bytes can claim gigabytes (and a sparse file can have them), and readers believe it: they fetch whole
files, join segments, or search byte by byte for a mark that never comes. The allowance ends all of these.
"""

from __future__ import annotations

import os
from typing import IO, Any

_CALL_BYTES = 256
"""What one call costs at least, so that a search in single bytes ends as well."""


class TooMuch(Exception):
    """More was asked for than the allowance."""


class Metered:
    """A readable stream with an allowance of bytes; everything but reading goes to the stream itself."""

    def __init__(self, stream: IO[bytes], allowance: int) -> None:
        self._stream, self._left = stream, allowance
        here = stream.tell()
        self._size = stream.seek(0, os.SEEK_END)
        stream.seek(here)

    def allow(self, n_bytes: int) -> None:
        """Set how much may be read from now on."""
        self._left = n_bytes

    def read(self, size: int | None = -1, /) -> bytes:
        """Read as the stream does, or refuse before anything is fetched."""
        present = max(0, self._size - self._stream.tell())
        wanted = present if size is None or size < 0 else min(size, present)
        self._left -= max(wanted, _CALL_BYTES)
        if self._left < 0:
            raise TooMuch(f"it makes its reader fetch {wanted} bytes more than such a file may")
        return self._stream.read(wanted)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
