"""METHODS: every method by its name."""

from __future__ import annotations

import difflib

from selfsort.classic import gdl, kmeans, linkage, nmf, path, spectral, umap
from selfsort.errors import invalid
from selfsort.methods import dac, dbc, gatcluster, jule, secu
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
    close = difflib.get_close_matches(name, METHODS, n=1, cutoff=0.4)
    hint = f"Did you mean {close[0]}?" if close else "`selfsort methods` lists them."
    raise invalid("--method", f"be one of {', '.join(METHODS)}", repr(name), hint)
