from __future__ import annotations

import io

import pytest
from PIL import Image

from selfsort.data.decode import quiet_pillow
from selfsort.data.shot import Shot, read_shot


def picture(tags: dict[int, object], gps: dict[int, object] | None = None, form: str = "JPEG") -> io.BytesIO:
    exif = Image.Exif()
    exif[0x0110] = "a camera"  # without a tag of its own Pillow writes none of it into a PNG
    exif.get_ifd(0x8769).update(tags)
    exif.get_ifd(0x8825).update(gps or {})
    stream = io.BytesIO()
    Image.new("RGB", (8, 8)).save(stream, form, exif=exif)
    stream.seek(0)
    return stream


@pytest.mark.parametrize("form", ["JPEG", "PNG", "WEBP"])
def test_time_and_place(form: str) -> None:
    gps: dict[int, object] = {1: "N", 2: (48.0, 30.0, 0.0), 3: "W", 4: (2.0, 15.0, 0.0)}
    shot = read_shot(picture({0x9003: "1970:01:01 00:01:00", 0x9291: "5"}, gps, form))
    assert shot.taken == 60.5
    assert shot.place == (48.5, -2.25)


@pytest.mark.parametrize("text", ["0000:00:00 00:00:00", "yesterday", "2024:13:40 99:00:00", ""])
def test_a_clock_that_was_never_set(text: str) -> None:
    assert read_shot(picture({0x9003: text})).taken is None


def test_a_place_that_is_none() -> None:
    assert read_shot(picture({}, {1: "N", 2: (480.0, 0.0, 0.0), 3: "E", 4: (2.0, 0.0, 0.0)})).place is None


def test_no_data_at_all() -> None:
    stream = io.BytesIO()
    Image.new("RGB", (8, 8)).save(stream, "PNG")
    stream.seek(0)
    assert read_shot(stream) == Shot()


def test_damaged_data_are_none() -> None:
    stream = io.BytesIO()
    Image.new("RGB", (8, 8)).save(stream, "JPEG", exif=b"Exif\0\0II*\0\xff\xff\xff\x7f" + b"\xff" * 40)
    stream.seek(0)
    with quiet_pillow():
        assert read_shot(stream) == Shot()
