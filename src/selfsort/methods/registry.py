"""METHODS, and how their settings come together."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from selfsort.config import Config
from selfsort.errors import invalid
from selfsort.methods.recipes import Choice, choose_recipe
from selfsort.registry import Registry
from selfsort.types import Method

if TYPE_CHECKING:
    import torch

OWN: dict[str, str | Method] = {
    "jule": "selfsort.methods.jule:METHOD",
    "fcae-kmeans": "selfsort.methods.dbc:FCAE_KMEANS",
    "dbc": "selfsort.methods.dbc:DBC",
    "dec": "selfsort.methods.dbc:DEC",
    "dac": "selfsort.methods.dac:METHOD",
    "gatcluster": "selfsort.methods.gatcluster:METHOD",
    "secu": "selfsort.methods.secu:METHOD",
    "kmeans": "selfsort.classic.kmeans:METHOD",
    "sc-njw": "selfsort.classic.spectral:NJW",
    "sc-st": "selfsort.classic.spectral:SELF_TUNING",
    "sc-ls": "selfsort.classic.spectral:LANDMARK",
    "ncuts": "selfsort.classic.spectral:NCUTS",
    "ac-link": "selfsort.classic.linkage:METHOD",
    "ac-gdl": "selfsort.classic.gdl:METHOD",
    "ac-zell": "selfsort.classic.path:ZETA",
    "ac-pic": "selfsort.classic.path:PATH",
    "nmf-lp": "selfsort.classic.nmf:LOCALITY",
    "nmf-d": "selfsort.classic.nmf:DEEP",
    "umap-kmeans": "selfsort.classic.umap:METHOD",
}
"""Where our methods lie; a module is imported when its method is asked for."""

METHODS: Registry[Method] = Registry(OWN, "selfsort.methods", Method)

DEFAULT_METHOD = "jule"


def find_method(name: str) -> Method:
    """Look a method up by name; a near miss is named."""
    if name == "self-label":  # not in the list: it cannot start by itself
        from selfsort.improve import self_label

        return self_label.METHOD
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
