"""Settings that have another name today, or none: one table for `--set`, Python, and runs stored earlier.

Old names work for one release. A setting that is gone is passed over where it says what happens anyway, and refused
else; docs/experiments/removed-settings.md tells why each of them went.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from selfsort.errors import InvalidInput
from selfsort.types import Json

IMPROVE, ENCODE = "improve.", "encoder."
"""How settings begin that belong to no method."""

_AROUND = {"starts": "improve.starts", "mend_every": "improve.regroup_every"}

RENAMED: dict[str, dict[str, str]] = {
    "dac": {**_AROUND, "start_pools": "improve.start_length", "shift": "translate"},
    "gatcluster": {
        **_AROUND,
        "start_iterations": "improve.start_length",
        "even_light": "standardise",
        "grey": "gray",
    },
    "ac-gdl": {"start": "init"},
    "self-label": {"mend": "regroup"},
}
"""By method or stage: old name, name of today."""

VALUES: dict[str, dict[str, dict[str, str]]] = {
    "gatcluster": {"bn_eval": {"learned": "running", "unchanged": "refreshed"}},
}
"""By method and setting: old value, value of today."""

BOOLEANS = {"yes": True, "no": False, "on": True, "off": False}
"""How `centre` and `flip` were stored before they were booleans, or auto."""

SWITCHES: dict[str, dict[str, str]] = {"gatcluster": {"TI": "w_ti", "SM": "w_sm", "EA": "w_ea", "AM": "w_am"}}
"""By method: switches that are gone, and the weights whose zero says the same as off."""

_OF_AN_AUTOENCODER = {"noise": 0.0, "feature_scale": 1.0}

REMOVED: dict[str, dict[str, Any]] = {
    "dac": {"schedule": "constant"},
    "gatcluster": {"schedule": "constant"},
    **{name: _OF_AN_AUTOENCODER for name in ("fcae-kmeans", "dbc", "dec")},
}
"""By method: settings that are gone, and the value that says what happens now."""


def today(method: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings, typed or as words of the command line, under the names of today.

    What cannot be said any more stays as it is, for `refuse_removed`.

    >>> today("dac", {"starts": 4, "shift": 0.2, "schedule": "constant"})
    {'improve.starts': 4, 'translate': 0.2}
    """
    renamed, values = RENAMED.get(method, {}), VALUES.get(method, {})
    switches, removed = SWITCHES.get(method, {}), REMOVED.get(method, {})
    found: dict[str, Any] = {}
    for name, value in settings.items():
        if name in removed and _means(value, removed[name]):
            continue
        if name in renamed:
            found.setdefault(renamed[name], value)
        elif name in values:
            found[name] = next((new for old, new in values[name].items() if value == old), value)
        else:
            found[name] = value
    for name, weight in switches.items():
        if any(_means(found.get(name), off) for off in (False, "off", "no")):
            del found[name]
            found[weight] = 0.0
        # The module of AM is there or not; the other tasks are off without weight.
        elif name in found and not (name == "AM" and _means(found.get(weight), 0.0)):
            del found[name]
    return found


def renamings(method: str, settings: Mapping[str, Any]) -> tuple[str, ...]:
    """Say in one line which of these settings have another name today; nothing if none has."""
    words = [f"{name} is now {new}" for name, new in RENAMED.get(method, {}).items() if name in settings]
    words += [
        f"{name}={old} is now {name}={new}"
        for name, values in VALUES.get(method, {}).items()
        for old, new in values.items()
        if settings.get(name) == old
    ]
    words += [
        f"{name} is now {weight}, 0 for off" for name, weight in SWITCHES.get(method, {}).items() if name in settings
    ]
    words += [f"{name} is gone" for name in REMOVED.get(method, {}) if name in settings]
    return (f"{', '.join(words)}; old names work for one release.",) if words else ()


def refuse_removed(method: str, settings: Mapping[str, Any]) -> None:
    """Refuse settings that say what cannot be done any more."""
    for name in (*REMOVED.get(method, {}), *SWITCHES.get(method, {})):
        if name in settings:
            raise InvalidInput(
                f"{name}={settings[name]!r} is gone: {method} cannot do it any more. Expected a setting that "
                f"`selfsort methods {method}` lists. Leave it out, or use selfsort 0.1.0."
            )


def split(settings: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """Part a method's own settings from those that begin with `improve.` or `encoder.`, whose names lose that.

    >>> split({"epochs": 3, "improve.starts": 4, "encoder.views": 2})
    ({'epochs': 3}, {'starts': 4}, {'views': 2})
    """
    own = {name: value for name, value in settings.items() if not name.startswith((IMPROVE, ENCODE))}
    around, before = (
        {name.removeprefix(prefix): value for name, value in settings.items() if name.startswith(prefix)}
        for prefix in (IMPROVE, ENCODE)
    )
    return own, around, before


def update_config(config: Json) -> Json:
    """Return what config.json would say if it were written today."""
    own, around, _ = split(today(config["method"], config["settings"]))
    own |= {name: BOOLEANS.get(str(own[name]), own[name]) for name in ("centre", "flip") if name in own}
    stored = config.get("improve", {})
    improve = {**around, **stored} if isinstance(stored, dict) else stored
    return {**config, "settings": own, **({"improve": improve} if improve else {})}


def all_settings(config: Json) -> dict[str, Any]:
    """Return the settings of a run under the names that `--set` knows."""
    encoder = config.get("encoder")
    before = encoder.get("settings") if isinstance(encoder, dict) else None
    found = dict(config["settings"])
    for prefix, settings in ((IMPROVE, config.get("improve")), (ENCODE, before)):
        if isinstance(settings, dict):
            found |= {f"{prefix}{name}": value for name, value in settings.items()}
    return found


def _means(value: object, meant: Any) -> bool:
    """Whether a value, maybe a word of the command line, says the same."""
    if isinstance(value, str) and not isinstance(meant, str):
        return value.lower() in (str(meant).lower(), f"{float(meant):g}", str(float(meant)))
    return value == meant and isinstance(value, bool) == isinstance(meant, bool)
