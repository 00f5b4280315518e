"""Markup that cannot be forgotten to escape: every plain string is text until `element` has escaped it."""

from __future__ import annotations

import html
import json
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from selfsort.text import printable


class Html(str):
    """A string that is markup already."""

    __slots__ = ()


Child: TypeAlias = "str | int | float | Iterable[Child] | None"
Attributes = Mapping[str, str | int | float | bool | None]

_VOID = frozenset({"br", "hr", "img", "meta"})


def element(tag: str, attributes: Attributes, *children: Child) -> Html:
    """Write one element; attributes and plain strings are escaped, `Html` goes in as it is.

    >>> element("p", {"title": 'a "quoted" name'}, "1 < 2", element("br", {}))
    '<p title="a &quot;quoted&quot; name">1 &lt; 2<br></p>'
    """
    words = "".join(
        f" {name}" if value is True else f' {name}="{html.escape(printable(str(value)))}"'
        for name, value in attributes.items()
        if value is not None and value is not False
    )
    if tag in _VOID:
        return Html(f"<{tag}{words}>")
    return Html(f"<{tag}{words}>{join(children)}</{tag}>")


def join(children: Iterable[Child]) -> Html:
    """Write children one after the other."""
    return Html("".join(_write(child) for child in children))


def data_block(name: str, value: Any) -> Html:
    """Write JSON for the page's script; `<` is spelt as an escape so that no name can close the block."""
    text = json.dumps(value, separators=(",", ":"), sort_keys=True, allow_nan=False)
    safe = text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
    return Html(f'<script type="application/json" id="{html.escape(name)}">{safe}</script>')


def _write(child: Child) -> str:
    if child is None:
        return ""
    if isinstance(child, Html):
        return child
    if isinstance(child, str):
        return html.escape(printable(child), quote=False)
    if isinstance(child, int | float):
        return str(child)
    return join(child)
