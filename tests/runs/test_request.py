"""A request is checked before an image is read: none of these sources exists."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.toy import TOY

from selfsort.data.options import ReadOptions
from selfsort.errors import InvalidInput
from selfsort.methods import registry
from selfsort.runs.clusters import ClusterRange
from selfsort.runs.request import Request, check, free_name

ASKED = Request(source=ReadOptions(path="there-is-no-such-source"), clusters=3, method="toy")


@pytest.fixture(autouse=True)
def _toy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(registry.OWN, "toy", TOY)
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"method": "toys"}, r"got 'toys'. Did you mean toy\?"),
        ({"settings": ("step=2",)}, r"got 'step'. Did you mean steps\?"),
        ({"settings": {"n_clusters": 2}}, "Use --clusters"),
        ({"recipe": "mnist"}, "--recipe must be one that toy has"),
        ({"device": "abacus"}, "device 'abacus' cannot be used here"),
        ({"clusters": 1}, "n_clusters must be at least 2"),
        ({"method": "auto", "settings": ("epochs=3",)}, "--set epochs belongs to a method, and --method auto chooses"),
        ({"method": "auto", "recipe": "default"}, "--recipe default belongs to a method, and --method auto chooses"),
        ({"method": "consensus"}, "consensus is no method but a stage"),
        ({"words": ("cat", "dog")}, "names"),
    ],
)
def test_what_is_wrong_without_images_is_refused_without_them(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        check(replace(ASKED, **changes))


def test_an_occupied_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InvalidInput, match="holds files that are not a run"):
        check(replace(ASKED, out=tmp_path))


def test_what_is_left_to_the_images_is_open() -> None:
    named = check(ASKED)
    assert (named.is_method_open, named.is_encoder_open, named.n_clusters) == (False, False, 3)
    free = check(replace(ASKED, method="auto", encoder="auto", clusters=ClusterRange(4, 9)))
    assert (free.is_method_open, free.is_encoder_open, free.n_clusters) == (True, True, 4)
    assert free.opened is None


def test_a_setting_under_its_old_name_is_told_of() -> None:
    asked = check(replace(ASKED, method="dac", settings=("shift=0.2",)))
    assert asked.notes == asked.renamed
    assert "translate" in "".join(asked.notes)


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("my photos (2024)", "my-photos-2024-"),
        ("digits.npz", "digits"),
        ("/", "images"),
        ("x" * 300, "x" * 60),
        ("caf\udce9", "caf-"),
    ],
)
def test_names_of_run_folders_are_tame(source: str, name: str) -> None:
    request = Request(source=ReadOptions(path=source), clusters=3, method="toy", seed=4)
    assert free_name(request) == Path("selfsort-runs") / f"{name}-toy-k3-seed4"
