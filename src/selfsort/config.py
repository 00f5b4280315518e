"""Settings of a method: a frozen dataclass whose fields say what they mean and where they come from.

A default is written once, in the dataclass. `--set`, recipes, `selfsort methods NAME`, the docs and
config.json all read it from there.
"""

from __future__ import annotations

import difflib
import math
import types
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields
from typing import Any, Literal, Self, TypeVar, Union, get_args, get_origin, get_type_hints

from selfsort.errors import InvalidInput, invalid

T = TypeVar("T")


def setting(default: T, doc: str, source: str = "ours") -> T:
    """Declare a field: its default, what it does, and who says so: paper, code or ours, and maybe "; " and more."""
    declared: T = field(default=default, metadata={"doc": doc, "source": source})
    return declared


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Named values that know their types, what they mean, and how to be written down."""

    def __post_init__(self) -> None:
        hints = get_type_hints(type(self))
        for name, value in self.to_json().items():
            if not fits(getattr(self, name), hints[name]):
                raise invalid(name, f"be {_spell(hints[name])}", repr(value), f"Change {name}.")

    def require(self, name: str, is_right: bool, requirement: str, remedy: str = "") -> None:
        """Refuse a value in the house's words; for use in `__post_init__`."""
        if not is_right:
            raise invalid(name, requirement, getattr(self, name), remedy or f"Change {name}.")

    def to_json(self) -> dict[str, Any]:
        """Return the settings as JSON types."""
        return {f.name: _to_lists(getattr(self, f.name)) for f in fields(self)}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        """Rebuild settings written by `to_json`; settings that are new since then take their default."""
        hints = get_type_hints(cls)
        for name in values:
            if name not in hints:
                raise _unknown(cls, name)
        missing = [f.name for f in fields(cls) if f.default is MISSING and f.name not in values]
        if missing:
            raise invalid("the settings", f"hold {missing[0]}", "none", f"Give {missing[0]}.")
        return cls(**{name: _from_lists(value, hints[name]) for name, value in values.items()})


@dataclass(frozen=True, kw_only=True)
class Config(Settings):
    """Base of every method's settings."""

    n_clusters: int = field(metadata={"doc": "clusters to find", "source": "you"})

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require("n_clusters", self.n_clusters >= 2, "be at least 2", "Ask for two clusters or more.")


def parse_settings(config: type[Settings], pairs: Iterable[str]) -> dict[str, Any]:
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
        value = _parse(text, hints[name])
        if value is _NO_SUCH_VALUE:
            remedy = next(f"Its default is {_show(f)}." for f in fields(config) if f.name == name)
            raise invalid(name, f"be {_spell(hints[name])}", repr(text), remedy)
        values[name] = value
    return values


@dataclass(frozen=True)
class SettingInfo:
    """One row of `selfsort methods NAME`."""

    name: str
    type: str
    default: str
    doc: str
    source: str


def describe(config: type[Settings]) -> list[SettingInfo]:
    """List the settings of a method in the order of their definition."""
    hints = get_type_hints(config)
    return [
        SettingInfo(
            name=f.name,
            type=_spell(hints[f.name]),
            default=_show(f),
            doc=f.metadata["doc"],
            source=f.metadata["source"],
        )
        for f in fields(config)
    ]


def written(value: object) -> str:
    """Write one value the way `--set` reads it.

    >>> written(True), written(None), written(0.5)
    ('yes', 'none', '0.5')
    """
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "none" if value is None else str(value)


def _show(declared: Field[Any]) -> str:
    """Write a default the way `--set` reads it."""
    value = declared.default
    if value is MISSING:
        return "required"
    return ",".join(map(written, value)) if isinstance(value, tuple) else written(value)


def _unknown(config: type[Settings], name: str) -> InvalidInput:
    known = [f.name for f in fields(config)]
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.4)
    hint = f"Did you mean {close[0]}?" if close else f"Known settings: {', '.join(known)}."
    return invalid("a setting's name", f"be one that {config.__name__} has", repr(name), hint)


def _choices(hint: Any) -> tuple[Any, ...]:
    """Split a union into its members; any other hint is its own single member."""
    is_union = get_origin(hint) in (Union, types.UnionType)
    return get_args(hint) if is_union else (hint,)


def fits(value: Any, hint: Any) -> bool:
    """Tell whether a value is of the type a setting declares; numbers must be finite, true and false are none."""
    for choice in _choices(hint):
        origin = get_origin(choice)
        if origin is Literal:
            is_right = any(value == option and type(value) is type(option) for option in get_args(choice))
        elif origin is tuple:
            items = _item_hints(choice, len(value)) if isinstance(value, tuple) else None
            is_right = items is not None and all(map(fits, value, items))
        elif choice is float:
            is_right = isinstance(value, int | float) and _is_number(value)
        elif choice is int:
            is_right = isinstance(value, int) and _is_number(value)
        else:
            is_right = isinstance(value, choice)
        if is_right:
            return True
    return False


def _is_number(value: float) -> bool:
    """Refuse NaN, infinity, truth values, and whole numbers that no array could hold."""
    if isinstance(value, bool):
        return False
    return abs(value) < 2**63 if isinstance(value, int) else math.isfinite(value)


def _item_hints(hint: Any, length: int) -> list[Any] | None:
    """Return the type of each item of a tuple of this length, or None if it may not have that length.

    >>> _item_hints(tuple[int, ...], 2), _item_hints(tuple[int, str], 3)
    ([<class 'int'>, <class 'int'>], None)
    """
    items = list(get_args(hint))
    if items[-1] is Ellipsis:
        return items[:1] * length
    return items if len(items) == length else None


def _to_lists(value: Any) -> Any:
    return [_to_lists(item) for item in value] if isinstance(value, tuple) else value


def _from_lists(value: Any, hint: Any) -> Any:
    """JSON knows no tuples, some tools write 1.0 as 1, older runs hold "yes"; give a field back what it declares."""
    choices = _choices(hint)
    if isinstance(value, list | tuple):
        declared = next((choice for choice in choices if get_origin(choice) is tuple), None)
        items = None if declared is None else _item_hints(declared, len(value))
        return tuple(value) if items is None else tuple(map(_from_lists, value, items))
    if isinstance(value, int) and _is_number(value) and float in choices and int not in choices:
        return float(value)
    if isinstance(value, str) and bool in choices:
        return _BOOLEANS.get(value.lower(), value)
    return value


_NO_SUCH_VALUE = object()

_BOOLEANS = {
    **dict.fromkeys(("yes", "true", "on", "1"), True),
    **dict.fromkeys(("no", "false", "off", "0"), False),
}
"""Every way to say it; we ourselves write yes and no."""


def _parse(text: str, hint: Any) -> Any:
    choices = _choices(hint)
    if type(None) in choices and text.lower() == "none":
        return None
    parsed = (_parse_one(text, choice) for choice in choices)
    return next((value for value in parsed if value is not None), _NO_SUCH_VALUE)


def _parse_one(text: str, choice: Any) -> Any:
    """Return the value a text stands for, or None if it stands for no such value."""
    origin = get_origin(choice)
    if origin is Literal:
        return next((option for option in get_args(choice) if str(option) == text), None)
    if origin is tuple:
        parts = [part.strip() for part in text.split(",") if part.strip()]
        items = _item_hints(choice, len(parts))
        parsed = None if items is None else tuple(map(_parse_one, parts, items))
        return None if parsed is None or None in parsed else parsed
    if choice is bool:
        return _BOOLEANS.get(text.lower())
    if choice is str:
        return text
    if choice in (int, float):
        try:
            number = choice(text)
        except ValueError:
            return None
        return number if _is_number(number) else None
    return None


def _spell(hint: Any) -> str:
    names = {int: "a whole number", float: "a finite number", bool: "yes or no", str: "a text", type(None): "none"}
    parts = []
    for choice in _choices(hint):
        origin = get_origin(choice)
        if origin is Literal:
            parts.append(" or ".join(str(option) for option in get_args(choice)))
        elif origin is tuple:
            items = ["..." if item is Ellipsis else _spell(item) for item in get_args(choice)]
            parts.append(f"a comma-separated list ({', '.join(items)})")
        else:
            parts.append(names.get(choice, str(choice)))
    return " or ".join(parts)
