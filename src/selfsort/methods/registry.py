"""METHODS, and how their settings come together."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any

import torch

from selfsort.classic import gdl, kmeans, linkage, nmf, path, spectral, umap
from selfsort.config import Config
from selfsort.errors import invalid
from selfsort.improve import self_label
from selfsort.methods import dac, dbc, gatcluster, jule, secu
from selfsort.methods.recipes import Choice, choose_recipe
from selfsort.types import Method

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
