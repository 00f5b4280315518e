"""Files of a run: written whole or not at all, and read with care.

Whatever a stranger has put into a file ends in an `InvalidInput`, never in executed code, and takes no more memory
than such a file can need.
"""

from __future__ import annotations

import json
import math
import os
import re
import secrets
import warnings
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import ModuleType
from typing import IO, Any

import numpy as np
from safetensors import safe_open

from selfsort.data.store import allocate_floats
from selfsort.errors import CannotWrite, InvalidInput
from selfsort.pages import forget, passes
from selfsort.types import Arrays, Json, State

fcntl: ModuleType | None
try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

# A JSON text can take up twenty times its size in memory. labels.csv, which grows with the images, has no limit.
_TEXT_LIMIT = 48 * 2**20
_BLOCK = 2**24
_TENSOR_NAMES = {"u8": "U64", "i8": "I64", "f8": "F64", "f4": "F32", "u4": "U32", "i4": "I32"} | {
    "f2": "F16",
    "u2": "U16",
    "i2": "I16",
    "i1": "I8",
    "u1": "U8",
    "b1": "BOOL",
}
"""Number formats by the names that NumPy and safetensors have for them, in the order that safetensors writes them."""
_LARGE_BYTES = 2**26
"""From this size on an array of a model counts in the budget of the process, or goes to a mapped file."""
_LONGEST_WHOLE = 2**63
_LONGEST_STATE = 2**128
"""The generators of NumPy count in 128 bits."""
_PART = ".part"
PART_NAME = re.compile(rf"\.[0-9a-f]{{16}}{re.escape(_PART)}")


# --- writing ---------------------------------------------------------------------------------------------------------


def write_whole(path: Path, fill: Callable[[IO[bytes]], object]) -> None:
    """Write a file under a temporary name, then rename it: a reader sees the old one or the new one."""
    temporary = path.parent / f".{secrets.token_hex(8)}{_PART}"
    try:
        if path.exists() and not path.is_file() and not path.is_dir():
            with path.open("wb") as file:  # a pipe or a device has to be written to, never replaced
                fill(file)
            return
        make_folder(path.parent, exist_ok=True)
        try:
            with temporary.open("xb") as file:
                fill(file)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        sync(path.parent)
    except OSError as error:
        raise cannot_write(path, error) from error


def save_array(file: IO[bytes], array: np.ndarray[Any, Any], dtype: np.dtype[Any]) -> None:
    """Write an array as NumPy does, without a second one of its size."""
    if array.ndim < 2 or not array.size or dtype.hasobject:
        np.save(file, np.asarray(array, dtype), allow_pickle=False)
        return
    described = {"descr": dtype.str, "fortran_order": False, "shape": array.shape}
    np.lib.format.write_array_header_1_0(file, described)
    for block in passes(array):
        file.write(np.ascontiguousarray(array[block], dtype).data)


def save_tensors(file: IO[bytes], arrays: Arrays, metadata: dict[str, str]) -> None:
    """Write arrays as safetensors does, byte for byte, without a second copy of them in memory."""
    # The widest numbers come first, so that all are aligned; among equals the name decides.
    ranks = {kind: rank for rank, kind in enumerate(_TENSOR_NAMES)}
    order = sorted(arrays, key=lambda name: (ranks[arrays[name].dtype.str[1:]], name))
    header, end = dict[str, Any](__metadata__=metadata), 0
    for name in order:
        array = arrays[name]
        header[name] = {"dtype": _TENSOR_NAMES[array.dtype.str[1:]], "shape": list(array.shape)}
        header[name]["data_offsets"] = [end, end := end + array.nbytes]
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    file.write(len(text).to_bytes(8, "little") + text)
    for name in order:
        array = arrays[name]
        flat = array.reshape(-1)
        for start in range(0, flat.size, _BLOCK):
            file.write(np.ascontiguousarray(flat[start : start + _BLOCK], array.dtype.newbyteorder("<")).data)
            forget(array)


def make_folder(path: Path, *, exist_ok: bool) -> None:
    """Make a folder that is still there after a loss of power, and those above it."""
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    path.mkdir(parents=True, exist_ok=exist_ok)
    for folder in missing:
        sync(folder.parent)


def sync(path: Path) -> None:
    """Bring a file, or the names in a folder, to the disk; where a system cannot do that, it goes on without."""
    with suppress(OSError):
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def remove(path: Path) -> None:
    """Remove a file or an empty folder, if that can be done."""
    with suppress(OSError):
        if path.is_dir() and not path.is_symlink():
            path.rmdir()
        else:
            path.unlink()


def cannot_write(path: Path, error: OSError) -> CannotWrite:
    """Say that a file could not be written, and what to do."""
    return CannotWrite(
        f"{path} could not be written ({error.strerror or error}). Expected a writable folder with enough space. "
        "Free some space or choose another --out; nothing half-written was left."
    )


# --- reading ---------------------------------------------------------------------------------------------------------


def refuse_links(path: Path) -> None:
    """Refuse links, pipes and devices inside a run folder."""
    for folder in (path, path / "resume", path / "history"):
        if not folder.is_dir():
            continue
        with os.scandir(folder) as entries:
            for entry in entries:
                if not (entry.is_file(follow_symlinks=False) or entry.is_dir(follow_symlinks=False)):
                    raise damaged(Path(entry.path), "it is a link or a device, not a plain file")


def read_text(path: Path) -> str:
    """Read a text of a reasonable size; bytes that are not UTF-8 stay what they are."""
    try:
        if path.stat().st_size > _TEXT_LIMIT:
            raise damaged(path, "it is larger than such a file can be")
        return path.read_bytes().decode("utf-8", "surrogateescape")
    except OSError as error:
        raise damaged(path, error.strerror or str(error)) from error


def read_json(path: Path) -> Json:
    """Read a JSON object."""
    text = read_text(path)
    try:
        value = parse_json(text)
    except ValueError as error:
        raise damaged(path, str(error)) from error
    if not isinstance(value, dict):
        raise damaged(path, "it is not a JSON object")
    return value


def parse_json(text: str, longest: int = _LONGEST_WHOLE) -> Any:
    """Parse JSON; what no program of ours could go on with is a ValueError."""

    def whole(digits: str) -> int:
        value = int(digits) if len(digits) < 50 else longest
        if abs(value) >= longest:
            raise ValueError("it holds a whole number that is too large")
        return value

    try:
        value = json.loads(text, parse_int=whole)
        if "\\u" in text:  # half a character is no text; bytes of names that are not UTF-8 are kept as halves, too
            json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        raise ValueError("it holds half a character") from error
    except json.JSONDecodeError as error:
        raise ValueError("it is not JSON") from error
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    return value


def read_array(path: Path, ndim: int, dtype: type[np.generic]) -> np.ndarray[Any, Any]:
    """Map a .npy file of the expected form; nothing is read before it is used."""
    if not path.is_file():
        raise damaged(path, "it is missing")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # NumPy only warns of a shape whose size overflows
            # Mapping lets NumPy compare the header with the file's size before any memory is taken.
            mapped: np.ndarray[Any, Any] = np.lib.format.open_memmap(path, mode="r")
    except Exception as error:  # a damaged header can raise almost anything, tokenize.TokenError among them
        raise damaged(path, str(error)) from error
    if mapped.ndim != ndim or mapped.dtype != dtype:
        raise damaged(path, f"it holds {mapped.dtype} of {mapped.ndim} dimensions")
    return mapped


def read_state(path: Path) -> State:
    """Read arrays and JSON from a safetensors file."""
    if not path.is_file():
        raise damaged(path, "it is missing")
    try:
        with safe_open(path, framework="numpy") as file:
            large = _large_tensors(path)
            small = [key for key in file.keys() if key not in large]  # noqa: SIM118 (not a dict)
            arrays = {key: file.get_tensor(key) for key in small} | large
            meta = parse_json((file.metadata() or {}).get("json", "{}"), _LONGEST_STATE)
    except Exception as error:  # number formats that NumPy lacks raise other kinds than damaged headers
        raise damaged(path, str(error)) from error
    if not isinstance(meta, dict):
        raise damaged(path, "its description is not a JSON object")
    # With ml_dtypes installed, formats that NumPy itself lacks (bf16, float8) come back as foreign types.
    if foreign := [key for key, array in arrays.items() if array.dtype.kind not in "biuf"]:
        raise damaged(path, f"{foreign[0]!r} has a number format we never write")
    return State(arrays, meta)


def _large_tensors(path: Path) -> Arrays:
    """Read the large arrays of a safetensors file, whose form was checked, to where all such arrays live.

    The library maps the file, and all that it has read of it stays resident.
    """
    kinds, found = {kind: name for name, kind in _TENSOR_NAMES.items()}, Arrays()
    with path.open("rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        begin = file.tell()
        for key, told in header.items():
            if key == "__metadata__" or np.diff(told["data_offsets"]) < _LARGE_BYTES or told["dtype"] not in kinds:
                continue
            found[key] = allocate_floats(tuple(told["shape"]), f"<{kinds[told['dtype']]}")
            file.seek(begin + told["data_offsets"][0])
            for block in passes(flat := found[key].reshape(-1)):
                if file.readinto(flat[block].data) != flat[block].nbytes:
                    raise ValueError("it is too short")
    return found


def first_rows(
    archive: zipfile.ZipFile, name: str, dtype: type[np.generic], ndim: int, limit: int
) -> np.ndarray[Any, Any]:
    """Read as many rows of an array in an archive as `limit` bytes hold, and no byte more than they take."""
    with archive.open(name) as file:
        if np.lib.format.read_magic(file) != (1, 0):
            raise ValueError("its header has another form than ours")
        shape, is_fortran, found = np.lib.format.read_array_header_1_0(file)
        if found != dtype or len(shape) != ndim or is_fortran or 0 in shape[1:]:
            raise ValueError(f"{name} holds {found} of the shape {shape}")
        row_bytes = found.itemsize * math.prod(shape[1:])
        if row_bytes > limit:
            raise ValueError("it is larger than such a file can be")
        n_rows = min(shape[0], limit // row_bytes)
        data = np.empty(n_rows * row_bytes, np.uint8)
        for start in range(0, len(data), _BLOCK):
            piece = file.read(min(_BLOCK, len(data) - start))
            data[start : start + _BLOCK] = np.frombuffer(piece, np.uint8)  # of another length: too short a file
        return data.view(found).reshape(n_rows, *shape[1:])


def damaged(path: Path, reason: str) -> InvalidInput:
    """Say that a file of a run is not what we wrote."""
    short = (reason.splitlines() or ["it cannot be read"])[0][:120]
    return InvalidInput(
        f"{path} cannot be used ({short}). Expected a run folder as selfsort wrote it. "
        "It was changed or damaged: restore it, or run selfsort fit again."
    )


def is_kind(value: object, kind: type | tuple[type, ...]) -> bool:
    """Like isinstance, but true and false are no numbers."""
    return isinstance(value, kind) and not isinstance(value, bool)


def is_texts(value: object) -> bool:
    """Whether a value is a list of texts."""
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


# --- locks -----------------------------------------------------------------------------------------------------------


@contextmanager
def locked(run: Path, name: str) -> Iterator[IO[bytes]]:
    """Keep a run folder for this process while a block runs, by a file in it that everybody asks for."""
    path = run / name
    try:
        file = path.open("ab")
    except OSError as error:
        raise cannot_write(path, error) from error
    with file:
        # One that was removed since it was opened keeps nobody else out.
        if not take_lock(file) or not path.exists() or not os.path.samestat(os.fstat(file.fileno()), path.stat()):
            raise InvalidInput(
                f"another process is working on the run {run}. Only one can at a time. "
                "Wait for it to end, or stop it and resume."
            )
        yield file


def take_lock(file: IO[bytes]) -> bool:
    """Take a file for this process until it is closed; False if another process has it."""
    if fcntl is None:
        return True  # on Windows, a file that somebody writes to cannot be replaced in the first place
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True  # a file system without locks
    return True


def is_locked(path: Path) -> bool:
    """True if a process has taken this file, as far as can be seen."""
    if not path.is_file() or fcntl is None:
        return False
    try:
        with path.open("rb") as file:
            return not take_lock(file)
    except OSError:
        return False
