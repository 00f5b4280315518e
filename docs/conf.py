"""How the site is built (`make docs`). It imports selfsort with the heavy packages left out, so it needs no torch."""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx
from sphinx.ext.autodoc.mock import _MockObject

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "src"))

project = "selfsort"
version = release = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["**/_*"]
nitpicky = True
# Types of other packages have no page here, and our own short names for arrays none of their own.
nitpick_ignore_regex = [("py:(class|data|obj|exc)", ".*")]

myst_heading_anchors = 4

autodoc_mock_imports = [
    "torch",
    "numpy",
    "scipy",
    "sklearn",
    "numba",
    "PIL",
    "safetensors",
    "matplotlib",
    "umap",
    "faiss",
    "graspologic_native",
    "threadpoolctl",
]
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
# In our docstrings single backticks mark code, as in Markdown.
default_role = "code"

html_theme = "furo"
html_title = "selfsort"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False


def stand_in(self: _MockObject, other: object) -> _MockObject:
    """Let `Tensor | None` be written where torch is left out."""
    return self


_MockObject.__or__ = _MockObject.__ror__ = stand_in


def as_rst(app: Sphinx, what: str, name: str, thing: object, options: Any, lines: list[str]) -> None:
    """Turn a docstring, which is written to be read as it is, into reStructuredText."""
    if what != "module":
        lines[:] = map(prose, lines)
        return
    text: list[str] = []
    part = "paragraph"
    for line in lines:
        if line.startswith("- "):
            text += [""] if part == "paragraph" else []
            part = "list"
        elif line.startswith(" ") and part == "paragraph":  # a table or a drawing; behind "- " it is a further line
            text += ["", "::", ""]
            part = "literal"
        elif line and not line.startswith(" ") and part != "paragraph":
            text.append("")
            part = "paragraph"
        text.append(line if part == "literal" else prose(line))
    lines[:] = text


def prose(line: str) -> str:
    """Keep what reStructuredText would take for its own: a bar is a bar, code marks may touch letters (`Image`s)."""
    line = re.sub(r"`[^`]*`|\|", lambda found: "\\|" if found[0] == "|" else found[0], line)
    return re.sub(r"(`[^`]+`)(?=\w)", r"\1\\ ", line)


def setup(app: Sphinx) -> None:
    """Connect what is ours; called by Sphinx."""
    app.connect("autodoc-process-docstring", as_rst, priority=900)
