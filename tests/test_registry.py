from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests import foreign

import selfsort
from selfsort.errors import MissingData
from selfsort.registry import OURS, Origin, Registry

GROUP = "selfsort.encoders"  # the mechanism serves any group


@dataclass
class Thing:
    name: str


SOURCE = "from tests.test_registry import Thing\nTHING = Thing('theirs')\nOTHER = Thing('other')\nNUMBER = 1\n"


def registry() -> Registry[Thing]:
    return Registry({"ours": Thing("ours"), "pi": "math:pi"}, GROUP, Thing)


def offer(folder: Path, monkeypatch: pytest.MonkeyPatch, entries: str, module: str = "things_of_others") -> None:
    foreign.install(folder, monkeypatch, module=module, text=SOURCE, entries=entries, group=GROUP)


def test_ours_come_first_and_theirs_are_loaded_when_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    offer(tmp_path, monkeypatch, "theirs = things_of_others:THING")
    found = registry()
    assert list(found) == ["ours", "pi", "theirs"]
    assert len(found) == 3
    assert "theirs" in found
    assert found.origin("theirs") == Origin("their-package", "1.2.3")
    assert "things_of_others" not in sys.modules
    assert found["theirs"] == Thing("theirs")
    assert found["pi"] == pytest.approx(3.14159, abs=1e-5)


def test_nothing_else_is_there(tmp_path: Path) -> None:
    found = registry()
    assert list(found) == ["ours", "pi"]
    assert "theirs" not in found
    with pytest.raises(KeyError):
        found["theirs"]
    assert found.origin("ours") == OURS == Origin("selfsort", selfsort.__version__)


def test_our_names_win(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    offer(tmp_path, monkeypatch, "ours = things_of_others:THING", "taking_our_name")
    found = registry()
    assert list(found) == ["ours", "pi"]
    assert found["ours"] == Thing("ours")
    assert found.origin("ours") == OURS


def test_of_two_packages_with_one_name_the_first_by_alphabet_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for package in ("zebra", "apple", "mango"):
        foreign.install(tmp_path, monkeypatch, package=package, entries="theirs = x:y", group=GROUP)
    assert registry().origin("theirs").package == "apple"


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        ("theirs = no_such_module:THING", r"ModuleNotFoundError: No module named 'no_such_module'"),
        ("theirs = things_of_others:NOTHING", "AttributeError: "),
        ("theirs = things_of_others:NUMBER", "things_of_others:NUMBER is not a selfsort Thing"),
        ("theirs = things_of_others:OTHER", "it calls itself 'other'"),
    ],
)
def test_a_broken_one_is_one_sentence_that_names_its_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, entry: str, reason: str
) -> None:
    offer(tmp_path, monkeypatch, entry)
    with pytest.raises(MissingData, match=rf"^'theirs' of the package their-package 1.2.3 cannot be loaded \({reason}"):
        registry()["theirs"]
