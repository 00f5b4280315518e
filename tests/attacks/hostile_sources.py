"""Damaged sources, made at random: array files in every compression of zip, and pictures in eight formats.

Each generator draws from the given stream alone, so a seed names a file that can be made again.
"""

from __future__ import annotations

import importlib
import io
import re
import zipfile
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

Array = npt.NDArray[Any]

COMPRESSIONS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA)
PICTURE_FORMATS = ("jpeg", "png", "webp", "avif", "gif", "tiff", "bmp", "heic")

_N_IMAGES, _SIDE = 6, 8
_INTERESTING = (0, 1, 2, 0x7F, 0x80, 0xFE, 0xFF)
_ZIP_MARKS = re.compile(rb"PK(?:\x01\x02|\x03\x04|\x05\x06|\x06\x06|\x06\x07)")
_HEADERS = (
    "{'descr': '|u1', 'fortran_order': False, 'shape': (6, 8, 8), }",
    "{'descr': '|u1', 'fortran_order': True, 'shape': (6, 8, 8), }",
    "{'descr': '|u1', 'fortran_order': 1, 'shape': (6, 8, 8), }",
    "{'descr': '|u1', 'fortran_order': False, 'shape': (6, 8, 8, }",
    "{'descr': '|u1', 'fortran_order': False, 'shape': (True, 8, 48), }",
    "{'descr': '|u1', 'fortran_order': False, 'shape': (-6, -8, 8), }",
    "{'descr': '|u1', 'fortran_order': False, 'shape': (0, 8, 8), }",
    "{'descr': '|u1', 'fortran_order': False, 'shape': (6L, 8L, 8L), }",
    "{'descr': '|u1', 'fortran_order': False, 'shape': (99999999999999999999, 8, 8), }",
    "{'descr': '|V0', 'fortran_order': False, 'shape': (6, 8, 8), }",
    "{'descr': '|S0', 'fortran_order': False, 'shape': (6, 8, 8), }",
    "{'descr': '<U99999999999', 'fortran_order': False, 'shape': (6, 8, 8), }",
    "{'descr': '|O', 'fortran_order': False, 'shape': (6, 8, 8), }",
    "{'descr': '<M8[ns]', 'fortran_order': False, 'shape': (6, 8), }",
    "{'descr': [('a', '|u1'), ('b', '|u1')], 'fortran_order': False, 'shape': (6, 8, 4), }",
    "{'descr': ('|u1', (8, 8)), 'fortran_order': False, 'shape': (6,), }",
    "{'descr': [['a', '|u1']], 'fortran_order': False, 'shape': (6, 8, 8), }",
    "{'descr': 'u1,', 'fortran_order': False, 'shape': (6, 8, 8), }",
    "{'descr': {}, 'fortran_order': False, 'shape': (6, 8, 8), }",
    "{'descr': '|u1', 'fortran_order': False, 'shape': 384, }",
    "{'descr': '|u1', 'fortran_order': False, }",
    "{[]: 1}",
    "{'a': " * 90,
    "(" * 2000,
    "-" * 3000 + "1",
    "'unclosed",
    '"""unclosed',
    "\\",
    "0777",
    "9" * 6000,
    "\x00\x01\x02",
    "",
)


def mutated_array_file(rng: np.random.Generator, folder: Path) -> Path:
    """Write one damaged .npy or .npz file into the folder and return its path."""
    compression = int(rng.integers(-1, len(COMPRESSIONS)))
    if compression < 0:
        content, suffix = _npy(rng, _images(rng)), ".npy"
    else:
        content, suffix = _npz(rng, COMPRESSIONS[compression]), ".npz"
    path = folder / f"mutated{suffix}"
    path.write_bytes(damage(rng, content))
    return path


def mutated_picture_folder(rng: np.random.Generator, folder: Path) -> Path:
    """Write a folder of five sound pictures and one damaged one into the folder and return its path."""
    made = folder / "mutated"
    made.mkdir(exist_ok=True)
    for stale in made.iterdir():
        stale.unlink()
    for number in range(5):
        Image.fromarray(_pixels(number, 3)).save(made / f"{number}.png")
    name, content = mutated_picture(rng)
    (made / name).write_bytes(content)
    return made


def mutated_picture(rng: np.random.Generator) -> tuple[str, bytes]:
    """Return the name and the bytes of one damaged picture."""
    sound = _encoded(PICTURE_FORMATS[int(rng.integers(len(PICTURE_FORMATS)))])
    name, content = sound[int(rng.integers(len(sound)))]
    return name, damage(rng, content)


def damage(rng: np.random.Generator, content: bytes) -> bytes:
    """Change a few bytes, mostly where headers are; cut, repeat, insert or remove a piece."""
    data = bytearray(content)
    for _ in range(int(rng.integers(0, 4))):
        size = len(data)
        if not size:
            break
        # Headers lie at the start (most formats) or at the end (zip), and their fields are what is believed.
        reach = min(size, (16, 64, 256, size)[int(rng.integers(4))])
        place = int(rng.integers(reach))
        if rng.random() < 0.3:
            place = size - 1 - place
        length = int(rng.integers(1, 9))
        match int(rng.integers(8)):
            case 0:
                data[place] ^= 1 << int(rng.integers(8))
            case 1:
                data[place] = int(rng.integers(256))
            case 2 | 3:
                value = _INTERESTING[int(rng.integers(len(_INTERESTING)))]
                data[place : place + length] = bytes([value]) * len(data[place : place + length])
            case 4:
                del data[place:]
            case 5:
                del data[place : place + length]
            case 6:
                data[place:place] = rng.bytes(length)
            case _:
                data += data[place : place + 64]
    return bytes(data)


# ---- arrays ------------------------------------------------------------------------------------------------


def _draw(rng: np.random.Generator, choices: list[Array]) -> Array:
    return choices[int(rng.integers(len(choices)))]


def _images(rng: np.random.Generator) -> Array:
    plain = rng.integers(0, 256, (_N_IMAGES, _SIDE, _SIDE), dtype=np.uint8)
    odd = [
        plain.astype(np.float32) / 255,
        plain.astype(np.float64),
        np.full(plain.shape, np.nan),
        plain.astype(">i8"),
        plain.astype(np.complex64),
        plain.astype(np.longdouble) / 255,
        plain.astype(np.float16) / 256,
        plain > 127,
        plain.astype("M8[s]"),
        plain.astype("S1"),
        np.asfortranarray(plain),
        plain[:, :1],
        plain[:, :, :, None],
        plain[0],
        plain[0, 0, 0],
        plain[:0],
        plain.view([("a", "u1"), ("b", "u1")]),
    ]
    return plain if rng.random() < 0.6 else _draw(rng, odd)


def _labels(rng: np.random.Generator) -> Array:
    plain = np.arange(_N_IMAGES) % 2
    odd = [
        plain.astype(np.float64),
        np.full(_N_IMAGES, np.inf),
        np.full(_N_IMAGES, 1e300),
        np.full(_N_IMAGES, 2**64 - 1, np.uint64),
        np.array(["a", "b"] * 3),
        np.array([b"\xff", b"b"] * 3),
        plain.astype("m8[D]"),
        plain.astype(complex),
        plain[:, None],
        plain[:3],
        plain[0],
        plain.astype("U0"),
        np.zeros(_N_IMAGES, "V4"),
    ]
    return plain if rng.random() < 0.6 else _draw(rng, odd)


def _names(rng: np.random.Generator) -> Array:
    odd = [
        np.array(["a", "b"]),
        np.array(["a"]),
        np.array([b"a", b"b"]),
        np.array("a"),
        np.zeros(2),
        np.array([], "U1"),
    ]
    return _draw(rng, odd)


def _npy(rng: np.random.Generator, array: Array) -> bytes:
    stream = io.BytesIO()
    np.lib.format.write_array(stream, array, allow_pickle=True)
    content = stream.getvalue()
    if rng.random() < 0.8:
        return content
    header = _HEADERS[int(rng.integers(len(_HEADERS)))].encode("latin-1")
    version = int(rng.choice([1, 1, 1, 2, 3, 0, 255]))
    length = len(header).to_bytes(2 if version == 1 else 4, "little")
    return b"\x93NUMPY" + bytes([version, 0]) + length + header + content[128:]


def _npz(rng: np.random.Generator, compression: int) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", compression) as archive:
        archive.writestr("images.npy", _npy(rng, _images(rng)))
        if rng.random() < 0.7:
            archive.writestr("labels.npy", _npy(rng, _labels(rng)))
        if rng.random() < 0.4:
            archive.writestr("names.npy", _npy(rng, _names(rng)))
        if rng.random() < 0.2:
            archive.writestr(("notes.txt", "é\ud7ff.npy", "a/../b.npy", "x" * 300 + ".npy")[int(rng.integers(4))], b"x")
    return _change_zip_field(rng, stream.getvalue()) if rng.random() < 0.5 else stream.getvalue()


def _change_zip_field(rng: np.random.Generator, content: bytes) -> bytes:
    """Put an odd value into a field of a record of the archive: method, flags, checksum, size or offset."""
    data = bytearray(content)
    marks = [found.start() for found in _ZIP_MARKS.finditer(content)]
    place = marks[int(rng.integers(len(marks)))] + 4 + 2 * int(rng.integers(21))
    width = int(rng.choice([1, 2, 4]))
    odd = [0, 1, 6, 8, 9, 12, 14, 93, 95, 97, 99, 0xFFFF, 0xFFFFFFFF, 0x7FFFFFFF, len(content), len(content) + 1]
    value = odd[int(rng.integers(len(odd)))] & ((1 << 8 * width) - 1)
    data[place : place + width] = value.to_bytes(width, "little")
    return bytes(data)


# ---- pictures ----------------------------------------------------------------------------------------------


def _pixels(seed: int, channels: int) -> npt.NDArray[np.uint8]:
    return np.random.default_rng(seed).integers(0, 256, (12, 16, channels), dtype=np.uint8)


@cache
def _encoded(kind: str) -> list[tuple[str, bytes]]:
    """Return sound pictures of one format in several colour modes and flavours."""
    color, alpha = Image.fromarray(_pixels(0, 3)), Image.fromarray(_pixels(1, 4))
    gray, palette = color.convert("L"), color.quantize(16)
    deep = Image.fromarray(_pixels(2, 2).view(np.uint16)[:, :, 0])
    floats = Image.fromarray(_pixels(3, 4).view(np.int32)[:, :, 0].astype(np.float32))
    turned = Image.Exif()
    turned[0x0112] = 6
    exif = turned.tobytes()
    flavours: dict[str, list[tuple[Image.Image, dict[str, Any]]]] = {
        "jpeg": [(color, {"exif": exif}), (gray, {"progressive": True}), (color.convert("CMYK"), {}), (color, {})],
        "png": [(color, {"exif": exif}), (gray, {}), (palette, {}), (alpha, {}), (deep, {}), (color.convert("1"), {})],
        "webp": [
            (color, {"exif": exif}),
            (alpha, {"lossless": True}),
            (color, {"save_all": True, "append_images": [gray]}),
        ],
        "avif": [(color, {"exif": exif}), (alpha, {})],
        "gif": [(palette, {}), (palette, {"save_all": True, "append_images": [gray], "transparency": 0})],
        "tiff": [
            *((color, {"compression": name}) for name in ("raw", "tiff_lzw", "tiff_deflate", "jpeg", "packbits")),
            *((picture, {}) for picture in (deep, floats, palette, alpha)),
            (color.convert("1"), {"compression": "group4"}),
            (color, {"exif": exif}),
        ],
        "bmp": [(color, {}), (palette, {}), (alpha, {})],
    }
    if kind == "heic":
        # The HEIC writer is an extra too; without it a head that claims the format is still worth damaging.
        try:
            importlib.import_module("pillow_heif").register_heif_opener()
        except ImportError:
            return [("mutated.heic", b"\0\0\0\x18ftypheic\0\0\0\0heicmif1" + _pixels(4, 3).tobytes())]
        flavours["heic"] = [(color, {"exif": exif}), (alpha, {})]
    made = []
    for picture, options in flavours[kind]:
        stream = io.BytesIO()
        picture.save(stream, "HEIF" if kind == "heic" else kind, **options)
        made.append((f"mutated.{kind}", stream.getvalue()))
    return made
