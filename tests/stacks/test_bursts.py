from __future__ import annotations

from pathlib import Path

import numpy as np
from tests.stacks.scenes import album
from tests.stacks.test_traits import traits_in

from selfsort.stacks.bursts import find_bursts, near_in_time
from selfsort.types import F32, I64


def test_frames_are_near_in_time_and_alike(tmp_path: Path) -> None:
    traits = traits_in(album(tmp_path))
    together = {frozenset(traits.names[row] for row in pair) for pair in near_in_time(traits).tolist()}
    assert frozenset(("02.jpg", "03.jpg")) in together
    frames = {traits.names[row] for row in find_bursts(traits, None).ravel().tolist()}
    assert frames == {"01.jpg", "frame-1.jpg", "frame-2.jpg", "frame-3.jpg"}


def test_an_encoder_is_asked_about_few_and_believed(tmp_path: Path) -> None:
    traits = traits_in(album(tmp_path))
    asked: list[int] = []

    def encode(rows: I64) -> F32:
        asked.extend(rows.tolist())
        return np.eye(len(rows), 8, dtype=np.float32)  # nothing is like anything

    assert not len(find_bursts(traits, encode))
    assert len(asked) == 6


def test_the_same_scene_on_another_day_is_no_burst(tmp_path: Path) -> None:
    traits = traits_in(album(tmp_path))
    object.__setattr__(traits, "taken", traits.taken + 86400 * np.arange(len(traits)))
    assert not len(find_bursts(traits, None))
