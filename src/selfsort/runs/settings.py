"""How settings come together: defaults, a recipe, what the user says, and what an earlier run has stored."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from selfsort.config import Config, parse_settings
from selfsort.encoders.options import EncodeConfig
from selfsort.errors import InvalidInput
from selfsort.improve.around import ImproveConfig, check_improvable
from selfsort.methods.recipes import Choice, choose_recipe
from selfsort.runs.folder import RunFolder
from selfsort.runs.renamed import ENCODE, IMPROVE, refuse_removed, renamings, split, today
from selfsort.types import Method, Stage


@dataclass(frozen=True)
class Settled:
    """Everything a run is set to."""

    config: Config
    improve: ImproveConfig
    encode: EncodeConfig
    choice: Choice


def read_words(kind: Method | Stage, words: Iterable[str]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Turn `--set key=value` words into typed values, and say which of them have another name today.

    Names that begin with `improve.` or `encoder.` are no method's own.
    """
    pairs = [word.partition("=") for word in words]
    given = {name: text for name, sign, text in pairs if sign}
    renamed = today(kind.name, given)
    refuse_removed(kind.name, renamed)
    own, around, before = split(renamed)
    bare = [name for name, sign, _ in pairs if not sign]
    values = parse_settings(kind.config, [*bare, *(f"{name}={text}" for name, text in own.items())])
    for prefix, config, texts in ((IMPROVE, ImproveConfig, around), (ENCODE, EncodeConfig, before)):
        for name, value in parse_settings(config, [f"{name}={text}" for name, text in texts.items()]).items():
            values[prefix + name] = value
    return values, renamings(kind.name, given)


def settle(
    kind: Method | Stage,
    n_clusters: int,
    settings: Mapping[str, Any],
    *,
    recipe: str = "auto",
    shape: tuple[int, int, int],
    device: torch.device,
    on_encoder: bool = False,
) -> Settled:
    """Combine defaults, recipe and the user's settings, in rising priority."""
    choice = choose_recipe(kind.name, recipe, shape, device.type != "cpu", on_encoder=on_encoder)
    given = today(kind.name, settings)
    refuse_removed(kind.name, given)
    own, around, before = split({**choice.recipe.settings, **given, "n_clusters": n_clusters})
    config, improve = kind.config.from_json(own), ImproveConfig.from_json(around)
    if before and not on_encoder:
        raise InvalidInput(
            f"encoder.{next(iter(before))} needs an encoder. Expected one. Add --encoder, or leave the setting out."
        )
    check_improvable(kind, improve)
    return Settled(config, improve, EncodeConfig.from_json(before), choice)


def stored_settings(kind: Method | Stage, folder: RunFolder) -> tuple[Config, ImproveConfig]:
    """Return what a run was set to."""
    own = folder.field("settings", dict)
    refuse_removed(kind.name, own)
    around = folder.field("improve", dict) if "improve" in folder.config else {}
    return kind.config.from_json(own), ImproveConfig.from_json(around)
