"""A stream of random numbers for every purpose, so that adding one does not move the others."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch


def derive_seed(seed: int, purpose: str) -> int:
    """Give every consumer of randomness its own stream, so that adding one does not move the others."""
    digest = hashlib.sha256(f"{seed}/{purpose}".encode()).digest()
    return int.from_bytes(digest[:6], "little")


def torch_generator(seed: int, purpose: str, device: torch.device | str = "cpu") -> torch.Generator:
    """Return a torch generator for one purpose of one run."""
    return torch.Generator(device=device).manual_seed(derive_seed(seed, purpose))


def numpy_generator(seed: int, purpose: str) -> np.random.Generator:
    """Return a NumPy generator for one purpose of one run."""
    return np.random.default_rng(derive_seed(seed, purpose))


@contextmanager
def seeded_init(seed: int, purpose: str = "weights") -> Iterator[None]:
    """Build networks reproducibly inside this block without touching the caller's global generator."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derive_seed(seed, purpose))
        yield
