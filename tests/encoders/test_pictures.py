"""Pictures are what every source of features is asked about."""

from __future__ import annotations

from tests.encoders.small import blobs

from selfsort.encoders.pictures import Pictures


def test_pictures_know_their_names() -> None:
    images = blobs(2)
    assert Pictures(images, ("a", "b"), None).names == ("a", "b")
