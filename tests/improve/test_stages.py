from __future__ import annotations

import pytest

from selfsort.errors import InvalidInput
from selfsort.improve.stages import STAGES, find_stage
from selfsort.methods.registry import METHODS


def test_names_are_keys_and_no_methods() -> None:
    assert all(name == stage.name for name, stage in STAGES.items())
    assert not STAGES.keys() & METHODS.keys()


def test_a_near_miss_is_named() -> None:
    with pytest.raises(InvalidInput, match=r"--stage must be one of .*; got 'selflabel'. Did you mean self-label\?"):
        find_stage("selflabel")


def test_what_else_can_follow_a_run_is_named_too() -> None:
    with pytest.raises(
        InvalidInput,
        match=r"be one of self-label, cut, consensus, update, corrections, teach; got 'teech'\. Did you mean teach\?",
    ):
        find_stage("teech", ["teach"])
