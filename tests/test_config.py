from __future__ import annotations

import json
import math
import re
from dataclasses import FrozenInstanceError, dataclass
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from selfsort.config import Config, describe, fits, parse_settings, setting
from selfsort.errors import InvalidInput
from selfsort.improve.stages import STAGES
from selfsort.methods.registry import METHODS


@dataclass(frozen=True, kw_only=True)
class Everything(Config):
    """One field of each kind a method may declare."""

    epochs: int = setting(20, "passes over the images", "paper")
    rate: float = setting(0.1, "learning rate", "code")
    decay: float | None = setting(None, "weight decay")
    merge: Literal["soft", "hard"] = setting("soft", "how clusters merge")
    channels: Literal[1, 3] = setting(1, "gray or colour")
    widths: tuple[int, ...] = setting((50, 100), "layer widths")
    window: tuple[int, float] = setting((3, 0.5), "size and overlap")
    blocks: tuple[tuple[int, int], ...] = setting(((1, 2),), "nested")
    is_fast: bool = setting(False, "skip the slow part")
    mirror: Literal["auto"] | bool = setting("auto", "mirror images")
    name: str | None = setting(None, "a label")


@pytest.mark.parametrize(
    ("word", "value"),
    [
        ("epochs=7", 7),
        ("rate=1", 1.0),
        ("rate=1e-3", 0.001),
        ("decay=none", None),
        ("decay=2", 2.0),
        ("merge=hard", "hard"),
        ("channels=3", 3),
        ("widths=8,16,32", (8, 16, 32)),
        ("widths=8, 16,", (8, 16)),
        ("widths=", ()),
        ("window=5,1", (5, 1.0)),
        *((f"{name}={word}", True) for name in ("is_fast", "mirror") for word in ("yes", "true", "1", "on", "YES")),
        *((f"{name}={word}", False) for name in ("is_fast", "mirror") for word in ("no", "false", "0", "OFF")),
        ("mirror=auto", "auto"),
        ("name=a=b", "a=b"),
        ("name=None", None),
    ],
)
def test_words_become_typed_values(word: str, value: object) -> None:
    parsed = parse_settings(Everything, [word])[word.partition("=")[0]]
    assert parsed == value
    assert type(parsed) is type(value)


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("epochs=2.5", "epochs must be a whole number; got '2.5'. Its default is 20."),
        ("epochs=", "epochs must be a whole number; got ''."),
        ("epochs=" + "9" * 30, "epochs must be a whole number"),
        ("epochs=" + "9" * 5000, "epochs must be a whole number"),
        ("rate=fast", "rate must be a finite number; got 'fast'. Its default is 0.1."),
        ("rate=nan", "rate must be a finite number; got 'nan'"),
        ("rate=-inf", "rate must be a finite number; got '-inf'"),
        ("rate=1e999", "rate must be a finite number; got '1e999'"),
        ("decay=some", "decay must be a finite number or none; got 'some'. Its default is none."),
        ("merge=Hard", "merge must be soft or hard; got 'Hard'. Its default is soft."),
        ("channels=2", "channels must be 1 or 3; got '2'"),
        (
            "widths=8,x",
            "widths must be a comma-separated list (a whole number, ...); got '8,x'. Its default is 50,100.",
        ),
        ("window=5", "window must be a comma-separated list (a whole number, a finite number); got '5'"),
        ("is_fast=ja", "is_fast must be yes or no; got 'ja'. Its default is no."),
        ("is_fast=auto", "is_fast must be yes or no; got 'auto'. Its default is no."),
        ("mirror=ja", "mirror must be auto or yes or no; got 'ja'. Its default is auto."),
        ("epoch=3", "a setting's name must be one that Everything has; got 'epoch'. Did you mean epochs?"),
        ("zzzz=3", "Known settings: n_clusters, epochs, rate"),
        ("=3", "got ''"),
        ("epochs", "--set must have the form key=value; got 'epochs'. Write for example --set epochs=20."),
    ],
)
def test_wrong_words_are_refused_in_three_parts(word: str, message: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        parse_settings(Everything, [word])
    assert message in str(caught.value)


def test_the_last_of_two_words_wins() -> None:
    assert parse_settings(Everything, ["epochs=1", "rate=2", "epochs=3"]) == {"epochs": 3, "rate": 2.0}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("n_clusters", 1),
        ("n_clusters", True),
        ("n_clusters", 2.0),
        ("n_clusters", None),
        ("n_clusters", "3"),
        ("epochs", 10**400),
        ("rate", math.nan),
        ("rate", math.inf),
        ("rate", 10**400),
        ("rate", True),
        ("channels", True),
        ("channels", 1.0),
        ("merge", ["soft"]),
        ("widths", 5),
        ("widths", [1, "2"]),
        ("widths", {"a": 1}),
        ("window", [1]),
        ("window", [1, 2, 3]),
        ("blocks", [[1, 2, 3]]),
        ("is_fast", 1),
        ("is_fast", "ja"),
        ("mirror", 0.5),
        ("name", 5),
    ],
)
def test_stored_settings_of_the_wrong_type_are_refused(name: str, value: Any) -> None:
    with pytest.raises(InvalidInput, match=rf"{name} must .*; got .*\."):
        Everything.from_json({"n_clusters": 3, name: value})


def test_stored_settings_may_be_older_but_not_unknown_or_empty() -> None:
    assert Everything.from_json({"n_clusters": 3}) == Everything(n_clusters=3)
    with pytest.raises(InvalidInput, match=r"got 'epoch'. Did you mean epochs\?"):
        Everything.from_json({"n_clusters": 3, "epoch": 3})
    with pytest.raises(InvalidInput, match="the settings must hold n_clusters"):
        Everything.from_json({})


@settings(derandomize=True, deadline=None, max_examples=60)
@given(
    config=st.builds(
        Everything,
        n_clusters=st.integers(2, 100),
        epochs=st.integers(-(2**63) + 1, 2**63 - 1),
        rate=st.floats(allow_nan=False, allow_infinity=False),
        decay=st.none() | st.floats(allow_nan=False, allow_infinity=False),
        widths=st.lists(st.integers(0, 9)).map(tuple),
        blocks=st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9))).map(tuple),
        is_fast=st.booleans(),
        mirror=st.booleans() | st.just("auto"),
        name=st.none() | st.text(),
    )
)
def test_settings_survive_json(config: Everything) -> None:
    assert Everything.from_json(json.loads(json.dumps(config.to_json(), allow_nan=False))) == config


def test_json_that_writes_whole_floats_as_integers_gives_floats_back() -> None:
    config = Everything.from_json({"n_clusters": 3, "rate": 1, "decay": 2, "window": [3, 1]})
    assert [type(value) for value in (config.rate, config.decay, config.window[1])] == [float] * 3


def test_older_json_that_writes_booleans_as_words_gives_booleans_back() -> None:
    config = Everything.from_json({"n_clusters": 3, "is_fast": "yes", "mirror": "off", "name": "no"})
    assert (config.is_fast, config.mirror, config.name) == (True, False, "no")


def test_a_subclass_check_speaks_in_the_house_sentence() -> None:
    @dataclass(frozen=True, kw_only=True)
    class Picky(Config):
        epochs: int = setting(1, "passes")

        def __post_init__(self) -> None:
            super().__post_init__()
            self.require("epochs", self.epochs >= 1, "be at least 1")

    with pytest.raises(InvalidInput, match=r"^epochs must be at least 1; got 0. Change epochs.$"):
        Picky(n_clusters=2, epochs=0)


def test_settings_cannot_be_changed() -> None:
    with pytest.raises(FrozenInstanceError):
        Everything(n_clusters=3).epochs = 5  # type: ignore[misc]


def test_every_setting_is_described_as_it_is_typed() -> None:
    rows = {row.name: row for row in describe(Everything)}
    assert list(rows) == list(Everything(n_clusters=2).to_json())
    assert (rows["n_clusters"].default, rows["n_clusters"].source) == ("required", "you")
    assert (rows["epochs"].type, rows["epochs"].doc, rows["epochs"].source) == (
        "a whole number",
        "passes over the images",
        "paper",
    )
    assert (rows["decay"].default, rows["is_fast"].default, rows["widths"].default) == ("none", "no", "50,100")
    assert rows["rate"].source == "code"
    assert rows["name"].source == "ours"
    for name in set(rows) - {"n_clusters", "blocks"}:  # a nested list cannot be typed as one word
        default = getattr(Everything(n_clusters=2), name)
        assert parse_settings(Everything, [f"{name}={rows[name].default}"]) == {name: default}


def test_a_type_no_setting_declares_is_simply_compared() -> None:
    assert fits(b"x", bytes)
    assert not fits("x", bytes)


WHO = re.compile(r"(paper|code|ours)(; \S.*\S)?")


@pytest.mark.parametrize("name", [*METHODS, *STAGES])
def test_every_shipped_setting_says_who_says_so(name: str) -> None:
    kind = METHODS[name] if name in METHODS else STAGES[name]
    wrong = [row for row in describe(kind.config) if row.name != "n_clusters" and not WHO.fullmatch(row.source)]
    assert not wrong


@pytest.mark.parametrize(
    ("method", "setting", "who"),
    [
        ("jule", "update", "paper"),  # "in all our experiments", A.2
        ("jule", "gamma", "code"),
        ("jule", "restart_lr", "code"),
        ("jule", "order", "code"),
        ("jule", "negatives", "code"),
        ("jule", "control", "ours"),
        ("ncuts", "is_squared", "code"),
        ("kmeans", "n_restarts", "code"),
        ("dac", "aux_weight", "paper"),  # 0: the paper knows no such term
        ("gatcluster", "kmeans_on", "code"),
        ("gatcluster", "a0", "code"),
        ("gatcluster", "lr", "paper"),
        ("secu", "units", "code"),
        ("secu", "lr", "paper"),
        ("self-label", "sharpen", "ours"),
        ("self-label", "threshold", "paper"),
    ],
)
def test_and_is_right_about_it(method: str, setting: str, who: str) -> None:
    kind = METHODS[method] if method in METHODS else STAGES[method]
    found = next(row for row in describe(kind.config) if row.name == setting)
    assert found.source.split(";")[0] == who
