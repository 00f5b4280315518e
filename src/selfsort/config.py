"""Settings of a method: a frozen dataclass whose fields say what they mean and where they come from.

A default is written once, in the dataclass. `--set`, recipes, `selfsort methods NAME`, the docs and
config.json all read it from there.
"""

from __future__ import annotations

import difflib
import types
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, Literal, Self, TypeVar, Union, get_args, get_origin, get_type_hints

from selfsort.errors import InvalidInput, invalid

T = TypeVar("T")


def setting(default: T, doc: str, source: str = "ours") -> T:
    """Declare a field: its default, what it does, and who says so (paper, code, ours)."""
    declared: T = field(default=default, metadata={"doc": doc, "source": source})
    return declared


@dataclass(frozen=True, kw_only=True)
class Config:
    """Base of every method's settings."""

    n_clusters: int = field(metadata={"doc": "clusters to find", "source": "you"})

    def __post_init__(self) -> None:
        hints = get_type_hints(type(self))
        for name, value in self.to_json().items():
            if not _fits(getattr(self, name), hints[name]):
                raise invalid(name, f"be {_spell(hints[name])}", repr(value), f"Change {name}.")
        self.require("n_clusters", self.n_clusters >= 2, "be at least 2", "Ask for two clusters or more.")

    def require(self, name: str, is_right: bool, requirement: str, remedy: str = "") -> None:
        """Refuse a value in the house's words; for use in `__post_init__`."""
        if not is_right:
            raise invalid(name, requirement, getattr(self, name), remedy or f"Change {name}.")

    def to_json(self) -> dict[str, Any]:
        """Return the settings as JSON types."""
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        return {name: list(v) if isinstance(v, tuple) else v for name, v in values.items()}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        """Rebuild settings written by `to_json`; settings that are new since then take their default."""
        hints = get_type_hints(cls)
        for name in values:
            if name not in hints:
                raise _unknown(cls, name)
        ready = {name: tuple(v) if isinstance(v, list) else v for name, v in values.items()}
        return cls(**{name: _widen(v, hints[name]) for name, v in ready.items()})


def parse_settings(config: type[Config], pairs: Iterable[str]) -> dict[str, Any]:
    """Turn `--set key=value` words into typed values, checked against a method's config.

    >>> parse_settings(Config, ["n_clusters=3"])
    {'n_clusters': 3}
    """
    hints = get_type_hints(config)
    values: dict[str, Any] = {}
    for pair in pairs:
        name, separator, text = pair.partition("=")
        if not separator:
            raise invalid("--set", "have the form key=value", repr(pair), "Write for example --set epochs=20.")
        if name not in hints:
            raise _unknown(config, name)
        values[name] = _parse(name, text, hints[name])
    return values


@dataclass(frozen=True)
class SettingInfo:
    """One row of `selfsort methods NAME`."""

    name: str
    type: str
    default: str
    doc: str
    source: str


def describe(config: type[Config]) -> list[SettingInfo]:
    """List the settings of a method in the order of their definition."""
    hints = get_type_hints(config)
    return [
        SettingInfo(
            name=f.name,
            type=_spell(hints[f.name]),
            default="required" if f.default is MISSING else str(f.default),
            doc=f.metadata["doc"],
            source=f.metadata["source"],
        )
        for f in fields(config)
    ]


def _unknown(config: type[Config], name: str) -> InvalidInput:
    known = [f.name for f in fields(config)]
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.4)
    hint = f"Did you mean {close[0]}?" if close else f"Known settings: {', '.join(known)}."
    return invalid("a setting's name", f"be one that {config.__name__} has", repr(name), hint)


def _choices(hint: Any) -> tuple[Any, ...]:
    """Split a union into its members; any other hint is its own single member."""
    is_union = get_origin(hint) in (Union, types.UnionType)
    return get_args(hint) if is_union else (hint,)


def _fits(value: Any, hint: Any) -> bool:
    for choice in _choices(hint):
        origin = get_origin(choice)
        if origin is Literal:
            if value in get_args(choice):
                return True
        elif origin is tuple:
            if isinstance(value, tuple) and all(_fits(v, get_args(choice)[0]) for v in value):
                return True
        elif choice is float:
            if isinstance(value, int | float) and not isinstance(value, bool):
                return True
        elif choice is int:
            if isinstance(value, int) and not isinstance(value, bool):
                return True
        elif isinstance(value, choice):
            return True
    return False


def _widen(value: Any, hint: Any) -> Any:
    """JSON writes 1.0 as 1 in some tools; give a float field its float back."""
    if isinstance(value, int) and not isinstance(value, bool) and _choices(hint) == (float,):
        return float(value)
    return value


def _parse(name: str, text: str, hint: Any) -> Any:
    for choice in _choices(hint):
        parsed = _parse_one(text, choice)
        if parsed is not None or (choice is type(None) and text.lower() == "none"):
            return parsed
    raise invalid(name, f"be {_spell(hint)}", repr(text), f"Write for example --set {name}=VALUE with such a value.")


def _parse_one(text: str, choice: Any) -> Any:
    origin = get_origin(choice)
    if origin is Literal:
        return next((option for option in get_args(choice) if str(option) == text), None)
    if origin is tuple:
        items = [_parse_one(part, get_args(choice)[0]) for part in text.split(",") if part]
        return None if any(item is None for item in items) else tuple(items)
    if choice is bool:
        return {"true": True, "false": False, "on": True, "off": False, "1": True, "0": False}.get(text.lower())
    if choice is str:
        return text
    if choice in (int, float):
        try:
            return choice(text)
        except ValueError:
            return None
    return None


def _spell(hint: Any) -> str:
    names = {int: "a whole number", float: "a number", bool: "true or false", str: "a text", type(None): "none"}
    parts = []
    for choice in _choices(hint):
        origin = get_origin(choice)
        if origin is Literal:
            parts.append(" or ".join(str(option) for option in get_args(choice)))
        elif origin is tuple:
            parts.append("a comma-separated list")
        else:
            parts.append(names.get(choice, str(choice)))
    return " or ".join(parts)
