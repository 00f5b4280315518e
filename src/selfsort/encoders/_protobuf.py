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
# Domain and name.
_NAMED = {"node": (7, 4), "function": (10, 1)}

_DEEPEST = 100
_MOST_DIMS = 64
_MOST_PARTS = 2_000_000
"""Far more than the fields of any network; what comes as a million empty parts is there to keep us busy."""

# Bits of one element by TensorProto.DataType; text and what is newer than this table is not counted.
_BITS = {1: 32, 2: 8, 3: 8, 4: 16, 5: 16, 6: 32, 7: 64, 9: 8, 10: 16, 11: 64, 12: 32, 13: 64, 14: 64, 15: 128, 16: 16}
_BITS |= {17: 8, 18: 8, 19: 8, 20: 8, 21: 4, 22: 4, 23: 4}

_MOST_SPARSE = 1 << 29
"""Elements of a sparse tensor once it is written out: its size on disk says nothing about that."""

_DIMS, _TYPE, _NAME, _RAW, _EXTERNAL = 1, 2, 8, 9, 13
_SPARSE_DIMS = 3
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
    reader = _Reader()
    reader.visit("model", view, 0)
    if not reader.has_graph:
        raise Unreadable("it holds no graph")
    return reader.claims


class _Reader:
    """Goes through the messages one by one and keeps nothing of them but claims."""

    def __init__(self) -> None:
        self.claims = Claims()
        self.has_graph = False
        self.n_parts = 0

    def visit(self, kind: str, message: memoryview, depth: int) -> None:
        if kind == "tensor":
            self.read_tensor(message)
            return
        if depth > _DEEPEST:
            raise Unreadable(f"its parts are nested more than {_DEEPEST} deep")
        self.has_graph |= kind == "graph"
        texts: dict[int, str] = {}
        dims: list[int] = []
        for number, value in self.fields(message):
            if isinstance(value, memoryview) and number in _INSIDE[kind]:
                self.visit(_INSIDE[kind][number], value, depth + 1)
            elif isinstance(value, memoryview) and number in _NAMED.get(kind, ()):
                texts[number] = _text(value)
            elif kind == "sparse" and number == _SPARSE_DIMS:
                _add_dims(dims, value)
        if kind in _NAMED:
            domain, name = (texts.get(number, "") for number in _NAMED[kind])
            (self.claims.operators if kind == "node" else self.claims.functions).add((domain, name))
        if prod(dims) > _MOST_SPARSE:
            raise Unreadable(f"a sparse tensor claims {prod(dims):,} values")

    def read_tensor(self, message: memoryview) -> None:
        """Compare the size that a tensor claims with what there is of it."""
        name, bits, present = "", None, 0
        dims: list[int] = []
        raw: int | None = None
        outside: dict[str, str] = {}
        for number, value in self.fields(message):
            if number == _DIMS:
                _add_dims(dims, value)
            elif number == _TYPE and isinstance(value, int):
                bits = _BITS.get(value)
            elif number in _VALUES:
                present += len(value) + 1 if isinstance(value, memoryview) else 8
            elif isinstance(value, int):
                continue
            elif number == _NAME:
                name = _text(value)
            elif number == _RAW:
                raw = len(value)
            elif number == _EXTERNAL:
                entry = {key: _text(part) for key, part in self.fields(value) if isinstance(part, memoryview)}
                outside[entry.get(1, "")] = entry.get(2, "")
        elements = prod(dims)
        needed = None if bits is None else (elements * bits + 7) // 8
        if outside:
            offset, length = (_whole(outside.get(key, "0"), name) for key in ("offset", "length"))
            if "length" in outside and needed is not None and length != needed:
                raise Unreadable(f"its tensor {name!r} needs {needed:,} bytes and says it has {length:,}")
            self.claims.outside.append(Outside(outside.get("location", ""), offset, needed))
        # Values outside the raw bytes have at least a byte each, or half of one where two share it.
        elif elements > 2 * present if raw is None else needed not in (None, raw):
            raise Unreadable(f"its tensor {name!r} claims {elements:,} values and does not hold them")

    def fields(self, message: memoryview) -> Iterator[tuple[int, Value]]:
        """Yield the number and value of each field."""
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
            self.n_parts += 1
            if self.n_parts > _MOST_PARTS:
                raise Unreadable(f"it has more than {_MOST_PARTS:,} parts")
            yield number, value


def _add_dims(dims: list[int], value: Value) -> None:
    dims += [value] if isinstance(value, int) else _packed(value)
    # Negative numbers are written as huge ones.
    if len(dims) > _MOST_DIMS or any(dim >= 1 << 63 for dim in dims):
        raise Unreadable("a tensor has no possible shape")


def _packed(value: memoryview) -> list[int]:
    dims: list[int] = []
    at = 0
    while at < len(value) and len(dims) <= _MOST_DIMS:
        dim, at = _varint(value, at)
        dims.append(dim)
    return dims


def _text(value: memoryview) -> str:
    return bytes(value).decode("utf-8", errors="replace")


def _whole(text: str, name: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise Unreadable(f"its tensor {name!r} has a place that is no whole number")
    return int(text)


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
