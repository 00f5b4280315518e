"""How a finished run becomes a model again, and what another run may take from it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial

import torch

from selfsort.classic.one import METHOD as ONE
from selfsort.errors import InvalidInput, MissingData
from selfsort.improve.shrink import restored
from selfsort.improve.stages import STAGES
from selfsort.learning.checkpoint import weights_within
from selfsort.methods.registry import METHODS, find_method
from selfsort.runs.encoder import (
    ENCODER_FILE,
    FEATURES_FROM,
    EncodedModel,
    apply_in_chunks,
    has_encoder,
    stored_encoder,
)
from selfsort.runs.folder import RunFolder, format_of
from selfsort.runs.settings import stored_settings
from selfsort.types import FinishedRun, Method, Model, Stage, State

__all__ = [
    "STARTED_FROM",
    "apply_in_chunks",
    "embed",
    "find_kind",
    "going_on",
    "kind_of",
    "learned_on",
    "load_model",
    "load_own_model",
    "other_name",
    "other_runs",
]

STARTED_FROM = "started_from"
"""Folder inside a run that holds the model of the run it went on from."""


def find_kind(name: str) -> Method | Stage:
    """Look up what made a run: a method, or a stage after another run."""
    if name == ONE.name:
        return ONE
    return STAGES[name] if name in STAGES else find_method(name)


def kind_of(folder: RunFolder) -> Method | Stage:
    """Return what a run was made with, or say which package has it."""
    name, made_by = folder.field("method", str), folder.config.get("method_from", {})
    if name in STAGES or name == ONE.name:
        return find_kind(name)
    package = made_by.get("package") if isinstance(made_by, dict) else None
    # A folder from a stranger may name anything here; nobody should be told to install just anything.
    is_named = isinstance(package, str) and re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", package)
    if is_named and _spelt_alike(METHODS.origin(name).package) != _spelt_alike(str(package)):
        raise MissingData(
            f"the run {folder.path} was made with the method {name!r} of the package {package} "
            f"{str(made_by.get('version'))[:40]}, which is not installed. "
            f"Expected that package beside selfsort. Install {package} if you trust it."
        )
    return find_method(name)


def _spelt_alike(package: str) -> str:
    """Bring the name of a distribution to the one spelling that all its spellings stand for."""
    return re.sub(r"[-_.]+", "-", package).lower()


def going_on(
    kind: Method | Stage, earlier: RunFolder, device: torch.device, others: Iterable[RunFolder] = ()
) -> Method:
    """Return a stage, or a method that can be continued, as it begins with what earlier runs have learned."""
    name = earlier.field("method", str)
    if isinstance(kind, Stage):
        further = tuple(load_own_model(other, device) for other in others)
        return kind.after(FinishedRun(name, load_own_model(earlier, device), further))
    if kind.train_after is not None:
        return replace(kind, train=partial(kind.train_after, FinishedRun(name, load_own_model(earlier, device))))
    if kind.train_from is None or name != kind.name:
        raise InvalidInput(
            f"{kind.name} cannot begin with a run of {name}. Expected a method that can be continued, and a run of "
            "its own, such as secu. Leave --start-from out, or refine the run with selfsort refine."
        )
    return replace(kind, train=partial(kind.train_from, earlier.read_state("model.safetensors")))


def other_name(number: int) -> str:
    """Return the folder inside a run that holds the model of a further run it was made of: 2, 3 and so on."""
    return f"{STARTED_FROM}_{number}"


def other_runs(folder: RunFolder) -> Iterator[RunFolder]:
    """Return what a run holds of the further ones it was made of."""
    number = 2
    while (path := folder.path / other_name(number)).is_dir():
        yield RunFolder.open(path)
        number += 1


def load_model(folder: RunFolder, device: torch.device, encoder: str | None = None) -> Model:
    """Rebuild the fitted model of a finished run; `encoder` says where its encoder is now."""
    model = load_own_model(folder, device)
    return EncodedModel(stored_encoder(folder, device, encoder), model) if has_encoder(folder) else model


def learned_on(folder: RunFolder) -> tuple[str | None, ...]:
    """Say what of an encoder a run's method may have learned on; a stage goes on with what its run had."""
    kind = kind_of(folder)
    while isinstance(kind, Stage):  # a cut may follow another stage
        folder = RunFolder.open(folder.path / STARTED_FROM)
        kind = kind_of(folder)
    if kind is ONE:  # in place of any method
        return ("features", "maps")
    return (kind.learns_on,)


def load_own_model(folder: RunFolder, device: torch.device) -> Model:
    """Rebuild what the method itself has learned, without the encoder in front of it."""
    kind = kind_of(folder)
    config, _ = stored_settings(kind, folder)
    if isinstance(kind, Stage):
        kind = going_on(kind, RunFolder.open(folder.path / STARTED_FROM), device, other_runs(folder))
    return _rebuilt(folder, lambda state: restored(kind, config, state, device=device))


def _rebuilt(folder: RunFolder, restore: Callable[[State], Model]) -> Model:
    """Turn the errors of a damaged model file into our own."""
    state = folder.read_state("model.safetensors")
    try:
        with weights_within(sum(array.nbytes for array in state.arrays.values())):
            return restore(state)
    except InvalidInput:
        raise
    except Exception as error:  # whatever a method stumbles over, it has never seen the settings with these arrays
        raise InvalidInput(
            f"the model of {folder.path} cannot be rebuilt ({_in_short(error)}). Expected what selfsort fit wrote. "
            "The folder was changed or damaged: run selfsort fit again."
        ) from error


def _in_short(error: Exception) -> str:
    return f"{type(error).__name__}: {(str(error).splitlines() or [''])[0][:120]}"


def embed(folder: RunFolder, source: RunFolder, name: str) -> None:
    """Copy the model of another run into this one, so that the folder stays complete by itself."""
    if (source.path / FEATURES_FROM).is_dir() or source.config["method"] in STAGES:
        raise InvalidInput(
            f"{source.path} was itself made from another run. Expected a run that made its own network. "
            "Give that first run instead."
        )
    # A second stage's model is whole; what it began with is not needed any more. A model knows no outliers.
    left_out = ("format", "outliers", STARTED_FROM)
    described = {key: value for key, value in source.config.items() if key not in left_out}
    folder.write_state(f"{name}/model.safetensors", source.read_state("model.safetensors"))
    if (source.path / ENCODER_FILE).exists():
        folder.write_state(f"{name}/{ENCODER_FILE}", source.read_state(ENCODER_FILE))
    folder.write_json(f"{name}/config.json", {"format": format_of(described), **described})
