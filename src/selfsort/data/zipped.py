"""A zip of pictures, as people are sent them: read in place, nothing is unpacked onto the disk.

Members are read by any thread, each at the place that the index gives. What a stranger's archive may do is bounded: the
size of its index, the number of its members, the bytes of one picture and of all, and no more is ever unpacked than
the index says. Names are names and never paths.
"""

from __future__ import annotations

import io
import os
import stat
import struct
import zipfile
import zlib
from collections import Counter
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO

from selfsort.data.datasets import Skipped
from selfsort.data.decode import PICTURE_SUFFIXES, Unreadable
from selfsort.data.folder import printable
from selfsort.data.gallery import Gallery, Item
from selfsort.errors import invalid

MOST_MEMBERS = 200_000
MOST_BYTES = 1 << 38
"""Of all pictures together, unpacked."""
LARGEST_PICTURE = 1 << 28
_HEADER = struct.Struct("<4s5H3I2H")
_MAGIC = b"PK\x03\x04"
_ENCRYPTED = 1


def is_picture_name(name: str) -> bool:
    """Whether a member is a picture by its name, and meant to be seen."""
    place = PurePosixPath(name)
    is_hidden = any((part.startswith(".") and part != "..") or part == "__MACOSX" for part in place.parts)
    return place.suffix.lower() in PICTURE_SUFFIXES and not is_hidden


def list_zip(path: Path, members: list[zipfile.ZipInfo]) -> Gallery:
    """List the pictures of an archive, sorted by name."""
    shown = printable(path.name)
    files = [member for member in members if not member.is_dir()]
    pictures = [member for member in files if is_picture_name(member.filename)]
    if len(members) > MOST_MEMBERS:
        raise invalid(
            shown, f"hold at most {MOST_MEMBERS:,} files", f"{len(members):,}", "Unpack it, and name the folder."
        )
    n_bytes = sum(member.file_size for member in pictures)
    if n_bytes > MOST_BYTES:
        got = f"{n_bytes / 2**30:,.0f} GiB"
        raise invalid(shown, f"unpack to at most {MOST_BYTES >> 30} GiB", got, "Unpack it, and name the folder.")
    items: list[Item] = []
    failed: list[Skipped] = []
    seen: set[str] = set()
    for member in pictures:
        name = printable(member.filename)
        reason = "its name is there twice" if name in seen else _reason_against(member)
        seen.add(name)
        if reason:
            failed.append(Skipped(name, reason))
        else:
            items.append(Item(name, partial(_open, path, member)))
    ignored = Counter(_suffix(member.filename) for member in files if not is_picture_name(member.filename))
    items.sort(key=lambda item: item.name)
    return Gallery("zip", items, failed, ignored=dict(sorted(ignored.items())))


def _suffix(name: str) -> str:
    return printable(PurePosixPath(name).suffix.lower()) or "(no suffix)"


def _reason_against(member: zipfile.ZipInfo) -> str:
    """Say why a member is not read, before it is."""
    place = PurePosixPath(member.filename)
    if place.is_absolute() or ".." in place.parts or "\\" in member.filename or ":" in member.filename:
        return "its name leads out of the archive"
    if member.flag_bits & _ENCRYPTED:
        return "it is encrypted"
    if stat.S_IFMT(member.external_attr >> 16) not in (0, stat.S_IFREG):
        return "not a regular file"
    if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        return "it is packed in a way that only its own program reads"
    return f"it is larger than {LARGEST_PICTURE >> 20} MiB" if member.file_size > LARGEST_PICTURE else ""


def _open(path: Path, member: zipfile.ZipInfo) -> IO[bytes]:
    """Unpack one member, as much of it as the index says."""
    with path.open("rb") as file:
        file.seek(member.header_offset)
        header = file.read(_HEADER.size)
        if len(header) < _HEADER.size or not header.startswith(_MAGIC):
            raise Unreadable("damaged: it is not where the index of the zip says")
        *_, name_bytes, extra_bytes = _HEADER.unpack(header)
        file.seek(name_bytes + extra_bytes, os.SEEK_CUR)
        packed = file.read(min(member.compress_size, LARGEST_PICTURE + (1 << 20)))
    try:
        is_plain = member.compress_type == zipfile.ZIP_STORED
        content = packed if is_plain else zlib.decompressobj(-zlib.MAX_WBITS).decompress(packed, member.file_size + 1)
    except zlib.error as error:
        raise Unreadable(f"damaged inside the zip ({error})") from None
    if len(content) != member.file_size or zlib.crc32(content) != member.CRC:
        raise Unreadable("damaged inside the zip: not what its index says")
    return io.BytesIO(content)
