"""METHODS, how their settings come together, and how a finished run becomes a model again."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch

from selfsort.classic import gdl, kmeans, linkage, nmf, path, spectral, umap
from selfsort.config import Config
from selfsort.data import ImageSpec, conform
from selfsort.errors import InvalidInput, invalid
from selfsort.methods import dac, dbc, gatcluster, jule, secu
from selfsort.recipes import Choice, choose_recipe
from selfsort.run import RunFolder
from selfsort.types import F32, Assignment, FeatureModel, Images, Method, Model

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


def find_method(name: str) -> Method:
    """Look a method up by name; a near miss is named."""
    if name in METHODS:
        return METHODS[name]
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


def load_model(folder: RunFolder, device: torch.device) -> Model:
    """Rebuild the fitted model of a finished run."""
    model = _restore(folder, device)
    if not (folder.path / "features_from").is_dir():
        return model
    layer = str(folder.config.get("features_layer", "top"))
    featuriser = load_featuriser(RunFolder.open(folder.path / "features_from"), device, layer)
    return FeatureRunModel(featuriser, cast(FeatureModel, model))


def load_featuriser(folder: RunFolder, device: torch.device, layer: str = "top") -> Featuriser:
    """Rebuild a run's network as a source of features."""
    return Featuriser(_restore(folder, device), ImageSpec.from_json(folder.config["image"]), layer)


def _restore(folder: RunFolder, device: torch.device) -> Model:
    method = find_method(folder.config["method"])
    config = method.config.from_json(folder.config["settings"])
    try:
        return method.restore(config, folder.read_state("model.safetensors"), device=device)
    except InvalidInput:
        raise
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise InvalidInput(
            f"the model of {folder.path} cannot be rebuilt ({error!r}). Expected what selfsort fit wrote. "
            "The folder was changed or damaged: run selfsort fit again."
        ) from error


def embed_featuriser(folder: RunFolder, source: RunFolder) -> None:
    """Copy the model of another run into this one, so that the folder stays complete by itself."""
    if (source.path / "features_from").is_dir():
        raise InvalidInput(
            f"{source.path} was itself clustered on another run's features. Expected a run that made its features. "
            "Give that first run to --features."
        )
    inner = RunFolder.create(folder.path / "features_from", {k: v for k, v in source.config.items() if k != "format"})
    inner.write_state("model.safetensors", source.read_state("model.safetensors"))


def apply_in_chunks(model: Model, images: Images, chunk: int = 4096, layer: str = "top") -> Assignment:
    """Apply a model to any number of images with bounded memory."""
    parts = [model.apply(images.subset(slice(i, i + chunk)), layer) for i in range(0, len(images), chunk)]
    features: F32 = np.concatenate([part.features for part in parts])
    soft: F32 = np.concatenate([part.soft for part in parts])
    return Assignment(features, soft)
