"""What an ONNX file claims, read before anything else opens it.

The file is a protobuf message. Its wire format is simple enough to be walked without a schema: a message is a row of
(field number, value), and messages nest. Only the claims are read (sizes, places of outside data, operators), never the
weights, so a model of two gigabytes is checked in milliseconds, and a lie about a size costs no memory.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import prod
from pathlib import Path

# The fields of each message that hold further messages (onnx.proto).
_INSIDE: dict[str, dict[int, str]] = {
    "model": {7: "graph", 20: "training", 25: "function"},
    "graph": {1: "node", 5: "tensor", 15: "sparse"},
    "training": {1: "graph", 2: "graph"},
    "function": {7: "node", 11: "attribute"},
    "node": {5: "attribute"},
    "attribute": {5: "tensor", 6: "graph", 10: "tensor", 11: "graph", 22: "sparse", 23: "sparse"},
    "sparse": {1: "tensor", 2: "tensor"},
}
_DEEPEST = 100
_MOST_DIMS = 64

# Bits of one element by TensorProto.DataType; text and what is newer than this table is not counted.
_BITS = {1: 32, 2: 8, 3: 8, 4: 16, 5: 16, 6: 32, 7: 64, 9: 8, 10: 16, 11: 64, 12: 32, 13: 64, 14: 64, 15: 128, 16: 16}
_BITS |= {17: 8, 18: 8, 19: 8, 20: 8, 21: 4, 22: 4, 23: 4}

_MOST_SPARSE = 1 << 29
"""Elements of a sparse tensor once it is written out: its size on disk says nothing about that."""

_DIMS, _TYPE, _NAME, _RAW, _EXTERNAL = 1, 2, 8, 9, 13
_VALUES = (4, 5, 6, 7, 10, 11)

Value = int | memoryview


class Unreadable(ValueError):
    """The file is no ONNX model, or claims what cannot be."""


@dataclass(frozen=True)
class Outside:
    """Where a tensor's values lie if not in the file."""

    location: str
    offset: int
    n_bytes: int | None
    """What the tensor needs; None if that cannot be told."""


@dataclass
class Claims:
    """What the file says about itself."""

    outside: list[Outside] = field(default_factory=list)
    operators: set[tuple[str, str]] = field(default_factory=set)
    """(domain, name)"""
    functions: set[tuple[str, str]] = field(default_factory=set)
    """Operators that the file defines itself."""


def read_claims(path: Path) -> Claims:
    """Walk through an ONNX file that is not empty.

    Raises:
        Unreadable: with the reason, as the middle of a sentence.
    """
    with path.open("rb") as file:
        view = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    claims = Claims()
    if not any(number == 7 for number, _ in _fields(view)):
        raise Unreadable("it holds no graph")
    waiting: list[tuple[str, memoryview, int]] = [("model", view, 0)]
    while waiting:
        kind, message, depth = waiting.pop()
        if depth > _DEEPEST:
            raise Unreadable(f"its parts are nested more than {_DEEPEST} deep")
        if kind == "tensor":
            _read_tensor(message, claims)
            continue
        found = list(_fields(message))
        if kind == "node":
            claims.operators.add((_text(found, 7), _text(found, 4)))
        elif kind == "function":
            claims.functions.add((_text(found, 10), _text(found, 1)))
        elif kind == "sparse" and _elements(found, 3) > _MOST_SPARSE:
            raise Unreadable(f"a sparse tensor claims {_elements(found, 3):,} values")
        inside = _INSIDE[kind]
        waiting += [
            (inside[number], value, depth + 1)
            for number, value in found
            if number in inside and isinstance(value, memoryview)
        ]
    return claims


def _read_tensor(message: memoryview, claims: Claims) -> None:
    found = list(_fields(message))
    name, elements = _text(found, _NAME), _elements(found, _DIMS)
    bits = next((_BITS.get(value) for number, value in found[::-1] if number == _TYPE and isinstance(value, int)), None)
    needed = None if bits is None else (elements * bits + 7) // 8
    entries = [list(_fields(value)) for number, value in found if number == _EXTERNAL and isinstance(value, memoryview)]
    if entries:
        facts = {_text(entry, 1): _text(entry, 2) for entry in entries}
        offset, length = (_whole(facts.get(key, "0"), name) for key in ("offset", "length"))
        if "length" in facts and needed is not None and length != needed:
            raise Unreadable(f"its tensor {name!r} needs {needed:,} bytes and says it has {length:,}")
        claims.outside.append(Outside(facts.get("location", ""), offset, needed))
        return
    present = sum(
        len(value) + 1 if isinstance(value, memoryview) else 8 for number, value in found if number in _VALUES
    )
    raw = [len(value) for number, value in found if number == _RAW and isinstance(value, memoryview)]
    # Values outside the raw bytes have at least a byte each, or half of one where two share it.
    if (raw and needed is not None and raw[-1] != needed) or (not raw and elements > 2 * present):
        raise Unreadable(f"its tensor {name!r} claims {elements:,} values and does not hold them")


def _elements(found: list[tuple[int, Value]], number: int) -> int:
    dims: list[int] = []
    for key, value in found:
        if key == number:
            dims += [value] if isinstance(value, int) else _packed(value)
    # Negative numbers are written as huge ones.
    if len(dims) > _MOST_DIMS or any(dim >= 1 << 63 for dim in dims):
        raise Unreadable("a tensor has no possible shape")
    return prod(dims)


def _packed(value: memoryview) -> list[int]:
    dims, at = [], 0
    while at < len(value):
        dim, at = _varint(value, at)
        dims.append(dim)
    return dims


def _text(found: list[tuple[int, Value]], number: int) -> str:
    """Return the last text of that number, which is the one that counts."""
    last = next((value for key, value in reversed(found) if key == number), b"")
    return "" if isinstance(last, int) else bytes(last).decode("utf-8", errors="replace")


def _whole(text: str, name: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise Unreadable(f"its tensor {name!r} has a place that is no whole number")
    return int(text)


def _fields(message: memoryview) -> Iterator[tuple[int, Value]]:
    at = 0
    while at < len(message):
        key, at = _varint(message, at)
        number, wire = key >> 3, key & 7
        value: Value
        if wire == 0:
            value, at = _varint(message, at)
        elif wire in (1, 2, 5):
            size, at = _varint(message, at) if wire == 2 else ({1: 8, 5: 4}[wire], at)
            value, at = message[at : at + size], at + size
        else:
            raise Unreadable("it is no ONNX model, or damaged")
        if number == 0 or at > len(message):
            raise Unreadable("it is no ONNX model, or cut short")
        yield number, value


def _varint(message: memoryview, at: int) -> tuple[int, int]:
    """Read a whole number of up to ten bytes, seven bits each, the lowest first."""
    value = 0
    for place in range(10):
        if at + place >= len(message):
            raise Unreadable("it is no ONNX model, or cut short")
        byte = message[at + place]
        value |= (byte & 0x7F) << (7 * place)
        if byte < 0x80:
            return value & ((1 << 64) - 1), at + place + 1
    raise Unreadable("it is no ONNX model, or damaged")
