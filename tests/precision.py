"""Double precision for tests whose outcome must not depend on how a processor rounds."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def double_precision() -> Iterator[None]:
    """Build networks and scale pixels in double precision inside this block."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(before)
