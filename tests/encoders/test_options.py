"""Settings of an encoder."""

from __future__ import annotations

import pytest

from selfsort.encoders.options import EncodeConfig
from selfsort.errors import InvalidInput


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("views", 0),
        ("map_channels", 0),
        ("crop_min", 0.0),
        ("crop_min", 1.5),
        ("finetune_rate", 0.0),
        ("finetune_rate", 2.0),
    ],
)
def test_settings_that_cannot_work_are_refused(name: str, value: float) -> None:
    with pytest.raises(InvalidInput, match=name):
        EncodeConfig(**{name: value})  # type: ignore[arg-type]
