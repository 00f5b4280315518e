"""One file of foreign bytes to one picture, or a reason why not.

The rules: the type is found by content; the first frame counts; EXIF orientation is applied; 16-bit and
float values are scaled, never clipped; transparency is laid on white before anything is resized, so that
hidden colours stay hidden; CMYK and palettes become RGB. Colour profiles are not applied.
"""

from __future__ import annotations

import errno
import importlib
import importlib.util
import logging
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

import numpy as np
import numpy.typing as npt
from PIL import Image, UnidentifiedImageError

from selfsort.data.datasets import ImageSpec
from selfsort.data.meter import Metered, TooMuch
from selfsort.data.resize import fit_picture, fit_rows, narrow_pixels, needed_size
from selfsort.types import U8

PICTURE_SUFFIXES = frozenset(
    f".{suffix}"
    for suffix in (
        *("jpg", "jpeg", "jpe", "jfif", "png", "apng", "webp", "avif", "gif", "tif", "tiff", "bmp", "dib"),
        *("heic", "heif", "hif", "pgm", "ppm", "pbm", "pnm"),
    )
)
HEIC_SUFFIXES = (".heic", ".heif", ".hif")
# An explicit list: other readers of Pillow are rarely needed and some start foreign programs (EPS).
_FORMATS = ("JPEG", "PNG", "WEBP", "AVIF", "GIF", "TIFF", "BMP", "DIB", "PPM")
_HEIC_BRANDS = (b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"mif1", b"msf1")
_BMP_HEADERS = (12, 16, 40, 52, 56, 64, 108, 124)
_SIXTEEN_BIT = ("I;16", "I;16L", "I;16B", "I;16N")
_GRAY_MODES = frozenset(("1", "L", "LA", "La", "I", "F", *_SIXTEEN_BIT))
_ORIENTATION = 0x0112
_ROWS_PER_STRIP = 0x0116
_TILE_LENGTH = 0x0143
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
_Limits = tuple[float, float]

_DECODED_BYTES = 1 << 30
"""What all pictures that are being decoded at one time may fill together; a larger one is skipped."""

_BAND_PIXELS = 1 << 21
"""From here on a picture is flattened and shrunk in bands, so that there are never two of it."""

_BAND_BYTES = 32  # per pixel, for the copies that scaling in double precision or laying on white make

# How much of a file may be read before its pixels: some readers take in all of it, Photoshop's TIFFs carry whole
# layers, and joining the segments of a JPEG takes time that grows with the square of their number.
_HEADER_BYTES = 1 << 27
_JPEG_HEADER_BYTES = 1 << 24
_FILE_BYTES_PER_PIXEL = 16  # twice the most that a pixel takes without any compression

_TOO_MUCH = "too large: it holds far more than the pixels it promises"

# Bytes per pixel that a reader fills beside the picture itself, as measured.
_READER_BYTES = {"WEBP": 13, "AVIF": 8, "HEIF": 6}

_heic_lock = threading.Lock()


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
    picture = open_picture(stream)
    turn = _orientation(picture, is_loaded=False) if with_size else 1
    return _look(picture, turn)


def decode(stream: IO[bytes], spec: ImageSpec) -> tuple[U8, Look]:
    """Read a picture and make it fit: uint8 (H, W, C)."""
    picture = open_picture(stream)
    full_size, is_gray = picture.size, _is_gray(picture)
    coefficients = _coefficient_bytes(picture)
    if picture.format == "JPEG":
        _shrink_while_decoding(picture, spec)
    try:
        # Large pictures take turns, so that memory does not grow with the number of threads.
        with _room.take(_footprint(picture, spec) + coefficients):
            _load(picture)
            turn = _orientation(picture, is_loaded=True)
            fitted = _fit(picture, turn, spec)
    except MemoryError:
        raise Unreadable("too large for the memory of this machine") from None
    width, height = full_size[::-1] if turn >= 5 else full_size
    return np.asarray(fitted).reshape(spec.shape), Look(width, height, is_gray)


class _Room:
    """Memory that is shared by all threads: who wants more than is left waits."""

    def __init__(self, n_bytes: int) -> None:
        self._all = self._left = n_bytes
        self._changed = threading.Condition()

    @contextmanager
    def take(self, n_bytes: int) -> Iterator[None]:
        if n_bytes > self._all:
            raise Unreadable(f"too large: decoding it would fill {n_bytes / 1e9:.1f} GB of memory")
        with self._changed:
            self._changed.wait_for(lambda: self._left >= n_bytes)
            self._left -= n_bytes
        try:
            yield
        finally:
            with self._changed:
                self._left += n_bytes
                self._changed.notify_all()


_room = _Room(_DECODED_BYTES)


def _footprint(picture: Image.Image, spec: ImageSpec) -> int:
    """Return about how many bytes decoding fills, from what the header claims."""
    width, height = picture.size
    beside = _READER_BYTES.get(picture.format or "", 0) * width * height
    if picture.format == "TIFF":
        beside = _tiff_bytes(picture)
    longest = max(width, height)  # one row, whichever way it is turned
    band = min(width * height, max(_BAND_PIXELS, longest)) * _BAND_BYTES
    narrow = max(narrow_pixels(width, height, spec), narrow_pixels(height, width, spec))
    return width * height * _pixel_bytes(picture.mode) + beside + band + 4 * narrow


def _tiff_bytes(picture: Image.Image) -> int:
    """Return what reading a TIFF fills: a strip or a row of tiles is unpacked whole, and turning makes a copy."""
    width, height = picture.size
    tags = getattr(picture, "tag_v2", {})
    try:
        rows, turn = tags.get(_ROWS_PER_STRIP) or tags.get(_TILE_LENGTH), tags.get(_ORIENTATION, 1)
    except Exception:  # damaged tags, of any kind: assume the worst
        rows, turn = height, 0
    at_once = rows if isinstance(rows, int) and 0 < rows < height else height
    return 4 * width * (at_once + (0 if turn == 1 else height))


def _pixel_bytes(mode: str) -> int:
    return 1 if mode in ("1", "L", "P") else 2 if mode in _SIXTEEN_BIT else 4


def _coefficient_bytes(picture: Image.Image) -> int:
    """Return what a progressive JPEG fills at its full size, however small it is decoded."""
    parts = [across * down for _, across, down, _ in getattr(picture, "layer", ())]
    if not picture.info.get("progressive") or not parts:
        return 0
    share: float = sum(parts) / max(1, *parts)  # colours are often stored at half the width and height
    return round(2 * share * picture.width * picture.height)


def _fit(picture: Image.Image, turn: int, spec: ImageSpec) -> Image.Image:
    """Make a loaded picture upright, flat and of the right size."""
    limits = _limits(picture)

    def flat(part: Image.Image) -> Image.Image:
        made = _flatten(part, limits)
        mode = "L" if spec.channels == 1 else "RGB"
        if made.mode != mode:
            made = made.convert(mode)
        return made.transpose(_TURNS[turn]) if turn in _TURNS else made

    def rows(top: int, bottom: int) -> Image.Image:
        return flat(picture.crop(_rows_before_turning(picture.size, turn, top, bottom)))

    if picture.width * picture.height <= _BAND_PIXELS:
        return fit_picture(flat(picture), spec)
    width, height = picture.size[::-1] if turn >= 5 else picture.size
    return fit_rows(width, height, rows, max(1, _BAND_PIXELS // width), spec)


def _rows_before_turning(size: tuple[int, int], turn: int, top: int, bottom: int) -> tuple[int, int, int, int]:
    """Return the part of a picture that turning makes the rows from top to bottom of."""
    width, height = size
    if turn in (5, 6):
        return top, 0, bottom, height
    if turn in (7, 8):
        return width - bottom, 0, width - top, height
    if turn in (3, 4):
        return 0, height - bottom, width, height - top
    return 0, top, width, bottom


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


def open_picture(stream: IO[bytes]) -> Image.Image:
    """Open foreign bytes as a picture of a type we read, without its pixels; `Unreadable` says why not."""
    head = stream.read(HEAD_BYTES)
    stream.seek(0)
    if not head:
        raise Unreadable("empty file")
    is_heic = head[4:8] == b"ftyp" and head[8:12] in _HEIC_BRANDS
    formats = (*_FORMATS, *_heic_format()) if is_heic else _FORMATS
    is_jpeg = head.startswith(b"\xff\xd8")
    metered = Metered(stream, _JPEG_HEADER_BYTES if is_jpeg else _HEADER_BYTES)
    try:
        picture = Image.open(cast("IO[bytes]", metered), formats=formats)
    except UnidentifiedImageError:
        raise Unreadable(_why_unknown(head)) from None
    except Image.DecompressionBombError as error:
        raise Unreadable(f"decompression bomb: more pixels than is safe to decode ({error})") from None
    except TooMuch:
        raise Unreadable(_TOO_MUCH) from None
    except Exception as error:
        # Foreign bytes make Pillow's readers raise almost anything; each case costs one picture, not the run.
        raise Unreadable(f"damaged: {_short(error)}") from error
    metered.allow(_HEADER_BYTES + _FILE_BYTES_PER_PIXEL * picture.width * picture.height)
    return picture


def _load(picture: Image.Image) -> None:
    try:
        picture.load()
    except Image.DecompressionBombError as error:
        raise Unreadable(f"decompression bomb: more pixels than is safe to decode ({error})") from None
    except TooMuch:
        raise Unreadable(_TOO_MUCH) from None
    except MemoryError:
        raise
    except Exception as error:  # as in open_picture
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


INSTALL_HEIC = 'pip install "selfsort[heic]"'


def can_read_heic() -> bool:
    """Whether the reader of HEIC is installed."""
    return importlib.util.find_spec("pillow_heif") is not None


def _heic_format() -> tuple[str, ...]:
    """Register the HEIC reader on first use."""
    try:
        with _heic_lock:
            module = importlib.import_module("pillow_heif")
            module.register_heif_opener()
    except ImportError:
        raise Unreadable(f"HEIC needs the package pillow-heif: {INSTALL_HEIC}") from None
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


def _flatten(picture: Image.Image, limits: _Limits | None) -> Image.Image:
    """Bring any mode to L or RGB, eight bits, without transparency."""
    if limits is not None:
        return Image.fromarray(_scale(np.asarray(picture), limits))
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


def _limits(picture: Image.Image) -> _Limits | None:
    """Return the values that become black and white; None where a value is a byte.

    16-bit files are read by the range of their type. The others do not say what white is: it is the
    smallest of 1 (floats only), 255 and 65535 that holds all values of the picture, or, where some are
    negative or larger still, the picture's own smallest and largest value.
    """
    if picture.mode in _SIXTEEN_BIT:
        return 0.0, 65535.0
    if picture.mode not in ("I", "F"):
        return None
    ends = [(values.min(), values.max()) for values in _bands(picture)]  # NaN if any value is
    low, high = float(np.min([end[0] for end in ends])), float(np.max([end[1] for end in ends]))
    if not (np.isfinite(low) and np.isfinite(high)):
        raise Unreadable("it has pixels that are NaN or infinite")
    whites = (1.0, 255.0, 65535.0) if picture.mode == "F" else (255.0, 65535.0)
    white = next((w for w in whites if low >= 0 and high <= w), None)
    return (low, high) if white is None else (0.0, white)


def _bands(picture: Image.Image) -> Iterator[npt.NDArray[Any]]:
    step = max(1, _BAND_PIXELS // picture.width)
    for top in range(0, picture.height, step):
        yield np.asarray(picture.crop((0, top, picture.width, min(top + step, picture.height))))


def _scale(values: npt.NDArray[Any], limits: _Limits) -> U8:
    """Map numbers to 0..255."""
    low, high = limits
    scaled = (values.astype(np.float64) - low) * (255.0 / ((high - low) or 1.0))
    return np.floor(scaled + 0.5).astype(np.uint8)
