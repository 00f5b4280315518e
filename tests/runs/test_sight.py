"""How images are seen: by their pixels, by what was asked for, or by what they choose."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tests.conftest import write_photos

from selfsort.data.options import ReadOptions
from selfsort.encoders.options import EncodeConfig
from selfsort.methods.registry import METHODS
from selfsort.runs.request import Request, check
from selfsort.runs.sight import encode_images, read_images


def asked_for(source: Path, encoder: str) -> Request:
    return Request(source=ReadOptions(path=str(source)), clusters=3, method="kmeans", encoder=encoder)


def test_without_an_encoder_the_pixels_are_seen(npz: Path) -> None:
    asked = check(asked_for(npz, "none"))
    sight = read_images(asked)
    assert (sight.opened, sight.reason, sight.notes) == (None, "asked for", ())
    features = encode_images(asked, sight, METHODS["kmeans"], EncodeConfig())
    assert (features.encoder, features.encoded, features.told) == (None, None, {})


def test_an_encoder_that_was_named_sees_them(npz: Path) -> None:
    asked = check(asked_for(npz, "hog"))
    sight = read_images(asked)
    assert sight.opened is not None
    features = encode_images(asked, sight, METHODS["kmeans"], EncodeConfig())
    assert features.encoded is not None
    assert len(features.encoded) == 18
    assert features.told["encoder"]["reason"] == "asked for"


def test_digits_choose_their_pixels_and_say_why(npz: Path) -> None:
    sight = read_images(check(asked_for(npz, "auto")))
    assert sight.opened is None
    assert sight.reason != "asked for"


def test_a_note_of_the_source_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    photos = write_photos(tmp_path / "photos")
    asked = replace(check(asked_for(photos, "none")), notes=("second",))
    plain = read_images(asked)
    assert plain.notes == ("second",)
    noted = replace(plain.dataset, ingest={**plain.dataset.ingest, "note": "first"})
    reading = replace(asked.request, source=noted)
    assert read_images(replace(asked, request=reading)).notes == ("first", "second")
