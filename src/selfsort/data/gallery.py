"""Many picture files to one array: choose the common shape, decode in threads, keep account of what failed.

Threads, not processes: Pillow lets go of the interpreter lock while it decodes and resizes, the rows are
written straight into the result, and nothing is copied between processes (`benchmarks/ingest.py` measures it).
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Literal

import numpy as np
import numpy.typing as npt

from selfsort.data.datasets import Fit, ImageSpec, Skipped
from selfsort.data.decode import (
    HEIC_SUFFIXES,
    INSTALL_HEIC,
    Look,
    Unreadable,
    can_read_heic,
    decode,
    explain,
    probe,
    quiet_pillow,
)
from selfsort.data.resize import cpu_count
from selfsort.errors import MissingData, invalid
from selfsort.pages import forget
from selfsort.progress import track
from selfsort.types import I64, U8, Json

GALLERY_KINDS = ("folder", "list", "files", "webdataset", "datasets", "parquet")
"""Sources of encoded pictures, which may be larger than what a run has seen of them."""
DEFAULT_SIDE = 96
# A folder of equal photographs has a common size that no clustering needs; this is where we stop taking it.
LARGEST_COMMON_SIDE = 256
_CHUNK = 16
_AHEAD = 64
_BLOCK_BYTES = 1 << 26
"""Pixels after which pages are given back and a kill loses no more."""


@dataclass(frozen=True)
class Item:
    """One picture of a source, not yet read."""

    name: str
    open: Callable[[], IO[bytes]]
    path: Path | None = None


@dataclass(frozen=True, eq=False)
class Gallery:
    """A source made of encoded pictures."""

    kind: str
    items: Sequence[Item]
    failed: Sequence[Skipped] = ()
    """Pictures that are known to be unreadable before any is opened (links that lead nowhere)."""
    ignored: Json = field(default_factory=dict)
    """How many files of each suffix were passed over because they are not pictures."""
    columns: Mapping[str, npt.NDArray[Any]] = field(default_factory=dict)
    """Values per item, for --where."""
    labels: Sequence[int | str] | None = None
    unknown_label: int | None = None
    """Marks pictures without a label; labels count only if none of the pictures kept has it."""
    label_names: tuple[str, ...] | None = None
    identity: Callable[[], str] | None = None
    """Says what the files are, by names, sizes and times: equal for equal pictures. None: nobody can say."""


@dataclass(frozen=True)
class Choice:
    """A spec and why it was chosen."""

    spec: ImageSpec
    size_reason: str
    channels_reason: str


def choose_spec(
    items: Sequence[Item], size: int | None, channels: Literal[1, 3] | None, fit: Fit, side: int | None = None
) -> Choice:
    """Find the shape that all pictures get; headers are read only until the answer is certain.

    `side` is for pictures of different or large sizes; without one it is 96.
    """
    first: Look | None = None
    common_name = ""
    odd: tuple[str, Look] | None = None
    color_name: str | None = None
    n_gray = 0
    for item, look in _looks(items, with_size=size is None):
        if first is None:
            first, common_name = look, item.name
        elif size is None and odd is None and (look.width, look.height) != (first.width, first.height):
            odd = (item.name, look)
        n_gray += look.is_gray
        if not look.is_gray and color_name is None:
            color_name = item.name
        if (size is not None or odd is not None) and (channels is not None or color_name is not None):
            break
    height, width, size_reason = _choose_size(size, side, first, common_name, odd)
    if channels is not None:
        channels_reason = "asked for"
    elif color_name is None and n_gray:
        channels, channels_reason = 1, "every picture is gray"
    else:
        channels, channels_reason = 3, f"{color_name!r} is in colour" if color_name else "no picture could be opened"
    return Choice(ImageSpec(height, width, channels, fit), size_reason, channels_reason)


def _choose_size(
    size: int | None, side: int | None, first: Look | None, first_name: str, odd: tuple[str, Look] | None
) -> tuple[int, int, str]:
    if size is not None:
        return size, size, "asked for"
    default, largest = (DEFAULT_SIDE, LARGEST_COMMON_SIDE) if side is None else (side, side)
    if first is None:
        return default, default, "no picture could be opened"
    if odd is not None:
        name, look = odd
        seen = f"{first_name!r} is {first.width}x{first.height}, {name!r} is {look.width}x{look.height}"
        return default, default, f"the sizes differ ({seen})"
    if max(first.width, first.height) > largest:
        seen = f"the common size {first.width}x{first.height}"
        return default, default, f"{seen} is above {largest} pixels"
    return first.height, first.width, "the size of every picture"


def _looks(items: Sequence[Item], *, with_size: bool) -> Iterator[tuple[Item, Look]]:
    with quiet_pillow():
        for item in track(items, "looking at pictures", len(items)):
            try:
                with item.open() as stream:
                    look = probe(stream, with_size=with_size)
            except (OSError, Unreadable):
                continue  # decoding meets it again and keeps the reason
            yield item, look


@dataclass(frozen=True, eq=False)
class Decoded:
    """What came of decoding a gallery, or its beginning."""

    n_items: int = 0
    """How many items were tried."""
    skipped: dict[int, Skipped] = field(default_factory=dict)
    """Those that could not be read."""
    sizes: Counter[tuple[int, int]] = field(default_factory=Counter)
    """How often each (width, height) occurred."""

    @property
    def n_rows(self) -> int:
        """How many were read: so many rows of the array are filled, in the order of the items."""
        return self.n_items - len(self.skipped)

    def rows(self) -> I64:
        """Return the items that were read, in order."""
        return np.delete(np.arange(self.n_items), list(self.skipped))

    def joined(self, other: Decoded) -> Decoded:
        """Return this and what came after it."""
        return Decoded(self.n_items + other.n_items, self.skipped | other.skipped, self.sizes + other.sizes)


Keep = Callable[[Decoded], None]
"""Takes note that the next items are decoded, and their rows in the array."""


def decode_all(
    items: Sequence[Item], spec: ImageSpec, out: U8, before: Decoded | None = None, keep: Keep | None = None
) -> Decoded:
    """Decode the items that can be read into the first rows of `out`, in order.

    Args:
        items: the pictures.
        spec: what they are brought to.
        out: has a row for every item.
        before: what was decoded by an earlier process, whose rows are in `out`.
        keep: is told of every block of items that is done.
    """
    found, block = before or Decoded(), Decoded()
    n_block = max(1, _BLOCK_BYTES // max(1, out[:1].nbytes))

    def decode_chunk(start: int) -> list[Look | Skipped]:
        return [_decode_one(items[row], spec, out[row]) for row in range(start, min(start + _CHUNK, len(items)))]

    def close_block() -> None:
        nonlocal found, block
        if keep is not None:
            keep(block)
        forget(out)
        found, block = found.joined(block), Decoded()

    pool = ThreadPoolExecutor(cpu_count(), thread_name_prefix="selfsort-decode")
    try:
        with quiet_pillow():
            starts = range(found.n_items, len(items), _CHUNK)
            chunks = _in_order(pool, decode_chunk, starts)
            for chunk in track(chunks, "decoding pictures", len(items) - found.n_items, weigh=len):
                row, target = found.n_items + block.n_items, found.n_rows + block.n_rows
                skipped, sizes = dict(block.skipped), block.sizes
                for result in chunk:
                    if isinstance(result, Skipped):
                        skipped[row] = result
                    else:
                        if target != row:  # the rows before it are done: nobody else writes there
                            out[target] = out[row]
                        target += 1
                        sizes[result.width, result.height] += 1
                    row += 1
                block = Decoded(block.n_items + len(chunk), skipped, sizes)
                if block.n_items >= n_block:
                    close_block()
            close_block()
    finally:
        # After Ctrl-C or an error nothing that is still waiting may start.
        pool.shutdown(wait=True, cancel_futures=True)
    return found


def _in_order(
    pool: ThreadPoolExecutor, work: Callable[[int], list[Look | Skipped]], starts: Iterable[int]
) -> Iterator[list[Look | Skipped]]:
    """Yield results in order, a few pieces of work ahead: a million waiting ones would take their own memory."""
    waiting: deque[Future[list[Look | Skipped]]] = deque()
    for start in starts:
        waiting.append(pool.submit(work, start))
        if len(waiting) > _AHEAD:
            yield waiting.popleft().result()
    while waiting:
        yield waiting.popleft().result()


def _decode_one(item: Item, spec: ImageSpec, target: U8) -> Look | Skipped:
    try:
        with item.open() as stream:
            pixels, look = decode(stream, spec)
    except (OSError, Unreadable) as error:
        return Skipped(item.name, explain(error, item.path))
    target[...] = pixels
    return look


def check_heic(items: Sequence[Item], max_bad: float, source: str) -> str:
    """Say once what reads the pictures of telephones, where nothing does; refuse them before anything is decoded."""
    n_heic = sum(item.name.lower().endswith(HEIC_SUFFIXES) for item in items)
    if not n_heic or can_read_heic():
        return ""
    found = f"{n_heic:,} of the {len(items):,} pictures of {source} are HEIC, as telephones take them"
    if n_heic > max_bad * len(items):
        raise MissingData(f"{found}; nothing here reads them. Expected the package pillow-heif. Run: {INSTALL_HEIC}")
    return f"{found}, and are left out. To read them run: {INSTALL_HEIC}"


def check_share(skipped: Sequence[Skipped], found: int, max_bad: float, source: str) -> None:
    """Refuse a source of which too much could not be read."""
    if len(skipped) <= max_bad * found:
        return
    few = "; ".join(f"{s.name!r}: {s.reason}" for s in skipped[:5])
    more = f"; and {len(skipped) - 5} more" if len(skipped) > 5 else ""
    raise invalid(
        f"the unreadable pictures of {source}",
        f"be at most {max_bad:.4g} of all (--max-bad)",
        f"{len(skipped)} of {found} ({few}{more})",
        "Repair or remove these files, or raise --max-bad.",
    )
