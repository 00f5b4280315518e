"""METHODS, how their settings come together, and how a finished run becomes a model again."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, cast

import numpy as np
import torch

from selfsort.classic import gdl, kmeans, linkage, nmf, path, spectral, umap
from selfsort.config import Config
from selfsort.data import ImageSpec, conform
from selfsort.errors import InvalidInput, invalid
from selfsort.methods import dac, dbc, gatcluster, jule, secu, self_label
from selfsort.recipes import Choice, choose_recipe
from selfsort.run import FORMAT, RunFolder
from selfsort.training import weights_within
from selfsort.types import F32, Assignment, FeatureModel, Images, Method, Model, NetworkModel, State

METHODS: dict[str, Method] = {
    method.name: method
    for method in (
        jule.METHOD,
        *dbc.METHODS,
        dac.METHOD,
        gatcluster.METHOD,
        secu.METHOD,
        kmeans.METHOD,
        spectral.NJW,
        spectral.SELF_TUNING,
        spectral.LANDMARK,
        spectral.NCUTS,
        linkage.METHOD,
        gdl.METHOD,
        path.ZETA,
        path.PATH,
        nmf.LOCALITY,
        nmf.DEEP,
        umap.METHOD,
    )
}

DEFAULT_METHOD = "jule"

FEATURES_FROM, STARTED_FROM = "features_from", "started_from"
"""Folders inside a run that hold the models of earlier ones."""


def find_method(name: str) -> Method:
    """Look a method up by name; a near miss is named."""
    if name in METHODS:
        return METHODS[name]
    if name == self_label.NAME:  # not in the list: it cannot start by itself
        return self_label.METHOD
    close = difflib.get_close_matches(name, METHODS, n=1, cutoff=0.4)
    hint = f"Did you mean {close[0]}?" if close else "`selfsort methods` lists them."
    raise invalid("--method", f"be one of {', '.join(METHODS)}", repr(name), hint)


def make_config(
    method: Method,
    n_clusters: int,
    settings: Mapping[str, Any],
    *,
    recipe: str = "auto",
    shape: tuple[int, int, int],
    device: torch.device,
) -> tuple[Config, Choice]:
    """Combine defaults, recipe and the user's settings, in rising priority."""
    choice = choose_recipe(method.name, recipe, shape, device.type != "cpu")
    return method.config.from_json({**choice.recipe.settings, **settings, "n_clusters": n_clusters}), choice


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

    featuriser: Featuriser
    classic: FeatureModel

    def apply(self, images: Images, layer: str = "top") -> Assignment:
        """Features come from the other run, assignments from the classical model."""
        features = self.featuriser(images)
        return Assignment(features, self.classic.assign(features))


def continued(method: Method, earlier: RunFolder, device: torch.device) -> Method:
    """Return the method as it begins with what an earlier run has learned."""
    if method.name == self_label.NAME:
        return replace(method, train=partial(self_label.train_from, _network_model(earlier, device)))
    name = earlier.field("method", str)
    if method.train_from is None or name != method.name:
        raise InvalidInput(
            f"{method.name} cannot begin with a run of {name}. Expected a method that can be continued, and a run of "
            "its own, such as secu. Leave --start-from out, or refine the run with --self-label."
        )
    return replace(method, train=partial(method.train_from, earlier.read_state("model.safetensors")))


def _network_model(folder: RunFolder, device: torch.device) -> NetworkModel:
    model = load_model(folder, device)
    if not isinstance(model, NetworkModel):
        raise InvalidInput(
            f"{folder.field('method', str)} does not label images by a network alone, so its runs cannot be refined. "
            "Expected a run of a method such as secu, dac or gatcluster. Give such a run to --self-label."
        )
    return model


def load_model(folder: RunFolder, device: torch.device) -> Model:
    """Rebuild the fitted model of a finished run."""
    if folder.config["method"] == self_label.NAME:
        start = _network_model(RunFolder.open(folder.path / STARTED_FROM), device)
        return _rebuilt(folder, lambda state: self_label.SelfLabelModel(start, state, device))
    model = _restore(folder, device)
    if not (folder.path / FEATURES_FROM).is_dir():
        return model
    layer = str(folder.config.get("features_layer", "top"))
    featuriser = load_featuriser(RunFolder.open(folder.path / FEATURES_FROM), device, layer)
    return FeatureRunModel(featuriser, cast(FeatureModel, model))


def load_featuriser(folder: RunFolder, device: torch.device, layer: str = "top") -> Featuriser:
    """Rebuild a run's network as a source of features."""
    return Featuriser(_restore(folder, device), ImageSpec.from_json(folder.config["image"]), layer)


def _restore(folder: RunFolder, device: torch.device) -> Model:
    method = find_method(folder.config["method"])
    config = method.config.from_json(folder.config["settings"])
    return _rebuilt(folder, lambda state: method.restore(config, state, device=device))


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
    if (source.path / FEATURES_FROM).is_dir() or source.config["method"] == self_label.NAME:
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
