"""Files that models come in: read as streams, named in errors, hashed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from selfsort.errors import InvalidInput, MissingData
from selfsort.text import printable, shorten

_BLOCK = 1 << 20
_POINTER = b"version https://git-lfs.github.com/spec/"


def require_file(path: Path) -> None:
    """Refuse what is not a readable file with something in it, and the note that stands for a file not fetched yet."""
    if not path.exists():
        raise MissingData(f"{path} does not exist. Expected a file of a model. Check the path.")
    if not path.is_file():
        raise InvalidInput(f"{path} is not a file. Expected a file of a model. Check the path.")
    try:
        with path.open("rb") as file:
            start = file.read(len(_POINTER))
    except OSError as error:
        raise InvalidInput(f"{path} cannot be read ({error.strerror}). Check its permissions.") from None
    if not start:
        raise InvalidInput(f"{path.name} is empty. Expected a file of a model. Download it again.")
    if start == _POINTER:
        raise InvalidInput(
            f"{path.name} is a note of Git LFS that stands for the file. Expected the file itself. Run: git lfs pull."
        )


def digest_of(files: Iterable[tuple[str, Path]], facts: Mapping[str, Any]) -> str:
    """Return the SHA-256 of named files and of all else that decides about the features."""
    digest = hashlib.sha256(json.dumps(facts, sort_keys=True).encode())
    for name, path in files:
        digest.update(f"\n{name}\n{path.stat().st_size}\n".encode())
        with path.open("rb") as file:
            while block := file.read(_BLOCK):
                digest.update(block)
    return digest.hexdigest()


def first_line(error: BaseException) -> str:
    """Return what another library says is wrong, short enough for a sentence."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return shorten(printable(lines[0]), 160).rstrip(".:") if lines else type(error).__name__
