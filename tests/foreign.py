"""A package of somebody else, as an installer would leave it: a module and a dist-info folder with entry points."""

from __future__ import annotations

from pathlib import Path

import pytest

METHOD = """
from dataclasses import replace
from selfsort.classic.kmeans import METHOD as KMEANS

METHOD = replace(KMEANS, name="foreign-means", summary="k-means of others", source="them")
"""


def install(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    package: str = "their-package",
    module: str = "their_module",
    text: str = METHOD,
    entries: str = "foreign-means = their_module:METHOD",
    group: str = "selfsort.methods",
) -> None:
    """Put a distribution of version 1.2.3 on sys.path until the test ends."""
    place = folder / package
    information = place / f"{package.replace('-', '_')}-1.2.3.dist-info"
    information.mkdir(parents=True)
    (place / f"{module}.py").write_text(text, encoding="utf-8")
    (information / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.2.3\n", encoding="utf-8")
    (information / "entry_points.txt").write_text(f"[{group}]\n{entries}\n", encoding="utf-8")
    monkeypatch.syspath_prepend(place)
