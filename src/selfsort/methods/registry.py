"""METHODS: every method by its name."""

from __future__ import annotations

import difflib
from typing import NoReturn

from selfsort.errors import invalid
from selfsort.registry import Registry
from selfsort.types import Method

OWN: dict[str, str | Method] = {
    "jule": "selfsort.methods.jule:METHOD",
    "fcae-kmeans": "selfsort.methods.dbc:FCAE_KMEANS",
    "dbc": "selfsort.methods.dbc:DBC",
    "dec": "selfsort.methods.dbc:DEC",
    "dac": "selfsort.methods.dac:METHOD",
    "gatcluster": "selfsort.methods.gatcluster:METHOD",
    "secu": "selfsort.methods.secu:METHOD",
    "teach": "selfsort.methods.teach:METHOD",
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
    "leiden": "selfsort.classic.leiden:METHOD",
}
"""Where our methods lie; a module is imported when its method is asked for."""

METHODS: Registry[Method] = Registry(OWN, "selfsort.methods", Method)

DEFAULT_METHOD = "auto"
"""The images choose: see `selfsort.runs.auto`."""


def find_method(name: str) -> Method:
    """Look a method up by name; a near miss is named."""
    if name in METHODS:
        return METHODS[name]
    refuse_unknown(name)


def nearest(name: str, likeness: float) -> str | None:
    """Return the method whose name is most like this one, if any is so much like it."""
    return next(iter(difflib.get_close_matches(name, METHODS, n=1, cutoff=likeness)), None)


def refuse_unknown(name: str) -> NoReturn:
    """Say which methods there are, and which one may be meant."""
    close = nearest(name, 0.4)
    hint = f"Did you mean {close}?" if close else "`selfsort methods` lists them."
    raise invalid("--method", f"be auto or one of {', '.join(METHODS)}", repr(name), hint)
