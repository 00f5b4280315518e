"""One file at a time: every kind of picture and every kind of damage, on real files."""

from __future__ import annotations

import io
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageOps
from tests.data.samples import noise, picture, png_of_claimed_size, smooth

from selfsort.data.datasets import Fit, ImageSpec
from selfsort.data.decode import Unreadable, _Room, decode, is_picture_head, probe, quiet_pillow
from selfsort.types import U8


def decode_file(path: Path, spec: ImageSpec) -> U8:
    with path.open("rb") as stream:
        return decode(stream, spec)[0]


def read(path: Path, height: int = 12, width: int = 16, channels: int = 3) -> U8:
    return decode_file(path, ImageSpec(height, width, channels))


@pytest.mark.parametrize(
    ("name", "options", "tolerance"),
    [
        ("a.png", {}, 0),
        ("a.bmp", {}, 0),
        ("a.tif", {}, 0),
        ("a.ppm", {}, 0),
        ("a.webp", {"lossless": True}, 0),
        ("a.jpg", {"quality": 95, "subsampling": 0}, 12),
        ("a.avif", {"quality": 95, "subsampling": "4:4:4"}, 12),
    ],
)
def test_every_format_gives_back_its_pixels(tmp_path: Path, name: str, options: dict[str, Any], tolerance: int) -> None:
    made = smooth(12, 16)
    made.save(tmp_path / name, **options)
    difference = read(tmp_path / name).astype(int) - np.asarray(made).astype(int)
    assert np.abs(difference).max() <= tolerance


def test_heic_is_read_with_its_extra(tmp_path: Path) -> None:
    heif = pytest.importorskip("pillow_heif")
    made = smooth(64, 64)
    heif.from_pillow(made).save(tmp_path / "a.heic", quality=95)
    difference = read(tmp_path / "a.heic", 64, 64).astype(int) - np.asarray(made).astype(int)
    assert np.abs(difference).mean() < 5


def test_heic_without_its_extra_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.heic").write_bytes(b"\0\0\0\x18ftypheic\0\0\0\0heicmif1" + bytes(100))
    monkeypatch.setitem(__import__("sys").modules, "pillow_heif", None)
    with pytest.raises(Unreadable, match=r'HEIC needs the package pillow-heif: pip install "selfsort\[heic\]"'):
        read(tmp_path / "a.heic")


def test_gif_named_jpg_is_a_gif(tmp_path: Path) -> None:
    made = picture(noise(channels=1))
    made.save(tmp_path / "a.jpg", format="GIF")
    assert (read(tmp_path / "a.jpg", channels=1)[:, :, 0] == np.asarray(made)).all()


def test_animated_gif_gives_its_first_frame(tmp_path: Path) -> None:
    first, second = (Image.new("RGB", (16, 12), color) for color in ("red", "blue"))
    first.save(tmp_path / "a.gif", save_all=True, append_images=[second])
    assert (read(tmp_path / "a.gif") == (255, 0, 0)).all()


def test_sixteen_bit_png_is_scaled_not_clipped(tmp_path: Path) -> None:
    values = np.linspace(0, 65535, 12 * 16).reshape(12, 16).astype(np.uint16)
    Image.fromarray(values).save(tmp_path / "a.png")
    expected = np.floor(values / 257 + 0.5).astype(np.uint8)
    assert (read(tmp_path / "a.png", channels=1)[:, :, 0] == expected).all()
    assert expected.min() == 0
    assert expected.max() == 255
    assert len(np.unique(expected)) > 150


@pytest.mark.parametrize(
    ("low", "high", "expected_low", "expected_high"),
    [(0.0, 1.0, 0, 255), (0.0, 0.5, 0, 128), (0.0, 255.0, 0, 255), (0.0, 1000.0, 0, 4), (-3.0, 7.0, 0, 255)],
)
def test_float_tiff_is_scaled_not_clipped(
    tmp_path: Path, low: float, high: float, expected_low: int, expected_high: int
) -> None:
    values = np.linspace(low, high, 12 * 16, dtype=np.float32).reshape(12, 16)
    Image.fromarray(values).save(tmp_path / "a.tif")
    pixels = read(tmp_path / "a.tif", channels=1)
    assert (pixels.min(), pixels.max()) == (expected_low, expected_high)
    assert (np.diff(pixels.ravel().astype(int)) >= 0).all()


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_float_tiff_with_nan_or_infinity_is_refused(tmp_path: Path, value: float) -> None:
    values = np.zeros((12, 16), np.float32)
    values[3, 3] = value
    Image.fromarray(values).save(tmp_path / "a.tif")
    with pytest.raises(Unreadable, match="it has pixels that are NaN or infinite"):
        read(tmp_path / "a.tif")


# Every way in which a picture is flattened, with the suffix of a file that can hold it.
FLATTENED = {
    "colour": (picture(noise(41, 37)), "png"),
    "gray": (picture(noise(41, 37, 1)), "png"),
    "transparent": (Image.fromarray(noise(41, 37, 4)), "png"),
    "transparent gray": (Image.fromarray(noise(41, 37, 2)), "png"),
    "palette": (picture(noise(41, 37)).quantize(16), "gif"),
    "bilevel": (picture(noise(41, 37)).convert("1"), "png"),
    "cmyk": (picture(noise(41, 37)).convert("CMYK"), "tif"),
    "16 bit": (Image.fromarray(noise(41, 37, 2).view(np.uint16)[:, :, 0]), "png"),
    "32 bit": (Image.fromarray(noise(41, 37, 4).view(np.int32)[:, :, 0]), "tif"),
    "float": (Image.fromarray(np.linspace(-1, 3, 41 * 37, dtype=np.float32).reshape(41, 37)), "tif"),
}


@pytest.mark.parametrize("kind", FLATTENED)
@pytest.mark.parametrize("fit", ["crop", "stretch", "pad"])
def test_a_picture_in_bands_is_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, fit: Fit) -> None:
    made, suffix = FLATTENED[kind]
    path = tmp_path / f"a.{suffix}"
    made.save(path)
    specs = [ImageSpec(h, w, c, fit) for h, w in ((8, 8), (20, 5), (5, 20), (90, 41), (37, 41)) for c in (1, 3)]
    whole = [decode_file(path, spec) for spec in specs]
    monkeypatch.setattr("selfsort.data.decode._BAND_PIXELS", 37 * 4)
    for spec, expected in zip(specs, whole, strict=True):
        # Between its two halves, resizing rounds; Pillow may take the other half first.
        np.testing.assert_allclose(decode_file(path, spec).astype(int), expected.astype(int), atol=1)


@pytest.mark.parametrize("orientation", range(1, 9))
def test_a_turned_picture_in_bands_is_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, orientation: int
) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation
    picture(noise(41, 37)).save(tmp_path / "a.png", exif=exif)
    spec = ImageSpec(12, 10, 3, "stretch")
    whole = decode_file(tmp_path / "a.png", spec)
    monkeypatch.setattr("selfsort.data.decode._BAND_PIXELS", 37 * 4)
    np.testing.assert_array_equal(decode_file(tmp_path / "a.png", spec), whole)


def test_pictures_take_turns_when_memory_is_short(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = picture(noise())
    for number in range(8):
        made.save(tmp_path / f"{number}.png")
    (tmp_path / "3.png").write_bytes((tmp_path / "3.png").read_bytes()[:-40])
    spec = ImageSpec(12, 16, 3)
    # Room for one picture at a time; the damaged one must give its room back.
    monkeypatch.setattr("selfsort.data.decode._room", _Room(10_000))
    with ThreadPoolExecutor(4) as pool:
        jobs = [pool.submit(decode_file, tmp_path / f"{number}.png", spec) for number in range(8)]
    assert [job.exception(timeout=30) is None for job in jobs] == [number != 3 for number in range(8)]


def test_a_picture_that_would_fill_the_memory_is_refused_by_its_header(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    picture(noise()).save(tmp_path / "a.png")
    monkeypatch.setattr("selfsort.data.decode._room", _Room(1000))
    with pytest.raises(Unreadable, match=r"too large: decoding it would fill 0\.0 GB of memory"):
        read(tmp_path / "a.png")


def test_32_bit_tiff_is_scaled(tmp_path: Path) -> None:
    Image.fromarray(np.full((12, 16), 65535, np.int32)).save(tmp_path / "a.tif")
    assert (read(tmp_path / "a.tif") == 255).all()


def test_cmyk_jpeg_becomes_rgb(tmp_path: Path) -> None:
    Image.new("CMYK", (16, 12), (255, 0, 0, 0)).save(tmp_path / "a.jpg", quality=95)
    assert np.abs(read(tmp_path / "a.jpg").astype(int) - (0, 255, 255)).max() <= 2


def test_hidden_colour_stays_hidden_even_at_the_edge(tmp_path: Path) -> None:
    pixels = np.zeros((24, 32, 4), np.uint8)
    pixels[:, :, 0] = 255  # red everywhere, but visible nowhere
    Image.fromarray(pixels).save(tmp_path / "a.png")
    assert (read(tmp_path / "a.png") == 255).all()
    pixels[:, 16:] = (0, 0, 255, 255)
    Image.fromarray(pixels).save(tmp_path / "b.png")
    both = read(tmp_path / "b.png")
    # White meets blue: every blend has as much red as green. Bleeding red would break that.
    assert (both[:, :, 0] == both[:, :, 1]).all()


def test_half_transparency_is_laid_on_white(tmp_path: Path) -> None:
    Image.new("RGBA", (16, 12), (0, 0, 0, 128)).save(tmp_path / "a.png")
    assert (read(tmp_path / "a.png") == 127).all()
    Image.new("LA", (16, 12), (0, 128)).save(tmp_path / "b.png")
    assert (read(tmp_path / "b.png", channels=1) == 127).all()


def test_palette_and_its_transparent_entry(tmp_path: Path) -> None:
    made = Image.new("P", (16, 12), 1)
    made.putpalette([255, 0, 0, 0, 200, 0, 0, 0, 255])
    made.save(tmp_path / "a.png")
    assert (read(tmp_path / "a.png") == (0, 200, 0)).all()
    made.save(tmp_path / "b.png", transparency=1)
    assert (read(tmp_path / "b.png") == 255).all()


def test_bilevel_becomes_black_and_white(tmp_path: Path) -> None:
    Image.fromarray(noise(channels=1)[:, :, 0] > 128).save(tmp_path / "a.png")
    assert set(np.unique(read(tmp_path / "a.png", channels=1))) == {0, 255}


UNDO = {
    1: None,
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_90,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_270,
}


@pytest.mark.parametrize("turn", UNDO)
@pytest.mark.parametrize(
    ("name", "options", "tolerance"),
    [
        ("a.png", {}, 0),
        ("a.tif", {}, 0),
        ("a.webp", {"lossless": True}, 0),
        ("a.jpg", {"quality": 95, "subsampling": 0}, 12),
        ("a.avif", {"quality": 95, "subsampling": "4:4:4"}, 12),
    ],
)
def test_all_eight_orientations_give_the_upright_picture(
    tmp_path: Path, turn: int, name: str, options: dict[str, Any], tolerance: int
) -> None:
    upright = smooth(12, 16, seed=3)
    undo = UNDO[turn]
    stored = upright if undo is None else upright.transpose(undo)
    exif = Image.Exif()
    exif[0x0112] = turn
    stored.save(tmp_path / name, exif=exif, **options)
    with Image.open(tmp_path / name) as again:  # the test's own idea of orientation is Pillow's
        oracle = np.asarray(ImageOps.exif_transpose(again)).astype(int)
    assert np.abs(oracle - np.asarray(upright).astype(int)).max() <= tolerance
    assert np.abs(read(tmp_path / name).astype(int) - np.asarray(upright).astype(int)).max() <= tolerance
    with (tmp_path / name).open("rb") as stream:
        look = probe(stream)
    assert (look.width, look.height) == (16, 12)


def test_large_rotated_jpeg_is_shrunk_while_decoding_and_still_right(tmp_path: Path) -> None:
    upright = smooth(300, 400, seed=5)
    exif = Image.Exif()
    exif[0x0112] = 6
    upright.transpose(Image.Transpose.ROTATE_90).save(tmp_path / "a.jpg", exif=exif, quality=95)
    pixels = read(tmp_path / "a.jpg", 24, 32)
    expected = np.asarray(upright.resize((32, 24), Image.Resampling.BILINEAR))
    assert np.abs(pixels.astype(int) - expected.astype(int)).max() <= 8


def test_damaged_exif_does_not_cost_the_picture(tmp_path: Path) -> None:
    smooth(12, 16).save(tmp_path / "a.jpg", exif=b"Exif\0\0II*\0\xff\xff\xff\xff garbage")
    with quiet_pillow():
        assert read(tmp_path / "a.jpg").shape == (12, 16, 3)


def test_truncated_jpeg_is_refused(tmp_path: Path) -> None:
    smooth(200, 300).save(tmp_path / "a.jpg")
    whole = (tmp_path / "a.jpg").read_bytes()
    (tmp_path / "a.jpg").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(Unreadable, match="truncated or damaged: image file is truncated"):
        read(tmp_path / "a.jpg")


def test_truncated_png_is_refused(tmp_path: Path) -> None:
    picture(noise(60, 60)).save(tmp_path / "a.png")
    whole = (tmp_path / "a.png").read_bytes()
    (tmp_path / "a.png").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(Unreadable, match="truncated or damaged"):
        read(tmp_path / "a.png")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "empty file"),
        (b"Dear diary, today I sorted pictures.", "not a picture: the content is text"),
        (bytes(range(64)), "not a picture of a known type"),
        (b"\x89PNG\r\n\x1a\n", "damaged"),
        (b"\xff\xd8\xff\xe0", "damaged"),
        (png_of_claimed_size(60_000, 60_000), "decompression bomb: more pixels than is safe"),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", "not a picture: the content is text"),
    ],
    ids=["empty", "text", "bytes", "bare png", "bare jpeg", "bomb", "eps"],
)
def test_what_is_no_picture_gets_its_reason(tmp_path: Path, content: bytes, reason: str) -> None:
    (tmp_path / "a.jpg").write_bytes(content)
    with pytest.raises(Unreadable, match=reason):
        read(tmp_path / "a.jpg")


def test_damaged_bytes_never_raise_anything_else() -> None:
    """Flip bytes of good files: each is read or refused with a reason, whatever Pillow raises inside."""
    generator = np.random.default_rng(0)
    n_refused = 0
    for kind in ("JPEG", "PNG", "GIF", "TIFF", "BMP", "WEBP", "PPM"):
        buffer = io.BytesIO()
        smooth(20, 20).save(buffer, format=kind)
        good = np.frombuffer(buffer.getvalue(), np.uint8)
        for _ in range(40):
            bad = good.copy()
            where = generator.integers(0, min(len(bad), 200), 6)
            bad[where] = generator.integers(0, 256, 6)
            with quiet_pillow():
                try:
                    pixels, _ = decode(io.BytesIO(bad.tobytes()), ImageSpec(8, 8, 3))
                except Unreadable:
                    n_refused += 1
                else:
                    assert pixels.shape == (8, 8, 3)
    assert n_refused > 40


@pytest.mark.parametrize("kind", ["PNG", "GIF", "TIFF", "BMP"])
@pytest.mark.parametrize("is_gray", [True, False])
def test_a_palette_of_grays_is_gray_and_is_not_decoded_for_it(kind: str, is_gray: bool) -> None:
    made = Image.new("P", (40, 40), 2)
    entries = [[10, 10, 10], [90, 90, 90], [20, 20, 20 if is_gray else 200]]
    made.putpalette([value for entry in entries for value in entry])
    buffer = io.BytesIO()
    made.save(buffer, format=kind)
    assert probe(io.BytesIO(buffer.getvalue())).is_gray is is_gray
    assert probe(io.BytesIO(buffer.getvalue()[:-30])).is_gray is is_gray  # the pixels are cut off


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "GIF", "TIFF", "BMP", "WEBP", "AVIF"])
def test_a_picture_is_known_by_its_first_bytes(kind: str) -> None:
    buffer = io.BytesIO()
    smooth(12, 16).save(buffer, format=kind)
    assert is_picture_head(buffer.getvalue()[:32])


@pytest.mark.parametrize("head", [b"", b"BM is how this text starts, really", b"PK\x03\x04", b"RIFF1234WAVEfmt "])
def test_other_files_are_not_taken_for_pictures(head: bytes) -> None:
    assert not is_picture_head(head[:32])


@pytest.mark.parametrize(
    ("mode", "is_gray"),
    [("L", True), ("LA", True), ("1", True), ("I;16", True), ("P", False), ("RGB", False), ("RGBA", False)],
)
def test_gray_is_told_from_the_header(tmp_path: Path, mode: str, is_gray: bool) -> None:
    made = Image.new(mode, (4, 4))
    if mode == "P":
        made.putpalette([1, 2, 3])
    made.save(tmp_path / "a.png")
    with (tmp_path / "a.png").open("rb") as stream:
        assert probe(stream).is_gray is is_gray
