"""One file of foreign bytes to one picture, or a reason why not.

The rules: the type is found by content; the first frame counts; EXIF orientation is applied; 16-bit and
float values are scaled, never clipped; transparency is laid on white before anything is resized, so that
hidden colours stay hidden; CMYK and palettes become RGB. Colour profiles are not applied.
"""

from __future__ import annotations

import errno
import importlib
import logging
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt
from PIL import Image, UnidentifiedImageError

from selfsort.data.datasets import ImageSpec
from selfsort.data.resize import fit_picture, needed_size
from selfsort.types import U8

PICTURE_SUFFIXES = frozenset(
    f".{suffix}"
    for suffix in (
        *("jpg", "jpeg", "jpe", "jfif", "png", "apng", "webp", "avif", "gif", "tif", "tiff", "bmp", "dib"),
        *("heic", "heif", "hif", "pgm", "ppm", "pbm", "pnm"),
    )
)
# An explicit list: other readers of Pillow are rarely needed and some start foreign programs (EPS).
_FORMATS = ("JPEG", "PNG", "WEBP", "AVIF", "GIF", "TIFF", "BMP", "DIB", "PPM")
_HEIC_BRANDS = (b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"mif1", b"msf1")
_BMP_HEADERS = (12, 16, 40, 52, 56, 64, 108, 124)
_SIXTEEN_BIT = ("I;16", "I;16L", "I;16B", "I;16N")
_GRAY_MODES = frozenset(("1", "L", "LA", "La", "I", "F", *_SIXTEEN_BIT))
_ORIENTATION = 0x0112
_TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
HEAD_BYTES = 32

_HUGE_PIXELS = 30_000_000
_SCALED_AT_ONCE = 1 << 20

_heic_lock = threading.Lock()
_huge_lock = threading.Lock()


class Unreadable(Exception):
    """A file that is skipped; the text is the reason given to the user."""


@dataclass(frozen=True)
class Look:
    """What a picture is before it is made to fit."""

    width: int
    height: int
    is_gray: bool


@contextmanager
def quiet_pillow() -> Iterator[None]:
    """Silence Pillow's remarks about odd but readable files; enter once around all threads, as filters are global."""
    logger = logging.getLogger("PIL")
    level = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)


def is_picture_head(head: bytes) -> bool:
    """Say whether a file that starts with these bytes is a picture of a type we read (or would, with an extra)."""
    if head.startswith((b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n", b"GIF87a", b"GIF89a")):
        return True
    if head.startswith((b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")):
        return True
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return True
    if head[:2] == b"BM" and int.from_bytes(head[14:18], "little") in _BMP_HEADERS:
        return True
    return head[4:8] == b"ftyp" and head[8:12] in (b"avif", b"avis", *_HEIC_BRANDS)


def probe(stream: IO[bytes], *, with_size: bool = True) -> Look:
    """Look at the header alone; without `with_size` a rotation that swaps the sides is not looked for."""
    picture = _open(stream)
    turn = _orientation(picture, is_loaded=False) if with_size else 1
    return _look(picture, turn)


def decode(stream: IO[bytes], spec: ImageSpec) -> tuple[U8, Look]:
    """Read a picture and make it fit: uint8 (H, W, C)."""
    picture = _open(stream)
    full_size, is_gray = picture.size, _is_gray(picture)
    if picture.format == "JPEG":
        _shrink_while_decoding(picture, spec)
    # Huge pictures take turns, so that memory does not grow with the number of threads.
    is_huge = picture.width * picture.height > _HUGE_PIXELS
    with _huge_lock if is_huge else nullcontext():
        _load(picture)
        turn = _orientation(picture, is_loaded=True)
        flat = _flatten(picture)
        mode = "L" if spec.channels == 1 else "RGB"
        if flat.mode != mode:
            flat = flat.convert(mode)
        if turn in _TURNS:
            flat = flat.transpose(_TURNS[turn])
        pixels = np.asarray(fit_picture(flat, spec)).reshape(spec.shape)
    width, height = full_size[::-1] if turn >= 5 else full_size
    return pixels, Look(width, height, is_gray)


def explain(error: Exception, path: Path | None = None) -> str:
    """Word an error of the file system as a reason."""
    if isinstance(error, Unreadable):
        return str(error)
    if isinstance(error, FileNotFoundError):
        is_link = path is not None and path.is_symlink()
        return "broken link: the file it points to is not there" if is_link else "not found"
    if isinstance(error, PermissionError):
        return "no permission to read it"
    if isinstance(error, OSError) and error.errno == errno.ELOOP:
        return "link loop: the link leads back to itself"
    return f"could not be read: {error}"


def _open(stream: IO[bytes]) -> Image.Image:
    head = stream.read(HEAD_BYTES)
    stream.seek(0)
    if not head:
        raise Unreadable("empty file")
    is_heic = head[4:8] == b"ftyp" and head[8:12] in _HEIC_BRANDS
    formats = (*_FORMATS, *_heic_format()) if is_heic else _FORMATS
    try:
        return Image.open(stream, formats=formats)
    except UnidentifiedImageError:
        raise Unreadable(_why_unknown(head)) from None
    except Image.DecompressionBombError as error:
        raise Unreadable(f"decompression bomb: more pixels than is safe to decode ({error})") from None
    except Exception as error:
        # Foreign bytes make Pillow's readers raise almost anything; each case costs one picture, not the run.
        raise Unreadable(f"damaged: {_short(error)}") from error


def _load(picture: Image.Image) -> None:
    try:
        picture.load()
    except Image.DecompressionBombError as error:
        raise Unreadable(f"decompression bomb: more pixels than is safe to decode ({error})") from None
    except MemoryError:
        raise Unreadable("too large for the memory of this machine") from None
    except Exception as error:  # as in _open
        raise Unreadable(f"truncated or damaged: {_short(error)}") from error


def _short(error: Exception) -> str:
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= 120 else text[:117] + "..."


def _why_unknown(head: bytes) -> str:
    if is_picture_head(head):
        return "damaged: it starts like a picture, but its header cannot be read"
    printable = sum(byte in b"\t\n\r" or 32 <= byte < 127 or byte >= 128 for byte in head)
    if printable == len(head):
        return "not a picture: the content is text"
    return "not a picture of a known type"


def _heic_format() -> tuple[str, ...]:
    """Register the HEIC reader on first use."""
    try:
        with _heic_lock:
            module = importlib.import_module("pillow_heif")
            module.register_heif_opener()
    except ImportError:
        raise Unreadable('HEIC needs the package pillow-heif: pip install "selfsort[heic]"') from None
    return ("HEIF",)


def _shrink_while_decoding(picture: Image.Image, spec: ImageSpec) -> None:
    """Let the JPEG decoder skip detail that would be averaged away; it never goes below the size needed."""
    turn = _orientation(picture, is_loaded=False)
    width, height = picture.size
    if turn >= 5:
        across, down = needed_size(height, width, spec)[::-1]
    else:
        across, down = needed_size(width, height, spec)
    picture.draft("L" if spec.channels == 1 else "RGB", (across, down))


def _orientation(picture: Image.Image, *, is_loaded: bool) -> int:
    """Return the EXIF orientation, 1 to 8; 1 if there is none or it makes no sense."""
    if picture.format == "TIFF":
        # Pillow turns a TIFF by itself: the size is upright from the start, the pixels after loading.
        return 1
    has_any = any(key in picture.info for key in ("exif", "xmp", "XML:com.adobe.xmp", "Raw profile type exif"))
    is_late_png = picture.format == "PNG" and is_loaded
    if not (has_any or is_late_png):
        # getexif would decode a whole PNG to look behind the pixels; most pictures have nothing there.
        return 1
    try:
        turn = picture.getexif().get(_ORIENTATION, 1)
    except Exception:  # damaged metadata, again of any kind: the pixels are still good
        return 1
    return turn if turn in _TURNS else 1


def _look(picture: Image.Image, turn: int) -> Look:
    width, height = picture.size[::-1] if turn >= 5 else picture.size
    return Look(width, height, _is_gray(picture))


def _is_gray(picture: Image.Image) -> bool:
    """Gray by type, not by content: deciding must not need the pixels."""
    palette = picture.palette
    if picture.mode != "P" or palette is None:
        return picture.mode in _GRAY_MODES
    # getpalette() would decode the pixels; these are the three ways in which palettes lie in files.
    layout, entries = palette.rawmode or palette.mode, bytes(palette.palette)
    if layout == "RGB":
        red, green, blue = entries[0::3], entries[1::3], entries[2::3]
    elif layout == "BGRX":
        blue, green, red = entries[0::4], entries[1::4], entries[2::4]
    elif layout == "RGB;L":
        third = len(entries) // 3
        red, green, blue = entries[:third], entries[third : 2 * third], entries[2 * third :]
    else:
        return False
    return red == green == blue


def _flatten(picture: Image.Image) -> Image.Image:
    """Bring any mode to L or RGB, eight bits, without transparency."""
    if picture.mode in (*_SIXTEEN_BIT, "I", "F"):
        return Image.fromarray(_scale(np.asarray(picture), picture.mode))
    if picture.has_transparency_data:
        is_gray = picture.mode in ("L", "LA", "La")
        top = picture.convert("RGBA")
        laid = Image.alpha_composite(Image.new("RGBA", top.size, (255, 255, 255, 255)), top)
        return laid.convert("L" if is_gray else "RGB")
    if picture.mode in ("L", "RGB"):
        return picture
    try:
        return picture.convert("L" if picture.mode == "1" else "RGB")
    except ValueError:
        raise Unreadable(f"its colour mode ({picture.mode}) has no conversion to RGB") from None


def _scale(values: npt.NDArray[Any], mode: str) -> U8:
    """Map 16-bit, 32-bit and float values to 0..255.

    16-bit files are read by the range of their type. The others do not say what white is: it is the
    smallest of 1 (floats only), 255 and 65535 that holds all values of the picture, or, where some are
    negative or larger still, the picture's own smallest and largest value.
    """
    low, high = float(values.min()), float(values.max())  # both are NaN if any value is
    if not (np.isfinite(low) and np.isfinite(high)):
        raise Unreadable("it has pixels that are NaN or infinite")
    whites = (65535.0,) if mode in _SIXTEEN_BIT else (1.0, 255.0, 65535.0) if mode == "F" else (255.0, 65535.0)
    white = next((w for w in whites if low >= 0 and high <= w), None)
    if white is not None:
        low, high = 0.0, white
    scaled = np.empty(values.shape, np.uint8)
    factor = 255.0 / ((high - low) or 1.0)
    rows = max(1, _SCALED_AT_ONCE // values.shape[1])  # a whole scan in double precision would fill gigabytes
    for start in range(0, len(values), rows):
        wide = values[start : start + rows].astype(np.float64)
        scaled[start : start + rows] = np.floor((wide - low) * factor + 0.5)
    return scaled
