"""Pictures for the page, by the number of the image and never by a path.

They come from the source if it is still there and still the same, else from the small copies in the run folder. Every
picture is decoded and encoded again: no byte of a foreign file reaches the browser. A link in a source folder that
leads out of that folder is not followed here, even though it was when the run was made.
"""

from __future__ import annotations

import io
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Literal, Protocol

import numpy as np
from PIL import Image

from selfsort.data.arrays import match_channels
from selfsort.data.datasets import ImageSpec
from selfsort.data.decode import Unreadable, decode, probe
from selfsort.data.detect import open_recorded
from selfsort.data.folder import expanded, open_file, recorded_item
from selfsort.data.gallery import GALLERY_KINDS, Gallery, Item
from selfsort.data.resize import cpu_count
from selfsort.errors import InvalidInput, SelfsortError
from selfsort.runs.folder import RunFolder, Thumbnails
from selfsort.runs.moved import exports_of, recorded_reading
from selfsort.text import plural
from selfsort.types import U8

TILE_SIDE = 160
"""Longest side of a picture in the gallery, in pixels."""

LARGE_SIDE = 1280
"""Longest side of a picture on its own."""

FULL_SIDE = 16_384
"""Longest side of a picture at its full size: browsers draw no larger ones, and JPEG holds 65,535 at most."""

SHEET_COLUMNS = 8

_LOSSLESS_SIDE = 64
"""Up to here sheets are stored exactly: small pictures are shown enlarged, where lossy edges would be seen."""

_CACHE_BYTES = 96 * 2**20

_PROBED = 10_000
"""Of more files than this only so many are looked for on opening; the others when they are shown."""

_PATIENCE = 1.0
"""Seconds that the first page waits for a source of many images to be opened."""
_MANY = 50_000
_STILL_OPENING = (
    "The source is still being opened: so far only the small copies in the run folder are shown. "
    "Reload the page a little later to see all pictures."
)

_MISSING_GRAY = 127

Origin = Literal["source", "thumbnails", "none"]


@dataclass(frozen=True)
class Encoded:
    """A picture as the browser gets it."""

    content: bytes
    media_type: str
    missing: tuple[int, ...] = ()
    """Places on a sheet for which there is no picture."""


class PictureSource(Protocol):
    """Somewhere pictures come from; None where there is none."""

    def tile(self, row: int) -> U8 | None:
        """Return a small picture, (h, w, 3)."""
        ...

    def large(self, row: int, side: int) -> U8 | None:
        """Return a whole picture as large as there is; one that is decoded has at most `side` pixels a side."""
        ...


class ArraySource:
    """Pictures that are in memory."""

    def __init__(self, pixels: U8, place: Callable[[int], int | None], spec: ImageSpec) -> None:
        self._pixels, self._place, self._spec = pixels, place, spec

    def tile(self, row: int) -> U8 | None:
        """Return the picture at the size of a tile."""
        pixels = self.large(row, LARGE_SIDE)
        if pixels is None or pixels.shape == self._spec.shape:
            return pixels
        size = (self._spec.width, self._spec.height)
        return np.asarray(Image.fromarray(pixels).resize(size, Image.Resampling.BOX))

    def large(self, row: int, side: int) -> U8 | None:
        """Return the pixels as they are."""
        place = self._place(row)
        return None if place is None else match_channels(self._pixels[place], 3)


class FileSource:
    """Pictures that are decoded when they are asked for."""

    def __init__(self, find: Callable[[int], Item | None], roots: Sequence[Path], spec: ImageSpec) -> None:
        self.find, self._spec = find, spec
        self._roots = [root.resolve() for root in roots]
        self._tiles: OrderedDict[int, U8] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    def tile(self, row: int) -> U8 | None:
        """Decode a small picture; those seen last are kept."""
        with self._lock:
            if row in self._tiles:
                self._tiles.move_to_end(row)
                return self._tiles[row]
        pixels = self._decode(row, lambda stream: self._spec)
        if pixels is not None:
            with self._lock:
                self._bytes += pixels.nbytes if row not in self._tiles else 0
                self._tiles[row] = pixels
                while self._bytes > _CACHE_BYTES:
                    self._bytes -= self._tiles.popitem(last=False)[1].nbytes
        return pixels

    def large(self, row: int, side: int) -> U8 | None:
        """Decode the whole picture, at most `side` pixels wide or high; smaller if that would fill the memory."""
        found = self._decode(row, lambda stream: _whole(stream, side))
        return self.large(row, LARGE_SIDE) if found is None and side > LARGE_SIDE else found

    def _decode(self, row: int, spec: Callable[[IO[bytes]], ImageSpec]) -> U8 | None:
        item = self.find(row)
        if item is None:
            return None
        try:
            with self._open(item) as stream:
                wanted = spec(stream)
                stream.seek(0)
                return decode(stream, wanted)[0]
        except (OSError, Unreadable):
            return None  # it could be read when the run was made; the run's own copy may still show it

    def _open(self, item: Item) -> IO[bytes]:
        if not self._roots or item.path is None:
            return item.open()
        path = item.path.resolve()
        if not any(path.is_relative_to(root) for root in self._roots):
            raise Unreadable("it is a link that leads out of the source")
        return open_file(path)


class LaterSource:
    """A source that takes long to open: it is opened in a thread, and has no pictures until then."""

    def __init__(self, open_it: Callable[[], tuple[PictureSource, ImageSpec, str | None]]) -> None:
        self._open = open_it
        self._found: tuple[PictureSource, ImageSpec, str | None] | None = None
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._found = self._open()
        except BaseException as error:  # for the one who asks
            self._error = error

    def is_there(self, seconds: float) -> bool:
        """Wait so long at most; say whether it is open, or never will be."""
        if seconds > 0:
            self._thread.join(seconds)
        return not self._thread.is_alive()

    def opened(self) -> tuple[PictureSource, ImageSpec, str | None]:
        """Return the source, the size of its tiles, and what to know about it; or raise why there is none."""
        if self._error is not None:
            raise self._error
        assert self._found is not None, "is there"
        return self._found

    @property
    def note(self) -> str | None:
        """What to know about the source once it is open, or never will be."""
        if self._error is not None:
            return _only_small(self._error)
        return None if self._found is None else self._found[2]

    def tile(self, row: int) -> U8 | None:
        """Return a small picture, if the source is open."""
        return None if self._found is None else self._found[0].tile(row)

    def large(self, row: int, side: int) -> U8 | None:
        """Return a whole picture, if the source is open."""
        return None if self._found is None else self._found[0].large(row, side)


def _reason(error: BaseException) -> str:
    return str(error).split(". ")[0].rstrip(".")


def _only_small(error: BaseException) -> str:
    return f"Only the small copies in the run folder can be shown. {_reason(error)}. Restore the source to see all."


def _whole(stream: IO[bytes], side: int) -> ImageSpec:
    look = probe(stream)
    scale = min(1, side / max(look.width, look.height))
    return ImageSpec(max(1, round(look.height * scale)), max(1, round(look.width * scale)), 3, "stretch")


class Pictures:
    """All pictures of a run, from the best place that has them."""

    def __init__(
        self, sources: Sequence[PictureSource], tile: ImageSpec, origin: Origin, note: str | None = None
    ) -> None:
        self._sources = sources
        self.is_quick = not any(isinstance(source, FileSource | LaterSource) for source in sources)
        """True if no picture has to be decoded first."""
        self.tile = tile
        self.origin = origin
        self._note = note

    @property
    def is_whole(self) -> bool:
        """False while the source is still being opened: what is missing may be there later."""
        return all(source.is_there(0) for source in self._sources if isinstance(source, LaterSource))

    @property
    def note(self) -> str | None:
        """What the user should know about where the pictures come from."""
        later = next((source for source in self._sources if isinstance(source, LaterSource)), None)
        return self._note if later is None or not later.is_there(0) else later.note

    @classmethod
    def open(cls, folder: RunFolder, names: Sequence[str]) -> Pictures:
        """Find the pictures of a run."""
        spec = ImageSpec.from_json(folder.field("image", dict))
        kept = _kept(folder.thumbnails(), len(names))
        later = LaterSource(lambda: _open_source(folder, names, spec))
        if not later.is_there(_PATIENCE if len(names) > _MANY else threading.TIMEOUT_MAX):
            tile = _tile_spec(spec, may_grow=folder.source_kind in GALLERY_KINDS)
            return cls([later, *kept(tile)], tile, "source", _STILL_OPENING)
        try:
            source, tile, note = later.opened()
            return cls([source, *kept(tile)], tile, "source", note)
        except SelfsortError as error:
            tile = _tile_spec(spec, may_grow=False)
            sources = kept(tile)
            if not sources:
                missing = f"There are no pictures to show. {_reason(error)}. Restore the source to see them."
                return cls([], tile, "none", missing)
            return cls(sources, tile, "thumbnails", _only_small(error))

    def sheet(self, rows: Sequence[int]) -> Encoded:
        """Put small pictures on one sheet, `SHEET_COLUMNS` beside each other: one answer for many tiles."""
        height, width = self.tile.height, self.tile.width
        columns = min(SHEET_COLUMNS, len(rows))
        lines = -(-len(rows) // columns)
        sheet = np.full((lines * height, columns * width, 3), _MISSING_GRAY, np.uint8)
        missing = []
        for place, pixels in enumerate(self._tiles(rows)):
            if pixels is None:
                missing.append(place)
                continue
            top, left = (place // columns) * height, (place % columns) * width
            sheet[top : top + height, left : left + width] = pixels
        return replace(_encode(sheet, max(height, width)), missing=tuple(missing))

    def large(self, row: int, *, is_full: bool = False) -> Encoded | None:
        """Return one picture on its own, large enough for a screen or at its full size."""
        side = FULL_SIDE if is_full else LARGE_SIDE
        found = next((pixels for source in self._sources if (pixels := source.large(row, side)) is not None), None)
        return None if found is None else _encode(found, max(found.shape))

    def _tiles(self, rows: Sequence[int]) -> list[U8 | None]:
        if self.is_quick:
            return [self._tile(row) for row in rows]
        with ThreadPoolExecutor(cpu_count()) as pool:
            return list(pool.map(self._tile, rows))

    def _tile(self, row: int) -> U8 | None:
        return next((pixels for source in self._sources if (pixels := source.tile(row)) is not None), None)


def _open_source(
    folder: RunFolder, names: Sequence[str], spec: ImageSpec
) -> tuple[PictureSource, ImageSpec, str | None]:
    reading = recorded_reading(folder, names)
    assert reading.recorded is not None
    moved = reading.recorded.moved
    tile = _tile_spec(spec, may_grow=True)
    root = expanded(reading.path).absolute()
    if reading.recorded.kind == "folder" and (root.is_dir() or moved):
        roots = (root, *exports_of(folder))
        files = FileSource(lambda row: recorded_item(root, names[row], moved), roots, tile)
        return files, tile, _note_on_missing(files, len(names), reading.path)
    opened = open_recorded(reading.path, reading.recorded)
    if isinstance(opened, Gallery):
        files = FileSource(_Finder(opened.items, names), (), tile)
        return files, tile, _note_on_missing(files, len(names), reading.path)
    dataset = reading.read(min_images=1)
    # Rows of an array have only their pixels to be known by.
    if dataset.names != tuple(names) or dataset.fingerprint != folder.field("fingerprint", str):
        raise InvalidInput(f"the images in {reading.path} are not those of the run.")
    tile = _tile_spec(spec, may_grow=False)
    return ArraySource(dataset.images.pixels, lambda row: row, tile), tile, None


class _Finder:
    """Finds the picture of an image among those of a source, which are in the same order, with some more between."""

    def __init__(self, items: Sequence[Item], names: Sequence[str]) -> None:
        self._items, self._names = items, names
        self._ahead = 0
        self._places: dict[str, int] | None = None

    def __call__(self, row: int) -> Item | None:
        name = self._names[row]
        for place in (row + self._ahead, row):
            if place < len(self._items) and (item := self._items[place]).name == name:
                return item
        if self._places is None:
            self._places = {item.name: place for place, item in enumerate(self._items)}
        if (found := self._places.get(name)) is None:
            return None
        self._ahead = max(0, found - row)
        return self._items[found]


def _note_on_missing(files: FileSource, n_images: int, source: str) -> str | None:
    """Say how many files are gone, of very many by a sample; refuse a source in which there is none of them."""
    probed = np.linspace(0, n_images - 1, min(n_images, _PROBED)).astype(int).tolist()
    n_gone = sum(files.find(row) is None for row in probed)
    if n_gone == len(probed):
        raise InvalidInput(f"the images in {source} are not those of the run.")
    whole = "the run" if len(probed) == n_images else f"the {len(probed):,} that were looked for"
    return f"{plural(n_gone, 'image')} of {whole} cannot be found in the source any more." if n_gone else None


def _kept(thumbnails: Thumbnails | None, n_images: int) -> Callable[[ImageSpec], list[PictureSource]]:
    if thumbnails is None or not len(thumbnails.rows):
        return lambda tile: []
    place = {row: i for i, row in enumerate(thumbnails.rows.tolist()) if row < n_images}
    pixels = thumbnails.pixels
    return lambda tile: [ArraySource(pixels, place.get, tile)]


def _tile_spec(spec: ImageSpec, *, may_grow: bool) -> ImageSpec:
    """Return the size of a tile: the shape the method saw, larger only where the source has more to show."""
    scale = TILE_SIDE / max(spec.height, spec.width)
    if not may_grow:
        scale = min(1, scale)
    return ImageSpec(max(1, round(spec.height * scale)), max(1, round(spec.width * scale)), 3, spec.fit)


def _encode(pixels: U8, side: int) -> Encoded:
    stream = io.BytesIO()
    picture = Image.fromarray(pixels)
    if side <= _LOSSLESS_SIDE:
        picture.save(stream, "PNG", compress_level=1)
        return Encoded(stream.getvalue(), "image/png")
    picture.save(stream, "JPEG", quality=88, subsampling=0)  # coarser colours would bleed from tile to tile
    return Encoded(stream.getvalue(), "image/jpeg")
