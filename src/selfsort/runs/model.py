"""How a finished run becomes a model again, and what another run may take from it."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import cast

import numpy as np
import torch

from selfsort.data import ImageSpec, conform
from selfsort.errors import InvalidInput, MissingData
from selfsort.improve.stages import STAGES
from selfsort.learning.checkpoint import weights_within
from selfsort.methods.registry import METHODS, find_method
from selfsort.runs.folder import FORMAT, RunFolder
from selfsort.runs.settings import stored_settings
from selfsort.types import F32, Assignment, FeatureModel, FinishedRun, Images, Method, Model, Stage, State

FEATURES_FROM, STARTED_FROM = "features_from", "started_from"
"""Folders inside a run that hold the models of earlier ones."""


@dataclass(frozen=True, eq=False)
class Featuriser:
    """Another run's network as a source of features; pictures are first brought to the size it was trained on."""

    model: Model
    spec: ImageSpec
    layer: str = "top"

    def __call__(self, images: Images) -> F32:
        """Return the features of the chosen layer."""
        return apply_in_chunks(self.model, conform(images, self.spec), layer=self.layer).features


@dataclass(frozen=True, eq=False)
class FeatureRunModel:
    """A classical method fitted on another run's features: that run's network, then the method's own rule."""

    featuriser: Callable[[Images], F32]
    classic: FeatureModel

    def apply(self, images: Images, layer: str = "top") -> Assignment:
        """Features come from the other run, assignments from the classical model."""
        features = self.featuriser(images)
        return Assignment(features, self.classic.assign(features))


def find_kind(name: str) -> Method | Stage:
    """Look up what made a run: a method, or a stage after another run."""
    return STAGES[name] if name in STAGES else find_method(name)


def kind_of(folder: RunFolder) -> Method | Stage:
    """Return what a run was made with, or say which package has it."""
    name, made_by = folder.field("method", str), folder.config.get("method_from", {})
    if name in STAGES:
        return STAGES[name]
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


def going_on(kind: Method | Stage, earlier: RunFolder, device: torch.device) -> Method:
    """Return a stage, or a method that can be continued, as it begins with what an earlier run has learned."""
    name = earlier.field("method", str)
    if isinstance(kind, Stage):
        return kind.after(FinishedRun(name, load_model(earlier, device)))
    if kind.train_from is None or name != kind.name:
        raise InvalidInput(
            f"{kind.name} cannot begin with a run of {name}. Expected a method that can be continued, and a run of "
            "its own, such as secu. Leave --start-from out, or refine the run with selfsort refine."
        )
    return replace(kind, train=partial(kind.train_from, earlier.read_state("model.safetensors")))


def load_model(folder: RunFolder, device: torch.device) -> Model:
    """Rebuild the fitted model of a finished run."""
    kind = kind_of(folder)
    config, _ = stored_settings(kind, folder)
    if isinstance(kind, Stage):
        kind = going_on(kind, RunFolder.open(folder.path / STARTED_FROM), device)
    model = _rebuilt(folder, lambda state: kind.restore(config, state, device=device))
    if not (folder.path / FEATURES_FROM).is_dir():
        return model
    layer = str(folder.config.get("features_layer", "top"))
    featuriser = load_featuriser(RunFolder.open(folder.path / FEATURES_FROM), device, layer)
    return FeatureRunModel(featuriser, cast(FeatureModel, model))


def load_featuriser(folder: RunFolder, device: torch.device, layer: str = "top") -> Featuriser:
    """Rebuild a run's network as a source of features."""
    return Featuriser(load_model(folder, device), ImageSpec.from_json(folder.config["image"]), layer)


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
    # A second stage's model is whole; what it began with is not needed any more.
    described = {key: value for key, value in source.config.items() if key not in ("format", STARTED_FROM)}
    folder.write_state(f"{name}/model.safetensors", source.read_state("model.safetensors"))
    folder.write_json(f"{name}/config.json", {"format": FORMAT, **described})


def apply_in_chunks(model: Model, images: Images, chunk: int = 4096, layer: str = "top") -> Assignment:
    """Apply a model to any number of images with bounded memory."""
    parts = [model.apply(images.subset(slice(i, i + chunk)), layer) for i in range(0, len(images), chunk)]
    features: F32 = np.concatenate([part.features for part in parts])
    soft: F32 = np.concatenate([part.soft for part in parts])
    return Assignment(features, soft)
