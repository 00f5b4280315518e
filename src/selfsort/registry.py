"""Things by name: ours, written by hand, and those that other installed packages offer as entry points.

Nothing is loaded before it is asked for, so a table may name modules that are heavy. A package offers something by an
entry point of the registry's group, in its pyproject.toml:

    [project.entry-points."selfsort.methods"]
    their-name = "their_package.module:METHOD"
"""

from __future__ import annotations

import functools
import importlib
import importlib.metadata
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Generic, TypeVar

from selfsort import __version__
from selfsort.errors import MissingData

T = TypeVar("T")


@dataclass(frozen=True)
class Origin:
    """The distribution that something came from."""

    package: str
    version: str

    def to_json(self) -> dict[str, str]:
        """Return JSON types."""
        return asdict(self)

    def __str__(self) -> str:
        return f"{self.package} {self.version}"


OURS = Origin("selfsort", __version__)


class Registry(Mapping[str, T], Generic[T]):
    """A read-only mapping that loads an entry when it is looked up. Own names win over foreign ones."""

    def __init__(self, own: Mapping[str, str | T], group: str, kind: type[T]) -> None:
        self.own = own
        """Where each of ours lies, as module:attribute; or the thing itself."""
        self.group = group
        self.kind = kind

    def __getitem__(self, name: str) -> T:
        if name in self.own:
            place = self.own[name]
            return self._load(place) if isinstance(place, str) else place
        return self._load_foreign(self._foreign()[name])

    def __iter__(self) -> Iterator[str]:
        yield from self.own
        yield from (name for name in self._foreign() if name not in self.own)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __contains__(self, name: object) -> bool:
        return name in self.own or name in self._foreign()

    def origin(self, name: str) -> Origin:
        """Say which package offers a name; whatever no other package offers is ours."""
        if name in self.own or (entry := self._foreign().get(name)) is None:
            return OURS
        return _origin(entry)

    def _foreign(self) -> dict[str, importlib.metadata.EntryPoint]:
        """Return what other packages offer; of two packages with one name the first by alphabet has it."""
        return _offered(self.group, tuple(sys.path))

    def _load(self, place: str) -> T:
        module, _, attribute = place.partition(":")
        loaded: T = getattr(importlib.import_module(module), attribute)
        return loaded

    def _load_foreign(self, entry: importlib.metadata.EntryPoint) -> T:
        try:
            loaded = entry.load()
        except Exception as error:  # the code of others may fail in any way
            said = (str(error).splitlines() or [""])[0][:200]
            raise self._broken(entry, f"{type(error).__name__}: {said}") from error
        if not isinstance(loaded, self.kind):
            raise self._broken(entry, f"{entry.value} is not a selfsort {self.kind.__name__}")
        if (own_name := getattr(loaded, "name", entry.name)) != entry.name:
            # A run remembers the name of its method and has to find it again.
            raise self._broken(entry, f"it calls itself {own_name!r}")
        return loaded

    def _broken(self, entry: importlib.metadata.EntryPoint, reason: str) -> MissingData:
        return MissingData(
            f"{entry.name!r} of the package {_origin(entry)} cannot be loaded ({reason}). "
            f"Expected a {self.kind.__name__} that works with selfsort {__version__}. Update that package or remove it."
        )


@functools.lru_cache(maxsize=16)
def _offered(group: str, path: tuple[str, ...]) -> dict[str, importlib.metadata.EntryPoint]:
    """Read what the packages on this path offer: a file of each of them, so it is done once."""
    found = sorted(importlib.metadata.entry_points(group=group), key=lambda entry: str(_origin(entry)))
    return {entry.name: entry for entry in reversed(found)}


def _origin(entry: importlib.metadata.EntryPoint) -> Origin:
    return OURS if entry.dist is None else Origin(entry.dist.name, entry.dist.version)
